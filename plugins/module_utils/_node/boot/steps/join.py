# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step join: sends this node's address to slurmctld before slurmd registers. It is part of slurmd's own start."""

from __future__ import annotations

from ...health.check import FAIL, PASS, SKIP
from ...machine.root import Root
from ...slurm import node_queries, slurmd_env
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.nodes import NodeState
from ..step import REASON_PREFIX, Context, Outcome, Step, StepFailed


def perform(context: Context, find_address: FindOwnAddress = node_queries.find_own_address) -> Outcome:
    """Set the node's address at slurmctld, and undrain it if an earlier boot phase drained it.

    A node that site.yml configured has its address from the inventory, and keeps it.

    :param find_address: finds this machine's address as the controllers see it.
    :raises ConfigError: slurmd's settings cannot be used.
    :raises CommandFailed: slurmctld does not answer or refuses.
    :raises StepFailed: the machine has no host name.
    """
    env = slurmd_env.read(context.root)
    if env is None:
        return Outcome(SKIP, f"no slurmd runs here: {slurmd_env.ENV_FILE} does not exist")
    name, controllers = env.node_name, env.controllers
    details = {"node": name, "controllers": list(controllers)}
    try:
        address = find_address(controllers)
    except NoController as error:
        summary = f"no controller answers ({error}); slurmd tries again every few seconds"
        action = "Check that slurmctld runs there, and that port 6817 is open to this node"
        return Outcome(FAIL, summary, action, (), details)
    node = node_queries.query_node(name, controllers, context.run)
    changes = []
    words = _place(node, address, _host_name(context.root))
    if words:
        if not context.check and not node_queries.update_node(name, words, controllers, context.run):
            summary = f"slurmctld at {controllers[0]} knows no node {name}"
            return Outcome(FAIL, summary, "Run site.yml, with more slurm_spare_nodes if none is left", (), details)
        changes.append(f"updated node {name} at slurmctld: {' '.join(words)}")
    if node and node.drained and node.reason.startswith(REASON_PREFIX):
        # Not RESUME, which makes a node idle before it registers. A node that is down resumes when it registers.
        if not context.check:
            node_queries.update_node(name, ["State=UNDRAIN"], controllers, context.run)
        changes.append(f"undrained node {name}, which had the reason: {node.reason}")
    return Outcome(PASS, f"slurmctld at {controllers[0]} has node {name} at {_where(node, words, address)}",
                   changes=tuple(changes), details={**details, "address": address})  # fmt: skip


def _place(node: NodeState | None, address: str, host_name: str) -> list[str]:
    """Return what to update at slurmctld; nothing if it is correct, or comes from the inventory."""
    if node and (not node.sets_own_address or (node.address, node.host_name) == (address, host_name)):
        return []
    return [f"NodeAddr={address}", f"NodeHostName={host_name}"]


def _where(node: NodeState | None, words: list[str], address: str) -> str:
    return address if words or node is None else node.address


def _host_name(root: Root) -> str:
    # slurmd uses the short host name.
    name = (root.text("/proc/sys/kernel/hostname") or "").split(".")[0]
    if not name:
        raise StepFailed("this machine has no host name: set one, then run: systemctl start slurmd")
    return name


STEP = Step(
    name="join",
    title="Tell slurmctld where this node is",
    blocking=True,
    # Enough for two controllers that do not answer, one query and two updates, each with its own timeout.
    limit_s=40.0,
    perform=perform,
)
