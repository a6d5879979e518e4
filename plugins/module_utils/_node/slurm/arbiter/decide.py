# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Decide about each node, and about all of them together, up to the drain limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from . import reasons
from .actions import (
    CAP,
    DRAIN,
    HELD,
    RESTART,
    RETURN,
    REWRITE,
    SILENT,
    STALE,
    STUCK,
    UNREADABLE,
    Action,
    Alert,
    urgency_of,
)
from .observed import CLOCKS_S, ObservedNode
from .records import SEEN_STEP_S, Drained, Machine, Machines, Marked, Restart, key_of
from .report import Fault, Report
from .settings import DRAINS, WINDOW_S, Settings

RESTART_IT, MARK_IT = "restart", "mark"
_RESET, _REBOOT, _REPLACE = "reset_gpu", "reboot", "replace"
_REPEATED = 2


@dataclass(frozen=True)
class Step:
    """The next step, and the fault that requires it."""

    kind: str
    fault: Fault


def next_step(report: Report, machine: Machine, now: float) -> Step | None:
    """Return the next step for a node that we drained and that still fails; None to wait.

    A node is marked for replacement at once for a hardware fault, if a restart did not repair it, or if it was drained
    three times in 24 h. It is restarted, at most once in 24 h, for a fault that a restart repairs, and for a GPU that
    needs a reset for the second time.
    """
    if machine.marked:
        return None
    for fault in report.faults:
        if fault.action == _REPLACE:
            return Step(MARK_IT, fault)
    restart = machine.last_restart(now)
    for fault in report.faults:
        repeated = machine.drains_lately(now, fault.check) >= _REPEATED
        if fault.action == _REBOOT or (fault.action == _RESET and repeated):
            if restart is None:
                return Step(RESTART_IT, fault)
            # The same boot: somebody cancelled the restart, so the node is left alone.
            return Step(MARK_IT, fault) if report.boot != restart.boot else None
    if machine.drains_lately(now) >= DRAINS:
        return Step(MARK_IT, report.faults[0])
    return None


_HOURS = WINDOW_S / 3600


@dataclass(frozen=True)
class NodeDecision:
    """The decision about a node.

    :ivar machine: the machine's record, whatever the action's result; None if it did not report which machine it is.
    """

    machine: Machine | None = None
    action: Action | None = None
    alert: Alert | None = None


def decide_node(one: ObservedNode, machines: Machines, settings: Settings, now: float) -> NodeDecision:
    """Return what to do about a node.

    Nothing is done about a node that does not answer, that restarts, or that has no recent report.
    """
    if not reasons.has_machine(one.node) or not one.node.answers:
        return NodeDecision()
    if one.restarts:
        return _restarting(one, machines, settings, now)
    alert = _no_data(one, settings, now)
    if alert or one.report is None or _is_of_earlier_boot(one, one.report):
        return NodeDecision(alert=alert)
    report = one.report
    if reasons.is_out_for_health(one.node):
        # Already drained for its health; a failed script is no reason to stay drained longer.
        report = replace(report, faults=tuple(fault for fault in report.faults if fault.check not in reasons.SCRIPTS))
    machine = _machine_of(one, report, machines, now)
    if report.faults:
        return _failing(one, report, machine, settings, now)
    return _good(one, report, machine, now)


def _restarting(one: ObservedNode, machines: Machines, settings: Settings, now: float) -> NodeDecision:
    machine = next((known for known in machines.values() if known.name == one.name and known.last_restart(now)), None)
    asked = machine.last_restart(now) if machine else None
    if asked is None or now - asked.time < settings.restart_s:
        return NodeDecision(machine)
    words = (
        f"its restart was requested {int(now - asked.time) // 60} minutes ago and has not happened. Do its jobs end?"
    )
    return NodeDecision(machine, alert=Alert(STUCK, one.name, words))


def _no_data(one: ObservedNode, settings: Settings, now: float) -> Alert | None:
    if one.report is None:
        if one.problem.startswith("its report"):
            return Alert(UNREADABLE, one.name, one.problem)
        # The first check of a node that has just booted is not complete yet.
        is_new = one.booted is not None and now - one.booted < settings.stale_s
        words = f"{one.problem}. See 'journalctl -u hpcai-health-report' there"
        return None if is_new else Alert(SILENT, one.name, words)
    age = now - one.report.time
    if age > settings.stale_s and not _is_of_earlier_boot(one, one.report):
        words = f"its last report is {int(age) // 60} minutes old. See 'journalctl -u hpcai-health-report' there"
        return Alert(STALE, one.name, words)
    if age < -CLOCKS_S:
        return Alert(STALE, one.name, f"its clock is {int(-age)} s ahead, so its reports cannot be used")
    return None


def _is_of_earlier_boot(one: ObservedNode, report: Report) -> bool:
    return one.booted is not None and report.time < one.booted


def _machine_of(one: ObservedNode, report: Report, machines: Machines, now: float) -> Machine:
    """Return the machine's record, updated with the node's current state in slurmctld."""
    key = key_of(one.name, report)
    machine = replace(machines.get(key, Machine(key)), name=one.name, seen=report.time // SEEN_STEP_S * SEEN_STEP_S)
    if machine.host and report.host and machine.host != report.host:
        # It was moved to another physical host, away from the broken one.
        machine = replace(machine, drains=(), restarts=(), marked=None)
    machine = replace(machine, host=report.host or machine.host)
    if reasons.is_by_prolog(one.node) and machine.out is None:
        since = one.reason_since or now
        return replace(machine.drained(since, reasons.check_of(one.node.reason), since), out=Drained(since))
    if reasons.is_out_for_health(one.node) and machine.out is None:
        # The record was lost, or another machine has the name now: it must first report that it is healthy.
        return replace(machine, out=Drained(one.reason_since or now))
    if machine.out is not None and not reasons.is_out_for_health(one.node):
        # Somebody resumed it or changed the reason, so the drain is now theirs.
        return machine.returned(now)
    return machine


def _failing(one: ObservedNode, report: Report, machine: Machine, settings: Settings, now: float) -> NodeDecision:
    if not reasons.is_out_for_health(one.node):
        return _failing_in_scheduling(one, report, machine, settings, now)
    if machine.out is not None:
        checks = tuple(sorted({*machine.out.checks, *(fault.check for fault in report.faults)}))
        machine = replace(machine, out=replace(machine.out, checks=checks))
    first = report.faults[0]
    step = next_step(report, machine, now) if settings.escalate else None
    if step and machine.out is not None and now - machine.out.since < settings.capture_s:
        # A restart or another machine would destroy what the node still collects.
        return NodeDecision(machine)
    if step and step.kind == RESTART_IT:
        reason = reasons.reboot_reason(report, step.fault)
        after = replace(machine, restarts=(*machine.restarts, Restart(now, report.boot)), out=None)
        return NodeDecision(machine, Action(RESTART, one.name, reason, after))
    if step:
        reason = reasons.replace_reason(report, step.fault)
        mark = Marked(now, reason, report.host, step.fault.action)
        return NodeDecision(machine, Action(REWRITE, one.name, reason, replace(machine, marked=mark)))
    if machine.marked or reasons.is_held(one.node.reason):
        return NodeDecision(machine, alert=_held(one, machine, now) if not machine.marked else None)
    if reasons.is_by_prolog(one.node) or reasons.check_of(one.node.reason) != first.check:
        # Only for a new check, not for each change of a value in the reason.
        return NodeDecision(machine, Action(REWRITE, one.name, reasons.reason_for(report, first), machine))
    return NodeDecision(machine)


def _failing_in_scheduling(
    one: ObservedNode, report: Report, machine: Machine, settings: Settings, now: float
) -> NodeDecision:
    if one.node.out or report.time <= machine.came_back:
        return NodeDecision(machine)
    confirmed = [fault for fault in report.faults if fault.runs >= settings.confirm.get(fault.check, 1)]
    if not confirmed:
        return NodeDecision(machine)
    first: Fault = confirmed[0]
    after = machine.drained(now, first.check, report.time)
    urgency = max(urgency_of(fault) for fault in confirmed)
    return NodeDecision(machine, Action(DRAIN, one.name, reasons.reason_for(report, first), after, urgency))


def _good(one: ObservedNode, report: Report, machine: Machine, now: float) -> NodeDecision:
    if not reasons.is_out_for_health(one.node) or machine.out is None or machine.marked:
        return NodeDecision(machine)
    named = {*machine.out.checks, reasons.check_of(one.node.reason)} - {""}
    if report.time <= machine.out.since or any(map(report.is_unknown, named)):
        return NodeDecision(machine)
    if machine.drains_lately(now) >= DRAINS or reasons.is_held(one.node.reason):
        reason = reasons.held_reason(one.node.reason, machine.drains_lately(now), _HOURS)
        action = None if reason == one.node.reason else Action(REWRITE, one.name, reason, machine)
        return NodeDecision(machine, action, _held(one, machine, now))
    return NodeDecision(machine, Action(RETURN, one.name, "", machine.returned(report.time)))


def _held(one: ObservedNode, machine: Machine, now: float) -> Alert:
    # The drains of a node that has been held for long are older than that.
    times = max(DRAINS, machine.drains_lately(now))
    words = (
        f"it was drained {times} times in {_HOURS:g} h and is not resumed automatically. "
        f"Repair it, then run 'scontrol update NodeName={one.name} State=RESUME'"
    )
    return Alert(HELD, one.name, words)


@dataclass(frozen=True)
class Decision:
    """What to do, and the current state.

    :ivar actions: what to do, the most urgent first.
    :ivar machines: the records of machines, whatever the actions' results.
    :ivar nodes: how many nodes have a machine.
    :ivar allowed: the drain limit: how many of them the arbiter may drain.
    :ivar out: nodes that were drained by the arbiter, or by a failed prolog or epilog, before any action.
    :ivar refused: nodes that should be drained but are not, because of the drain limit, each with its reason.
    """

    actions: tuple[Action, ...] = ()
    alerts: tuple[Alert, ...] = ()
    machines: Machines = field(default_factory=dict)
    nodes: int = 0
    allowed: int = 0
    out: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def decide(observed: Iterable[ObservedNode], machines: Machines, settings: Settings, now: float) -> Decision:
    """Return what to do.

    :param machines: the records from earlier passes.
    """
    present = sorted((one for one in observed if reasons.has_machine(one.node)), key=lambda one: one.name)
    judged = [_decide_safely(one, machines, settings, now) for one in present]
    known: dict[str, Machine] = {**machines, **{one.machine.key: one.machine for one in judged if one.machine}}
    actions = [one.action for one in judged if one.action]
    out = tuple(one.name for one in present if reasons.counts_towards_limit(one.node))
    allowed = settings.allowed(len(present))
    drains = sorted((one for one in actions if one.kind == DRAIN), key=_by_urgency)
    still_allowed = max(0, allowed - len(out))
    refused = {one.node: one.reason for one in drains[still_allowed:]}
    alerts = [one.alert for one in judged if one.alert]
    if refused:
        alerts.insert(0, Alert(CAP, "", _cap_words(len(out) + still_allowed, allowed, settings, refused)))
    return Decision(
        actions=(*drains[:still_allowed], *(one for one in actions if one.kind != DRAIN)),
        alerts=tuple(alerts),
        machines=known,
        nodes=len(present),
        allowed=allowed,
        out=out,
        refused=refused,
    )


def _decide_safely(one: ObservedNode, machines: Machines, settings: Settings, now: float) -> NodeDecision:
    """Decide about a node; an invalid report or record must not affect the other nodes."""
    try:
        return decide_node(one, machines, settings, now)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return NodeDecision(alert=Alert(UNREADABLE, one.name, f"its report or record cannot be used: {error!r}"[:200]))


def _by_urgency(action: Action) -> tuple[bool, int, str]:
    blocks, severity = action.urgency
    return not blocks, -severity, action.node


def _cap_words(out: int, allowed: int, settings: Settings, refused: Mapping[str, str]) -> str:
    first, reason = next(iter(refused.items()))
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return (
        f"{out} nodes are drained and the drain limit is {allowed} (max_out {settings.max_out}), so {first}{more} "
        f"stays in scheduling: {reason}. Look for a common cause, or raise health_checks_arbiter.max_out"
    )
