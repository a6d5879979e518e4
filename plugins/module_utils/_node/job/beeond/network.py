# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a start needs of the network: the first node's address, free ports, and RDMA."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping
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
"""Returns a node's address as slurmctld has it; empty where it has none."""


def address_of(node: str, environment: Mapping[str, str], root: Root, ask: Ask) -> str:
    """Return a node's address: as slurmd was told it for this job, else as its slurm.conf has it, else from slurmctld.

    No name need resolve to it: a node's name in Slurm is not its machine's.

    :raises NodeFailure: nobody knows one.
    """
    found = node_queries.prolog_addresses(environment, root).get(node)
    if found:
        return found
    found = ask(node)
    if not found or found == PLACEHOLDER_ADDRESS:
        raise NodeFailure(
            f"neither slurm.conf nor slurmctld tells the address of node {node}, which is the job's first"
        )
    return found


def asker(root: Root, run: Run) -> Ask:
    """Return what asks slurmctld, with a limit; silence is no address."""

    def ask(node: str) -> str:
        try:
            env = slurmd_env.read(root)
            return node_queries.query_address(node, env.controllers, run) if env else ""
        except (ConfigError, CommandFailed):
            return ""

    return ask


_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_FIRST_USER = 1000
"""Lower user ids are the system's own (login.defs: UID_MIN)."""


def refuse_ports_in_use(ports: Iterable[tuple[str, int]], root: Root | None = None) -> None:
    """Refuse to start where somebody else listens: another BeeGFS of the machine may have the ports.

    :raises NodeFailure: a service has a port; the message names the port.
    :raises UsersFault: a user has it.
    """
    for protocol, number in ports:
        with socket.socket(socket.AF_INET, _KINDS[protocol]) as probe:
            if protocol == "tcp":
                # Connections of the job before, whose ends have not been forgotten yet, are no hindrance.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
                if protocol == "tcp":
                    probe.listen(1)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NodeFailure(f"port {number}/{protocol} cannot be had: {error.strerror}") from None
                user = user_of(protocol, number, root or Root())
                if user is not None:
                    raise UsersFault(f"port {number}/{protocol} is taken by a process of user {user}") from None
                raise NodeFailure(
                    f"port {number}/{protocol} is taken, by another BeeGFS perhaps: choose another beeond_port_shift"
                ) from None


def user_of(protocol: str, number: int, root: Root) -> int | None:
    """Return the id of an ordinary user who has this port; None if none has (proc_pid_net(5): /proc/net/tcp)."""
    for family in ("", "6"):
        for line in (root.text(f"/proc/net/{protocol}{family}") or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[1].endswith(f":{number:04X}") and int(fields[7]) >= _FIRST_USER:
                return int(fields[7])
    return None


def rdma_of(stated: str, root: Root) -> str:
    """Return what RDMA is to be here: REQUIRED, ALLOWED or OFF.

    With AUTO it is required where the machine's VM size has InfiniBand, else there is none to be used. Of a size that
    nobody knows the machine itself is looked at.

    :raises NodeFailure: it is required, and no port carries data.
    """
    rdma = _by_size(root) if stated == AUTO else stated
    if rdma == REQUIRED:
        ports = [port for port in read_ports(root) if port.link_layer == INFINIBAND]
        if not any(port.works for port in ports):
            found = ", ".join(f"{port.label}: {port.condition}" for port in ports) or "there is none"
            raise NodeFailure(f"no InfiniBand port carries data ({found}), and beeond_rdma says that it must")
    return rdma


def _by_size(root: Root) -> str:
    try:
        count = size_facts(root)[0].hca_count
        return REQUIRED if count else OFF
    except (ConfigError, UnknownVmSize):
        has_some = any(port.link_layer == INFINIBAND for port in read_ports(root))
        return REQUIRED if has_some else ALLOWED
