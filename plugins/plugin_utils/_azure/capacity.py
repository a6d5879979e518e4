# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bringing new instances in the place of deleted ones: the capacity that deletions lowered is raised again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .clients import Clients
from .errors import Asking, InventoryError, explain
from .operations import Begin, finish
from .targets import SetName, Target, by_set, listed


def sets_of(targets: Iterable[Target]) -> dict[SetName, int]:
    """Return how many of the targets each Uniform set has.

    :raises InventoryError: one is in no such set, so that no capacity brings another in its place.
    """
    sets, alone = by_set(targets)
    if alone:
        raise InventoryError(
            f"Nothing was done. {listed([target.azure_id for target in alone])}: no Uniform scale set would bring "
            "another in its place; redeploy it."
        )
    return {scale_set: len(members) for scale_set, members in sets.items()}


def read(clients: Clients, sets: Iterable[SetName]) -> dict[SetName, int]:
    """Return the capacity of each set.

    :raises InventoryError: Azure did not tell.
    """
    found: dict[SetName, int] = {}
    for scale_set in sets:
        calls = clients.compute(scale_set.subscription).virtual_machine_scale_sets
        asking = Asking(f"read the capacity of {scale_set}", "Microsoft.Compute/virtualMachineScaleSets/read")
        try:
            found[scale_set] = int(calls.get(scale_set.group, scale_set.name).sku.capacity)
        except Exception as error:
            raise InventoryError(explain(error, asking)) from None
    return found


def to_raise(before: Mapping[SetName, int], after: Mapping[SetName, int], gone: Mapping[SetName, int]) -> list[SetName]:
    """Return the sets whose capacity is exactly as the deletions left it. Pure.

    Where it is not, an autoscale rule or a person changed it meanwhile, and has decided how many there shall be.
    """
    return [scale_set for scale_set, was in before.items() if after[scale_set] == was - gone[scale_set]]


def set_to(clients: Clients, wanted: Mapping[SetName, int]) -> None:
    """Set capacities, and wait until the new instances run.

    :raises InventoryError: it names all sets where that failed.
    """
    finish([_change(clients, scale_set, capacity) for scale_set, capacity in wanted.items()])


def _change(clients: Clients, scale_set: SetName, capacity: int) -> Begin:
    from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate

    calls = clients.compute(scale_set.subscription).virtual_machine_scale_sets
    asking = Asking(f"set the capacity of {scale_set} to {capacity}", "Microsoft.Compute/virtualMachineScaleSets/write")
    update = VirtualMachineScaleSetUpdate(sku=Sku(capacity=capacity))
    return Begin(asking, lambda: calls.begin_update(scale_set.group, scale_set.name, update))
