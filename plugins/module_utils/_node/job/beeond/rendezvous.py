# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Waits until the management daemon lists the daemons of all nodes as online, then mounts. Nodes do not talk directly.

At the deadline, each node decides whether it is at fault itself. A node has failed if its own daemon has died, or has
not registered although the management daemon has answered for long enough. The first node has failed if its management
daemon does not answer. In all other cases another node is at fault.

If a server dies after this, it is still listed as online for a while, and every node's mount fails. The node with that
server sees that its daemon has ended and fails its prolog, so Slurm requeues the job; the others retry until they see
the requeue. If there is no requeue, for example because that node is down, they test whether each node's server can be
reached.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

from ...machine.root import Root
from .beegfs import Registered
from .job import Bounded, Job, JobGone, NodeFailure, PeerMissing
from .mounting import MOUNT_S, Clock, Pause, mount

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 3.0
_ASK_S, _ASK_PER_NODE_S = 15.0, 0.1
"""Interval at which a node asks slurmctld whether the job will still run. All nodes of a job ask, so the interval grows
with their number."""
_REGISTERS_S = 15.0
"""Grace period before an unregistered daemon counts as failed, measured while the management daemon answers. A waiting
daemon contacts it at least every ten seconds in its first five minutes (getRetryDelayMS in NodesTk.cpp of 7.4), and is
online some three seconds later. If the wait is short, the period is half of it, so that a daemon that never registers
is still found."""


@dataclass(frozen=True)
class Watch:
    """What a node checks while it waits.

    :ivar look: queries the management daemon.
    :ivar dead: returns this node's daemons that have ended, each with its last message.
    :ivar host: returns this machine's host name, under which its daemons register.
    :ivar gone: returns the job's state if the job will not run; an empty text if it will, or if that is unknown.
    """

    look: Callable[[], Registered]
    dead: Callable[[], Sequence[str]]
    gone: Callable[[], str]
    clock: Clock
    pause: Pause
    host: Callable[[], str]


def wait(job: Job, metadata_nodes: int, limit_s: float, watch: Watch) -> None:
    """Wait until the daemons of all nodes are online.

    :raises NodeFailure: this node's part has failed.
    :raises PeerMissing: another node's part was not online within the limit.
    :raises JobGone: the job will not run.
    """
    began = watch.clock()
    metadata = min(metadata_nodes, len(job.nodes))
    ask_s = _ASK_S + _ASK_PER_NODE_S * len(job.nodes)
    next_question, pause_s = began + ask_s, _FIRST_PAUSE_S
    answering_since: float | None = None
    while True:
        dead = watch.dead()
        if dead:
            raise NodeFailure(f"a daemon of job {job.number} has ended: {'; '.join(dead)}")
        registered = watch.look()
        if registered.metadata_good >= metadata and registered.storage_good >= len(job.nodes):
            return
        now = watch.clock()
        if not registered.answered:
            answering_since = None
        elif answering_since is None:
            answering_since = now
        if now >= began + limit_s:
            answered_s = 0.0 if answering_since is None else now - answering_since
            _judge(job, metadata_nodes, registered, limit_s, answered_s, watch.host())
        if now >= next_question:
            words = watch.gone()
            if words:
                raise JobGone(words)
            next_question = watch.clock() + ask_s
        watch.pause(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _judge(job: Job, metadata_nodes: int, registered: Registered, limit_s: float, answered_s: float, host: str) -> None:
    within = f"within {limit_s:.3g} s"
    if not registered.answered:
        if job.is_first:
            raise NodeFailure(
                f"the management daemon of job {job.number} on this node did not answer {within}: {registered.words}"
            )
        raise PeerMissing(f"the management daemon on {job.nodes[0]} did not answer {within}: {registered.words}")
    for kind, names, expected in (
        ("storage", registered.storage, True),
        ("metadata", registered.metadata, job.keeps_metadata(metadata_nodes)),
    ):
        if expected and not any(_same(name, host) for name in names):
            words = f"this node's {kind} daemon of job {job.number} has not registered"
            if answered_s < min(_REGISTERS_S, limit_s / 2) and not job.is_first:
                since = f"for only {answered_s:.3g} s"
                raise PeerMissing(f"{words}: the management daemon on {job.nodes[0]} has answered {since}")
            raise NodeFailure(f"{words} {within}")
    raise PeerMissing(
        f"{registered.storage_good} of {len(job.nodes)} storage and {registered.metadata_good} of "
        f"{min(metadata_nodes, len(job.nodes))} metadata nodes are online {within}; registered storage nodes: "
        f"{', '.join(sorted(set(registered.storage))[:20]) or 'none'}"
    )


def _same(name: str, host: str) -> bool:
    return name.partition(".")[0].lower() == host.partition(".")[0].lower()


_LEAST_S, _PAUSE_S, _CONNECT_S = 10.0, 3.0, 2.0


@dataclass(frozen=True)
class Peers:
    """The other nodes' servers.

    :ivar names: of the nodes.
    :ivar accepts: returns whether a node's server accepts a connection.
    """

    names: Sequence[str]
    accepts: Callable[[str], bool]

    def missing(self) -> str:
        """Return the first node whose server cannot be reached; an empty text if all can."""
        return next((name for name in self.names if not self.accepts(name)), "")


def join(
    command: Sequence[str], mount_point: str, deadline: float, watch: Watch, peers: Peers, root: Root, run: Bounded
) -> None:
    """Mount, and retry until the deadline.

    :raises NodeFailure: it cannot be mounted, and no other node is the cause.
    :raises PeerMissing: another node's server cannot be reached.
    :raises JobGone: the job will not run.
    """
    while True:
        limit_s = min(MOUNT_S, max(_LEAST_S, deadline - watch.clock()))
        words = mount(command, mount_point, root, run, limit_s)
        if not words:
            return
        dead = watch.dead()
        if dead:
            raise NodeFailure(f"a daemon of the job has ended: {'; '.join(dead)}; {words}")
        gone = watch.gone()
        if gone:
            raise JobGone(gone)
        if watch.clock() + _PAUSE_S >= deadline:
            missing = peers.missing()
            if missing:
                raise PeerMissing(f"{words}; the storage server on {missing} cannot be reached")
            raise NodeFailure(words)
        watch.pause(_PAUSE_S)


def connects(address: str, port: int) -> bool:
    """Whether a server accepts connections at this address."""
    try:
        socket.create_connection((address, port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True
