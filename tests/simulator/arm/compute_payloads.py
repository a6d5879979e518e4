# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale sets and virtual machines in the format of Azure's published examples."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any, cast

from simulator.model import Model
from simulator.resources import COMPUTE, Instance, ScaleSet

POWER_STATES = {
    "running": "VM running",
    "starting": "VM starting",
    "stopping": "VM stopping",
    "stopped": "VM stopped",
    "deallocating": "VM deallocating",
    "deallocated": "VM deallocated",
}
PROVISIONING_STATES = {
    "Succeeded": ("Info", "Provisioning succeeded"),
    "Failed": ("Error", "Provisioning failed"),
}
GENERALIZED = {"code": "OSState/generalized", "level": "Info", "displayStatus": "VM generalized"}


def timestamp(moment: datetime) -> str:
    """A time in Azure's format."""
    return moment.isoformat(timespec="microseconds")


def scale_set(item: ScaleSet, user_data: str = "") -> dict[str, Any]:
    """A scale set, with its user data if the request asks for it."""
    properties: dict[str, Any] = {
        "singlePlacementGroup": item.single_placement_group and item.uniform,
        "orchestrationMode": "Flexible" if item.flexible else "Uniform",
        "upgradePolicy": {"mode": "Manual"},
        "virtualMachineProfile": copy.deepcopy(item.profile),
        "provisioningState": item.provisioning_state,
        "overprovision": False,
        "uniqueId": item.unique_id,
        "platformFaultDomainCount": item.fault_domains,
    }
    payload: dict[str, Any] = {
        "sku": {"name": item.vm_size, "tier": "Standard", "capacity": item.capacity},
        "name": item.name,
        "id": item.id,
        "type": f"{COMPUTE}/virtualMachineScaleSets",
        "location": item.location,
        "tags": dict(item.tags),
        "properties": properties,
    }
    if item.zones:
        payload["zones"] = list(item.zones)
    if item.sent is not None:
        payload |= {key: copy.deepcopy(value) for key, value in item.sent.items() if key != "properties"}
        computed = ("virtualMachineProfile", "provisioningState", "uniqueId", "singlePlacementGroup")
        kept = {key: properties[key] for key in computed}
        properties = payload["properties"] = copy.deepcopy(item.sent["properties"]) | kept
        properties["timeCreated"] = timestamp(item.created)
    if user_data:
        properties["virtualMachineProfile"]["userData"] = user_data
    return payload


def scale_set_view(item: ScaleSet) -> dict[str, Any]:
    """The summary of a scale set's states."""
    codes: dict[str, int] = {}
    for instance in tuple(item.members.values()):
        code = f"ProvisioningState/{instance.provisioning_state.lower()}"
        codes[code] = codes.get(code, 0) + 1
    [status] = _statuses(item.provisioning_state, None, item.created)
    code, message = item.failure
    if item.provisioning_state == "Failed" and code:
        # Machines have such codes (hail-is/hail pull request 11393). For sets, the reference shows only the message
        # (compute/virtualmachinescalesets/get-the-instance-view-of-a-set), so clients must expect both.
        status |= {"code": f"{status['code']}/{code}", "message": message}
    return {
        "virtualMachine": {"statusesSummary": [{"code": code, "count": count} for code, count in codes.items()]},
        "statuses": [status],
    }


def uniform_instance(model: Model, item: Instance, view: bool) -> dict[str, Any]:
    """An instance of a Uniform scale set. Its size is in ``sku``; the hardware profile is empty."""
    assert item.scale_set is not None
    profile = item.scale_set.profile
    properties: dict[str, Any] = {
        "latestModelApplied": item.latest_model,
        "modelDefinitionApplied": "VirtualMachineScaleSet",
        "networkProfileConfiguration": profile["networkProfile"],
        "vmId": item.vm_id,
        "hardwareProfile": {},
        "storageProfile": _storage(item),
        "osProfile": _os_profile(model, item),
        "provisioningState": item.provisioning_state,
        "timeCreated": timestamp(item.created),
    }
    if item.has_network_profile:
        properties["networkProfile"] = _network_profile(item)
    else:
        del properties["networkProfileConfiguration"]
    if view:
        properties["instanceView"] = uniform_view(item)
    payload: dict[str, Any] = {
        "name": item.name,
        "id": item.id,
        "type": f"{COMPUTE}/virtualMachines",
        "location": item.location,
        "instanceId": item.instance_id,
        "sku": {"name": item.vm_size, "tier": "Standard"},
        "properties": properties,
    }
    return _with_optional(payload, item)


def machine(model: Model, item: Instance, view: bool) -> dict[str, Any]:
    """A virtual machine: stand-alone or of a Flexible scale set."""
    properties: dict[str, Any] = {
        "vmId": item.vm_id,
        "hardwareProfile": {"vmSize": item.vm_size},
        "storageProfile": _storage(item),
        "osProfile": _os_profile(model, item),
        "provisioningState": item.provisioning_state,
        "timeCreated": timestamp(item.created),
    }
    if item.has_network_profile:
        properties["networkProfile"] = _network_profile(item)
    if item.priority is not None:
        properties["priority"] = item.priority
    if item.scale_set is not None:
        properties["virtualMachineScaleSet"] = {"id": item.upper_group_id + item.scale_set.path}
        properties["platformFaultDomain"] = item.fault_domain
    if item.sent is not None:
        properties = _sent_properties(item) | {
            key: properties[key] for key in ("vmId", "provisioningState", "timeCreated", "storageProfile")
        }
    if view:
        properties["instanceView"] = machine_view(item)
    payload: dict[str, Any] = {
        "name": item.name,
        "id": item.id,
        "type": f"{COMPUTE}/virtualMachines",
        "location": item.location,
        "properties": properties,
    }
    if item.sent is not None:
        payload |= {key: copy.deepcopy(value) for key, value in item.sent.items() if key != "properties"}
    return _with_optional(payload, item)


def _sent_properties(item: Instance) -> dict[str, Any]:
    """The properties of the last PUT without what no GET returns."""
    assert item.sent is not None
    shown = copy.deepcopy(item.sent["properties"])
    shown.pop("userData", None)
    for secret in ("adminPassword", "customData"):
        shown["osProfile"].pop(secret, None)
    return cast(dict[str, Any], shown)


def machine_status(item: Instance) -> dict[str, Any]:
    """An item of a list with statusOnly=true: the machine's ids and its instance view."""
    return {
        "name": item.name,
        "id": item.id,
        "type": f"{COMPUTE}/virtualMachines",
        "location": item.location,
        "properties": {"vmId": item.vm_id, "instanceView": machine_view(item)},
    }


def uniform_view(item: Instance) -> dict[str, Any]:
    """The instance view of a Uniform instance. It has the placement group, but no computer name."""
    view: dict[str, Any] = {
        "platformUpdateDomain": item.fault_domain,
        "platformFaultDomain": item.fault_domain,
        "vmAgent": _agent(item),
        "disks": [{"name": _disk_name(item), "statuses": _statuses(item.provisioning_state, None, item.status_time)}],
        "statuses": _statuses(item.provisioning_state, item.power_state, item.status_time),
    }
    if item.placement_group is not None:
        view["placementGroupId"] = item.placement_group
    return view


def machine_view(item: Instance) -> dict[str, Any]:
    """The instance view of a virtual machine."""
    return {
        "platformFaultDomain": item.fault_domain,
        "computerName": item.computer_name,
        "osName": "ubuntu",
        "osVersion": "22.04",
        "hyperVGeneration": "V2",
        "vmAgent": _agent(item),
        "disks": [{"name": _disk_name(item), "statuses": _statuses(item.provisioning_state, None, item.status_time)}],
        "statuses": [
            *_statuses(item.provisioning_state, item.power_state, item.status_time),
            *([GENERALIZED] if item.generalized else []),
        ],
    }


def _with_optional(payload: dict[str, Any], item: Instance) -> dict[str, Any]:
    if item.tags:
        payload["tags"] = dict(item.tags)
    if item.zone is not None:
        payload["zones"] = [item.zone]
    return payload


def _statuses(provisioning: str, power: str | None, moment: datetime) -> list[dict[str, Any]]:
    level, shown = PROVISIONING_STATES.get(provisioning, ("Info", provisioning))
    statuses: list[dict[str, Any]] = [
        {
            "code": f"ProvisioningState/{provisioning.lower()}",
            "level": level,
            "displayStatus": shown,
            "time": timestamp(moment),
        }
    ]
    if power is not None:
        statuses.append(
            {"code": f"PowerState/{power}", "level": "Info", "displayStatus": POWER_STATES.get(power, f"VM {power}")}
        )
    return statuses


def _agent(item: Instance) -> dict[str, Any]:
    ready = item.power_state == "running"
    return {
        "vmAgentVersion": "2.9.1.1" if ready else "Unknown",
        "statuses": [
            {
                "code": "ProvisioningState/succeeded" if ready else "ProvisioningState/Unavailable",
                "level": "Info" if ready else "Warning",
                "displayStatus": "Ready" if ready else "Not Ready",
                "message": "Guest Agent is running" if ready else "VM status blob is found but not yet populated.",
                "time": timestamp(item.status_time),
            }
        ],
    }


def _disk_name(item: Instance) -> str:
    if item.sent is not None:
        return str(item.sent["properties"]["storageProfile"]["osDisk"]["name"])
    return f"{item.name}_OsDisk_1_{item.vm_id.replace('-', '')}"


def _storage(item: Instance) -> dict[str, Any]:
    name = _disk_name(item)
    reference = {**item.image.reference(), "exactVersion": item.image.exact_version}
    if item.sent is not None:
        storage = copy.deepcopy(item.sent["properties"]["storageProfile"])
        return cast(dict[str, Any], storage | {"imageReference": reference})
    ephemeral = {"diffDiskSettings": {"option": "Local"}} if item.ephemeral else {}
    return {
        "imageReference": reference,
        "osDisk": {
            **ephemeral,
            "osType": "Linux",
            "name": name,
            "createOption": "FromImage",
            "caching": "ReadWrite",
            "managedDisk": {
                "storageAccountType": "Premium_LRS",
                "id": f"{item.upper_group_id}/providers/{COMPUTE}/disks/{name}",
            },
            "diskSizeGB": 64,
        },
        "dataDisks": [],
    }


def _os_profile(model: Model, item: Instance) -> dict[str, Any]:
    profile = {
        "computerName": item.computer_name,
        "adminUsername": model.admin_username,
        "linuxConfiguration": model.linux_configuration(),
        "secrets": [],
        "allowExtensionOperations": True,
        "requireGuestProvisionSignal": True,
    }
    if item.scale_set is not None and item.scale_set.sent is not None:
        made = item.scale_set.profile["osProfile"]
        profile |= {key: copy.deepcopy(made[key]) for key in ("adminUsername", "linuxConfiguration")}
    return profile


def _network_profile(item: Instance) -> dict[str, Any]:
    interfaces: list[dict[str, Any]] = []
    if item.has_interfaces:
        interfaces.append({"id": item.group_id + item.interface_path, "properties": {"primary": True}})
    return {"networkInterfaces": interfaces}
