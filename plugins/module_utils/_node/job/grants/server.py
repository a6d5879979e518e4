# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The service's socket: identifies the client, reads one line, writes one line, and limits each user."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .protocol import LONGEST_QUESTION, as_line

READ_S = 5.0
"""Timeout in seconds for the complete request, even if its bytes arrive one by one."""
STRANGERS = 32
"""Limit of connections for all user ids not yet known to have an account: a user namespace can have 65,536 ids."""
_STRANGERS = -1
_STEP_S = 0.5
_CREDENTIALS = struct.Struct("3i")


def peer_uid(connection: socket.socket) -> int:
    """Return the effective user id of the process that connected, as the kernel recorded it."""
    _pid, uid, _gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return int(uid)


class Server:
    """Serves a listening socket.

    :param listener: the socket, created by systemd.
    :param answer: returns the answer to a line from a user id.
    :param known: returns whether a user id has an account.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[int, bytes], Mapping[str, Any]],
        known: Callable[[int], bool],
        bounds: Bounds | None = None,
        uid_of: Callable[[socket.socket], int] = peer_uid,
        read_s: float = READ_S,
    ) -> None:
        self._listener, self._answer, self._is_known, self._uid_of = listener, answer, known, uid_of
        self._bounds, self._read_s = bounds or Bounds(), read_s
        self._strangers = Bounds(STRANGERS, STRANGERS, 1_000_000_000)
        self._known: set[int] = set()

    def serve(self, idle_s: float, ended: Callable[[], bool]) -> None:
        """Serve until ``idle_s`` seconds pass without a client or ``ended`` returns true; finish open requests."""
        last = time.monotonic()
        while not ended() and (self._bounds.open or time.monotonic() - last < idle_s):
            self._listener.settimeout(_STEP_S)
            try:
                connection, _address = self._listener.accept()
            except socket.timeout:
                continue
            except OSError:
                # No descriptor is free: the open connections end within their timeouts.
                time.sleep(_STEP_S)
                continue
            last = time.monotonic()
            self._take(connection)
        deadline = time.monotonic() + 60
        while self._bounds.open and time.monotonic() < deadline:
            time.sleep(0.05)

    def _take(self, connection: socket.socket) -> None:
        """Start a thread for the connection, or refuse it immediately: this loop must never wait for a client."""
        try:
            uid = self._uid_of(connection)
        except OSError:
            connection.close()
            return
        bounds, share = (self._bounds, uid) if uid in self._known else (self._strangers, _STRANGERS)
        refusal = bounds.enter(share)
        if not refusal:
            try:
                threading.Thread(target=self._converse, args=(connection, uid, bounds, share), daemon=True).start()
                return
            except RuntimeError:
                bounds.leave(share)
                refusal = "the service cannot start another thread"
        connection.setblocking(False)
        _end(connection, {"busy": f"{refusal}: try again later."})

    def _converse(self, connection: socket.socket, uid: int, bounds: Bounds, share: int) -> None:
        connection.settimeout(self._read_s)
        if bounds is self._strangers:
            try:
                known = self._is_known(uid)
            finally:
                # Leave before anything is read: a client that sends nothing must not block other unknown users.
                bounds.leave(share)
            if not known:
                _end(connection, {"error": f"user id {uid} has no account on this node, so it has no grants."})
                return
            self._known.add(uid)
            refusal = self._bounds.enter(uid)
            if refusal:
                _end(connection, {"busy": f"{refusal}: try again later."})
                return
        try:
            line = self._read(connection)
            if line is None:
                answer: Mapping[str, Any] = {"error": f"no complete request arrived within {self._read_s:g} s."}
            else:
                answer = self._answer(uid, line)
            connection.settimeout(self._read_s)
            _end(connection, answer)
        finally:
            connection.close()
            self._bounds.leave(uid)

    def _read(self, connection: socket.socket) -> bytes | None:
        """Return the bytes up to a newline, the end, or one byte above the size limit; None after a timeout."""
        deadline = time.monotonic() + self._read_s
        line = b""
        while b"\n" not in line and len(line) <= LONGEST_QUESTION:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return None
            connection.settimeout(remaining_s)
            try:
                chunk = connection.recv(LONGEST_QUESTION + 1 - len(line))
            except OSError:
                return None
            if not chunk:
                break
            line += chunk
        return line.partition(b"\n")[0] if b"\n" in line else line


def _end(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    """Send the answer and close the connection. An answer that the client does not read is dropped."""
    with connection, contextlib.suppress(OSError):
        connection.sendall(as_line(answer))


CONNECTIONS_EACH = 4
CONNECTIONS_TOTAL = 128
QUESTIONS_A_MINUTE = 120


@dataclass
class _Share:
    remaining: float
    counted_at: float
    open: int = 0


@dataclass
class Bounds:
    """Limits connections and requests by user id, so that no user blocks the service for others.

    :ivar each: most connections of one user at a time.
    :ivar total: most connections of all users.
    :ivar a_minute: most requests of one user per minute on average, and most requests in one burst.
    """

    each: int = CONNECTIONS_EACH
    total: int = CONNECTIONS_TOTAL
    a_minute: int = QUESTIONS_A_MINUTE
    clock: Callable[[], float] = time.monotonic
    _shares: dict[int, _Share] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, uid: int) -> str:
        """Count a connection and return an empty text, or return why it is refused: then do not ``leave``."""
        with self._lock:
            now = self.clock()
            share = self._shares.setdefault(uid, _Share(self.a_minute, now))
            share.remaining = min(self.a_minute, share.remaining + (now - share.counted_at) * self.a_minute / 60)
            share.counted_at = now
            if share.open >= self.each:
                return f"you already have {self.each} open requests"
            if share.remaining < 1:
                return f"you sent more than {self.a_minute} requests a minute"
            if self.open >= self.total:
                return f"all {self.total} connections are in use"
            share.open += 1
            share.remaining -= 1
            return ""

    def leave(self, uid: int) -> None:
        """Count an accepted connection as ended."""
        with self._lock:
            self._shares[uid].open -= 1
            now = self.clock()
            # After a minute without requests a user has the full share again, which needs no record.
            for idle in [key for key, one in self._shares.items() if not one.open and now - one.counted_at > 60]:
                del self._shares[idle]

    @property
    def open(self) -> int:
        """How many connections there are."""
        # enter() calls this with the lock, and the server without it: list() copies before another thread adds a user.
        return sum(share.open for share in list(self._shares.values()))
