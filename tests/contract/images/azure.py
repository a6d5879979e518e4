# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's action plugins, run in the process of a test against a simulator."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ansible.parsing.dataloader import DataLoader

from ansible_collections.hpcai.azure.plugins.action import azure_gallery_version, vmss_image
from ansible_collections.hpcai.azure.plugins.plugin_utils._progress import Progress
from simulator.gallery import Definition, Gallery, Version
from simulator.scenario import LOCATION, RESOURCE_GROUP, SUBSCRIPTION
from simulator.testing import Simulator

OLD_IMAGE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/galleries/hpc"
    "/images/node/versions/0.9.0"
)


def options_of(plugin: Any, simulator: Simulator, **options: Any) -> dict[str, Any]:
    """The options of a task, with the defaults of its argument spec."""
    defaults = {name: spec.get("default") for name, spec in plugin._SPEC.items()}
    return {**defaults, "endpoint": simulator.endpoint, "token": simulator.token, **options}


def action_of(plugin: Any, *, check: bool = False) -> Any:
    """An action plugin without a play."""
    action = plugin.ActionModule.__new__(plugin.ActionModule)
    action._task = SimpleNamespace(check_mode=check, delegate_to="ctl")
    action._loader = DataLoader()
    return action


def gallery_id(simulator: Simulator) -> str:
    """The id of the gallery."""
    group = f"/subscriptions/{simulator.subscription_id}/resourceGroups/{RESOURCE_GROUP}"
    return f"{group}/providers/Microsoft.Compute/galleries/hpc"


def version_id(simulator: Simulator, version: str = "1.0.0") -> str:
    """The id of a version of the image definition."""
    return f"{gallery_id(simulator)}/images/node/versions/{version}"


def add_gallery(simulator: Simulator, *versions: str, **properties: Any) -> Definition:
    """Add a gallery with an image definition, and versions that are replicated to the scale sets' region."""
    gallery = Gallery(gallery_id(simulator), "hpc", LOCATION, {})
    wanted = {"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V2", **properties}
    definition = Definition(f"{gallery.id}/images/node", "node", LOCATION, wanted)
    for name in versions:
        source = {"id": f"{gallery.id}/other"}
        made = Version(version_id(simulator, name), name, LOCATION, {}, source, [{"name": LOCATION}])
        made.progress, made.provisioning_state = {LOCATION: 100}, "Succeeded"
        definition.versions[name] = made
    gallery.definitions["node"] = definition
    simulator.model.galleries.by_id[gallery.id.lower()] = gallery
    return definition


def capture(simulator: Simulator, *, check: bool = False, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Run azure_gallery_version for the machine ``bake``, and return its result and its progress."""
    machine = simulator.instance("bake")
    wanted = {"version": version_id(simulator), "virtual_machine": machine.id, "vm_id": machine.vm_id, **options}
    lines: list[str] = []
    action = action_of(azure_gallery_version, check=check)
    progress = Progress("bake", lines.append)
    return action._work(options_of(azure_gallery_version, simulator, **wanted), progress), lines


def change_machine(simulator: Simulator, name: str, plan: dict[str, str] | None = None, **properties: Any) -> None:
    """Give a machine of the scenario a plan, and properties as if a PUT had made it."""
    machine = simulator.instance(name)
    machine.sent = {
        "properties": {
            "hardwareProfile": {"vmSize": machine.vm_size},
            "storageProfile": {"osDisk": {"name": "os", "createOption": "FromImage"}, "dataDisks": []},
            "osProfile": {"computerName": machine.computer_name},
            "networkProfile": {"networkInterfaces": []},
            **properties,
        },
        **({"plan": plan} if plan else {}),
    }
    machine.touch()


def set_image(simulator: Simulator, image: str | None, *names: str, check: bool = False) -> dict[str, Any]:
    """Run vmss_image for these scale sets."""
    sets = [simulator.scale_set(name).id for name in names or ("compute",)]
    options = options_of(vmss_image, simulator, scale_sets=sets, image=image)
    return dict(action_of(vmss_image, check=check)._work(options))


def write_requests(simulator: Simulator) -> list[str]:
    """Method and last part of the path of all requests that were not only reads."""
    return [
        f"{item['method']} {item['path'].rsplit('/', 1)[1].lower()}"
        for item in simulator.requests()
        if item["method"] != "GET"
    ]


def counts(result: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The number of current and outdated instances of each set, from vmss_image's result."""
    return {item["name"]: (len(item["current"]), len(item["outdated"])) for item in result["scale_sets"]}
