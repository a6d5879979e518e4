# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the ports are free that the daemons will listen on: another BeeGFS of the machine may have them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from .failures import OwnFailure

_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def refuse_taken(ports: Iterable[tuple[str, int]]) -> None:
    """Refuse to start where somebody else listens.

    :raises OwnFailure: a port is taken; the message names it.
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
                raise OwnFailure(
                    f"port {number}/{protocol} is taken, by another BeeGFS perhaps: choose another beeond_port_shift"
                ) from None
