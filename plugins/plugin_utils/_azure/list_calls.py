# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All list calls of the inventory, with the required permission and the description for errors.

Therefore this file also lists all permissions that the inventory's identity needs. Operations that change instances are
in instance_operations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import facts
from .clients import Clients, read_list
from .errors import Asking
from .facts import InstanceFacts, ScaleSetFacts, from_scale_set, from_scale_set_vm, from_virtual_machine
from .resources import resource_group_of


class ListedVm(NamedTuple):
    """A virtual machine that is its own resource. Its interfaces may be in other resource groups."""

    facts: InstanceFacts
    interface_groups: frozenset[str]


class ListCall(NamedTuple):
    """One list call: its description, and the function that sends it and reads the answer."""

    asking: Asking
    ask: Callable[[], Any]


def sign_in(credential: Any, scope: str, auth_source: str) -> ListCall:
    """Get a token. This sends no request to Azure Resource Manager."""
    asking = Asking(f"sign in with auth_source {auth_source}", "of a user, managed identity or service principal")
    return ListCall(asking, lambda: credential.get_token(scope))


def scale_sets(clients: Clients, subscription: str, group: str | None) -> ListCall:
    """List the scale sets of a resource group or of the entire subscription."""
    calls = clients.compute(subscription).virtual_machine_scale_sets
    asking = Asking(
        f"list the scale sets of {_where(subscription, group)}", "Microsoft.Compute/virtualMachineScaleSets/read"
    )
    return ListCall(asking, lambda: read_list(calls.list(group) if group else calls.list_all(), from_scale_set))


def scale_set_exists(clients: Clients, scale_set: ScaleSetFacts) -> ListCall:
    """Get one scale set by its name, to confirm Azure's answer that it does not exist."""
    calls = clients.compute(scale_set["subscription_id"]).virtual_machine_scale_sets
    asking = Asking(f"look for {_named(scale_set)}", "Microsoft.Compute/virtualMachineScaleSets/read")
    return ListCall(asking, lambda: calls.get(scale_set["resource_group"], scale_set["name"]))


def uniform_instances(clients: Clients, scale_set: ScaleSetFacts) -> ListCall:
    """List the instances of a Uniform scale set with their states."""
    calls = clients.compute(scale_set["subscription_id"]).virtual_machine_scale_set_vms
    asking = Asking(
        f"list the instances of {_named(scale_set)}",
        "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read (and .../virtualMachines/instanceView/read)",
    )
    return ListCall(
        asking,
        lambda: read_list(
            calls.list(scale_set["resource_group"], scale_set["name"], expand="instanceView"),
            lambda vm: from_scale_set_vm(vm, scale_set),
        ),
    )


def flexible_instances(clients: Clients, scale_set: ScaleSetFacts) -> ListCall:
    """List the instances of a Flexible scale set with their states, which Azure only returns with this filter."""
    calls = clients.compute(scale_set["subscription_id"]).virtual_machines
    asking = Asking(
        f"list the instances of {_named(scale_set)}",
        "Microsoft.Compute/virtualMachines/read (and .../virtualMachines/instanceView/read)",
    )
    query = f"'virtualMachineScaleSet/id' eq '{scale_set['id']}'"
    return ListCall(
        asking,
        lambda: read_list(
            calls.list(scale_set["resource_group"], filter=query, expand="instanceView"),
            lambda vm: _machine(vm, scale_set),
        ),
    )


def stand_alone_vms(clients: Clients, subscription: str, group: str | None) -> ListCall:
    """List the virtual machines that belong to no scale set, without their power states."""
    calls = clients.compute(subscription).virtual_machines
    asking = Asking(
        f"list the virtual machines of {_where(subscription, group)}",
        "Microsoft.Compute/virtualMachines/read",
        "set include_vms: none",
    )

    def ask() -> list[ListedVm]:
        listing = calls.list(group) if group else calls.list_all()
        return [machine for machine in read_list(listing, _stand_alone) if machine]

    return ListCall(asking, ask)


def vm_states(clients: Clients, subscription: str) -> ListCall:
    """List the states of all virtual machines of a subscription.

    No list call returns both states and properties: with `statusOnly` an item has its states, but neither tags nor
    network profile (Azure/azure-sdk-for-go#18565), and expanding requires the filter of a scale set
    (Azure/azure-rest-api-specs#42411).
    """
    calls = clients.compute(subscription).virtual_machines
    asking = Asking(
        f"list the states of the virtual machines of {_where(subscription)}",
        "Microsoft.Compute/virtualMachines/read (and .../virtualMachines/instanceView/read)",
        "set include_vms: none",
    )
    return ListCall(
        asking, lambda: read_list(calls.list_all(status_only="true"), lambda vm: (str(vm.id).lower(), vm.instance_view))
    )


def uniform_interfaces(clients: Clients, scale_set: ScaleSetFacts) -> ListCall:
    """List the network interfaces of a Uniform scale set. For a Flexible set, Azure returns 404 here."""
    calls = clients.network(scale_set["subscription_id"]).network_interfaces
    asking = Asking(
        f"list the network interfaces of {_named(scale_set)}",
        "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read",
    )
    return ListCall(
        asking,
        lambda: _attached(
            calls.list_virtual_machine_scale_set_network_interfaces(scale_set["resource_group"], scale_set["name"])
        ),
    )


def interfaces(clients: Clients, subscription: str, group: str | None) -> ListCall:
    """List the network interfaces of Flexible and stand-alone machines."""
    calls = clients.network(subscription).network_interfaces
    asking = Asking(
        f"list the network interfaces of {_where(subscription, group)}", "Microsoft.Network/networkInterfaces/read"
    )
    return ListCall(asking, lambda: _attached(calls.list(group) if group else calls.list_all()))


def uniform_public_addresses(clients: Clients, scale_set: ScaleSetFacts) -> ListCall:
    """List the public addresses of a Uniform scale set."""
    calls = clients.network(scale_set["subscription_id"]).public_ip_addresses
    asking = Asking(
        f"list the public addresses of {_named(scale_set)}",
        "Microsoft.Compute/virtualMachineScaleSets/publicIPAddresses/read",
        "do not use public addresses (list_public_addresses, connect_with)",
    )
    return ListCall(
        asking,
        lambda: read_list(
            calls.list_virtual_machine_scale_set_public_ip_addresses(scale_set["resource_group"], scale_set["name"]),
            facts.from_public_address,
        ),
    )


def public_addresses(clients: Clients, subscription: str) -> ListCall:
    """List the public addresses of Flexible and stand-alone machines in all resource groups of the subscription."""
    calls = clients.network(subscription).public_ip_addresses
    asking = Asking(
        f"list the public addresses of {_where(subscription)}",
        "Microsoft.Network/publicIPAddresses/read",
        "do not use public addresses (list_public_addresses, connect_with)",
    )
    return ListCall(asking, lambda: read_list(calls.list_all(), facts.from_public_address))


def virtual_networks(clients: Clients, subscription: str) -> ListCall:
    """List the virtual networks of a subscription, because only they contain the address spaces."""
    calls = clients.network(subscription).virtual_networks
    asking = Asking(
        f"list the virtual networks of {_where(subscription)}",
        "Microsoft.Network/virtualNetworks/read",
        "set list_virtual_networks: false (their address spaces are then not checked)",
    )
    return ListCall(asking, lambda: read_list(calls.list_all(), facts.from_virtual_network))


def _attached(listing: Any) -> list[facts.AttachedInterface]:
    return [attached for attached in read_list(listing, facts.from_network_interface) if attached]


def _stand_alone(vm: Any) -> ListedVm | None:
    return None if vm.virtual_machine_scale_set else _machine(vm, None)


def _machine(vm: Any, scale_set: ScaleSetFacts | None) -> ListedVm:
    network = vm.network_profile
    groups = (resource_group_of(nic.id) for nic in (network.network_interfaces if network else None) or ())
    return ListedVm(from_virtual_machine(vm, scale_set), frozenset(group.lower() for group in groups if group))


def _where(subscription: str, group: str | None = None) -> str:
    return f"resource group {group} (subscription {subscription})" if group else f"subscription {subscription}"


def _named(scale_set: ScaleSetFacts) -> str:
    return f"scale set {scale_set['name']} of {_where(scale_set['subscription_id'], scale_set['resource_group'])}"
