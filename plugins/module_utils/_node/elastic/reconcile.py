# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One pass over all elastic sets: read, decide, write the book, act. A process that dies anywhere loses nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Callable, Protocol

from ..machine.run import CommandFailed
from .book import DELETING, Book, Closed, Failure
from .codes import LONGEST_S
from .decide import Decision, evict, eviction_s, step
from .polling import Reading, next_s, why_read
from .settings import ElasticSet, Settings
from .turn import POWER_DOWN, Action, Change, Delete, Grow, NotifyJob, Publish, Target
from .views import Instance, Operation, SetView, SlurmView

JUMP_S = 60.0
"""If the wall clock moves so much more or less than time passes, it was set."""

EVICTION_NOTICE_S = 30.0
"""How many seconds before an eviction Azure announces it."""

SETTLING_S = 3600.0
"""A clock that is set so soon after the start was wrong at the start: it was not set at the boot, or not well."""


class AzureError(RuntimeError):
    """A request failed; the message is one line.

    :ivar code: Azure's error code; empty if there was no answer.
    :ivar retry_s: how long to wait before the next request, if Azure says so; else 0.
    :ivar words: Azure's own message for that code, for users.
    """

    def __init__(self, message: str, code: str = "", retry_s: float = 0.0, words: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.retry_s = retry_s
        self.words = words or message


class Changed(AzureError):
    """The set is no longer in the state that the request named: somebody else has changed it."""


class Azure(Protocol):
    """What the daemon asks of Resource Manager."""

    def view(self, options: ElasticSet, operations: Mapping[str, str]) -> SetView:
        """Return the set.

        :param operations: URLs of operations by order.
        :raises AzureError: the answer is not complete.
        """

    def instances(self, options: ElasticSet) -> list[Instance]:
        """Return the instances, with ids and vmIds.

        :raises AzureError: the answer is not complete.
        """

    def grow(self, options: ElasticSet, capacity: int, etag: str) -> str:
        """Set the capacity, and return the operation's URL.

        :raises Changed: the set has another etag.
        :raises AzureError: Azure refuses, or does not answer.
        """

    def delete(self, options: ElasticSet, ids: list[str]) -> None:
        """Delete instances.

        :raises AzureError: Azure refuses, or does not answer.
        """


class Slurm(Protocol):
    """What the daemon asks of slurmctld."""

    def view(self) -> SlurmView:
        """Return all nodes and jobs.

        :raises CommandFailed: the answer is not complete.
        """

    def busy(self, slots: list[str]) -> set[str]:
        """Return those of the slots on which jobs run.

        :raises CommandFailed: the answer is not complete.
        """

    def change(self, change: Change) -> None:
        """Change slots.

        :raises CommandFailed: slurmctld refuses.
        """

    def publish(self, lease: Publish) -> None:
        """Show a lease.

        :raises CommandFailed: slurmctld refuses.
        """

    def notify_job(self, words: NotifyJob) -> None:
        """Tell a job why its nodes do not come, and let it start elsewhere.

        :raises CommandFailed: slurmctld refuses.
        """


@dataclass
class Pass:
    """The result of a pass.

    :ivar lines: decisions and their reasons, for the log.
    :ivar problems: what could not be read or done.
    :ivar slurm: Slurm's answer; None if it was not complete.
    :ivar again: whether the next pass should follow at once.
    :ivar next_s: after how many seconds Azure is expected to have changed something, or a node is evicted; infinity if
        nothing is expected.
    """

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    slurm: SlurmView | None = None
    again: bool = False
    next_s: float = math.inf


class Reconciler:
    """Makes passes.

    :param save: writes the book durably.
    :ivar book: the current book.
    """

    def __init__(
        self,
        settings: Settings,
        slurm: Slurm,
        azure: Azure,
        book: Book,
        save: Callable[[Book], None],
    ) -> None:
        self.settings, self.book = settings, book
        self._slurm, self._azure, self._save = slurm, azure, save
        self._readings: dict[str, Reading] = {name: Reading() for name in settings.sets}
        self._rejected: dict[str, Operation] = {}
        self._refused: dict[str, str] = {}
        self._floor = 0.0
        self._is_stopped = False
        self._clocks: tuple[float, float] | None = None
        self._began = 0.0
        self._early_keep: dict[str, float] = {}

    def read_again(self, names: Iterable[str]) -> None:
        """Read sets in the next pass, unless Azure has asked to wait."""
        for name in names:
            if name in self._readings:
                self._readings[name].at = 0.0

    def run(self, now: float, monotonic: float, stopped: str = "") -> Pass:
        """Make one pass.

        :param now: the wall clock, in seconds since the epoch.
        :param monotonic: a clock that nobody sets.
        :param stopped: why nothing may grow; empty if it may.
        :raises OSError: the book cannot be written; then nothing was done.
        """
        done = Pass()
        lost = sorted(slot for slot in self.book.leases if self.settings.owner_of(slot) is None)
        if lost:
            words = (
                "have machines, but are in no elastic set: nobody deletes these. Describe their set again, retire them"
            )
            done.problems.append(f"{', '.join(lost[:20])} {words}, and then remove the set")
        self._notice_jump(now, monotonic, done)
        try:
            done.slurm = self._slurm.view()
        except CommandFailed as error:
            done.problems.append(f"Slurm: {error}")
            return done
        if bool(stopped) != self._is_stopped:
            self._is_stopped = bool(stopped)
            self.read_again(self._readings)
        # Before Azure is asked, which may take minutes.
        urgent = evict(done.slurm, self.book, now, self.settings)
        if urgent.actions:
            self._carry_out(urgent, now, done)
        self.book = urgent.book
        views = self._read(done, done.slurm, now)
        # In each pass, also without an open order, until an operation can be read: the daemon logs it once.
        done.problems += self._refused.values()
        decision = step(done.slurm, views, self.book, now, self.settings, stopped, self._floor)
        for name, reading in self._readings.items():
            if views.get(name) is not None:
                reading.noted(now, name, self.settings, done.slurm, decision.book)
        self._carry_out(decision, now, done)
        expected_s = [next_s(name, self.settings, self.book, one, now) for name, one in self._readings.items()]
        done.next_s = min([*expected_s, eviction_s(done.slurm, self.settings, now)])
        return done

    def _carry_out(self, decision: Decision, now: float, done: Pass) -> None:
        done.lines += decision.lines
        self.book = decision.book
        # Whatever happens from here on, the next process knows what this one intended.
        self._save(self.book)
        for action in decision.actions:
            try:
                self._act(action, now, done)
            except (CommandFailed, AzureError) as error:
                done.problems.append(f"{_words(action)}: {error}")
        if decision.actions:
            self._save(self.book)

    def _notice_jump(self, now: float, monotonic: float, done: Pass) -> None:
        """Move all times of the book if the wall clock was set."""
        if self._clocks:
            jump = (now - self._clocks[0]) - (monotonic - self._clocks[1])
            if abs(jump) > JUMP_S:
                self.book = shifted(self.book, jump)
                if monotonic - self._began < SETTLING_S:
                    # What was kept before this process began ends at a time of the right clock.
                    self.book.keep.update(
                        {name: end for name, end in self._early_keep.items() if name in self.book.keep}
                    )
                self._floor = now
                for reading in self._readings.values():
                    reading.at = 0.0
                    reading.not_before = min(reading.not_before, now)
                done.lines.append(f"the clock was changed by {jump:+.0f} s: all deadlines were moved by this time")
        else:
            self.book = without_future(self.book, now)
            self._began, self._early_keep = monotonic, dict(self.book.keep)
        self._clocks = (now, monotonic)

    def _read(self, done: Pass, slurm: SlurmView, now: float) -> dict[str, SetView | None]:
        views: dict[str, SetView | None] = {}
        # A request that Azure does not answer takes 20 s, and the jobs of an evicted node would wait for it.
        hurries = eviction_s(slurm, self.settings, now) < EVICTION_NOTICE_S
        for name, options in self.settings.sets.items():
            reading = self._readings[name]
            if reading.is_failing and hurries:
                continue
            if not why_read(name, self.settings, slurm, self.book, reading, now):
                continue
            operations = {one.id: one.operation for one in self.book.orders if one.set == name and one.operation}
            try:
                view = self._azure.view(options, operations)
            except AzureError as error:
                reading.failed(now, error.retry_s)
                done.problems.append(f"{name}: Azure: {error}")
                views[name] = None
                continue
            if view.refused:
                # Without the operation's id, so that the daemon logs it once, and not for each order.
                words = f"{name}: Azure does not show the results of orders, only the state of the set: {view.refused}"
                self._refused[name] = f"{words}. Run provision, or assign the second role of guide_elastic on the group"
            elif operations:
                self._refused.pop(name, None)
            mine = {one.id for one in self.book.orders if one.set == name}
            rejected = {key: self._rejected.pop(key) for key in list(self._rejected) if key in mine}
            views[name] = replace(view, operations={**view.operations, **rejected})
        return views

    def _act(self, action: Action, now: float, done: Pass) -> None:
        if isinstance(action, Change):
            self._change(action, done)
        elif isinstance(action, Publish):
            self._slurm.publish(action)
        elif isinstance(action, NotifyJob):
            self._slurm.notify_job(action)
        elif isinstance(action, Grow):
            self._grow(action, now, done)
        elif now >= self._readings[action.set].not_before:  # Unless Azure has just asked the order to wait.
            try:
                self._delete(action, now, done)
            except AzureError as error:
                if error.retry_s:
                    self._readings[action.set].failed(now, error.retry_s)
                raise

    def _change(self, action: Change, done: Pass) -> None:
        """Change slots. A node that was drained since Slurm was read is not powered down: that would end its drain."""
        slots = action.slots
        if action.kind == POWER_DOWN:
            nodes = self._slurm.view().nodes
            slots = tuple(slot for slot in slots if slot in nodes and nodes[slot].idle)
            spared = [slot for slot in action.slots if slot not in slots]
            if spared:
                done.lines.append(f"{', '.join(spared)}: no longer idle, or drained meanwhile: not powered down")
        if slots:
            self._slurm.change(replace(action, slots=slots))

    def _grow(self, action: Grow, now: float, done: Pass) -> None:
        order = next(one for one in self.book.orders if one.id == action.order)
        try:
            order.operation = self._azure.grow(self.settings.sets[action.set], action.capacity, action.etag)
            order.sent = True
        except Changed:
            self.book.orders.remove(order)
            self._readings[action.set].at = 0.0
            done.lines.append(f"{action.set}: somebody else has changed the set: planned again")
            done.again = True
        except AzureError as error:
            if error.retry_s:
                self.book.orders.remove(order)
                self._readings[action.set].failed(now, error.retry_s)
            elif error.code:
                # The next pass fails its slots, as if Azure had accepted the order first.
                self._rejected[order.id] = Operation("Failed", error.code, error.words)
                order.sent = True
                self._readings[action.set].at = 0.0
                done.again = True
            raise

    def _delete(self, action: Delete, now: float, done: Pass) -> None:
        """Delete instances, after asking both sides once more."""
        options = self.settings.sets[action.set]
        known = self._slurm.view().nodes
        busy = self._slurm.busy([one.slot for one in action.targets if one.slot in known])
        listed = {one.vm_id: one for one in self._azure.instances(options)}
        chosen: list[Target] = []
        for one in action.targets:
            if one.slot in busy and self.book.leases[one.slot].state != DELETING:
                done.lines.append(f"{action.set}: {one.slot} got a job in the meantime: it is not deleted yet")
            elif one.slot in known and known[one.slot].is_kept_by_people:
                done.lines.append(f"{action.set}: {one.slot} was drained in the meantime: it is not deleted")
            elif one.vm_id in listed and listed[one.vm_id].id == one.instance:
                chosen.append(one)
        if not chosen:
            return
        self._azure.delete(options, [one.instance for one in chosen])
        done.lines.append(f"{action.set}: deletes instances {', '.join(one.instance for one in chosen)}")
        record = self.book.of(action.set)
        for one in chosen:
            lease = self.book.leases.get(one.slot)
            if lease is not None:
                lease.state, lease.since, lease.asked = DELETING, now, now
            else:
                record.doomed[one.vm_id] = now
                record.strangers.pop(one.vm_id, None)


def shifted(book: Book, jump: float) -> Book:
    """Return the book with all its times moved."""
    _map_times(book, lambda when: when + jump, lambda until: until + jump)
    book.keep = {name: until + jump for name, until in book.keep.items()}
    return book


def without_future(book: Book, now: float) -> Book:
    """Return the book as a starting daemon uses it.

    If the clock was set back while no daemon ran, events would be in the future, and their deadlines would pass late.
    """
    _map_times(book, lambda when: min(when, now), lambda until: min(until, now + LONGEST_S))
    return book


def _map_times(book: Book, when: Callable[[float], float], until: Callable[[float], float]) -> None:
    """Change all times of events, and those when failures end, which are at most ``LONGEST_S`` ahead. 0 is no time."""
    for lease in book.leases.values():
        lease.since, lease.granted = when(lease.since), when(lease.granted)
        lease.asked = when(lease.asked) if lease.asked else 0.0
    for order in book.orders:
        order.since = when(order.since)
        order.done = when(order.done) if order.done else 0.0
    ending: list[Failure | Closed] = list(book.failures.values())
    ending += [record.closed for record in book.sets.values() if record.closed]
    for one in ending:
        one.since = when(one.since)
        one.until = until(one.until) if one.until else 0.0
    for record in book.sets.values():
        record.changes = [when(one) for one in record.changes]
        record.missing_since = when(record.missing_since)
        record.refused = when(record.refused) if record.refused else 0.0
    by_name = [times for record in book.sets.values() for times in (record.strangers, record.doomed)]
    for times in (book.wanted, book.stray, *by_name):
        times.update({name: when(one) for name, one in times.items()})


def _words(action: Action) -> str:
    if isinstance(action, Change):
        return f"{action.kind} {', '.join(action.slots[:5])}"
    if isinstance(action, Publish):
        return f"show the lease of {action.slot}"
    if isinstance(action, NotifyJob):
        return f"tell job {action.job}"
    if isinstance(action, Grow):
        return f"{action.set}: grow to {action.capacity}"
    return f"{action.set}: delete {', '.join(one.instance for one in action.targets[:5])}"
