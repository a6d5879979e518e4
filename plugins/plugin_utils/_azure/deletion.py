# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deleting instances by their ids.

The capacity of a set is never lowered for it: Azure would choose by itself which instances go. Deleting by id lowers it
too.
"""

from __future__ import annotations

from collections.abc import Iterable

from .clients import Clients
from .errors import Asking
from .operations import Begin, finish
from .targets import SetName, Target, by_set, listed, numbers


def delete(clients: Clients, targets: Iterable[Target]) -> None:
    """Delete instances, those of a set by one request, and wait until they are gone.

    :raises InventoryError: it names all that could not be deleted; the others are.
    """
    sets, alone = by_set(targets)
    finish(
        [
            *(_members(clients, scale_set, numbers(scale_set, members)) for scale_set, members in sets.items()),
            *(_machine(clients, target) for target in alone),
        ]
    )


def _members(clients: Clients, scale_set: SetName, ids: list[str]) -> Begin:
    from azure.mgmt.compute.models import VirtualMachineScaleSetVMInstanceRequiredIDs

    calls = clients.compute(scale_set.subscription).virtual_machine_scale_sets
    asking = Asking(
        f"delete the instances {listed(ids)} of {scale_set}", "Microsoft.Compute/virtualMachineScaleSets/delete/action"
    )
    wanted = VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=ids)
    return Begin(asking, lambda: calls.begin_delete_instances(scale_set.group, scale_set.name, wanted))


def _machine(clients: Clients, target: Target) -> Begin:
    calls = clients.compute(target.subscription).virtual_machines
    asking = Asking(f"delete {target.azure_id}", "Microsoft.Compute/virtualMachines/delete")
    return Begin(asking, lambda: calls.begin_delete(target.group, target.name))
