# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model of one scale set in Resource Manager, in memory, with its faults. Tests count here, not in the daemon's book.

What it does follows Azure's documentation: capacity is absolute and guarded by an etag, ids may be reused, failed
members count, a deletion lowers the capacity. Whether the capacity stays raised after an order without capacity is not
documented, so the model does both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.reconcile import AzureError, Changed
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import Instance, Operation, SetView

_REFUSALS = {
    "refused": "AllocationFailed",
    "quota": "OperationNotAllowed",
    "policy": "RequestDisallowedByPolicy",
    "rights": "AuthorizationFailed",
    "linked rights": "LinkedAuthorizationFailed",
}


@dataclass
class Machine:
    """An instance.

    :ivar visible: from when on lists show it.
    :ivar boots: when its operating system runs; None if it never does.
    :ivar gone: when a deletion that runs is over; None if there is none.
    """

    id: str
    vm_id: str
    address: str
    visible: float
    boots: float | None
    state: str = "Succeeded"
    gone: float | None = None
    started_for: str = ""

    def runs(self, now: float) -> bool:
        return self.boots is not None and now >= self.boots and self.state != "Failed"


@dataclass
class Growth:
    """An order: how it will end, and when."""

    url: str
    ends: float
    status: str
    code: str = ""
    drops_capacity: bool = False
    wanted: int = 0


@dataclass
class Arm:
    """One scale set. Each fault is an attribute that the next request uses."""

    now: float = 0.0
    number: int = 0
    """Its vmIds and addresses differ from those of other sets."""
    machines: dict[str, Machine] = field(default_factory=dict)
    capacity: int = 0
    etag: int = 1
    growths: list[Growth] = field(default_factory=list)
    boot_s: float = 40.0
    # Faults: of the next order, of the next lists, of the next deletions.
    next_order: list[str] = field(default_factory=list)
    list_faults: list[str] = field(default_factory=list)
    delete_faults: list[str] = field(default_factory=list)
    lag_s: float = 0.0
    throttled_until: float = 0.0
    reuses_ids: bool = False
    next_boot: list[str] = field(default_factory=list)
    # Counters.
    requests: int = 0
    asked: list[tuple[float, str]] = field(default_factory=list)
    created: int = 0
    deleted: list[Machine] = field(default_factory=list)

    # What the daemon calls

    def view(self, _options: ElasticSet, operations: Mapping[str, str]) -> SetView:
        """The set, its instances, their interfaces, and operations."""
        self._count()
        listed = self._list()
        known = {one.url: one for one in self.growths}
        answers = {}
        for order, url in operations.items():
            growth = known.get(url)
            if growth is None:
                answers[order] = Operation("")
            elif self.now < growth.ends:
                answers[order] = Operation("InProgress")
            else:
                answers[order] = Operation(growth.status, growth.code, "simulated")
        updating = any(self.now < growth.ends for growth in self.growths)
        return SetView(f'"{self.etag}"', self.capacity, tuple(listed), answers, updating)

    def instances(self, _options: ElasticSet) -> list[Instance]:
        """The instances."""
        self._count()
        return self._list()

    def grow(self, _options: ElasticSet, capacity: int, etag: str) -> str:
        """Set the capacity."""
        self._count()
        self.asked.append((self.now, "growth"))
        if etag != f'"{self.etag}"':
            raise Changed("PreconditionFailed", "PreconditionFailed")
        how = self.next_order.pop(0) if self.next_order else "good"
        if how in _REFUSALS:
            raise AzureError("simulated quota" if how == "quota" else "simulated", _REFUSALS[how])
        if how == "lost answer, not done":
            raise AzureError("no answer")
        growth = self._accept(capacity, how)
        if how == "lost answer, done":
            raise AzureError("no answer")
        return growth.url

    def _accept(self, capacity: int, how: str) -> Growth:
        """Start an order, which ends in one of many ways."""
        self.capacity = capacity
        self.etag += 1
        assert capacity >= self.alive(), "the daemon asked Azure to choose which instances to delete"
        made = missing = capacity - self.alive()
        growth = Growth(f"op-{self.etag}", self.now + 20, "Succeeded")
        if how.startswith("partial"):
            made, growth.status, growth.code = missing // 2, "Failed", "ZonalAllocationFailed"
        elif how.startswith("late"):
            made, growth.ends, growth.status, growth.code = 0, self.now + 200, "Failed", "AllocationFailed"
        elif how == "never ends":
            made, growth.ends = 0, self.now + 1e9
        elif how == "slow":
            growth.ends = self.now + 400
        elif how == "wrecks":
            growth.status, growth.code = "Failed", "OSProvisioningTimedOut"
        if how.endswith("drops"):
            growth.drops_capacity, growth.wanted = True, missing - made
        self.growths.append(growth)
        for _number in range(made):
            machine = self.add(late_s=400 if how == "slow" else 0)
            machine.state = "Failed" if how == "wrecks" else "Succeeded"
        return growth

    def delete(self, _options: ElasticSet, ids: list[str]) -> None:
        """Delete instances."""
        self._count()
        self.asked.append((self.now, "deletion"))
        how = self.delete_faults.pop(0) if self.delete_faults else "good"
        if how == "refused":
            raise AzureError("OperationPreempted", "OperationPreempted")
        if how == "without effect":
            return
        for number in ids:
            self.remove(number, by_daemon=True, after_s=30)
        if how == "lost answer":
            raise AzureError("no answer")

    # What tests and time do

    def add(self, late_s: float = 0.0) -> Machine:
        """An instance appears."""
        number = 0
        if self.reuses_ids:
            while str(number) in self.machines:
                number += 1
        else:
            number = self.created
        self.created += 1
        used = {one.address for one in self.machines.values()}
        address = next(
            made for made in (f"10.{self.number}.{n // 250}.{n % 250 + 4}" for n in range(1000)) if made not in used
        )
        how = self.next_boot.pop(0) if self.next_boot else "good"
        boots: float | None = self.now + late_s + self.boot_s
        if how == "never":
            boots = None
        elif how == "late":
            boots = self.now + late_s + 3000
        made = Machine(
            str(number), f"vm{self.number or ''}-{self.created}", address, self.now + late_s + self.lag_s, boots
        )
        self.machines[made.id] = made
        return made

    def remove(self, number: str, by_daemon: bool = False, after_s: float = 0.0) -> None:
        """Somebody deletes an instance."""
        machine = self.machines.get(number)
        if machine is None or machine.gone is not None:
            return
        machine.state, machine.gone = "Deleting", self.now + after_s
        self.capacity = max(0, self.capacity - 1)
        self.etag += 1
        if by_daemon:
            self.deleted.append(machine)

    def person_grows(self, count: int) -> None:
        """Somebody raises the capacity in the portal."""
        self.capacity += count
        self.etag += 1
        for _number in range(count):
            self.add()

    def tick(self, now: float) -> None:
        """Time passes."""
        self.now = now
        for machine in list(self.machines.values()):
            if machine.gone is not None and now >= machine.gone:
                del self.machines[machine.id]
        for growth in self.growths:
            if growth.drops_capacity and now >= growth.ends:
                self.capacity = max(self.alive(), self.capacity - growth.wanted)
                growth.drops_capacity = False
                self.etag += 1

    def is_refusing(self) -> bool:
        """Whether it refuses requests for some time, or answers are prepared that are not complete."""
        return self.now < self.throttled_until or bool(self.list_faults or self.delete_faults)

    def alive(self) -> int:
        """How many instances nobody deletes."""
        return sum(one.gone is None for one in self.machines.values())

    def running(self, vm_id: str) -> Machine | None:
        """The machine with this vmId, if its operating system runs."""
        return next((one for one in self.machines.values() if one.vm_id == vm_id and one.runs(self.now)), None)

    @property
    def changes(self) -> int:
        """How many changes the daemon has asked for."""
        return len(self.asked)

    def _count(self) -> None:
        self.requests += 1
        if self.now < self.throttled_until:
            raise AzureError("TooManyRequests", "TooManyRequests", self.throttled_until - self.now)

    def _list(self) -> list[Instance]:
        how = self.list_faults.pop(0) if self.list_faults else "good"
        if how == "failed":
            raise AzureError("HTTP status 503")
        found = [
            Instance(
                one.id,
                one.vm_id,
                one.state,
                "" if one.state == "Failed" else "running",
                one.address,
                f"host-{one.vm_id}",
            )
            for one in self.machines.values()
            if one.visible <= self.now
        ]
        # A page is missing, but Azure says that the list is complete.
        return found[: len(found) // 2] if how == "half" else found
