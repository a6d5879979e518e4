# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to do in one pass: a pure function of Slurm's answer, Azure's answer, the book, the clock and the settings."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import machines, orders
from .book import JOINED, LEASED, Book, Lease
from .codes import BUDGET
from .settings import Settings
from .turn import (
    DOWN,
    DRAIN,
    FORCE,
    POWER_DOWN,
    POWER_UP,
    RESET,
    Action,
    Change,
    Delete,
    Grow,
    NotifyJob,
    Publish,
    Turn,
)
from .views import SetView, SlotNode, SlurmView

EVICTION_MARGIN_S = 5.0
"""Its jobs are requeued this many seconds before an eviction. Until then they can write a checkpoint."""
_ORDER = {DOWN: 0, DRAIN: 0, FORCE: 1, RESET: 4, POWER_DOWN: 5, POWER_UP: 6}


@dataclass(frozen=True)
class Decision:
    """The result of a pass.

    :ivar book: the book after it, which has to be written before the actions are carried out.
    :ivar lines: each decision with its reason, for the log.
    """

    book: Book
    actions: tuple[Action, ...]
    lines: tuple[str, ...]


def evict(slurm: SlurmView, before: Book, now: float, settings: Settings) -> Decision:
    """Return what to do for the jobs on nodes that Azure evicts: notify each once, and requeue it in time.

    This needs only Slurm's answer, because an eviction comes 30 s after its notice: it does not wait for Azure's
    answer, and a pause of the set does not stop it.
    """
    book = copy.deepcopy(before)
    evicted = _evicted(slurm, settings)
    jobs = slurm.jobs_by_slot()
    running = {slot: [] if node.coming else jobs.get(slot, []) for slot, node in evicted.items()}
    due = [slot for slot, node in evicted.items() if now >= node.evicted_at - EVICTION_MARGIN_S or not running[slot]]
    actions: list[Action] = [Change(FORCE, (slot,), evicted[slot].reason) for slot in due]
    lines = [f"{settings.owner_of(slot)}: {slot}: Azure evicts it; its jobs are requeued" for slot in due]
    notified: dict[str, str] = {}
    for slot, node in evicted.items():
        if slot not in book.evicted:
            notified.update({job.id: f"{node.reason} (node {slot})" for job in jobs.get(slot, ())})
    actions += [NotifyJob(number, words, frozenset()) for number, words in notified.items()]
    lines += [f"job {number} is notified: {words}" for number, words in notified.items()]
    book.evicted = sorted(evicted)
    return Decision(book, tuple(actions), tuple(lines))


def _evicted(slurm: SlurmView, settings: Settings) -> dict[str, SlotNode]:
    """Return the nodes that Azure evicts, and that still have their jobs."""
    found = {slot: node for slot, node in slurm.nodes.items() if node.is_evicted and not node.away}
    return {slot: node for slot, node in found.items() if settings.owner_of(slot)}


def eviction_s(slurm: SlurmView, settings: Settings, now: float) -> float:
    """Return after how many seconds the jobs of the next evicted node are requeued; infinity if no node is evicted."""
    left = [node.evicted_at - EVICTION_MARGIN_S - now for node in _evicted(slurm, settings).values()]
    return min((one for one in left if one > 0), default=math.inf)


def step(
    slurm: SlurmView | None,
    azure: Mapping[str, SetView | None],
    before: Book,
    now: float,
    settings: Settings,
    stopped: str = "",
    floor: float = 0.0,
) -> Decision:
    """Return what to do.

    A set is only watched if one of its two views is not complete: nothing is ordered, deleted or set down then. That a
    node has joined is noted nevertheless, because its idle time begins then.

    :param slurm: None if Slurm's answer is not complete.
    :param azure: by set; None if the answer is not complete.
    :param stopped: why nothing may grow, such as the budget; empty if it may.
    :param floor: before this time, no node counts as idle: the clock was wrong.
    """
    book = copy.deepcopy(before)
    if slurm is None:
        return Decision(book, (), ())
    book.keep = {name: until for name, until in book.keep.items() if until > now}
    actions: list[Action] = []
    lines: list[str] = []
    jobs = slurm.jobs_by_slot()
    for name, options in settings.sets.items():
        view = azure.get(name)
        nodes = {slot: slurm.nodes[slot] for slot in settings.followed(name, book.leases) if slot in slurm.nodes}
        lines += machines.note_joins(name, nodes, book, now)
        if view is None or book.of(name).paused:
            continue
        turn = Turn(name, options, view, nodes, jobs, slurm, settings, book, now, stopped, floor)
        _take(turn)
        actions += turn.actions
        lines += turn.lines
    return Decision(book, tuple(sorted(actions, key=_rank)), tuple(lines))


def _rank(action: Action) -> int:
    """What takes nodes out of scheduling comes first, then what jobs hear, then what costs money."""
    if isinstance(action, Change):
        return _ORDER.get(action.kind, 3)
    ranks: Mapping[type, int] = {NotifyJob: 2, Publish: 3, Grow: 7, Delete: 8}
    return ranks[type(action)]


def _take(turn: Turn) -> None:
    """Decide about one set."""
    orders.open_again(turn)
    orders.note_missing_capacity(turn)
    machines.restore(turn)
    _end_for_budget(turn)
    machines.follow(turn)
    machines.watch_strangers(turn)
    machines.bind(turn)
    orders.judge(turn, len(machines.usable(turn)))
    orders.order(turn, len(machines.usable(turn)))
    orders.offer(turn)
    machines.power_down_strays(turn)
    _power_down_idle(turn)
    _power_up_least(turn)
    machines.publish(turn)
    machines.delete_strangers(turn)
    _delete(turn)
    waiting = {slot for slot, node in turn.nodes.items() if node.coming}
    turn.book.wanted = {
        slot: since for slot, since in turn.book.wanted.items() if slot not in turn.slots or slot in waiting
    }


def _end_for_budget(turn: Turn) -> None:
    """Requeue all jobs and give up all nodes when the budget is used up, if an administrator has asked for that."""
    if not (turn.stopped and turn.settings.budget.end_jobs):
        return
    ending: dict[str, list[str]] = {LEASED: [], JOINED: []}
    for lease in turn.leases:
        node = turn.nodes.get(lease.slot)
        is_kept = node is None or node.away or node.is_kept_by_people or lease.slot in turn.book.keep
        if lease.state in ending and not is_kept:
            ending[lease.state].append(lease.slot)
    orders.fail(turn, ending[LEASED], BUDGET, turn.stopped)
    if not ending[JOINED]:
        return
    turn.say(f"{', '.join(ending[JOINED])}: {turn.stopped}: powered down, their jobs are requeued")
    words = orders.reason(BUDGET, turn.stopped)
    jobs = {job.id: job for slot in ending[JOINED] for job in turn.running(slot)}
    turn.actions.append(Change(FORCE, tuple(ending[JOINED]), words))
    turn.actions += [NotifyJob(number, words, frozenset()) for number in jobs]


def _power_down_idle(turn: Turn) -> None:
    """Give up nodes without jobs, those that are idle for longest first, down to the set's minimum."""
    idle: list[tuple[float, str]] = []
    for lease in turn.leases:
        node = turn.nodes.get(lease.slot)
        if lease.state != JOINED or node is None or not node.idle or lease.slot in turn.book.keep:
            continue
        since = idle_since(node, lease, turn.now, turn.floor)
        if turn.now - since > turn.options.idle_s and not turn.jobs.get(lease.slot):
            idle.append((since, lease.slot))
    most = max(0, _active(turn) - turn.options.min)
    leaving = [slot for _since, slot in sorted(idle)][:most]
    if leaving:
        turn.say(f"{', '.join(leaving)} had no job for {turn.options.idle_s:.0f} s: powered down")
        turn.actions.append(Change(POWER_DOWN, tuple(leaving)))


def idle_since(node: SlotNode, lease: Lease, now: float, floor: float = 0.0) -> float:
    """Return since when a joined node is idle. A time in the future was noted before the clock was set back."""
    busy = node.last_busy or 0.0
    return max(busy if busy <= now else 0.0, lease.since, floor)


def _active(turn: Turn) -> int:
    """Return how many nodes have a machine or wait for one, and do not leave."""
    return sum(
        (turn.is_active(slot) and not (node.away or node.leaving)) or (node.coming and slot not in turn.book.failures)
        for slot, node in turn.nodes.items()
        if slot in turn.slots
    )


def _power_up_least(turn: Turn) -> None:
    """Keep the set's minimum of nodes."""
    lacking = turn.options.min - _active(turn)
    if lacking <= 0 or turn.record.closed or turn.stopped:
        return
    free = [slot for slot in turn.slots if slot in turn.nodes and turn.nodes[slot].free]
    free = [slot for slot in free if slot not in turn.book.leases]
    slots = _by_position(turn, free)[:lacking]
    if slots:
        turn.say(f"powers up {', '.join(slots)}: the set keeps at least {turn.options.min} nodes")
        turn.actions.append(Change(POWER_UP, tuple(slots)))


def _by_position(turn: Turn, slots: Iterable[str]) -> list[str]:
    return sorted(slots, key=lambda slot: turn.slots[slot])


def _delete(turn: Turn) -> None:
    """Delete the instances that leave, with one request."""
    if not turn.targets or not orders.may_change(turn):
        return
    turn.record.changes.append(turn.now)
    chosen = tuple({one.vm_id: one for one in turn.targets}.values())
    for one in chosen:
        lease = turn.book.leases.get(one.slot)
        if lease is not None:
            # The state changes when Azure has accepted it: until then, the next pass asks again.
            lease.asked = turn.now
    turn.actions.append(Delete(turn.name, chosen))
