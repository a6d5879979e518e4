# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances given by their ids, and the check that they are still the same machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .clients import Clients, read_list
from .errors import Asking, InventoryError, explain, is_gone, listed
from .resources import name_of, resource_group_of, segment, subscription_of


@dataclass(frozen=True)
class Target:
    """An instance to change.

    :ivar azure_id: its resource id from the inventory.
    :ivar vm_id: its vmId. Azure reuses resource ids and names, but never a vmId.
    """

    azure_id: str
    vm_id: str

    @property
    def subscription(self) -> str:
        """Its subscription."""
        return str(subscription_of(self.azure_id))

    @property
    def group(self) -> str:
        """Its resource group."""
        return str(resource_group_of(self.azure_id))

    @property
    def scale_set(self) -> str | None:
        """Its Uniform scale set, or None for a virtual machine that is its own resource."""
        return segment(self.azure_id, "virtualMachineScaleSets")

    @property
    def name(self) -> str:
        """Its instance id in a Uniform set, else the machine's name."""
        return name_of(self.azure_id)


class TargetPresence(NamedTuple):
    """Which targets exist, and which do not."""

    present: tuple[Target, ...]
    gone: tuple[Target, ...]


class SetName(NamedTuple):
    """A Uniform scale set."""

    subscription: str
    group: str
    name: str

    def __str__(self) -> str:
        return f"scale set {self.name} of resource group {self.group} (subscription {self.subscription})"


def make_target(azure_id: str, vm_id: str) -> Target:
    """Return the target for the id of an instance or a virtual machine.

    :raises InventoryError: the id is that of another resource, or the vmId is missing.
    """
    target = Target(str(azure_id).rstrip("/"), str(vm_id or "").strip())
    if not (subscription_of(azure_id) and resource_group_of(azure_id) and segment(azure_id, "virtualMachines")):
        raise InventoryError(f"{azure_id!r} is not the resource id of an instance or a virtual machine.")
    if not target.vm_id:
        raise InventoryError(f"{azure_id} has no vm_id, which is required to check that it is still the same machine.")
    return target


def find_targets(clients: Clients, targets: Iterable[Target]) -> TargetPresence:
    """Return which of the targets exist.

    :raises InventoryError: a request to Azure failed, or another machine has the id now.
    """
    sets, alone = by_set(targets)
    present: list[Target] = []
    gone: list[Target] = []
    others: list[str] = []
    for scale_set, members in sets.items():
        vm_ids = _members(clients, scale_set)
        for target in members:
            _judge(target, vm_ids.get(target.name.lower()), present, gone, others)
    for target in alone:
        _judge(target, _machine(clients, target), present, gone, others)
    if others:
        raise InventoryError(
            f"Nothing was done. {listed(others)}: the id now belongs to another machine. Refresh the inventory "
            "(--flush-cache) and check which machine that is."
        )
    return TargetPresence(tuple(present), tuple(gone))


def by_set(targets: Iterable[Target]) -> tuple[dict[SetName, list[Target]], list[Target]]:
    """Return the members of each Uniform set, and the machines that are their own resources."""
    sets: dict[SetName, list[Target]] = {}
    alone = []
    for target in {target.azure_id.lower(): target for target in targets}.values():
        if target.scale_set is None:
            alone.append(target)
        else:
            scale_set = SetName(target.subscription.lower(), target.group.lower(), target.scale_set.lower())
            sets.setdefault(scale_set, []).append(target)
    return sets, alone


def instance_ids(scale_set: SetName, members: Iterable[Target]) -> list[str]:
    """Return the instance ids of members of a set.

    :raises InventoryError: there are none, or they are not numbers. Azure would then change all instances of the set.
    """
    ids = [target.name for target in members]
    if not ids or not all(number.isdigit() for number in ids):
        raise InventoryError(f"{', '.join(ids) or 'nothing'}: these are not instance ids of {scale_set}.")
    return ids


def _judge(target: Target, vm_id: str | None, present: list[Target], gone: list[Target], others: list[str]) -> None:
    if vm_id is None:
        gone.append(target)
    elif vm_id.lower() != target.vm_id.lower():
        others.append(f"{target.azure_id} has the vmId {vm_id}, not {target.vm_id}")
    else:
        present.append(target)


def _members(clients: Clients, scale_set: SetName) -> Mapping[str, str]:
    """Return the vmId of each instance of a Uniform set by its instance id. Empty if the set no longer exists."""
    calls = clients.compute(scale_set.subscription).virtual_machine_scale_set_vms
    asking = Asking(
        f"list the instances of {scale_set}", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"
    )
    try:
        return dict(
            read_list(
                calls.list(scale_set.group, scale_set.name), lambda vm: (str(vm.instance_id).lower(), str(vm.vm_id))
            )
        )
    except Exception as error:
        if is_gone(error):
            return {}
        raise InventoryError(explain(error, asking)) from None


def _machine(clients: Clients, target: Target) -> str | None:
    """Return the current vmId of the machine with this name, or None if there is none."""
    calls = clients.compute(target.subscription).virtual_machines
    asking = Asking(f"look for {target.azure_id}", "Microsoft.Compute/virtualMachines/read")
    try:
        return str(calls.get(target.group, target.name).vm_id)
    except Exception as error:
        if is_gone(error):
            return None
        raise InventoryError(explain(error, asking)) from None
