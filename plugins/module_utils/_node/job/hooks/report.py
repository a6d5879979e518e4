# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Putting the cause of a failed prolog or epilog into the place of the two words that Slurm has for it.

Not from inside the prolog: slurmctld drains the node only after that has ended, with its own reason, and Slurm's
commands there would hang where slurmctld does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...slurm import node_queries, slurmd_env
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.nodes import NodeState
from ...slurm.slurmd_env import SlurmdEnv
from . import record
from .kinds import SLURMS_REASONS
from .record import Failure

REWRITE, WAIT, LEAVE, DONE = "rewrite", "wait", "leave", "done"
LIMIT_S = 240.0
"""How long slurmctld may take to drain the node. slurmd tells it again and again where it does not answer."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Told:
    """What became of a failure.

    :ivar known: whether Slurm knows, or need not know.
    """

    failure: Failure
    known: bool
    summary: str


def plan(node: NodeState | None, failure: Failure) -> str:
    """Return what to do about a node's reason, as slurmctld has it now: REWRITE, WAIT, LEAVE or DONE. Pure.

    Only the very words that slurmctld writes for this kind are replaced, and only on a node that is drained.
    """
    if node is None or not node.drained or not node.reason:
        return WAIT
    if node.reason == SLURMS_REASONS.get(failure.kind):
        return REWRITE
    return DONE if node.reason == failure.reason else LEAVE


def report(
    root: Root,
    run: Run,
    reach: FindOwnAddress = node_queries.find_own_address,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> list[Told]:
    """Tell Slurm about each failure that it does not know, and forget it then, told or not.

    :param reach: what tells this machine's address as the controllers see it.
    """
    made = []
    for failure in record.to_report(root):
        made.append(_tell(failure, root, run, reach, clock, pause))
        record.reported(root, failure)
    return made


def _tell(failure: Failure, root: Root, run: Run, reach: FindOwnAddress, clock: Clock, pause: Pause) -> Told:
    try:
        env = slurmd_env.read(root)
    except ConfigError as error:
        return Told(failure, False, f"Slurm could not be told: {error}")
    if env is None:
        return Told(failure, True, f"this machine has no name in Slurm: {slurmd_env.ENV_FILE} is not there")
    problem = "slurmctld has not drained the node"
    for pause_s in _pauses(clock() + LIMIT_S, clock):
        try:
            reach(env.controllers)
            told = _try(failure, env, run)
            if told:
                return told
            problem = "slurmctld has not drained the node"
        except (NoController, CommandFailed) as error:
            problem = str(error)
        pause(pause_s)
    return Told(failure, False, f"Slurm could not be told '{failure.reason}' within {LIMIT_S:g} s: {problem}")


def _try(failure: Failure, env: SlurmdEnv, run: Run) -> Told | None:
    node = node_queries.query_node(env.node_name, env.controllers, run)
    chosen = plan(node, failure)
    if chosen == WAIT:
        return None
    if chosen == LEAVE:
        words = f"node {env.node_name} keeps the reason that it has: {node.reason if node else ''}"
        return Told(failure, True, words)
    if chosen == REWRITE:
        # Without State: it stays drained, and jobs that run there go on.
        node_queries.update_node(env.node_name, [f"Reason={failure.reason}"], env.controllers, run)
    return Told(failure, True, f"the reason of node {env.node_name} is now: {failure.reason}")


def _pauses(deadline: float, clock: Clock) -> Iterator[float]:
    """Yield the pauses between questions: many nodes may fail at the same time, and slurmctld is one."""
    wait = _FIRST_PAUSE_S
    while clock() < deadline:
        yield wait
        wait = min(wait * 1.6, _LONGEST_PAUSE_S)
