# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Sends the progress of a job from one of its processes to the node's metrics service, over a local socket.

The message has numbers only. The service finds the job from the process that connected, which the kernel names, so the
message cannot claim another job. Nobody listens on a node without monitoring; then nothing is sent.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping

from .root import Root

SOCKET = "/run/hpcai/progress.sock"
LONGEST = 1024
"""Longest message in bytes."""
MOST_PER_S = 20
"""Messages of a user that the service takes per second."""
ACCEPTED, REFUSED, LATER, NO_ANSWER = "ok", "no", "later", ""
"""The service took the message, or it did not; it takes no further message of this user in this second; or it did not
answer."""
_LIMIT_S = 1.0
_AGAIN_S = 60.0
"""After a failure: the service may have no time, because a user floods it."""
_LATER_S = 1.0


def send(root: Root, kind: str, values: Mapping[str, float]) -> str:
    """Send the progress of this process's job; return the service's answer, or ``NO_ANSWER``.

    :param kind: ``stage``, ``checkpoint`` or ``train``.
    :param values: figures by name; the service ignores unknown ones.
    """
    message = json.dumps({"kind": kind, **values}).encode()
    if len(message) > LONGEST:
        return REFUSED
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            # With Python's own timeout, connect would fail at once while others wait (EAGAIN, connect(2)).
            for limit in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                connection.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", int(_LIMIT_S), 0))
            connection.connect(root.at(SOCKET))
            # If there were too many, the service answers without the message.
            with contextlib.suppress(BrokenPipeError):
                connection.send(message)
            # Until the answer, the service may look at this process.
            return connection.recv(8).decode("ascii", "replace")
    except OSError:
        return NO_ANSWER


class Reporter:
    """Sends progress, but not more often than every ``every_s`` seconds, and after a failure once a minute.

    If the user's other jobs on the node have sent too much in this second, it tries again after a second.

    :param clock: the monotonic clock.
    """

    def __init__(
        self, root: Root, kind: str, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root, self._kind, self._every_s, self._clock = root, kind, every_s, clock
        self._next = 0.0

    def report(self, **values: float) -> None:
        """Send the progress if it is time; failures are ignored, because a job must not depend on its monitoring."""
        if self._clock() >= self._next:
            answer = send(self._root, self._kind, values)
            self._next = self._clock() + {ACCEPTED: self._every_s, LATER: _LATER_S}.get(answer, _AGAIN_S)
