# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The orders of a set: what Slurm waits for, what Azure answered, and what happens when Azure cannot deliver. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..slurm.hostlist import compress
from ..slurm.nodes import as_reason
from .book import Closed, Failure, Order, SetBook
from .codes import (
    BUDGET,
    MOST_BOOTS,
    NEVER_JOINED,
    PARTIAL,
    RIGHTS,
    RIGHTS_PAUSE_S,
    RIGHTS_S,
    TIMEOUT,
    closed_s,
    meaning_of,
)
from .turn import DOWN, RESET, Change, Grow, NotifyJob, Turn
from .views import ELASTIC, IN_PROGRESS, SUCCEEDED, JobOn, Operation, SlotNode

MOST_CHANGES, CHANGES_S = 4, 60.0
"""Azure's bucket for changes of one scale set gets 4 tokens a minute."""
VISIBLE_S = 60.0
"""An instance may be listed for this many seconds after the end of its order."""
SETTLED_S = 120.0
"""Capacity that Azure does not fill for this time, without an order, is left from one that failed."""
_FAILED_S = 600.0


def reason(code: str, words: str) -> str:
    """Return the reason that Slurm shows."""
    return as_reason(f"{ELASTIC}{code}: {words}")


def may_change(turn: Turn) -> bool:
    """Whether Azure accepts another change of the set now. Forgets changes that are older than a minute."""
    record = turn.record
    record.changes = [when for when in record.changes if 0 <= turn.now - when < CHANGES_S]
    return len(record.changes) < MOST_CHANGES


def judge(turn: Turn, unbound: int) -> None:
    """Close orders that are complete, and fail the slots of those that Azure cannot deliver.

    :param unbound: how many instances are there without a lease.
    """
    waiting = turn.waiting()
    for order in [one for one in turn.book.orders if one.set == turn.name]:
        order.slots = [slot for slot in waiting if slot in order.slots]
        answer = turn.view.operations.get(order.id)
        if not order.slots:
            turn.say(f"{order.id} is over: no node waits for it any more")
            turn.book.orders.remove(order)
            if answer is None or answer.status in (SUCCEEDED, IN_PROGRESS, ""):
                turn.record.level, turn.record.refused = 0, 0.0
            continue
        if not order.sent and turn.view.capacity < order.capacity:
            turn.say(f"{order.id} is dropped: the daemon ended before it sent it")
            turn.book.orders.remove(order)
            continue
        problem = _problem_of(turn, order, answer)
        if problem:
            _give_up(turn, order, unbound, *problem)


def _give_up(turn: Turn, order: Order, unbound: int, code: str, words: str) -> None:
    """Fail the slots that the instances of a failed order are not enough for."""
    served, rest = order.slots[:unbound], order.slots[unbound:]
    if code == PARTIAL:
        served, rest = [], order.slots
    if rest:
        close(turn, code, words)
        fail(turn, rest, code, words)
    order.slots, order.operation, order.done = served, "", turn.now
    if not served:
        turn.book.orders.remove(order)


def _problem_of(turn: Turn, order: Order, answer: Operation | None) -> tuple[str, str] | None:
    """Return the code and the words of an order that has failed; None while it may still be fulfilled."""
    ended = answer is not None and answer.status not in (IN_PROGRESS, "")
    if ended and not order.done:
        order.done = turn.now
    if answer is not None and ended and answer.status != SUCCEEDED:
        code = answer.code or "Failed"
        return code, answer.message or "Azure gave no message"
    if order.done and turn.now - order.done > VISIBLE_S:
        return PARTIAL, f"Azure delivered all but {len(order.slots)} of the ordered nodes"
    if turn.now - order.since > turn.options.order_s:
        return TIMEOUT, f"Azure did not deliver within {turn.now - order.since:.0f} s"
    return None


def order(turn: Turn, unbound: int) -> None:
    """Order what Slurm waits for and nobody has ordered: at most one change of the capacity.

    :param unbound: how many instances are there without a lease.
    """
    waiting = turn.waiting()
    for slot in waiting:
        turn.book.wanted.setdefault(slot, turn.now)
    ordered = {slot for one in turn.book.orders for slot in one.slots}
    unordered = [slot for slot in waiting if slot not in ordered]
    coming = _coming(turn)
    record = turn.record
    if unordered and turn.stopped and not record.closed:
        record.closed = Closed(BUDGET, turn.stopped, turn.now, turn.now + _FAILED_S)
    if unordered and record.closed:
        fail(turn, unordered, record.closed.code, record.closed.words)
        return
    need = min(len(waiting) - unbound - coming, len(unordered))
    members = len(turn.members)
    # Never less than there is: Azure would choose itself what to delete. While Azure changes the set, its list may lack
    # instances, so the capacity is not lowered to what is listed.
    is_left = _is_overdue(turn) and not turn.view.updating
    base = len(turn.view.instances) if is_left else max(turn.view.capacity, members)
    need = min(need, turn.options.max - members - coming)
    if need <= 0 or not may_change(turn):
        return
    made = Order(f"order-{turn.book.next_order}", turn.name, unordered[:need], base + need, turn.now)
    turn.book.next_order += 1
    turn.book.orders.append(made)
    record.changes.append(turn.now)
    turn.say(f"orders {need} for {len(waiting)} waiting nodes: capacity {turn.view.capacity} -> {made.capacity}")
    turn.actions.append(Grow(turn.name, made.id, made.capacity, turn.view.etag))


def note_missing_capacity(turn: Turn) -> None:
    """Note how many instances Azure still owes by its capacity, and since when."""
    record = turn.record
    missing = max(0, turn.view.capacity - len(turn.view.instances))
    if missing != record.missing_capacity or not missing:
        record.missing_capacity, record.missing_since = missing, turn.now


def _is_overdue(turn: Turn) -> bool:
    """Whether Azure has not filled its capacity for so long that nothing waits for it any more."""
    has_order = any(one.set == turn.name for one in turn.book.orders)
    record = turn.record
    return bool(record.missing_capacity) and not has_order and turn.now - record.missing_since > SETTLED_S


def _coming(turn: Turn) -> int:
    """Return how many instances Azure is expected to add without another order."""
    return 0 if _is_overdue(turn) else turn.record.missing_capacity


def count_boot(name: str, record: SetBook, words: str, now: float) -> list[str]:
    """Count an instance that no job can use, and stop the set after five in a row: the image or the network is broken.

    :return: a line, if the set stops.
    """
    record.boots += 1
    record.boot_failed, record.boot_words = now, words
    if record.boots < MOST_BOOTS or (record.closed and not record.closed.until):
        return []
    text = f"{record.boots} machines in a row never joined, or were drained when they joined; the last one: {words}"
    action = f"then 'hpcnode elastic resume {name}'"
    record.closed = Closed(NEVER_JOINED, f"{text}. Repair the image or the network, {action}", now, 0.0)
    return [f"{name}: stopped: {record.closed.words}"]


def close(turn: Turn, code: str, words: str) -> None:
    """Close the set: nothing is ordered until waiting has helped, or a person has."""
    record, meaning = turn.record, meaning_of(code, words)
    if record.closed and not record.closed.until:
        return
    if meaning.kind == RIGHTS:
        record.refused = record.refused or turn.now
        if turn.now - record.refused < RIGHTS_S:
            text = f"{words}: a new role acts within {RIGHTS_S / 60:.0f} minutes"
            record.closed = Closed(code, text, turn.now, turn.now + RIGHTS_PAUSE_S)
            turn.say(f"closed for {RIGHTS_PAUSE_S:.0f} s: {code}: {text}")
            return
    record.level += 1
    if meaning.waits:
        until = turn.now + closed_s(record.level)
        record.closed = Closed(code, words, turn.now, until)
        turn.say(f"closed for {until - turn.now:.0f} s: {code}: {words}")
    else:
        text = f"{words}: {meaning.action}, then 'hpcnode elastic resume {turn.name}'"
        record.closed = Closed(code, text, turn.now, 0.0)
        turn.say(f"stopped: {code}: {text}")


def fail(turn: Turn, slots: Iterable[str], code: str, words: str) -> None:
    """Fail slots: Slurm gets them back as down, and their jobs hear why and start elsewhere if they can."""
    closed = turn.record.closed
    until = (closed.until if closed else turn.now + _FAILED_S) or 0.0
    failed = [slot for slot in slots if slot not in turn.book.failures]
    for slot in failed:
        turn.book.failures[slot] = Failure(slot, code, words, turn.now, until)
        turn.book.wanted.pop(slot, None)
    if failed:
        turn.say(f"{len(failed)} nodes get no machine ({compress(failed)}): {code}: {words}")
    notified: dict[str, JobOn] = {}
    elsewhere = _elsewhere(turn) if failed else frozenset()
    for slot in failed:
        notified.update({job.id: job for job in turn.jobs.get(slot, ())})
    for job in notified.values():
        turn.actions.append(NotifyJob(job.id, reason(code, f"set {turn.name}: {words}"), elsewhere))


def _elsewhere(turn: Turn) -> frozenset[str]:
    """Return the partitions in which nodes of other sets can be used, or may still come."""
    found: set[str] = set()
    for name, node in turn.slurm.nodes.items():
        if name in turn.nodes or node.down or node.drained:
            continue
        other = turn.settings.set_of(name)
        record = turn.book.sets.get(other) if other else None
        if record and (record.closed or record.paused):
            continue
        found.update(node.partitions)
    return frozenset(found)


def open_again(turn: Turn) -> None:
    """Open the set when its time is over."""
    record = turn.record
    if record.closed and record.closed.until and turn.now >= record.closed.until:
        turn.say(f"open again after {record.closed.code}")
        record.closed = None


def _is_to_offer(node: SlotNode) -> bool:
    """Whether a slot without a machine is down or drained because of its former machine, or of a failure."""
    if node.is_kept_by_people:
        return False
    return node.down or (node.drained and not node.joined)


def _close_free(turn: Turn, closed: Closed) -> None:
    """Fail the free slots of a closed set. Slurm would choose one after the other; now it chooses another set."""
    taken = {*turn.book.failures, *turn.book.leases}
    free = [slot for slot, node in turn.nodes.items() if node.free and slot not in taken]
    for slot in free:
        turn.book.failures[slot] = Failure(slot, closed.code, closed.words, turn.now, closed.until)
    if free:
        turn.say(f"{compress(free)} close with the set: {closed.code}")


def offer(turn: Turn) -> None:
    """Set failed slots down in Slurm, and offer those again whose time is over."""
    book, closed = turn.book, turn.record.closed
    if closed:
        _close_free(turn, closed)
    down: dict[str, list[str]] = {}
    again, stuck = [], []
    for slot, node in turn.nodes.items():
        failure = book.failures.get(slot)
        if failure and (turn.now >= failure.until if failure.until else closed is None):
            del book.failures[slot]
            failure = None
        if failure:
            if not node.down and not node.is_kept_by_people and not turn.running(slot):
                down.setdefault(reason(failure.code, failure.words), []).append(slot)
        elif slot not in book.leases and _is_to_offer(node):
            again.append(slot)
        elif slot not in book.leases and node.is_stuck:
            stuck.append(slot)
    for words, slots in down.items():
        turn.say(f"sets {compress(slots)} down: {words}")
    if stuck:
        words = "Slurm would not use it after a restart"
        turn.say(f"resets {compress(stuck)}: {words}")
        down[reason("Reset", words)] = stuck
    if again:
        turn.say(f"offers {compress(again)} to Slurm again")
    turn.actions += [Change(DOWN, tuple(slots), words) for words, slots in down.items()]
    if again or stuck:
        turn.actions.append(Change(RESET, (*again, *stuck)))
