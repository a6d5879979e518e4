# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the arbiter does about a node, what it tells people, and carrying it out by slurmctld's own command."""

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
"""Take it out; give a node that is out by us another reason; bring it back; restart it when its jobs have ended."""

CAP, HELD, STUCK = BAD = ("cap", "held", "stuck")
"""No more nodes may be out; a node does not return by itself any more; a restart does not end."""
STALE, SILENT, UNREADABLE, LOST = NO_DATA = ("stale", "silent", "unreadable", "lost")
"""Nothing was done because nothing is known: a report is too old, there is none, or it cannot be read; and what was
known of machines is lost."""

_SEVERITY = ("nothing", "observe", "reset_gpu", "reboot", "replace")


@dataclass(frozen=True)
class Action:
    """Something to do at slurmctld.

    :ivar reason: the node's new reason; empty where it gets none.
    :ivar machine: what is known of the machine when it is done.
    :ivar urgency: what is greater goes first where not all can be done.
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
    :ivar node: which node it is about; empty where it is all of them.
    """

    kind: str
    node: str
    words: str


def urgency_of(fault: Fault) -> tuple[bool, int]:
    """Return how urgent it is to take the node out: what no job can do without first, then by what would help."""
    return fault.blocks, _SEVERITY.index(fault.action) if fault.action in _SEVERITY else 0


@dataclass(frozen=True)
class Done:
    """What became of an action.

    :ivar problem: why it could not be done, in slurmctld's words; empty where it was.
    """

    action: Action
    problem: str = ""

    @property
    def words(self) -> str:
        """Say it in one line."""
        what = {
            DRAIN: "drained",
            REWRITE: "has another reason",
            RETURN: "is back in scheduling",
            RESTART: "restarts when its jobs have ended",
        }[self.action.kind]
        text = f"node {self.action.node} {what}{f': {self.action.reason}' if self.action.reason else ''}"
        return f"not done: {text} ({self.problem})" if self.problem else text


def carry_out(actions: Iterable[Action], observed: Mapping[str, ObservedNode], run: Run) -> list[Done]:
    """Do it, one node after the other, so that one that is refused does not spoil the rest.

    Each node is looked at once more: a reason that somebody gave it meanwhile is not overwritten.

    :param observed: the nodes as they were when it was decided.
    """
    done = []
    for action in actions:
        try:
            _check_unchanged(observed[action.node].node, run)
            _execute(action, run)
            done.append(Done(action))
        except CommandFailed as error:
            done.append(Done(action, str(error)))
    return done


def _check_unchanged(before: NodeState, run: Run) -> None:
    shown = must(run(["scontrol", "--oneliner", "show", "node", before.name])).stdout
    now = nodes.parse_nodes(shown).get(before.name)
    if now is None or (now.out, now.reason) != (before.out, before.reason):
        raise CommandFailed("somebody else has changed it meanwhile, so the next look decides again")


def _execute(action: Action, run: Run) -> None:
    if action.kind == DRAIN:
        nodes.drain([action.node], action.reason, run)
    elif action.kind == RETURN:
        nodes.resume([action.node], run)
    elif action.kind == REWRITE:
        # Without State: it stays as it is, and jobs that run there go on.
        must(run(["scontrol", "update", f"NodeName={compress([action.node])}", f"Reason={action.reason}"]))
    else:
        words = ["scontrol", "reboot", "ASAP", "nextstate=RESUME", f"reason={action.reason}", compress([action.node])]
        must(run(words))
