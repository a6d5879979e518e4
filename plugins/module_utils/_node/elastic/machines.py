# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The instances of a set: which slot each has, which leave, and which are deleted. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..slurm.hostlist import compress
from ..slurm.nodes import PLACEHOLDER_ADDRESS, as_reason
from . import orders
from .book import DELETING, JOINED, LEASED, LEAVING, Book, Lease
from .codes import LOST, NEVER_JOINED
from .turn import BLANK, DRAIN, FORCE, Change, Publish, Target, Turn
from .views import DELETING as AZURE_DELETES
from .views import RETIRED, Instance, SlotNode

GONE_AFTER, GONE_AFTER_DOUBT = 2, 8
"""A machine counts as gone after so many complete listings without it; more if Azure's capacity says otherwise."""
STRANGER_S = 300.0
"""An instance that nobody needs is deleted after this time. It may just have been ordered, or be grown by hand."""
RETRY_S = 60.0
"""A deletion that has no effect is asked for again after this time."""
STRAY_S = 30.0
"""A slot that Slurm believes to run, but has no machine, is powered down after this time."""
_FORGOTTEN_S = 3600.0


def restore(turn: Turn) -> None:
    """Restore leases that the book has lost from what Slurm shows of them."""
    held = {one.vm_id for one in turn.book.leases.values()}
    free = {one.vm_id: one for one in turn.members if one.vm_id not in held}
    by_address = {one.address: one for one in free.values() if one.address}
    for slot, node in turn.nodes.items():
        if slot in turn.book.leases or node.away:
            continue
        found = free.get(node.lease)
        if found is None and node.joined and node.address != PLACEHOLDER_ADDRESS:
            found = by_address.get(node.address)
        if found is not None and found.vm_id in free:
            del free[found.vm_id]
            state = JOINED if node.joined else LEASED
            _grant(turn, slot, found, state)
            if node.is_retired:
                # Otherwise it would stay drained, and nobody would delete its machine.
                lease = turn.book.leases[slot]
                lease.retire, lease.drained = node.reason[len(RETIRED) :] or "by an administrator", True
            turn.say(f"{slot} has machine {found.vm_id} by Slurm's record: restored its lease")


def _grant(turn: Turn, slot: str, machine: Instance, state: str = LEASED) -> None:
    turn.book.leases[slot] = Lease(
        slot, machine.vm_id, machine.id, machine.address, machine.host_name, state, turn.now, turn.now
    )
    turn.record.strangers.pop(machine.vm_id, None)


def note_joins(name: str, nodes: Mapping[str, SlotNode], book: Book, now: float) -> list[str]:
    """Note which leased machines have registered at slurmctld, and return a line for each. This needs only Slurm."""
    lines = []
    for slot, node in nodes.items():
        lease = book.leases.get(slot)
        if lease is not None and lease.state == LEASED and node.joined and slot not in book.failures:
            lease.state, lease.since = JOINED, now
            lines.append(f"{name}: {slot} joined {now - lease.granted:.0f} s after its lease")
            if node.drained and not node.is_evicted:
                # slurmctld drains a node that registers with less than slurm.conf says. A job would get the next one.
                words = f"{slot} was drained when it joined: {node.reason}"
                lines += orders.count_boot(name, book.of(name), words, now)
            else:
                book.of(name).boots = 0
    return lines


def follow(turn: Turn) -> None:
    """Bring each lease to the state that Slurm and Azure show."""
    known = {one.vm_id: one for one in turn.view.instances}
    for lease in turn.leases:
        machine, node = known.get(lease.vm_id), turn.nodes.get(lease.slot)
        if machine is None:
            _follow_missing(turn, lease, node)
            continue
        lease.missing = 0
        if machine.state == AZURE_DELETES and lease.state in (LEASED, JOINED):
            lease.state, lease.since, lease.asked, lease.why = DELETING, turn.now, turn.now, "somebody else deletes it"
            turn.say(f"{lease.slot}: somebody else deletes machine {lease.vm_id}")
            if node is not None and not node.away:
                turn.actions.append(Change(FORCE, (lease.slot,), orders.reason(LOST, "Azure deletes its machine")))
        elif lease.state == LEASED:
            _follow_leased(turn, lease, machine, node)
        elif lease.state == JOINED:
            _follow_joined(turn, lease, node)
        if lease.state == LEAVING and machine.state == AZURE_DELETES:
            lease.state, lease.since, lease.asked = DELETING, turn.now, turn.now
        elif lease.state == LEAVING:
            _follow_leaving(turn, lease, node)
        elif lease.state == DELETING and machine.state != AZURE_DELETES:
            # Azure has not deleted it, and a person may have drained it in the meantime.
            is_kept = node is not None and node.is_kept_by_people
            if turn.now - lease.asked > RETRY_S and not is_kept:
                turn.targets.append(Target(lease.instance, lease.vm_id, lease.slot))


def _follow_missing(turn: Turn, lease: Lease, node: SlotNode | None) -> None:
    lease.missing += 1
    doubt = turn.view.capacity > len(turn.view.instances)
    needed = 1 if lease.state == DELETING else GONE_AFTER_DOUBT if doubt else GONE_AFTER
    if lease.missing < needed:
        return
    del turn.book.leases[lease.slot]
    turn.record.doomed[lease.vm_id] = turn.now
    turn.say(f"{lease.slot}: machine {lease.vm_id} is gone ({lease.why or 'Azure no longer lists it'})")
    if lease.state == LEASED:
        _count_boot(turn, f"machine {lease.vm_id} vanished before it joined")
    elif lease.state == JOINED and node is not None and not node.away:
        # Its jobs are requeued at once, instead of after SlurmdTimeout.
        turn.actions.append(Change(FORCE, (lease.slot,), orders.reason(LOST, "its machine is gone")))


def _follow_leased(turn: Turn, lease: Lease, machine: Instance, node: SlotNode | None) -> None:
    if node is None:
        turn.leave(lease, "slurm.conf has no such node")
    elif lease.slot in turn.book.failures:
        turn.leave(lease, "its slot failed")
    elif node.away:
        turn.leave(lease, "Slurm no longer waits for it")
    elif node.is_kept_by_people:
        return
    elif machine.is_wreck:
        _never(turn, lease, "InstanceFailed", "Azure failed to create its machine")
    elif node.down or turn.now - lease.granted > turn.options.boot_s:
        words = f"it did not join within {turn.now - lease.granted:.0f} s: see the boot log of {machine.host_name}"
        _never(turn, lease, NEVER_JOINED, words)


def _never(turn: Turn, lease: Lease, code: str, words: str) -> None:
    orders.fail(turn, [lease.slot], code, words)
    turn.leave(lease, words)
    _count_boot(turn, f"{lease.slot}: {words}")


def _count_boot(turn: Turn, words: str) -> None:
    turn.lines += orders.count_boot(turn.name, turn.record, words, turn.now)


def _follow_joined(turn: Turn, lease: Lease, node: SlotNode | None) -> None:
    if node is None:
        turn.leave(lease, "slurm.conf has no such node")
    elif node.away and not node.is_kept_by_people:
        turn.leave(lease, "Slurm has powered it down")
    elif node.coming:
        # Slurm powered it down and up again between two passes, and accepts only a machine that boots now.
        turn.leave(lease, "Slurm has powered it down, and ordered it again")
    elif node.is_evicted and not node.away:
        # ``decide.evict`` requeues its jobs in time. Another drain reason would hide the eviction.
        return
    elif lease.slot not in turn.slots and not lease.retire and not node.away and not node.is_kept_by_people:
        lease.retire = f"max of {turn.name} is {turn.options.max} now"
        _retire(turn, lease, node)
    elif lease.retire and not node.away:
        _retire(turn, lease, node)
    elif node.has_duplicate and not node.away:
        if not (turn.running(lease.slot) or node.in_use):
            turn.say(f"{lease.slot} was drained by Slurm ({node.reason}) and has no job: powered down")
            turn.actions.append(Change(FORCE, (lease.slot,), node.reason))
    elif node.down and not node.is_kept_by_people:
        since = turn.book.stray.setdefault(lease.slot, turn.now)
        if turn.now - since > turn.options.boot_s:
            orders.fail(turn, [lease.slot], LOST, f"it was down for {turn.now - since:.0f} s ({node.reason})")
            turn.leave(lease, f"down: {node.reason}")
    else:
        turn.book.stray.pop(lease.slot, None)


def _retire(turn: Turn, lease: Lease, node: SlotNode) -> None:
    """Drain a node whose machine shall go, and power it down when its jobs have ended. Its drain reason is replaced."""
    words = as_reason(f"{RETIRED}{lease.retire}")
    if lease.drained and not node.drained and not node.down:
        lease.retire, lease.drained = "", False
        turn.say(f"{lease.slot} was resumed: its machine stays")
    elif not node.is_retired:
        turn.say(f"{lease.slot} gets no further job: {lease.retire}")
        turn.actions.append(Change(DRAIN, (lease.slot,), words))
    elif turn.running(lease.slot) or node.in_use:
        lease.drained = True
    else:
        turn.say(f"{lease.slot} has no job any more: powered down")
        turn.actions.append(Change(FORCE, (lease.slot,), words))


def _follow_leaving(turn: Turn, lease: Lease, node: SlotNode | None) -> None:
    """Delete it, unless a job has it or a person wants it to stay."""
    if node is not None:
        if node.is_kept_by_people or turn.running(lease.slot):
            return
        if node.joined and lease.slot not in turn.book.failures:
            lease.state, lease.since, lease.why = JOINED, turn.now, ""
            turn.say(f"{lease.slot} is back in service")
            return
        if not (node.away or node.coming or node.down or lease.slot in turn.book.failures):
            # It must not get a job before it is down. A failed slot is set down in this pass, before the deletion.
            return
    turn.targets.append(Target(lease.instance, lease.vm_id, lease.slot))


def watch_strangers(turn: Turn) -> None:
    """Note instances without a lease, and let those of failed creations be deleted."""
    record, held = turn.record, {one.vm_id for one in turn.book.leases.values()}
    listed = {one.vm_id: one for one in turn.view.instances}
    record.doomed = {
        vm_id: when for vm_id, when in record.doomed.items() if vm_id in listed or turn.now - when < _FORGOTTEN_S
    }
    record.strangers = {vm_id: since for vm_id, since in record.strangers.items() if vm_id in listed}
    for machine in turn.view.instances:
        if machine.vm_id in held or machine.state == AZURE_DELETES:
            continue
        if machine.vm_id in record.doomed:
            if turn.now - record.doomed[machine.vm_id] > RETRY_S:
                turn.targets.append(Target(machine.id, machine.vm_id))
            continue
        if machine.vm_id not in record.strangers:
            record.strangers[machine.vm_id] = turn.now
        if machine.is_wreck:
            turn.say(f"Azure failed to create instance {machine.id}: it is deleted")
            turn.targets.append(Target(machine.id, machine.vm_id))


def usable(turn: Turn) -> list[Instance]:
    """Return the instances without a lease that a slot can get, the oldest first."""
    strangers = turn.record.strangers
    leaving = {one.vm_id for one in turn.targets}
    found = [one for one in turn.members if one.vm_id in strangers and not one.is_wreck and one.vm_id not in leaving]
    return sorted(found, key=lambda one: (strangers[one.vm_id], len(one.id), one.id))


def bind(turn: Turn) -> None:
    """Give the slots that Slurm waits for the instances that are there, those of the oldest job first."""
    known = [one for one in usable(turn) if one.address and one.host_name]
    for slot, machine in zip(turn.waiting(), known):
        _grant(turn, slot, machine)
        turn.say(f"{slot} gets machine {machine.vm_id} (instance {machine.id})")


def publish(turn: Turn) -> None:
    """Show the leases in Slurm, and remove the addresses of machines that have left."""
    blank = []
    for slot, node in turn.nodes.items():
        lease = turn.book.leases.get(slot)
        if lease is not None and lease.state in (LEASED, JOINED):
            shown = (node.address, node.host_name, node.lease)
            if shown != (lease.address, lease.host_name, lease.vm_id):
                turn.say(f"shows in Slurm that {slot} has machine {lease.vm_id}")
                turn.actions.append(Publish(slot, lease.address, lease.host_name, lease.vm_id))
        elif lease is None and (node.lease or node.address != PLACEHOLDER_ADDRESS) and (node.away or node.down):
            blank.append(slot)
    if blank:
        turn.say(f"removes the addresses of former machines from {compress(blank)}")
        turn.actions.append(Change(BLANK, tuple(blank)))


def power_down_strays(turn: Turn) -> None:
    """Power down slots that Slurm believes to run, but that have no machine."""
    stray = []
    for slot, node in turn.nodes.items():
        is_stray = slot not in turn.book.leases and not (node.away or node.coming or node.down)
        if not is_stray or node.is_kept_by_people:
            if slot not in turn.book.leases:
                turn.book.stray.pop(slot, None)
        elif turn.now - turn.book.stray.setdefault(slot, turn.now) >= STRAY_S:
            turn.say(f"{slot} has no machine: it is powered down")
            stray.append(slot)
    if stray:
        turn.actions.append(Change(FORCE, tuple(stray), orders.reason(LOST, "it has no machine")))


def delete_strangers(turn: Turn) -> None:
    """Delete instances that nobody needed for a while; at most half of the set in one pass."""
    old = [
        one for one in usable(turn) if turn.now - turn.record.strangers[one.vm_id] > STRANGER_S and not turn.waiting()
    ]
    for machine in old[: max(1, len(turn.view.instances) // 2)]:
        turn.say(f"instance {machine.id} ({machine.vm_id}) has no lease for {STRANGER_S:.0f} s: it is deleted")
        turn.targets.append(Target(machine.id, machine.vm_id))
