# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and sets the image of scale sets' models, and lists the instances that have another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure import images
from ..plugin_utils._azure.clients import Clients
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, connect, connections_for
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.galleries import parse_version, read_version
from ..plugin_utils._azure.images import GALLERY_VERSION, Image, SetImages
from ..plugin_utils._azure.targets import SetName

_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "scale_sets": {"type": "list", "elements": "str", "required": True},
    "image": {"type": "str"},
    "timeout": {"type": "int", "default": 600},
}


class ActionModule(ActionBase):
    """hpcai.azure.vmss_image."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Set the image where it differs, and return the sets."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        try:
            return self._work(options)
        except InventoryError as error:
            raise AnsibleError(str(error)) from None

    def _work(self, options: Mapping[str, Any]) -> dict[str, Any]:
        names = list(dict.fromkeys(images.make_set_name(azure_id) for azure_id in options["scale_sets"]))
        deadline = Deadline(options["timeout"])
        doors = connections_for(options, {name.subscription for name in names}, self._loader)
        before: list[SetImages] = []
        wanted: dict[SetName, Image] = {}
        # Check all sets before any is changed.
        for get, subscriptions in doors:
            with connect(get, deadline, only_lists=True) as clients:
                found = images.read_sets(clients, [name for name in names if name.subscription in subscriptions])
                before += found
                if options["image"]:
                    changes = _changes(found, options["image"])
                    _check_versions(clients, found, changes)
                    wanted |= changes
        if wanted:
            images.refuse_other_kinds(before, wanted)
            images.refuse_other_policies(item for item in before if item.name in wanted)
        if not self._task.check_mode:
            for get, subscriptions in doors:
                here = {name: image for name, image in wanted.items() if name.subscription in subscriptions}
                if here:
                    with connect(get, deadline, only_lists=False) as clients:
                        images.set_images(clients, here)
        return {
            "changed": bool(wanted),
            "scale_sets": [_shown(item, wanted.get(item.name, item.image)) for item in before],
            "diff": {
                "before": "".join(f"{item.name}: {item.image}\n" for item in before if item.name in wanted),
                "after": "".join(f"{name}: {image}\n" for name, image in wanted.items()),
            },
        }


def _changes(found: Iterable[SetImages], asked: str) -> dict[SetName, Image]:
    """Return the new image of each set whose model has another one."""
    wanted = {item.name: (item.image, images.parse_image(asked, item.image)) for item in found}
    return {name: new for name, (old, new) in wanted.items() if str(new).lower() != str(old).lower()}


def _check_versions(clients: Clients, found: Iterable[SetImages], changes: Mapping[SetName, Image]) -> None:
    """Check that the new versions exist in the regions of the sets.

    :raises InventoryError: one does not, so that neither reimaged nor new instances would come up.
    """
    for item in found:
        image = changes.get(item.name)
        if image is None or not GALLERY_VERSION.fullmatch(image.id):
            continue
        name = parse_version(image.id)
        version = read_version(clients, name)
        if version is None:
            raise InventoryError(f"image: {name} does not exist. Nothing was done.")
        if not version.usable_in(item.location):
            raise InventoryError(
                f"image: {name} is not replicated to {item.location}, where {item.name} is (it is {version.state}, in "
                f"{', '.join(version.targets) or 'no region'}). Nothing was done. Add the region, and wait for it."
            )


def _shown(item: SetImages, wanted: Image) -> dict[str, Any]:
    return {
        "id": item.azure_id,
        "name": item.azure_id.rpartition("/")[2],
        "before": str(item.image),
        "image": str(wanted),
        "image_name": wanted.name,
        "outdated": [member.azure_id for member in item.members if not member.has(wanted)],
        "outdated_vm_ids": [member.vm_id for member in item.members if not member.has(wanted)],
        "current": [member.azure_id for member in item.members if member.has(wanted)],
    }
