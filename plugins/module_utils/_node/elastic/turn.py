# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a pass may do, and what it decides with: one set's part of both views, and the book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from .book import DELETING, LEAVING, Book, Lease, SetBook
from .settings import ElasticSet, Settings
from .views import Instance, JobOn, SetView, SlotNode, SlurmView

DOWN, FORCE, POWER_DOWN, POWER_UP = "down", "force", "power_down", "power_up"
DRAIN, RESET, BLANK = "drain", "reset", "blank"
"""Set slots down; power them down and requeue their jobs; power them down when they are idle; power them up; drain
them; offer slots again that were down; remove a former machine's address."""


@dataclass(frozen=True)
class Change:
    """A change of slots in Slurm.

    :ivar kind: one of the kinds above.
    :ivar reason: the reason that Slurm shows.
    """

    kind: str
    slots: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Publish:
    """Show a lease in Slurm, where its machine finds it."""

    slot: str
    address: str
    host_name: str
    vm_id: str


@dataclass(frozen=True)
class NotifyJob:
    """Tell a job why its nodes do not come.

    :ivar elsewhere: partitions with nodes of other sets. A job that may run in one of them should start at once,
        although slurmctld puts the start of a requeued job off.
    """

    job: str
    words: str
    elsewhere: frozenset[str]


@dataclass(frozen=True)
class Grow:
    """Raise the capacity of a set, if its state is still the one with this etag.

    :ivar order: id of the order in the book.
    """

    set: str
    order: str
    capacity: int
    etag: str


@dataclass(frozen=True)
class Target:
    """An instance to delete.

    :ivar slot: the slot that it has a lease for; empty for a stranger.
    """

    instance: str
    vm_id: str
    slot: str = ""


@dataclass(frozen=True)
class Delete:
    """Delete instances of a set."""

    set: str
    targets: tuple[Target, ...]


Action = Union[Change, Publish, NotifyJob, Grow, Delete]


@dataclass
class Turn:
    """One set's turn in a pass.

    :ivar nodes: the set's slots in Slurm, by name.
    :ivar jobs: the jobs on each of them.
    :ivar stopped: why nothing may grow; empty if it may.
    :ivar slots: the slots that may get machines, with their positions. ``nodes`` and ``leases`` also have those that
        are left from a higher ``max``.
    :ivar floor: earlier than this, no node counts as idle, because the clock was wrong.
    :ivar lines: what was decided, and why.
    """

    name: str
    options: ElasticSet
    view: SetView
    nodes: Mapping[str, SlotNode]
    jobs: Mapping[str, Sequence[JobOn]]
    slurm: SlurmView
    settings: Settings
    book: Book
    now: float
    stopped: str = ""
    floor: float = 0.0
    slots: Mapping[str, int] = field(init=False)
    actions: list[Action] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = {slot: position for position, slot in enumerate(self.options.slots(self.name))}

    @property
    def record(self) -> SetBook:
        """What the book knows of the set."""
        return self.book.of(self.name)

    @property
    def leases(self) -> list[Lease]:
        """The set's leases, by slot."""
        return [one for slot, one in self.book.leases.items() if self.settings.owner_of(slot) == self.name]

    @property
    def members(self) -> list[Instance]:
        """The instances that nobody deletes."""
        return [one for one in self.view.instances if one.state != "Deleting" and one.vm_id not in self.record.doomed]

    def say(self, words: str) -> None:
        """Record a decision and its reason, for the log."""
        self.lines.append(f"{self.name}: {words}")

    def running(self, slot: str) -> list[JobOn]:
        """Return the jobs that have started on a slot. A job that waits for a node's boot has not."""
        node = self.nodes.get(slot)
        return [] if node is not None and node.coming else list(self.jobs.get(slot, ()))

    def leave(self, lease: Lease, why: str) -> None:
        """Let a machine leave: nothing may use it any more."""
        lease.state, lease.since, lease.why = LEAVING, self.now, why
        self.say(f"{lease.slot} leaves: {why}")

    def is_active(self, slot: str) -> bool:
        """Whether the slot has a machine that may be used."""
        lease = self.book.leases.get(slot)
        return lease is not None and lease.state not in (LEAVING, DELETING)

    def waiting(self) -> list[str]:
        """Return the slots that Slurm waits for and that have no machine: those of the oldest job first."""
        found = [
            slot
            for slot, node in self.nodes.items()
            if slot in self.slots and node.coming and slot not in self.book.leases and slot not in self.book.failures
        ]
        return sorted(found, key=self._urgency)

    def _urgency(self, slot: str) -> tuple[int, str, int]:
        jobs = self.jobs.get(slot, ())
        # Nodes that nobody's job waits for come last.
        number, text = jobs[0].order if jobs else (1 << 62, "")
        return number, text, self.slots[slot]
