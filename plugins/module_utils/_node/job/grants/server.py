# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The service's socket: who is at the other end, one line in, one line out, and bounds for each user."""

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
"""Seconds for a whole question, however slowly its bytes come."""
STRANGERS = 32
"""Connections of all user ids that were not yet seen to have an account: a user namespace can have 65,536 ids."""
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

    :param listener: the socket, made by systemd.
    :param answer: gives the answer to a user id's line.
    :param known: whether a user id has an account.
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
        """Serve until nobody came for ``idle_s`` seconds or ``ended`` says so; what is being answered is finished."""
        last = time.monotonic()
        while not ended() and (self._bounds.open or time.monotonic() - last < idle_s):
            self._listener.settimeout(_STEP_S)
            try:
                connection, _address = self._listener.accept()
            except socket.timeout:
                continue
            except OSError:
                # No descriptor is free: those that are open end within their limits.
                time.sleep(_STEP_S)
                continue
            last = time.monotonic()
            self._take(connection)
        deadline = time.monotonic() + 60
        while self._bounds.open and time.monotonic() < deadline:
            time.sleep(0.05)

    def _take(self, connection: socket.socket) -> None:
        """Hand a connection to a thread of its own, or refuse it at once: nothing here may wait for a client."""
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
                refusal = "no thread is free"
        connection.setblocking(False)
        _end(connection, {"busy": f"{refusal}: try again later."})

    def _converse(self, connection: socket.socket, uid: int, bounds: Bounds, share: int) -> None:
        connection.settimeout(self._read_s)
        if bounds is self._strangers:
            try:
                known = self._is_known(uid)
            finally:
                # Before anything is read: a client that says nothing must not hold the place of other newcomers.
                bounds.leave(share)
            if not known:
                _end(connection, {"error": f"user id {uid} has no account on this node: nothing is granted to it."})
                return
            self._known.add(uid)
            refusal = self._bounds.enter(uid)
            if refusal:
                _end(connection, {"busy": f"{refusal}: try again later."})
                return
        try:
            line = self._read(connection)
            if line is None:
                answer: Mapping[str, Any] = {"error": f"no complete request came within {self._read_s:g} s."}
            else:
                answer = self._answer(uid, line)
            connection.settimeout(self._read_s)
            _end(connection, answer)
        finally:
            connection.close()
            self._bounds.leave(uid)

    def _read(self, connection: socket.socket) -> bytes | None:
        """Return what came up to a newline, the end or one byte too many; None if it took too long."""
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
    """Send the last line. A client that does not take it has itself to blame."""
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
    """Counts connections and questions by user id, so that no user keeps the service from the others.

    :ivar each: connections that one user may have at a time.
    :ivar total: connections of all users.
    :ivar a_minute: questions of one user, on average and at once.
    """

    each: int = CONNECTIONS_EACH
    total: int = CONNECTIONS_TOTAL
    a_minute: int = QUESTIONS_A_MINUTE
    clock: Callable[[], float] = time.monotonic
    _shares: dict[int, _Share] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, uid: int) -> str:
        """Count a connection; return why it must be refused, or nothing. Only one that was let in leaves again."""
        with self._lock:
            now = self.clock()
            share = self._shares.setdefault(uid, _Share(self.a_minute, now))
            share.remaining = min(self.a_minute, share.remaining + (now - share.counted_at) * self.a_minute / 60)
            share.counted_at = now
            if share.open >= self.each:
                return f"you have {self.each} requests open already"
            if share.remaining < 1:
                return f"you sent more than {self.a_minute} requests a minute"
            if self.open >= self.total:
                return f"all {self.total} connections are taken"
            share.open += 1
            share.remaining -= 1
            return ""

    def leave(self, uid: int) -> None:
        """A connection that was let in has ended."""
        with self._lock:
            self._shares[uid].open -= 1
            now = self.clock()
            # A user who asked nothing for a minute has a full share again, which needs no record.
            for idle in [key for key, one in self._shares.items() if not one.open and now - one.counted_at > 60]:
                del self._shares[idle]

    @property
    def open(self) -> int:
        """How many connections there are."""
        return sum(share.open for share in self._shares.values())
