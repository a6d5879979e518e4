# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory knows of network interfaces, public addresses and virtual networks."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

from .identifiers import name_of, virtual_network_of


class Interface(TypedDict):
    """One network interface of an instance. The primary address comes first in each list."""

    name: str
    primary: bool
    accelerated_networking: bool | None
    subnet: str | None
    private_ipv4: list[str]
    public_ipv4: list[str]


class VirtualNetwork(TypedDict):
    """One virtual network; None where its address space could not be seen."""

    id: str
    name: str
    address_prefixes: list[str] | None


class AttachedInterface(NamedTuple):
    """An interface and what it hangs on, both ids in lower case."""

    vm_id: str
    interface: Interface
    public_ids: list[str]


def from_network_interface(nic: Any) -> AttachedInterface | None:
    """Return an interface that belongs to an instance, or None for one that does not."""
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
    """Return id (in lower case) and IPv4 address of a public address, or None where it has none yet."""
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
    """Order the interfaces of an instance: the primary one, then by name (Azure's order changes)."""
    return sorted(interfaces, key=lambda interface: (not interface["primary"], interface["name"]))


def virtual_network_of_interface(interface: Interface) -> str | None:
    """Return the id of the virtual network that an interface is in."""
    return virtual_network_of(interface["subnet"])
