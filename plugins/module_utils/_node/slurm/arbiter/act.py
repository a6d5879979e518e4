# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Carrying out what was decided, by slurmctld's own command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...machine.run import CommandFailed, Run, must
from .. import nodes
from ..hostlist import compress
from ..nodes import NodeState
from .actions import DRAIN, RESTART, RETURN, REWRITE, Action
from .seen import Seen


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
        told = f"node {self.action.node} {what}{f': {self.action.reason}' if self.action.reason else ''}"
        return f"not done: {told} ({self.problem})" if self.problem else told


def carry_out(actions: Iterable[Action], seen: Mapping[str, Seen], run: Run) -> list[Done]:
    """Do it, one node after the other, so that one that is refused does not spoil the rest.

    Each node is looked at once more: a reason that somebody gave it meanwhile is not overwritten.

    :param seen: the nodes as they were when it was decided.
    """
    done = []
    for action in actions:
        try:
            _check_is_as_it_was(seen[action.node].node, run)
            _do(action, run)
            done.append(Done(action))
        except CommandFailed as error:
            done.append(Done(action, str(error)))
    return done


def _check_is_as_it_was(before: NodeState, run: Run) -> None:
    shown = must(run(["scontrol", "--oneliner", "show", "node", before.name])).stdout
    now = nodes.parse(shown).get(before.name)
    if now is None or (now.out, now.reason) != (before.out, before.reason):
        raise CommandFailed("somebody else has changed it meanwhile, so the next look decides again")


def _do(action: Action, run: Run) -> None:
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
