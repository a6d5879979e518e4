# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Delete, redeploy and replace instances. All operations are started first, then all are awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clients import Clients
from .errors import Asking, InventoryError, explain, listed
from .targets import SetName, Target, by_set, instance_ids


class Begin(NamedTuple):
    """An operation to start.

    :ivar asking: description of the operation, for errors.
    :ivar begin: starts it, and returns the SDK's poller.
    """

    asking: Asking
    begin: Callable[[], Any]


def finish(operations: Iterable[Begin]) -> None:
    """Start the operations and wait until all have ended. If one fails, the others continue.

    :raises InventoryError: some failed. The message names all of them.
    """
    started: list[tuple[Asking, Any]] = []
    errors: list[str] = []
    for operation in operations:
        try:
            started.append((operation.asking, operation.begin()))
        except Exception as error:
            errors.append(explain(error, operation.asking))
    for asking, poller in started:
        try:
            poller.result()
        except Exception as error:
            errors.append(explain(error, asking))
    if errors:
        raise InventoryError(" ".join(errors))


@dataclass(frozen=True)
class _Operation:
    """SDK names of an operation on members of a Uniform set, and on a virtual machine that is its own resource."""

    verb: str
    set_permission: str
    set_call: str
    ids_model: str
    vm_permission: str
    vm_call: str

    def on(self, clients: Clients, targets: Iterable[Target]) -> list[Begin]:
        """Return the operations to start, one for all members of a set."""
        sets, alone = by_set(targets)
        return [
            *(
                self._on_set(clients, scale_set, instance_ids(scale_set, members))
                for scale_set, members in sets.items()
            ),
            *(self._on_vm(clients, target) for target in alone),
        ]

    def _on_set(self, clients: Clients, scale_set: SetName, ids: list[str]) -> Begin:
        from azure.mgmt.compute import models

        asking = Asking(
            f"{self.verb} the instances {listed(ids)} of {scale_set}",
            f"Microsoft.Compute/virtualMachineScaleSets/{self.set_permission}",
        )
        instances = getattr(models, self.ids_model)(instance_ids=ids)
        call = getattr(clients.compute(scale_set.subscription).virtual_machine_scale_sets, self.set_call)
        return Begin(asking, lambda: call(scale_set.group, scale_set.name, instances))

    def _on_vm(self, clients: Clients, target: Target) -> Begin:
        asking = Asking(f"{self.verb} {target.azure_id}", f"Microsoft.Compute/virtualMachines/{self.vm_permission}")
        call = getattr(clients.compute(target.subscription).virtual_machines, self.vm_call)
        return Begin(asking, lambda: call(target.group, target.name))


_DELETE = _Operation(
    verb="delete",
    set_permission="delete/action",
    set_call="begin_delete_instances",
    ids_model="VirtualMachineScaleSetVMInstanceRequiredIDs",
    vm_permission="delete",
    vm_call="begin_delete",
)
_REDEPLOY = _Operation(
    verb="redeploy",
    set_permission="redeploy/action",
    set_call="begin_redeploy",
    ids_model="VirtualMachineScaleSetVMInstanceIDs",
    vm_permission="redeploy/action",
    vm_call="begin_redeploy",
)

_UPDATE = _Operation(
    verb="update to the model of the scale set",
    set_permission="manualUpgrade/action",
    set_call="begin_update_instances",
    ids_model="VirtualMachineScaleSetVMInstanceRequiredIDs",
    vm_permission="",
    vm_call="",
)


def delete(clients: Clients, targets: Iterable[Target]) -> None:
    """Delete instances, and wait until they are gone.

    This never lowers the capacity of a set, because Azure would choose which instances to remove. Deleting an instance
    by its id lowers the capacity automatically.

    :raises InventoryError: some could not be deleted. The message names all of them. The others are deleted.
    """
    finish(_DELETE.on(clients, targets))


def redeploy(clients: Clients, targets: Iterable[Target]) -> None:
    """Redeploy instances, and wait until they run again.

    A redeployment moves an instance to another physical host. The id, vmId, name and system disk stay the same, and the
    data on local disks is lost. Azure makes an ephemeral system disk again from the image, so such a machine has new
    ssh host keys. A reimage would stay on the same host.

    :raises InventoryError: some could not be redeployed. The message names all of them. The others are redeployed.
    """
    finish(_REDEPLOY.on(clients, targets))


def update_to_model(clients: Clients, targets: Iterable[Target]) -> None:
    """Update instances of Uniform sets to their set's model, and wait until they run again.

    If the model's image differs, Azure replaces the system disk. The id, vmId, name and address stay the same, and the
    data on local disks is lost. Azure's reimage is another operation: it keeps the instance's old image.

    :raises InventoryError: a target is in no Uniform set, or some could not be updated. The message names all of them.
    """
    wanted = list(targets)
    _sets, alone = by_set(wanted)
    if alone:
        raise InventoryError(f"{listed([target.azure_id for target in alone])}: not in a Uniform scale set.")
    finish(_UPDATE.on(clients, wanted))


def count_by_set(targets: Iterable[Target]) -> dict[SetName, int]:
    """Return the number of targets in each Uniform set.

    :raises InventoryError: a target is in no Uniform set, so that raising a capacity would not replace it.
    """
    sets, alone = by_set(targets)
    if alone:
        raise InventoryError(
            f"Nothing was done. {listed([target.azure_id for target in alone])}: not in a Uniform scale set, so Azure "
            "would not replace it; redeploy it instead."
        )
    return {scale_set: len(members) for scale_set, members in sets.items()}


def read_capacity(clients: Clients, sets: Iterable[SetName]) -> dict[SetName, int]:
    """Return the capacity of each set.

    :raises InventoryError: a capacity could not be read.
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


def sets_to_refill(
    before: Mapping[SetName, int], after: Mapping[SetName, int], gone: Mapping[SetName, int]
) -> list[SetName]:
    """Return the sets whose capacity is exactly the value after the deletions. Pure.

    Otherwise an autoscale rule or a person changed the capacity meanwhile, and this decision is kept.
    """
    return [scale_set for scale_set, was in before.items() if after[scale_set] == was - gone[scale_set]]


def set_capacity(clients: Clients, capacities: Mapping[SetName, int]) -> None:
    """Set capacities, and wait until the new instances run.

    :raises InventoryError: some failed. The message names all of these sets.
    """
    finish([_change(clients, scale_set, capacity) for scale_set, capacity in capacities.items()])


def _change(clients: Clients, scale_set: SetName, capacity: int) -> Begin:
    from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate

    calls = clients.compute(scale_set.subscription).virtual_machine_scale_sets
    asking = Asking(f"set the capacity of {scale_set} to {capacity}", "Microsoft.Compute/virtualMachineScaleSets/write")
    update = VirtualMachineScaleSetUpdate(sku=Sku(capacity=capacity))
    return Begin(asking, lambda: calls.begin_update(scale_set.group, scale_set.name, update))
