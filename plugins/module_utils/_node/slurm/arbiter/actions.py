# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The arbiter's actions and alerts, and how actions are carried out with Slurm's own command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...machine.run import CommandFailed, Run, must
from .. import nodes
from ..hostlist import compress
from ..nodes import NodeState
from .observed import ObservedNode
from .records import Machine
from .report import Fault

DRAIN, REWRITE, RETURN, RESTART = "drain", "rewrite", "return", "restart"
"""Drain a node; change the reason of a node that we drained; resume it; restart it when its jobs have ended."""

CAP, HELD, STUCK = BAD = ("cap", "held", "stuck")
"""The drain limit is reached; a node is not resumed automatically any more; a restart does not complete."""
STALE, SILENT, UNREADABLE, LOST = NO_DATA = ("stale", "silent", "unreadable", "lost")
"""Nothing was done because there is no data: a report is too old, missing or unreadable, or the records of machines
were lost."""

_SEVERITY = ("nothing", "observe", "reset_gpu", "reboot", "replace")


@dataclass(frozen=True)
class Action:
    """An action at slurmctld.

    :ivar reason: the node's new reason; empty if it does not change.
    :ivar machine: the machine's record after the action.
    :ivar urgency: actions with higher values come first if not all are possible.
    """

    kind: str
    node: str
    reason: str
    machine: Machine
    urgency: tuple[bool, int] = (False, 0)


@dataclass(frozen=True)
class Alert:
    """Something that a person should know.

    :ivar kind: one of BAD or NO_DATA.
    :ivar node: the node; empty if the alert is about all nodes.
    """

    kind: str
    node: str
    words: str


def urgency_of(fault: Fault) -> tuple[bool, int]:
    """Return the urgency of draining the node: faults that block every job first, then by their action's severity."""
    return fault.blocks, _SEVERITY.index(fault.action) if fault.action in _SEVERITY else 0


@dataclass(frozen=True)
class ActionResult:
    """The result of an action.

    :ivar problem: why it failed, in slurmctld's words; empty if it succeeded.
    """

    action: Action
    problem: str = ""

    @property
    def words(self) -> str:
        """The result in one line."""
        what = {
            DRAIN: "drained",
            REWRITE: "has a new reason",
            RETURN: "is back in scheduling",
            RESTART: "restarts when its jobs have ended",
        }[self.action.kind]
        text = f"node {self.action.node} {what}{f': {self.action.reason}' if self.action.reason else ''}"
        return f"not done: {text} ({self.problem})" if self.problem else text


def carry_out(actions: Iterable[Action], observed: Mapping[str, ObservedNode], run: Run) -> list[ActionResult]:
    """Carry out the actions, node by node, so that a refused one does not affect the others.

    Each node is read again first, so that a reason that somebody gave it meanwhile is not overwritten.

    :param observed: the nodes as they were at the decision.
    """
    done = []
    for action in actions:
        try:
            _check_unchanged(observed[action.node].node, run)
            _execute(action, run)
            done.append(ActionResult(action))
        except CommandFailed as error:
            done.append(ActionResult(action, str(error)))
    return done


def _check_unchanged(before: NodeState, run: Run) -> None:
    shown = must(run(["scontrol", "--oneliner", "show", "node", before.name])).stdout
    now = nodes.parse_nodes(shown).get(before.name)
    if now is None or (now.out, now.reason) != (before.out, before.reason):
        raise CommandFailed("somebody else has changed it meanwhile, so the next pass decides again")


def _execute(action: Action, run: Run) -> None:
    if action.kind == DRAIN:
        nodes.drain([action.node], action.reason, run)
    elif action.kind == RETURN:
        nodes.resume([action.node], run)
    elif action.kind == REWRITE:
        # Without State: the state stays, and jobs that run there continue.
        must(run(["scontrol", "update", f"NodeName={compress([action.node])}", f"Reason={action.reason}"]))
    else:
        words = ["scontrol", "reboot", "ASAP", "nextstate=RESUME", f"reason={action.reason}", compress([action.node])]
        must(run(words))
