# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Network requirements of a start: the first node's address, free ports, and RDMA."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Callable

from ...machine.config import ConfigError
from ...machine.rdma import INFINIBAND, read_ports
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...machine.vm_size import size_facts
from ...sku import UnknownVmSize
from ...slurm import node_queries, slurmd_env
from ...slurm.nodes import PLACEHOLDER_ADDRESS
from .job import NodeFailure, UsersFault
from .options import ALLOWED, AUTO, OFF, REQUIRED

Ask = Callable[[str], str]
"""Returns a node's address from slurmctld; empty if it has none."""


def address_of(node: str, environment: Mapping[str, str], root: Root, ask: Ask) -> str:
    """Return a node's address: from slurmd's environment for this job, else from slurm.conf, else from slurmctld.

    The node's name need not resolve: its name in Slurm is not the machine's host name.

    :raises NodeFailure: the address is unknown.
    """
    found = node_queries.prolog_addresses(environment, root).get(node)
    if found:
        return found
    found = ask(node)
    if not found or found == PLACEHOLDER_ADDRESS:
        raise NodeFailure(f"neither slurm.conf nor slurmctld has the address of the job's node {node}")
    return found


def asker(root: Root, run: Run) -> Ask:
    """Return a function that asks slurmctld, with a timeout; it returns an empty text if slurmctld does not answer."""

    def ask(node: str) -> str:
        try:
            env = slurmd_env.read(root)
            return node_queries.query_address(node, env.controllers, run) if env else ""
        except (ConfigError, CommandFailed):
            return ""

    return ask


_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_FIRST_USER = 1000
"""Lower user ids are system accounts (login.defs: UID_MIN)."""


def refuse_ports_in_use(ports: Iterable[tuple[str, int]], root: Root | None = None) -> None:
    """Refuse ports that are already in use, for example by another BeeGFS on the machine.

    :raises NodeFailure: a service uses a port; the message names the port.
    :raises UsersFault: a user's process uses it, or anything else that users can cause.
    """
    for protocol, number in ports:
        with socket.socket(socket.AF_INET, _KINDS[protocol]) as probe:
            if protocol == "tcp":
                # Ignore closed connections of the previous job that are still in TIME_WAIT.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
                if protocol == "tcp":
                    probe.listen(1)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NodeFailure(f"cannot use port {number}/{protocol}: {error.strerror}") from None
                raise _in_use(protocol, number, root or Root()) from None


_LISTENS = "0A"
"""A listening socket's state in /proc/net/tcp (TCP_LISTEN in the kernel's tcp_states.h)."""


def _in_use(protocol: str, number: int, root: Root) -> NodeFailure | UsersFault:
    """Return the error for a port in use, by what /proc/net/tcp shows (proc_pid_net(5)).

    It does not show a socket that is bound but does not listen, and it shows root as the user of a closed connection.
    Users can cause both, so only a service that listens is the node's fault.
    """
    sockets = list(_sockets(protocol, number, root))
    users = [uid for uid, _state in sockets if uid >= _FIRST_USER]
    if users:
        return UsersFault(f"port {number}/{protocol} is used by a process of user {users[0]}")
    if any(protocol == "udp" or state == _LISTENS for _uid, state in sockets):
        return NodeFailure(
            f"port {number}/{protocol} is in use, perhaps by another BeeGFS: set another beeond_port_shift"
        )
    return UsersFault(f"port {number}/{protocol} is in use, but no service listens on it: perhaps a closed connection")


def _sockets(protocol: str, number: int, root: Root) -> Iterator[tuple[int, str]]:
    """Yield user id and state of each socket at a local port."""
    for family in ("", "6"):
        for line in (root.text(f"/proc/net/{protocol}{family}") or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[1].endswith(f":{number:04X}"):
                yield int(fields[7]), fields[3]


def rdma_of(stated: str, root: Root) -> str:
    """Return whether this node uses RDMA: REQUIRED, ALLOWED or OFF.

    AUTO means REQUIRED if the VM size has InfiniBand, otherwise OFF. For an unknown VM size, AUTO means REQUIRED if the
    machine has InfiniBand ports, otherwise ALLOWED.

    :raises NodeFailure: it is required, and no port is usable.
    """
    rdma = _by_size(root) if stated == AUTO else stated
    if rdma == REQUIRED:
        ports = [port for port in read_ports(root) if port.link_layer == INFINIBAND]
        if not any(port.works for port in ports):
            found = ", ".join(f"{port.label}: {port.condition}" for port in ports) or "none found"
            raise NodeFailure(f"no InfiniBand port carries data ({found}), but beeond_rdma requires RDMA")
    return rdma


def _by_size(root: Root) -> str:
    try:
        count = size_facts(root)[0].hca_count
        return REQUIRED if count else OFF
    except (ConfigError, UnknownVmSize):
        has_some = any(port.link_layer == INFINIBAND for port in read_ports(root))
        return REQUIRED if has_some else ALLOWED
