# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory knows of an instance, made from the SDK's objects.

One schema for instances of Uniform and of Flexible scale sets and for stand-alone VMs; what a payload does not carry is
None. The SDK's objects are read by attribute only: `as_dict()` and `serialize()` changed their answers with
azure-mgmt-compute 38. Each attribute is read once, as newer releases convert it on every access.
"""

from __future__ import annotations

from typing import Any, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import canonical_size

from .identifiers import name_of, resource_group_of, subscription_of
from .network_facts import Interface
from .scale_set_facts import ScaleSetFacts
from .tags import effective_tags

IMAGE_FIELDS = ("id", "publisher", "offer", "sku", "version", "exact_version")


class InstanceFacts(TypedDict):
    """Host variables of one instance."""

    azure_id: str
    azure_vm_id: str | None
    azure_name: str
    azure_vmss: str | None
    azure_vmss_id: str | None
    azure_instance_id: str | None
    azure_orchestration_mode: str | None
    azure_vm_size: str | None
    azure_location: str | None
    azure_zone: str | None
    azure_fault_domain: int | None
    azure_placement_group: str | None
    azure_computer_name: str | None
    azure_admin_username: str | None
    azure_os_type: str | None
    azure_power_state: str | None
    azure_provisioning_state: str | None
    azure_health_state: str | None
    azure_latest_model: bool | None
    azure_priority: str | None
    azure_image: dict[str, str | None] | None
    azure_tags: dict[str, str]
    azure_roles: list[str]
    azure_ready: bool
    azure_private_ipv4: str | None
    azure_public_ipv4: str | None
    azure_subnet: str | None
    azure_virtual_network: str | None
    azure_accelerated_networking: bool | None
    azure_resource_group: str | None
    azure_subscription_id: str | None


class Instance(TypedDict):
    """One instance as it is listed and cached: its facts, and its addresses to choose from."""

    facts: InstanceFacts
    interfaces: list[Interface]


def from_scale_set_vm(vm: Any, scale_set: ScaleSetFacts) -> InstanceFacts:
    """Return the facts of an instance of a Uniform scale set (`virtual_machine_scale_set_vms.list`)."""
    view = vm.instance_view
    sku = vm.sku
    facts = _common(vm, scale_set, view)
    facts["azure_instance_id"] = _text(vm.instance_id)
    facts["azure_vm_size"] = _size(sku.name if sku else None) or scale_set["vm_size"]
    facts["azure_latest_model"] = vm.latest_model_applied
    # An instance has no priority of its own, it is the set's.
    facts["azure_priority"] = scale_set["priority"]
    if view:
        facts["azure_fault_domain"] = view.platform_fault_domain
        facts["azure_placement_group"] = _text(view.placement_group_id)
    return facts


def from_virtual_machine(vm: Any, scale_set: ScaleSetFacts | None) -> InstanceFacts:
    """Return the facts of a virtual machine: an instance of a Flexible scale set, or one that stands alone."""
    view = vm.instance_view
    hardware = vm.hardware_profile
    facts = _common(vm, scale_set, view)
    facts["azure_vm_size"] = _size(hardware.vm_size if hardware else None)
    facts["azure_priority"] = _text(vm.priority) or (scale_set["priority"] if scale_set else None)
    fault_domain = vm.platform_fault_domain
    if fault_domain is None and view:
        fault_domain = view.platform_fault_domain
    facts["azure_fault_domain"] = fault_domain
    return facts


def set_states(facts: InstanceFacts, view: Any) -> None:
    """Fill in what an instance view says: the power state and the health that the application reports."""
    for status in (view.statuses if view else None) or ():
        kind, _slash, state = (_text(status.code) or "").partition("/")
        if kind == "PowerState" and state:
            facts["azure_power_state"] = state.lower()
    health = view.vm_health if view else None
    status = health.status if health else None
    code = _text(status.code) if status else None
    if code:
        facts["azure_health_state"] = code.rpartition("/")[2].lower()


def _common(vm: Any, scale_set: ScaleSetFacts | None, view: Any) -> InstanceFacts:
    resource_id = str(vm.id)
    os_profile = vm.os_profile
    storage = vm.storage_profile
    disk = storage.os_disk if storage else None
    zones = vm.zones
    location = _text(vm.location)
    facts: InstanceFacts = {
        "azure_id": resource_id,
        "azure_vm_id": _text(vm.vm_id),
        "azure_name": _text(vm.name) or name_of(resource_id),
        "azure_vmss": scale_set["name"] if scale_set else None,
        "azure_vmss_id": scale_set["id"] if scale_set else None,
        "azure_instance_id": None,
        "azure_orchestration_mode": scale_set["orchestration_mode"] if scale_set else None,
        "azure_vm_size": None,
        "azure_location": location.replace(" ", "").lower() if location else None,
        "azure_zone": _text(zones[0]) if zones else None,
        "azure_fault_domain": None,
        "azure_placement_group": None,
        "azure_computer_name": _text(os_profile.computer_name) if os_profile else None,
        "azure_admin_username": _text(os_profile.admin_username) if os_profile else None,
        "azure_os_type": _text(disk.os_type) if disk else None,
        "azure_power_state": None,
        "azure_provisioning_state": _text(vm.provisioning_state),
        "azure_health_state": None,
        "azure_latest_model": None,
        "azure_priority": None,
        "azure_image": _image(storage.image_reference if storage else None),
        "azure_tags": effective_tags(vm.tags, scale_set["tags"] if scale_set else None),
        "azure_roles": [],
        "azure_ready": False,
        "azure_private_ipv4": None,
        "azure_public_ipv4": None,
        "azure_subnet": None,
        "azure_virtual_network": None,
        "azure_accelerated_networking": None,
        # Azure spells the group of an instance in capitals now and then, the set's own spelling is the user's.
        "azure_resource_group": scale_set["resource_group"] if scale_set else resource_group_of(resource_id),
        "azure_subscription_id": subscription_of(resource_id),
    }
    set_states(facts, view)
    return facts


def _image(reference: Any) -> dict[str, str | None] | None:
    if not reference:
        return None
    return {field: _text(getattr(reference, field)) for field in IMAGE_FIELDS}


def _size(name: Any) -> str | None:
    text = _text(name)
    return canonical_size(text) if text else None


def _text(value: Any) -> str | None:
    """Return a plain string: the SDK gives enum members in some releases and strings in others."""
    if value is None:
        return None
    return str(getattr(value, "value", value))
