# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the ports are free that the daemons will listen on: another BeeGFS of the machine may have them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from ...machine.root import Root
from .failures import OwnFailure, UsersFault

_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_FIRST_USER = 1000
"""Lower user ids are the system's own (login.defs: UID_MIN)."""


def refuse_taken(ports: Iterable[tuple[str, int]], root: Root | None = None) -> None:
    """Refuse to start where somebody else listens.

    :raises OwnFailure: a service has a port; the message names the port.
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
                    raise OwnFailure(f"port {number}/{protocol} cannot be had: {error.strerror}") from None
                user = user_of(protocol, number, root or Root())
                if user is not None:
                    raise UsersFault(f"port {number}/{protocol} is taken by a process of user {user}") from None
                raise OwnFailure(
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
