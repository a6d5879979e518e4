# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Mounting when all parts were online, and whose fault it is where that fails all the same.

A server that has died since then is still listed as online for a while, and each node's mount fails. The node with that
server sees its daemon end and fails its prolog, whereupon Slurm puts the job back; so the others try again until they
are told so. Where nobody tells, as when that whole node is gone, they look whether each node's server can be reached.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

from ...machine.root import Root
from .bounded import Bounded
from .failures import JobGone, OwnFailure, PeerMissing
from .mounting import MOUNT_S, mount
from .rendezvous import Watch

_LEAST_S, _PAUSE_S, _CONNECT_S = 10.0, 3.0, 2.0


@dataclass(frozen=True)
class Peers:
    """The other nodes' servers.

    :ivar names: of the nodes.
    :ivar reach: whether a node's server takes a connection.
    """

    names: Sequence[str]
    reach: Callable[[str], bool]

    def missing(self) -> str:
        """Return the first node whose server cannot be reached; nothing if all can."""
        return next((name for name in self.names if not self.reach(name)), "")


def join(
    command: Sequence[str], mount_point: str, deadline: float, watch: Watch, peers: Peers, root: Root, run: Bounded
) -> None:
    """Mount, within the deadline.

    :raises OwnFailure: it cannot be mounted, and nobody else is the cause.
    :raises PeerMissing: another node's server cannot be reached.
    :raises JobGone: the job is not to run any more.
    """
    while True:
        limit_s = min(MOUNT_S, max(_LEAST_S, deadline - watch.clock()))
        words = mount(command, mount_point, root, run, limit_s)
        if not words:
            return
        dead = watch.dead()
        if dead:
            raise OwnFailure(f"a daemon of the job has ended: {'; '.join(dead)}; {words}")
        gone = watch.gone()
        if gone:
            raise JobGone(gone)
        if watch.clock() + _PAUSE_S >= deadline:
            missing = peers.missing()
            if missing:
                raise PeerMissing(f"{words}; the storage server on {missing} cannot be reached")
            raise OwnFailure(words)
        watch.pause(_PAUSE_S)


def connects(address: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((address, port), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True
