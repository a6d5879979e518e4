# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The job of a prolog, which part this node has in it, and why a start fails.

The kind of a failure says whose fault it is, and so what becomes of the node and of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from ...machine.run import Result
from ...slurm.hostlist import HostlistError, expand


class NodeFailure(RuntimeError):
    """This node's part cannot be had; the message is one line: what, where, what to do. The node is drained."""


class UsersFault(RuntimeError):
    """What users can cause, as a full scratch: the job goes back into the queue, and the node is not drained."""


class PeerMissing(RuntimeError):
    """This node's part is there, and another node's is not; the message says what is missing."""


class JobGone(RuntimeError):
    """The job is not to run any more: cancelled, or requeued by another node; the message says what became of it."""


@dataclass(frozen=True)
class Job:
    """A job and this node's place in it.

    :ivar number: the job's id.
    :ivar uid: its user.
    :ivar gid: its group.
    :ivar nodes: its nodes, each once, in an order that is the same on all of them.
    :ivar node: this node's name among them.
    :ivar restarts: which incarnation of the job this is; None where Slurm does not say.
    :ivar leader: the job to requeue: its own id, or the first one's of a heterogeneous job.
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
        """Whether the job has but this node, and needs no BeeGFS."""
        return len(self.nodes) == 1

    def keeps_metadata(self, metadata_nodes: int) -> bool:
        """Whether this node is one of the first so many."""
        return self.node in self.nodes[:metadata_nodes]


def number_of(environment: Mapping[str, str]) -> str:
    """Return the id of the job that slurmd calls for.

    :raises NodeFailure: there is none.
    """
    number = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID") or ""
    if not (number.isascii() and number.isdecimal()) or len(number) > 19:
        raise NodeFailure(f"SLURM_JOB_ID is {number!r}: this is called by the prolog and the epilog of a job")
    return number


def job_of(environment: Mapping[str, str]) -> Job:
    """Return the job that slurmd calls for, out of a prolog's environment, as job/hooks/options.py makes it.

    The list of nodes may hold one twice, and its order is Slurm's affair: it is sorted, and each counts once.

    :raises NodeFailure: the environment does not say all that is needed.
    """
    number = number_of(environment)
    names = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST") or ""
    try:
        nodes = tuple(sorted(set(filter(None, expand(names)))))
    except HostlistError as error:
        raise NodeFailure(f"job {number}: {error}") from None
    node = environment.get("SLURMD_NODENAME") or ""
    if node not in nodes:
        raise NodeFailure(f"job {number}: this node is {node or 'without SLURMD_NODENAME'}, and none of {names!r}")
    restarts = environment.get("SLURM_JOB_RESTART_COUNT") or ""
    leader = environment.get("SLURM_HET_JOB_ID") or number
    if not (leader.isascii() and leader.isdecimal()):
        raise NodeFailure(f"job {number}: SLURM_HET_JOB_ID is {leader!r}, which is no job's id")
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
        raise NodeFailure(f"job {number}: {name} is {value!r}, so nobody can be given the file system")
    return int(value)


Bounded = Callable[[Sequence[str], float], Result]
"""Runs a command for so many seconds at most, as machine/run.py does; tests pass a recorded one.

Each command has its own limit: a file system whose servers are gone answers to nobody."""


def last_line(result: Result) -> str:
    """Return what a command said last, for the message that names it."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"exit status {result.rc}"
