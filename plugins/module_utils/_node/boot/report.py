# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Sets the node's reason in Slurm to what keeps slurmd from starting.

Best effort: it is not possible without a munge key, or while slurmctld does not know the node.
"""

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
    """Drain this node with the first failed blocking step as the reason, unless somebody else has set a reason.

    Running jobs continue.

    :param steps: the steps of the boot phase, in their order.
    :param find_address: finds this machine's address as the controllers see it.
    """
    reason = reason_of(root, steps)
    if reason is None:
        return Outcome(SKIP, "no blocking step has failed")
    try:
        env = slurmd_env.read(root)
        if env is None:
            return Outcome(SKIP, f"this machine has no name in Slurm: {slurmd_env.ENV_FILE} does not exist")
        find_address(env.controllers)
        node = node_queries.query_node(env.node_name, env.controllers, run)
        if node and node.reason == reason and node.drained:
            return Outcome(PASS, f"node {node.name} already has this reason: {reason}")
        if node and _has_foreign_reason(node):
            return Outcome(SKIP, f"node {node.name} keeps its reason: {node.reason}")
        known = node_queries.update_node(env.node_name, ["State=DRAIN", f"Reason={reason}"], env.controllers, run)
    except (ConfigError, NoController, CommandFailed) as error:
        return Outcome(UNKNOWN, f"cannot set the reason in Slurm: {error}")
    if not known:
        return Outcome(UNKNOWN, f"cannot set the reason in Slurm: slurmctld knows no node {env.node_name}")
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
