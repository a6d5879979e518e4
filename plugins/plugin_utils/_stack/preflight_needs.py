# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster needs in Azure, as plain data: the input of the preflight checks and of the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import resource as kinds
from .data import Assignment, assignments
from .desired import TenantIds, desired
from .model import CLUSTER, COMPUTE, Controller, Login, Stack
from .names import Names
from .resource import Resource

PREMIUM, STANDARD_SSD, STANDARD_HDD = "Premium_LRS", "StandardSSD_LRS", "Standard_LRS"
"""Types of managed disks whose price is known by tier."""


@dataclass(frozen=True)
class Machines:
    """Machines of one kind: a scale set, or one virtual machine.

    :ivar name: the resource's name.
    :ivar vm_size: canonical VM size.
    :ivar minimum: number of machines that always run.
    :ivar maximum: the largest number of machines.
    :ivar is_set: whether it is a scale set of compute nodes; the collection needs the facts of their VM size.
    :ivar spot: whether it uses spot capacity.
    :ivar zone: the availability zone; empty if Azure chooses.
    :ivar image: ``publisher:offer:sku:version``, or the resource id of an image or of a gallery's image version.
    :ivar plan: ``publisher:product:name`` of the plan that the model states for the image; empty for none.
    :ivar disk_type: type of the OS disk.
    :ivar disk_gib: size of the OS disk; None if it is the image's.
    :ivar ephemeral: whether the OS disk is on the host, which costs nothing.
    :ivar reserved: whether it uses a capacity reservation group.
    :ivar subnet: resource id of its subnet.
    """

    name: str
    vm_size: str
    minimum: int = 1
    maximum: int = 1
    is_set: bool = False
    spot: bool = False
    zone: str = ""
    image: str = ""
    plan: str = ""
    disk_type: str = PREMIUM
    disk_gib: int | None = None
    ephemeral: bool = False
    reserved: bool = False
    subnet: str = ""

    @property
    def label(self) -> str:
        """Its name with its kind, for people."""
        return f"set {self.name}" if self.is_set else self.name


@dataclass(frozen=True)
class Subnet:
    """A subnet for machines.

    :ivar id: its resource id.
    :ivar prefix: its address range if the stack makes it; empty if it is adopted.
    """

    id: str
    prefix: str = ""


@dataclass(frozen=True)
class Needs:
    """All that a cluster needs.

    :ivar subscription: the subscription's id.
    :ivar group: name of the resource group.
    :ivar location: name of the region, e.g. ``westeurope``.
    :ivar machines: all machines.
    :ivar subnets: all subnets for machines.
    :ivar assignments: the role assignments.
    :ivar actions: the actions that making the resources needs, in alphabetical order, without role assignments and
        without ``elsewhere``.
    :ivar elsewhere: the actions that this needs on adopted resources, in alphabetical order, by their ids.
    :ivar providers: the resource providers, in alphabetical order.
    :ivar names: names that are unique in all of Azure, of vaults and storage accounts, with their resource ids.
    :ivar resources: resource ids of all resources that are made.
    :ivar nat_gateways: number of NAT gateways that are made.
    :ivar public_addresses: number of public IPv4 addresses that are made.
    :ivar bastions: number of Azure Bastions that are made.
    :ivar disks: data disks that are made: name, type, GiB.
    :ivar share_gib: provisioned size of premium file shares that are made, by name.
    :ivar unpriced: what is made and costs money, but is not part of the sum.
    """

    subscription: str
    group: str
    location: str
    machines: tuple[Machines, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    actions: tuple[str, ...] = ()
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    providers: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    resources: tuple[str, ...] = ()
    nat_gateways: int = 0
    public_addresses: int = 0
    bastions: int = 0
    disks: tuple[tuple[str, str, int], ...] = ()
    share_gib: tuple[tuple[str, int], ...] = ()
    unpriced: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """Resource id of the resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"


_DEPLOYMENT = tuple(
    f"{kinds.DEPLOYMENT}/{action}"
    for action in (
        "operations/read",
        "operationstatuses/read",
        "read",
        "validate/action",
        "whatIf/action",
        "write",
    )
)
"""Each run validates, previews, starts and watches a deployment."""
_JOIN_SUBNET = f"{kinds.VNET}/subnets/join/action"
_JOIN_BY_ENDPOINT = f"{kinds.VNET}/subnets/joinViaServiceEndpoint/action"
_ASSIGN = f"{kinds.IDENTITY}/assign/action"
_MORE_ACTIONS = {
    # What Azure checks besides the write, because these resources use others or others use them. Names as in
    # https://learn.microsoft.com/azure/role-based-access-control/resource-provider-operations
    kinds.NSG: (f"{kinds.NSG}/join/action",),
    kinds.PUBLIC_ADDRESS: (f"{kinds.PUBLIC_ADDRESS}/join/action",),
    kinds.NAT: (f"{kinds.NAT}/join/action",),
    kinds.BASTION_HOST: (_JOIN_SUBNET,),
    kinds.NIC: (_JOIN_SUBNET, f"{kinds.NIC}/join/action"),
    kinds.VM: (_ASSIGN,),
    kinds.SCALE_SET: (_ASSIGN, _JOIN_SUBNET),
    kinds.ENDPOINT: (_JOIN_SUBNET, f"{kinds.ACCOUNT}/PrivateEndpointConnectionsApproval/action"),
    kinds.ENDPOINT_ZONES: (f"{kinds.DNS_ZONE}/join/action",),
    kinds.DNS_LINK: (f"{kinds.VNET}/join/action",),
}


def needs_of(stack: Stack) -> Needs:
    """Return what a stack needs. Pure."""
    names = Names(stack)
    wanted = desired(stack, TenantIds(tenant=""))
    made = [one for one in wanted if not one.adopted]
    kinds_made = Counter(one.kind for one in made)
    actions = _actions(made, [one.id.lower() for one in wanted if one.adopted and one.kind != kinds.GROUP])
    return Needs(
        subscription=stack.subscription,
        group=stack.group.name,
        location=stack.location,
        machines=tuple(_machines(stack, names)),
        # An adopted network may have one subnet for both.
        subnets=tuple(dict.fromkeys(_subnet(stack, names, name) for name in (CLUSTER, COMPUTE))),
        assignments=tuple(assignments(stack, names)),
        actions=actions.pop("", ()),
        elsewhere=actions,
        providers=_providers(made),
        names={one.name: one.id for one in made if one.kind in (kinds.VAULT, kinds.ACCOUNT)},
        resources=tuple(one.id for one in made),
        nat_gateways=kinds_made[kinds.NAT],
        public_addresses=kinds_made[kinds.PUBLIC_ADDRESS],
        bastions=kinds_made[kinds.BASTION_HOST],
        disks=tuple(_disk(one) for one in made if one.kind == kinds.DISK),
        share_gib=tuple(
            (one.name, int(one.body["properties"]["shareQuota"])) for one in made if one.kind == kinds.SHARE
        ),
        unpriced=("the private endpoint of the share",) if kinds_made[kinds.ENDPOINT] else (),
    )


def _machines(stack: Stack, names: Names) -> Iterator[Machines]:
    alone: list[tuple[str, Controller | Login]] = [(names.controller, stack.controller)]
    alone += [(names.login(number), stack.login) for number in range(1, stack.login.count + 1)]
    for machine, wanted in alone:
        yield Machines(
            name=machine.rsplit("/", 1)[-1],
            vm_size=wanted.vm_size,
            image=str(wanted.image),
            plan=str(wanted.image.plan or ""),
            disk_gib=wanted.os_disk_gib,
            subnet=names.subnet(CLUSTER),
        )
    for one in stack.scale_sets:
        yield Machines(
            name=one.name,
            vm_size=one.vm_size,
            # The capacity belongs to whoever grows and shrinks the set, so a set may be empty.
            minimum=(one.elastic or {}).get("min", 0),
            maximum=one.max,
            is_set=True,
            spot=one.is_spot,
            zone=one.zone,
            image=str(one.image),
            plan=str(one.image.plan or ""),
            disk_gib=one.os_disk_gib,
            ephemeral=one.ephemeral_os_disk,
            reserved=bool(one.capacity_reservation_group),
            subnet=names.subnet(COMPUTE),
        )


def _subnet(stack: Stack, names: Names, name: str) -> Subnet:
    return Subnet(names.subnet(name), "" if stack.network.adopt else stack.network.subnets[name])


def _disk(one: Resource) -> tuple[str, str, int]:
    return one.name, str(one.body["sku"]["name"]), int(one.body["properties"]["diskSizeGB"])


def _actions(made: Iterable[Resource], adopted: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the actions on adopted resources by their ids, and below an empty id those on the resource group.

    A group that is made needs its own on the subscription.

    :param adopted: lower-case ids.
    """
    found: dict[str, set[str]] = {"": set(_DEPLOYMENT)}
    for one in made:
        if one.kind == kinds.GROUP:
            found[""].add("Microsoft.Resources/subscriptions/resourceGroups/write")
        elif one.kind not in (kinds.ROLE_ASSIGNMENT, kinds.ROLE):
            found[""].add(f"{one.kind}/write")
        actions = set(_MORE_ACTIONS.get(one.kind, ()))
        # The firewall of a vault or an account names the subnets that may use it.
        if (one.body.get("properties") or {}).get("networkAcls", {}).get("virtualNetworkRules"):
            actions.add(_JOIN_BY_ENDPOINT)
        for action in actions:
            # The type, then the verb, then "action".
            kind = action.rsplit("/", 2)[0].lower()
            used = [id_ for id_ in _ids_in(one.body) if kinds.kind_of(id_).lower() == kind]
            for id_ in used or [one.id]:
                there = any(f"{id_}/".lower().startswith(f"{above}/") for above in adopted)
                found.setdefault(id_ if there else "", set()).add(action)
    return {scope: tuple(sorted(actions)) for scope, actions in found.items()}


def _ids_in(value: Any) -> Iterator[str]:
    """Yield the resource ids in a body. Identities are keys."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _ids_in(key)
            yield from _ids_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _ids_in(item)
    elif isinstance(value, str) and value.lower().startswith("/subscriptions/"):
        yield value


def _providers(made: Iterable[Resource]) -> tuple[str, ...]:
    """Return the resource providers. Azure registers Resources and Authorization in every subscription."""
    always = {"Microsoft.Resources", "Microsoft.Authorization"}
    return tuple(sorted({one.kind.partition("/")[0] for one in made} - always))
