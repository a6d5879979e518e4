# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to do about one node, without a look at the others. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import reasons
from .actions import DRAIN, HELD, RESTART, RETURN, REWRITE, SILENT, STALE, STUCK, UNREADABLE, Action, Alert, urgency_of
from .escalate import RESTART_IT, next_step
from .message import Fault, Report
from .records import SEEN_S, Machine, Machines, Marked, Out, Restart, key_of
from .seen import CLOCKS_S, Seen
from .settings import DRAINS, WINDOW_S, Settings

_HOURS = WINDOW_S / 3600


@dataclass(frozen=True)
class Judged:
    """What is the case with a node.

    :ivar machine: what is known of its machine, whatever becomes of the action; None where it did not say which it is.
    """

    machine: Machine | None = None
    action: Action | None = None
    alert: Alert | None = None


def judge(one: Seen, machines: Machines, settings: Settings, now: float) -> Judged:
    """Return what to do about a node.

    Nothing is done about one that does not answer, that restarts, or of which nothing is known that is new enough.
    """
    if not reasons.has_machine(one.node) or not one.node.answers:
        return Judged()
    if one.restarts:
        return _restarting(one, machines, settings, now)
    alert = _untold(one, settings, now)
    if alert or one.report is None or _is_of_earlier_boot(one, one.report):
        return Judged(alert=alert)
    report = one.report
    if reasons.is_ours(one.node):
        # Out for its health already: a script that fails besides is no reason to be out longer.
        report = replace(report, faults=tuple(fault for fault in report.faults if fault.check not in reasons.SCRIPTS))
    machine = _machine_of(one, report, machines, now)
    if report.faults:
        return _failing(one, report, machine, settings, now)
    return _good(one, report, machine, now)


def _restarting(one: Seen, machines: Machines, settings: Settings, now: float) -> Judged:
    machine = next((known for known in machines.values() if known.name == one.name and known.last_restart(now)), None)
    asked = machine.last_restart(now) if machine else None
    if asked is None or now - asked.time < settings.restart_s:
        return Judged(machine)
    words = f"it was to restart {int(now - asked.time) // 60} minutes ago and has not: see whether its jobs end"
    return Judged(machine, alert=Alert(STUCK, one.name, words))


def _untold(one: Seen, settings: Settings, now: float) -> Alert | None:
    if one.report is None:
        if one.problem.startswith("its report"):
            return Alert(UNREADABLE, one.name, one.problem)
        # A node that has just come has its first check before it.
        is_new = one.booted is not None and now - one.booted < settings.stale_s
        words = f"{one.problem}: see 'journalctl -u hpcai-health-report' there"
        return None if is_new else Alert(SILENT, one.name, words)
    age = now - one.report.time
    if age > settings.stale_s and not _is_of_earlier_boot(one, one.report):
        words = f"its last report is {int(age) // 60} minutes old: see 'journalctl -u hpcai-health-report' there"
        return Alert(STALE, one.name, words)
    if age < -CLOCKS_S:
        return Alert(STALE, one.name, f"its clock is {int(-age)} s ahead, so its reports cannot be used")
    return None


def _is_of_earlier_boot(one: Seen, report: Report) -> bool:
    return one.booted is not None and report.time < one.booted


def _machine_of(one: Seen, report: Report, machines: Machines, now: float) -> Machine:
    """What is known of the machine, brought up to what slurmctld has now."""
    key = key_of(one.name, report)
    machine = replace(machines.get(key, Machine(key)), name=one.name, seen=report.time // SEEN_S * SEEN_S)
    if machine.host and report.host and machine.host != report.host:
        # It was moved away from what was broken.
        machine = replace(machine, drains=(), restarts=(), marked=None)
    machine = replace(machine, host=report.host or machine.host)
    if reasons.is_by_prolog(one.node) and machine.out is None:
        since = one.reason_since or now
        return replace(machine.drained(since, reasons.check_of(one.node.reason), since), out=Out(since))
    if reasons.is_ours(one.node) and machine.out is None:
        # What was known is lost, or another machine stands behind the name now: it has to show that it is good.
        return replace(machine, out=Out(one.reason_since or now))
    if machine.out is not None and not reasons.is_ours(one.node):
        # Somebody resumed it, or gave it another reason: it is his.
        return machine.returned(now)
    return machine


def _failing(one: Seen, report: Report, machine: Machine, settings: Settings, now: float) -> Judged:
    if not reasons.is_ours(one.node):
        return _not_out_by_us(one, report, machine, settings, now)
    if machine.out is not None:
        checks = tuple(sorted({*machine.out.checks, *(fault.check for fault in report.faults)}))
        machine = replace(machine, out=replace(machine.out, checks=checks))
    first = report.faults[0]
    step = next_step(report, machine, now) if settings.escalate else None
    if step and step.kind == RESTART_IT:
        reason = reasons.reboot_reason(report, step.fault)
        after = replace(machine, restarts=(*machine.restarts, Restart(now, report.boot)), out=None)
        return Judged(machine, Action(RESTART, one.name, reason, after))
    if step:
        reason = reasons.replace_reason(report, step.fault)
        mark = Marked(now, reason, report.host, step.fault.action)
        return Judged(machine, Action(REWRITE, one.name, reason, replace(machine, marked=mark)))
    if machine.marked or reasons.is_held(one.node.reason):
        return Judged(machine, alert=_held(one, machine, now) if not machine.marked else None)
    if reasons.is_by_prolog(one.node) or reasons.check_of(one.node.reason) != first.check:
        # Not for each change of a figure in it.
        return Judged(machine, Action(REWRITE, one.name, reasons.reason_for(report, first), machine))
    return Judged(machine)


def _not_out_by_us(one: Seen, report: Report, machine: Machine, settings: Settings, now: float) -> Judged:
    if one.node.out or report.time <= machine.came_back:
        return Judged(machine)
    confirmed = [fault for fault in report.faults if fault.runs >= settings.confirm.get(fault.check, 1)]
    if not confirmed:
        return Judged(machine)
    first: Fault = confirmed[0]
    after = machine.drained(now, first.check, report.time)
    urgency = max(urgency_of(fault) for fault in confirmed)
    return Judged(machine, Action(DRAIN, one.name, reasons.reason_for(report, first), after, urgency))


def _good(one: Seen, report: Report, machine: Machine, now: float) -> Judged:
    if not reasons.is_ours(one.node) or machine.out is None or machine.marked:
        return Judged(machine)
    named = {*machine.out.checks, reasons.check_of(one.node.reason)} - {""}
    if report.time <= machine.out.since or any(map(report.could_not_tell, named)):
        return Judged(machine)
    if machine.drains_lately(now) >= DRAINS:
        reason = reasons.held_reason(one.node.reason, machine.drains_lately(now), _HOURS)
        action = None if reason == one.node.reason else Action(REWRITE, one.name, reason, machine)
        return Judged(machine, action, _held(one, machine, now))
    return Judged(machine, Action(RETURN, one.name, "", machine.returned(report.time)))


def _held(one: Seen, machine: Machine, now: float) -> Alert:
    words = (
        f"it was drained {machine.drains_lately(now)} times in {_HOURS:g} h and does not return by itself: mend it, "
        f"then 'scontrol update NodeName={one.name} State=RESUME'"
    )
    return Alert(HELD, one.name, words)
