# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step join: sends this node's address to slurmctld before slurmd registers. It is part of slurmd's own start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from ...elastic.slurmctld import find_lease, machine_behind
from ...health.check import FAIL, PASS, SKIP
from ...machine.atomic import write_file
from ...machine.cluster_settings import cluster_of
from ...machine.root import Root
from ...machine.vm_size import remembered_instance
from ...slurm import node_queries, slurmd_env
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.nodes import PLACEHOLDER_ADDRESS, NodeState
from ..step import REASON_PREFIX, Context, Outcome, Step, StepFailed


def perform(
    context: Context,
    find_address: FindOwnAddress = node_queries.find_own_address,
    is_own: Callable[[str], bool] = node_queries.is_own_address,
) -> Outcome:
    """Set the node's address at slurmctld, and undrain it if an earlier boot phase drained it.

    A node that site.yml declared has its address from the inventory. slurmctld and all other nodes read it from
    slurm.conf, so a machine with another address cannot be this node before site.yml has run again. A machine of an
    elastic set looks its lease up instead: the daemon on the controller has set the address.

    :param find_address: finds this machine's address as the controllers see it.
    :param is_own: whether this machine has an address.
    :raises ConfigError: slurmd's settings cannot be used.
    :raises CommandFailed: slurmctld does not answer or refuses.
    :raises StepFailed: the machine has no host name.
    """
    env = slurmd_env.read(context.root)
    if env is None:
        return Outcome(SKIP, f"no slurmd runs here: {slurmd_env.ENV_FILE} does not exist")
    name, controllers = env.node_name, env.controllers
    details: dict[str, object] = {"node": name, "controllers": list(controllers)}
    try:
        address = find_address(controllers)
    except NoController as error:
        summary = f"no controller answers ({error}); slurmd tries again every few seconds"
        action = "Check that slurmctld runs there, and that port 6817 is open to this node"
        return Outcome(FAIL, summary, action, (), details)
    if _is_elastic(context.root):
        return _with_lease(context, controllers, details)
    node = node_queries.query_node(name, controllers, context.run)
    if node is not None and not node.sets_own_address and not is_own(node.address):
        summary = f"slurm.conf declares node {name} with the address {node.address}, but this machine has {address}"
        action = "Azure may have given the instance id of a former machine again. Run site.yml, or delete this machine"
        return Outcome(FAIL, summary, action, (), details)
    holder = _other_holder(node, address, controllers, context)
    if holder:
        action = f"Delete one of the two machines, or run 'scontrol update NodeName={name} State=DOWN Reason=moved'"
        return Outcome(FAIL, holder, action, (), details)
    changes = []
    words = _place(node, address, _host_name(context.root))
    if words:
        if not context.check and not node_queries.update_node(name, words, controllers, context.run):
            summary = f"slurmctld at {controllers[0]} knows no node {name}"
            return Outcome(FAIL, summary, "Run site.yml, with more slurm_spare_nodes if none is left", (), details)
        changes.append(f"updated node {name} at slurmctld: {' '.join(words)}")
    changes += _undrain(context, node, controllers)
    return Outcome(PASS, f"slurmctld at {controllers[0]} has node {name} at {_where(node, words, address)}",
                   changes=tuple(changes), details={**details, "address": address})  # fmt: skip


def _undrain(context: Context, node: NodeState | None, controllers: tuple[str, ...]) -> list[str]:
    """Undrain the node if an earlier boot phase drained it, and return what was done."""
    if node is None or not node.drained or not node.reason.startswith(REASON_PREFIX):
        return []
    # Not RESUME, which makes a node idle before it registers. A node that is down resumes when it registers.
    if not context.check:
        node_queries.update_node(node.name, ["State=UNDRAIN"], controllers, context.run)
    return [f"undrained node {node.name}, which had the reason: {node.reason}"]


def _is_elastic(root: Root) -> bool:
    settings = cluster_of(root)
    return settings is not None and settings.elastic


def _with_lease(context: Context, controllers: tuple[str, ...], details: Mapping[str, object]) -> Outcome:
    """Write the node name of this machine's lease for slurmd; without a lease, slurmd does not start."""
    vm_id = str(remembered_instance(context.root).get("vm_id") or "").lower()
    if not vm_id:
        raise StepFailed("this machine does not know its vmId: run 'hpcnode boot run instance'")
    node = find_lease(vm_id, controllers, context.run)
    if node is None:
        summary = f"machine {vm_id} has no lease at slurmctld {controllers[0]}; slurmd tries again every few seconds"
        action = "If this lasts for minutes, see 'hpcnode elastic status' on the controller"
        return Outcome(FAIL, summary, action, (), details)
    # Only while slurmctld waits for the boot. At a later start, slurmctld would end the jobs on this node.
    text = slurmd_env.slurmd_env(node.name, controllers, booted=any(one == "POWERING_UP" for one in node.states))
    changes = []
    if context.root.text(slurmd_env.ENV_FILE) != text.strip():
        changes.append(f"wrote {slurmd_env.ENV_FILE}: node {node.name} by its lease")
        if not context.check:
            write_file(context.root.at(slurmd_env.ENV_FILE), text)
    changes += _undrain(context, node, controllers)
    summary = f"this machine has the lease for node {node.name}"
    return Outcome(PASS, summary, "", tuple(changes), {**details, "node": node.name})


def _other_holder(node: NodeState | None, address: str, controllers: tuple[str, ...], context: Context) -> str:
    """Return why another machine has this node name; empty if none has.

    Azure may give an instance id again, and slurmctld silently accepts two machines under one name.
    """
    if node is None or not node.sets_own_address or node.address in (PLACEHOLDER_ADDRESS, address):
        return ""
    if not node.answers or not {"IDLE", "ALLOCATED", "MIXED"} & set(node.states):
        return ""
    mine = str(remembered_instance(context.root).get("vm_id") or "").lower()
    theirs = machine_behind(node, controllers, context.run)
    if theirs is None or (theirs and theirs == mine):
        return ""
    # Without a report, it may be this machine before its address changed. slurmctld soon notices that.
    machine = f"machine {theirs}" if theirs else "another machine"
    return f"node {node.name} belongs to {machine} at {node.address}, which answers slurmctld; this is {mine}"


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
