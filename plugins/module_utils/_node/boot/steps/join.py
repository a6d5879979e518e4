# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Telling slurmctld where this node is, before its slurmd registers. It is a part of slurmd's own start."""

from __future__ import annotations

from ...health.check import FAIL, PASS, SKIP
from ...machine.root import Root
from ...slurm import node_queries, slurmd_env
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.nodes import NodeState
from ..step import REASON_PREFIX, Context, Outcome, Step, StepFailed


def perform(context: Context, find_address: FindOwnAddress = node_queries.find_own_address) -> Outcome:
    """Give the node its address at slurmctld, and take back a reason that an earlier boot phase gave it.

    A node that the site configured has its address from the inventory and keeps it: then this only looks.

    :param find_address: finds this machine's address as the controllers see it.
    :raises ConfigError: slurmd's settings cannot be used.
    :raises CommandFailed: slurmctld does not answer or refuses.
    :raises StepFailed: the machine has no name.
    """
    env = slurmd_env.read(context.root)
    if env is None:
        return Outcome(SKIP, f"no slurmd runs here: {slurmd_env.ENV_FILE} is not there")
    name, controllers = env.node_name, env.controllers
    details = {"node": name, "controllers": list(controllers)}
    try:
        address = find_address(controllers)
    except NoController as error:
        summary = f"no controller answers ({error}); slurmd tries again every few seconds"
        return Outcome(FAIL, summary, "See that slurmctld runs there and port 6817 is open to this node", (), details)
    node = node_queries.query_node(name, controllers, context.run)
    changes = []
    words = _place(node, address, _host_name(context.root))
    if words:
        if not context.check and not node_queries.update_node(name, words, controllers, context.run):
            summary = f"slurmctld at {controllers[0]} knows no node {name}"
            return Outcome(FAIL, summary, "Run site.yml, or raise slurm_spare_nodes and run it", (), details)
        changes.append(f"told slurmctld of node {name}: {' '.join(words)}")
    if node and node.drained and node.reason.startswith(REASON_PREFIX):
        # Not RESUME: it makes a node idle before it has registered. One that is down comes back when it registers.
        if not context.check:
            node_queries.update_node(name, ["State=UNDRAIN"], controllers, context.run)
        changes.append(f"took back the reason of node {name}: {node.reason}")
    return Outcome(PASS, f"slurmctld at {controllers[0]} has node {name} at {_where(node, words, address)}",
                   changes=tuple(changes), details={**details, "address": address})  # fmt: skip


def _place(node: NodeState | None, address: str, host_name: str) -> list[str]:
    """Return what slurmctld has to be told; nothing if it knows, or has it from the inventory."""
    if node and (not node.sets_own_address or (node.address, node.host_name) == (address, host_name)):
        return []
    return [f"NodeAddr={address}", f"NodeHostName={host_name}"]


def _where(node: NodeState | None, words: list[str], address: str) -> str:
    return address if words or node is None else node.address


def _host_name(root: Root) -> str:
    # slurmd calls itself by the short name.
    name = (root.text("/proc/sys/kernel/hostname") or "").split(".")[0]
    if not name:
        raise StepFailed("this machine has no host name: give it one, then: systemctl start slurmd")
    return name


STEP = Step(
    name="join",
    title="Tell slurmctld where this node is",
    blocking=True,
    # Two controllers that do not answer, a look, and two changes, each within its own limit.
    limit_s=40.0,
    perform=perform,
)
