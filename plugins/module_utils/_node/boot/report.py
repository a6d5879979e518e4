# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Putting into the node's Slurm reason what kept its slurmd from starting. Best effort: a node that has no munge key,
or is none of Slurm's yet, has no such place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..health.check import BOOT_STEP, COUNTS, PASS, SKIP, UNKNOWN
from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..slurm import node_queries, slurmd_env
from ..slurm.node_queries import FindOwnAddress, NoController
from ..slurm.nodes import NodeState, as_reason
from . import record
from .catalog import WITHOUT_UNIT
from .step import REASON_PREFIX, Outcome, Step


def report(
    root: Root, run: Run, steps: Sequence[Step], find_address: FindOwnAddress = node_queries.find_own_address
) -> Outcome:
    """Drain this node with the first blocking step that failed as the reason, unless somebody else gave one.

    Jobs that run there go on.

    :param steps: those of the boot phase, in their order.
    :param find_address: finds this machine's address as the controllers see it.
    """
    reason = reason_of(root, steps)
    if reason is None:
        return Outcome(SKIP, "no blocking step has failed")
    try:
        env = slurmd_env.read(root)
        if env is None:
            return Outcome(SKIP, f"this machine has no name in Slurm: {slurmd_env.ENV_FILE} is not there")
        find_address(env.controllers)
        node = node_queries.query_node(env.node_name, env.controllers, run)
        if node and node.reason == reason and node.drained:
            return Outcome(PASS, f"node {node.name} has this reason already: {reason}")
        if node and _has_foreign_reason(node):
            return Outcome(SKIP, f"node {node.name} keeps the reason that it has: {node.reason}")
        known = node_queries.update_node(env.node_name, ["State=DRAIN", f"Reason={reason}"], env.controllers, run)
    except (ConfigError, NoController, CommandFailed) as error:
        return Outcome(UNKNOWN, f"Slurm could not be told: {error}")
    if not known:
        return Outcome(UNKNOWN, f"Slurm could not be told: slurmctld knows no node {env.node_name}")
    return Outcome(PASS, f"node {env.node_name} is drained: {reason}", changes=(f"drained node {env.node_name}",))


def reason_of(root: Root, steps: Iterable[Step]) -> str | None:
    """Return the reason for Slurm; None if no blocking step has failed in this boot."""
    for step in steps:
        known = record.read(root, step.name) if step.blocking and step.name not in WITHOUT_UNIT else None
        if known and known.verdict in COUNTS[BOOT_STEP]:
            return as_reason(f"{REASON_PREFIX}{step.name}: {known.summary}")
    return None


def _has_foreign_reason(node: NodeState) -> bool:
    return node.out and not node.is_nobodys_decision and not node.reason.startswith(REASON_PREFIX)
