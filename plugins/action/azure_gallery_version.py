# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Captures a virtual machine as an image version of a Compute Gallery, and waits for its replication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure import capture, galleries
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, Get, connect, connections_for
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.galleries import Plan, Version, VersionName
from ..plugin_utils._azure.targets import Target, find_targets, make_target
from ..plugin_utils._progress import Progress

_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "version": {"type": "str", "required": True},
    "virtual_machine": {"type": "str", "required": True},
    "vm_id": {"type": "str", "required": True},
    "regions": {"type": "list", "elements": "str", "default": []},
    "tags": {"type": "dict", "default": {}},
    "timeout": {"type": "int", "default": 7200},
}


class ActionModule(ActionBase):
    """hpcai.azure.azure_gallery_version."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Create the version if it does not exist, and wait until it is replicated."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        host = str((task_vars or {}).get("inventory_hostname") or "localhost")
        try:
            return self._work(options, Progress(host))
        except InventoryError as error:
            raise AnsibleError(str(error)) from None

    def _work(self, options: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        name = galleries.parse_version(options["version"])
        target = make_target(options["virtual_machine"], options["vm_id"])
        if target.scale_set is not None:
            raise InventoryError(f"{target.azure_id} belongs to a scale set. Capture a stand-alone virtual machine.")
        tags = {str(key): str(value) for key, value in options["tags"].items()}
        galleries.check_tags(tags)
        deadline = Deadline(options["timeout"])
        doors = connections_for(options, {name.subscription}, self._loader)
        source_doors = connections_for(options, {target.subscription}, self._loader)
        with connect(doors[0][0], deadline, only_lists=True) as clients:
            before = galleries.read_version(clients, name)
        made = galleries.plan(before, target.vm_id, options["regions"], tags, name)
        after = before
        if made.action == galleries.CREATE:
            made, location = self._prepare(source_doors[0][0], doors[0][0], deadline, target, name, made)
        else:
            location = before.location if before else ""
        if not self._task.check_mode and made.action != galleries.NOTHING:
            with connect(doors[0][0], deadline, only_lists=False) as clients:
                if made.action != galleries.WAIT:
                    galleries.put_version(clients, name, location, target.azure_id, made)
                after = galleries.wait_for(clients, name, deadline, progress.say)
                # A run that was interrupted may have asked for fewer regions.
                if made.action == galleries.WAIT and not set(made.regions) <= set(after.targets):
                    made = Plan(galleries.CHANGE, made.regions, made.tags)
                    galleries.put_version(clients, name, location, target.azure_id, made)
                    after = galleries.wait_for(clients, name, deadline, progress.say)
        return _result_of(name, before, after, made)

    def _prepare(
        self, machine_door: Get, gallery_door: Get, deadline: Deadline, target: Target, name: VersionName, made: Plan
    ) -> tuple[Plan, str]:
        """Check everything, then stop and generalise the machine. Return the plan and the definition's region."""
        with connect(machine_door, deadline, only_lists=True) as clients:
            if find_targets(clients, [target]).gone:
                raise InventoryError(f"{target.azure_id} does not exist (any more), and neither does {name}.")
            machine = capture.read_machine(clients, target)
        with connect(gallery_door, deadline, only_lists=True) as clients:
            location = capture.check_definition(clients, name, machine)
        # Azure keeps the original in the definition's region.
        regions = tuple(dict.fromkeys((location, *made.regions)))
        if not self._task.check_mode:
            with connect(machine_door, deadline, only_lists=False) as clients:
                capture.stop_and_generalise(clients, target, machine)
        return Plan(made.action, regions, made.tags), location


def _result_of(name: VersionName, before: Version | None, after: Version | None, made: Plan) -> dict[str, Any]:
    changed = made.action not in (galleries.NOTHING, galleries.WAIT)
    return {
        "changed": changed,
        "id": name.id,
        "action": made.action,
        "state": after.state if after else "absent",
        "regions": list(made.regions),
        "tags": dict(made.tags),
        "diff": {
            "before": _shown(name, before.targets, before.tags) if before else "",
            "after": _shown(name, made.regions, made.tags),
        },
    }


def _shown(name: VersionName, regions: tuple[str, ...], tags: Mapping[str, str]) -> str:
    lines = [name.id, *(f"region: {region}" for region in regions)]
    return "".join(f"{line}\n" for line in [*lines, *(f"tag: {key}={value}" for key, value in sorted(tags.items()))])
