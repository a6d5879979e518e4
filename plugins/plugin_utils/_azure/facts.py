# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of instances, scale sets and networks, from the SDK's objects.

Instances of Uniform and Flexible scale sets and stand-alone VMs have the same schema. A value that Azure does not
return is None. The SDK's objects are only read by attributes, because the results of `as_dict()` and `serialize()`
changed with azure-mgmt-compute 38. Each attribute is read once, because newer releases convert it at every access.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NotRequired, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import canonical_size

from .resources import effective_tags, name_of, resource_group_of, subscription_of, virtual_network_of


class Interface(TypedDict):
    """One network interface of an instance. The primary address comes first in each list."""

    name: str
    primary: bool
    accelerated_networking: bool | None
    subnet: str | None
    private_ipv4: list[str]
    public_ipv4: list[str]


class VirtualNetwork(TypedDict):
    """One virtual network. Its address prefixes are None if they could not be read."""

    id: str
    name: str
    address_prefixes: list[str] | None


class AttachedInterface(NamedTuple):
    """An interface, with the ids of its machine and its public addresses, in lower case."""

    vm_id: str
    interface: Interface
    public_ids: list[str]


def from_network_interface(nic: Any) -> AttachedInterface | None:
    """Return an interface of an instance, or None if it belongs to no instance."""
    machine = nic.virtual_machine
    vm_id = machine.id if machine else None
    if not vm_id:
        return None
    private: list[str] = []
    public_ids: list[str] = []
    subnet_id: str | None = None
    configurations = sorted(nic.ip_configurations or (), key=lambda configuration: not configuration.primary)
    for configuration in configurations:
        address = configuration.private_ip_address
        if address and ":" not in address:
            private.append(str(address))
        public = configuration.public_ip_address
        if public and public.id:
            public_ids.append(str(public.id).lower())
        subnet = configuration.subnet
        if subnet_id is None and subnet and subnet.id:
            subnet_id = str(subnet.id)
    accelerated = nic.enable_accelerated_networking
    interface: Interface = {
        "name": nic.name or name_of(str(nic.id)),
        "primary": bool(nic.primary),
        "accelerated_networking": accelerated if accelerated is None else bool(accelerated),
        "subnet": subnet_id,
        "private_ipv4": private,
        "public_ipv4": [],
    }
    return AttachedInterface(str(vm_id).lower(), interface, public_ids)


def from_public_address(address: Any) -> tuple[str, str] | None:
    """Return id (in lower case) and IPv4 address of a public address, or None if it has no IPv4 address yet."""
    value = address.ip_address
    if not value or ":" in value:
        return None
    return str(address.id).lower(), str(value)


def from_virtual_network(network: Any) -> VirtualNetwork:
    """Return name and address space of a virtual network."""
    space = network.address_space
    prefixes = space.address_prefixes if space else None
    return {
        "id": str(network.id),
        "name": str(network.name or name_of(str(network.id))),
        "address_prefixes": [str(prefix) for prefix in prefixes] if prefixes is not None else None,
    }


def primary_first(interfaces: list[Interface]) -> list[Interface]:
    """Sort the interfaces of an instance: the primary one, then by name, because Azure's order changes."""
    return sorted(interfaces, key=lambda interface: (not interface["primary"], interface["name"]))


UNIFORM = "Uniform"
FLEXIBLE = "Flexible"


class ScaleSetFacts(TypedDict):
    """One scale set. A value that Azure does not return is None.

    ``capacity`` is the requested number of instances, ``found`` the number that was listed.
    """

    id: str
    name: str
    resource_group: str
    subscription_id: str
    location: str | None
    orchestration_mode: str
    vm_size: str | None
    capacity: int | None
    found: int
    single_placement_group: bool | None
    accelerated_networking: bool | None
    virtual_networks: list[str]
    priority: str | None
    tags: dict[str, str]


def from_scale_set(scale_set: Any) -> ScaleSetFacts:
    """Return the facts of a scale set (`virtual_machine_scale_sets.list_all`)."""
    resource_id = str(scale_set.id)
    mode = scale_set.orchestration_mode
    sku = scale_set.sku
    size = sku.name if sku else None
    profile = scale_set.virtual_machine_profile
    priority = profile.priority if profile else None
    network = profile.network_profile if profile else None
    interfaces = (network.network_interface_configurations if network else None) or []
    single = scale_set.single_placement_group
    location = scale_set.location
    return {
        "id": resource_id,
        "name": str(scale_set.name or name_of(resource_id)),
        "resource_group": resource_group_of(resource_id) or "",
        "subscription_id": subscription_of(resource_id) or "",
        "location": str(location).replace(" ", "").lower() if location else None,
        # Scale sets that are older than orchestration modes have no mode, and are Uniform.
        "orchestration_mode": FLEXIBLE if _text(mode) == FLEXIBLE else UNIFORM,
        "vm_size": canonical_size(str(size)) if size else None,
        "capacity": sku.capacity if sku else None,
        "found": 0,
        "single_placement_group": None if single is None else bool(single),
        "accelerated_networking": _accelerated(interfaces),
        "virtual_networks": _virtual_networks(interfaces),
        "priority": _text(priority),
        "tags": {str(key): str(value) for key, value in (scale_set.tags or {}).items()},
    }


def _accelerated(interfaces: list[Any]) -> bool | None:
    """Return the value of the model's primary interface. A single interface may not be marked as primary."""
    for interface in sorted(interfaces, key=lambda candidate: not candidate.primary):
        enabled = interface.enable_accelerated_networking
        return None if enabled is None else bool(enabled)
    return None


def _virtual_networks(interfaces: list[Any]) -> list[str]:
    found: dict[str, str] = {}
    for interface in interfaces:
        for configuration in interface.ip_configurations or ():
            subnet = configuration.subnet
            network = virtual_network_of(str(subnet.id)) if subnet and subnet.id else None
            if network:
                found.setdefault(network.lower(), network)
    return list(found.values())


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
    azure_ephemeral_os_disk: bool | None
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
    """One listed instance, as it is cached: its facts and its interfaces with addresses."""

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
    # The priority is only set on the scale set.
    facts["azure_priority"] = scale_set["priority"]
    if view:
        facts["azure_fault_domain"] = view.platform_fault_domain
        facts["azure_placement_group"] = _text(view.placement_group_id)
    return facts


def from_virtual_machine(vm: Any, scale_set: ScaleSetFacts | None) -> InstanceFacts:
    """Return the facts of a virtual machine: an instance of a Flexible scale set, or a stand-alone VM."""
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
    """Set the power state and the application health from an instance view."""
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
        "azure_ephemeral_os_disk": is_ephemeral(disk),
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
        # Azure sometimes returns an instance's group in capitals. The scale set has the user's spelling.
        "azure_resource_group": scale_set["resource_group"] if scale_set else resource_group_of(resource_id),
        "azure_subscription_id": subscription_of(resource_id),
    }
    set_states(facts, view)
    return facts


def is_ephemeral(disk: Any) -> bool | None:
    """Say whether a system disk is on the physical host, so that Azure makes it again when the machine leaves it."""
    if not disk:
        return None
    settings = disk.diff_disk_settings
    return bool(settings and settings.option)


def _image(reference: Any) -> dict[str, str | None] | None:
    if not reference:
        return None
    return {field: _text(getattr(reference, field)) for field in IMAGE_FIELDS}


def _size(name: Any) -> str | None:
    text = _text(name)
    return canonical_size(text) if text else None


def _text(value: Any) -> str | None:
    """Return a plain string, because some releases of the SDK return enum members."""
    if value is None:
        return None
    return str(getattr(value, "value", value))


class Listing(TypedDict):
    """Everything that was listed for one source.

    ``errors`` has one entry per failed list call, and is empty if the answer is complete. ``left_out`` counts by reason
    what was listed but is not a host. ``seen`` has the existing values for each filter, to explain a source without
    hosts.
    """

    instances: list[Instance]
    scale_sets: list[ScaleSetFacts]
    virtual_networks: list[VirtualNetwork]
    left_out: dict[str, int]
    errors: list[str]
    requests: int
    seen: NotRequired[dict[str, list[str]]]
