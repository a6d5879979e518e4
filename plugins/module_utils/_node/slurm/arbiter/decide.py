# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to do about all nodes together: each by itself, and no more of them out than may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import reasons
from .actions import CAP, DRAIN, UNREADABLE, Action, Alert
from .judge import Judged, judge
from .records import Machine, Machines
from .seen import Seen
from .settings import Settings


@dataclass(frozen=True)
class Decision:
    """What to do, and what is the case.

    :ivar actions: what to do, the urgent first.
    :ivar machines: what is known of machines, whatever becomes of the actions.
    :ivar nodes: how many nodes there are with a machine.
    :ivar allowed: how many of them may be out by the arbiter's hand.
    :ivar out: which are, or because a prolog or epilog failed, before anything is done.
    :ivar refused: nodes that should be out and are not, because no more may be, with the reason that each would have.
    """

    actions: tuple[Action, ...] = ()
    alerts: tuple[Alert, ...] = ()
    machines: Machines = field(default_factory=dict)
    nodes: int = 0
    allowed: int = 0
    out: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def decide(seen: Iterable[Seen], machines: Machines, settings: Settings, now: float) -> Decision:
    """Return what to do.

    :param machines: what is known from earlier looks.
    """
    present = sorted((one for one in seen if reasons.has_machine(one.node)), key=lambda one: one.name)
    judged = [_judge_alone(one, machines, settings, now) for one in present]
    known: dict[str, Machine] = {**machines, **{one.machine.key: one.machine for one in judged if one.machine}}
    actions = [one.action for one in judged if one.action]
    out = tuple(one.name for one in present if reasons.counts(one.node))
    allowed = settings.allowed(len(present))
    wanted = sorted((one for one in actions if one.kind == DRAIN), key=_by_urgency)
    places = max(0, allowed - len(out))
    refused = {one.node: one.reason for one in wanted[places:]}
    alerts = [one.alert for one in judged if one.alert]
    if refused:
        alerts.insert(0, Alert(CAP, "", _cap_words(len(out) + places, allowed, settings, refused)))
    return Decision(
        actions=(*wanted[:places], *(one for one in actions if one.kind != DRAIN)),
        alerts=tuple(alerts),
        machines=known,
        nodes=len(present),
        allowed=allowed,
        out=out,
        refused=refused,
    )


def _judge_alone(one: Seen, machines: Machines, settings: Settings, now: float) -> Judged:
    """Judge a node so that a report or record that cannot be used costs the other nodes nothing."""
    try:
        return judge(one, machines, settings, now)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return Judged(alert=Alert(UNREADABLE, one.name, f"its report or record cannot be used: {error!r}"[:200]))


def _by_urgency(action: Action) -> tuple[bool, int, str]:
    blocks, severity = action.urgency
    return not blocks, -severity, action.node


def _cap_words(out: int, allowed: int, settings: Settings, refused: Mapping[str, str]) -> str:
    first, reason = next(iter(refused.items()))
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return (
        f"{out} nodes are out and {allowed} may be (max_out {settings.max_out}), so {first}{more} "
        f"stays in scheduling: {reason}. Look for what they share; health_checks_arbiter.max_out raises the limit"
    )
