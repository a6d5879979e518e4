# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces and public addresses: of scale sets, of the scenario's machines, and those that a PUT made."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from simulator.arm import lookup, network_payloads
from simulator.arm.context import context, many, one
from simulator.arm.documents import encode_item
from simulator.arm.errors import resource_not_found
from simulator.arm.paging import page
from simulator.model import Listing
from simulator.resources import NETWORK, Instance, Resource

blueprint = Blueprint("network", __name__)
SUBSCRIPTION = "/subscriptions/<subscription>/providers/microsoft.network"
GROUP = "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.network"
SET = "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.compute/virtualmachinescalesets/<name>"


def encode_interface(item: Instance) -> bytes:
    """A machine's network interface as JSON."""
    kind = "set_interface" if item.uniform else "interface"
    return context().encode_instance(kind, item, lambda: network_payloads.interface(item))


def encode_public_address(item: Instance) -> bytes:
    """A machine's public address as JSON."""
    kind = "set_public_address" if item.uniform else "public_address"
    return context().encode_instance(kind, item, lambda: network_payloads.public_address(item))


def _has_interface(item: Instance) -> bool:
    return item.has_interfaces and item.is_listed and not item.interface_id


def _has_public_address(item: Instance) -> bool:
    return _has_interface(item) and item.public_ipv4 is not None


def _answer(listing: Listing[Instance], encode: Callable[[Instance], bytes], kind: str = "") -> Response:
    """A page of machines' resources, and of the documents of a type in the same groups."""
    items: Listing[Resource] = Listing(listing)
    if kind:
        group = (request.view_args or {}).get("group")
        items.extend(context().model.documents.of(f"{NETWORK}/{kind}", group and group.lower()))
        items.sort(key=lambda item: item.serial)
    found, next_link = page(items, context().options.interface_page_size)
    return many([encode(item) if isinstance(item, Instance) else encode_item(item) for item in found], next_link)


def _document(kind: str, group: str, name: str) -> Response:
    """The document of a resource that no machine has."""
    for item in context().model.documents.of(f"{NETWORK}/{kind}", group.lower()):
        if item.name.lower() == name.lower():
            return one(encode_item(item))
    raise resource_not_found(f"{NETWORK}/{kind}", name, group)


def _of_machines(group: str | None, wanted: Callable[[Instance], bool]) -> Listing[Instance]:
    name = lookup.group(group)
    model = context().model
    return model.listing(
        model.machines.values(), lambda item: wanted(item) and (name is None or item.resource_group.lower() == name)
    )


def _of_set(group: str, name: str, kind: str, wanted: Callable[[Instance], bool]) -> Listing[Instance]:
    scale_set = lookup.scale_set(group, name)
    if scale_set.flexible:
        # Flexible instances have their own interfaces: azure-cli issue 28258, terraform-provider-azurerm 22439.
        raise resource_not_found(f"Microsoft.Compute/virtualMachineScaleSets/{kind}", name, group)
    return context().model.listing(scale_set.members.values(), wanted)


@blueprint.get(f"{SUBSCRIPTION}/networkinterfaces")
@blueprint.get(f"{GROUP}/networkinterfaces")
def list_interfaces(subscription: str, group: str | None = None) -> Response:
    """Interfaces of virtual machines, without those of Uniform instances."""
    return _answer(_of_machines(group, _has_interface), encode_interface, "networkInterfaces")


@blueprint.get(f"{GROUP}/networkinterfaces/<name>")
def show_interface(subscription: str, group: str, name: str) -> Response:
    """One interface."""
    for item in _of_machines(group, _has_interface):
        if item.interface_name.lower() == name.lower():
            return one(encode_interface(item))
    return _document("networkInterfaces", group, name)


@blueprint.get(f"{SET}/networkinterfaces")
def list_set_interfaces(subscription: str, group: str, name: str) -> Response:
    """Interfaces of all instances of a Uniform scale set."""
    return _answer(_of_set(group, name, "networkInterfaces", _has_interface), encode_interface)


@blueprint.get(f"{SET}/virtualmachines/<instance_id>/networkinterfaces")
def list_instance_interfaces(subscription: str, group: str, name: str, instance_id: str) -> Response:
    """Interfaces of one Uniform instance."""
    wanted = lookup.member(group, name, instance_id)
    listing = _of_set(group, name, "networkInterfaces", lambda item: item is wanted and item.has_interfaces)
    return _answer(listing, encode_interface)


@blueprint.get(f"{SUBSCRIPTION}/publicipaddresses")
@blueprint.get(f"{GROUP}/publicipaddresses")
def list_public_addresses(subscription: str, group: str | None = None) -> Response:
    """Public addresses of virtual machines, without those of Uniform instances."""
    return _answer(_of_machines(group, _has_public_address), encode_public_address, "publicIPAddresses")


@blueprint.get(f"{GROUP}/publicipaddresses/<name>")
def show_public_address(subscription: str, group: str, name: str) -> Response:
    """One public address."""
    for item in _of_machines(group, _has_public_address):
        if item.public_address_name.lower() == name.lower():
            return one(encode_public_address(item))
    return _document("publicIPAddresses", group, name)


@blueprint.get(f"{SET}/publicipaddresses")
def list_set_public_addresses(subscription: str, group: str, name: str) -> Response:
    """Public addresses of all instances of a Uniform scale set."""
    return _answer(_of_set(group, name, "publicIPAddresses", _has_public_address), encode_public_address)
