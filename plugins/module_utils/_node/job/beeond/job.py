# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The job of a prolog, this node's part in it, and the kinds of failures of a start.

The kind of a failure says who caused it, and so what happens to the node and to the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from ...machine.run import Result
from ...slurm.hostlist import HostlistError, expand


class NodeFailure(RuntimeError):
    """This node's part failed; the message is one line: what, where, what to do. The node is drained."""


class UsersFault(RuntimeError):
    """A failure that users can cause, such as a full scratch: the job is requeued, and the node is not drained."""


class PeerMissing(RuntimeError):
    """This node's part works, but another node's is missing; the message says what is missing."""


class JobGone(RuntimeError):
    """The job will not run: it was cancelled, or another node requeued it; the message gives its state."""


@dataclass(frozen=True)
class Job:
    """A job and this node's place in it.

    :ivar number: the job's id.
    :ivar uid: its user.
    :ivar gid: its group.
    :ivar nodes: its nodes, each once, in the same order on all nodes.
    :ivar node: this node's name in ``nodes``.
    :ivar restarts: the job's restart count, which identifies the incarnation; None if Slurm does not set it.
    :ivar leader: the job to requeue: its own id, or the leader's id in a heterogeneous job.
    """

    number: str
    uid: int
    gid: int
    nodes: tuple[str, ...]
    node: str
    restarts: int | None = None
    leader: str = ""

    @property
    def is_first(self) -> bool:
        """Whether this node runs the management daemon."""
        return self.node == self.nodes[0]

    @property
    def is_alone(self) -> bool:
        """Whether the job has this node only, and so needs no BeeGFS."""
        return len(self.nodes) == 1

    def keeps_metadata(self, metadata_nodes: int) -> bool:
        """Whether this node runs a metadata daemon: the first ``metadata_nodes`` nodes do."""
        return self.node in self.nodes[:metadata_nodes]


def number_of(environment: Mapping[str, str]) -> str:
    """Return the id of the job for which slurmd runs the script.

    :raises NodeFailure: there is none.
    """
    number = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID") or ""
    if not (number.isascii() and number.isdecimal()) or len(number) > 19:
        raise NodeFailure(f"SLURM_JOB_ID is {number!r}: only a job's prolog or epilog may run this command")
    return number


def job_of(environment: Mapping[str, str]) -> Job:
    """Return the job of a prolog from its environment, as job/hooks/options.py makes it.

    Slurm may list a node twice, and guarantees no order: the list is sorted, without duplicates.

    :raises NodeFailure: a variable is missing or invalid.
    """
    number = number_of(environment)
    names = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST") or ""
    try:
        nodes = tuple(sorted(set(filter(None, expand(names)))))
    except HostlistError as error:
        raise NodeFailure(f"job {number}: {error}") from None
    node = environment.get("SLURMD_NODENAME") or ""
    if node not in nodes:
        raise NodeFailure(f"job {number}: SLURMD_NODENAME is {node!r}, which is not one of the job's nodes {names!r}")
    restarts = environment.get("SLURM_JOB_RESTART_COUNT") or ""
    leader = environment.get("SLURM_HET_JOB_ID") or number
    if not (leader.isascii() and leader.isdecimal()):
        raise NodeFailure(f"job {number}: SLURM_HET_JOB_ID is {leader!r}, which is not a job id")
    return Job(
        number=number,
        uid=_id(environment, "SLURM_JOB_UID", number),
        gid=_id(environment, "SLURM_JOB_GID", number),
        nodes=nodes,
        node=node,
        restarts=int(restarts) if restarts.isdecimal() else None,
        leader=leader,
    )


def _id(environment: Mapping[str, str], name: str, number: str) -> int:
    value = environment.get(name) or ""
    if not value.isdecimal():
        raise NodeFailure(f"job {number}: {name} is {value!r}, so the owner of the file system is unknown")
    return int(value)


Bounded = Callable[[Sequence[str], float], Result]
"""Runs a command with a timeout in seconds, as machine/run.py does; tests pass a recorded one.

Each command has its own timeout, because a file system without its servers never answers."""


def last_line(result: Result) -> str:
    """Return the last line of a command's output, for an error message."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"exit status {result.rc}"
