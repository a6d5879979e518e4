# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The protocol between the parts: a JSON header and bytes over TCP. It is not BeeGFS's own protocol."""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from .log import Log

_FRAME = struct.Struct("!II")
_HEADER_AT_MOST, _BYTES_AT_MOST = 1 << 26, 1 << 23
PATIENCE_S = 5.0

Reply = tuple[dict[str, Any], bytes]
Handler = Callable[[dict[str, Any], bytes], Reply]
Peer = tuple[str, int]


class Refused(ConnectionError):
    """The peer rejected our secret. Like the real daemons, it closes the connection without a message."""


def send(sock: socket.socket, header: dict[str, Any], content: bytes | memoryview = b"") -> None:
    """Send one message."""
    text = json.dumps(header).encode("ascii")
    sock.sendall(_FRAME.pack(len(text), len(content)) + text)
    if content:
        sock.sendall(content)


def receive(sock: socket.socket) -> Reply:
    """Receive one message; raise ConnectionError if the peer has closed the connection."""
    length, more = _FRAME.unpack(_exactly(sock, _FRAME.size))
    if length > _HEADER_AT_MOST or more > _BYTES_AT_MOST:
        raise ConnectionError("invalid message")
    header = json.loads(bytes(_exactly(sock, length)))
    return header, bytes(_exactly(sock, more)) if more else b""


def _exactly(sock: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view, done = memoryview(buffer), 0
    while done < length:
        got = sock.recv_into(view[done:])
        if not got:
            raise ConnectionError("the peer has hung up")
        done += got
    return buffer


class Server:
    """Listens for messages and answers them in one thread per connection."""

    def __init__(self, port: int, secret: str, handler: Handler, log: Log) -> None:
        self._secret, self._handler, self._log = secret, handler, log
        self.mute = False
        self._listening = _bound(socket.SOCK_STREAM, port)
        self._listening.listen(128)
        # The real daemons use this port for datagrams too. These only occupy it.
        self._datagrams = _bound(socket.SOCK_DGRAM, port)

    def start(self) -> None:
        """Accept connections from now on."""
        threading.Thread(target=self._accept, name="ConnAccept", daemon=True).start()

    def _accept(self) -> None:
        while True:
            sock, peer = self._listening.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock, peer), name="Worker", daemon=True).start()

    def _serve(self, sock: socket.socket, peer: Peer) -> None:
        with sock:
            try:
                hello, _unused = receive(sock)
                if self.mute:
                    threading.Event().wait()
                if not hmac.compare_digest(str(hello.get("secret")), self._secret):
                    self._log("AuthenticateChannel incoming", f"Peer sent wrong authentication: {peer[0]}:{peer[1]}", 2)
                    self._log("IncomingMsg", f"Rejecting message from unauthenticated peer: {peer[0]}:{peer[1]}")
                    return
                send(sock, {})
                while True:
                    self._answer(sock, *receive(sock))
            except (OSError, ValueError):
                return

    def _answer(self, sock: socket.socket, header: dict[str, Any], content: bytes) -> None:
        try:
            answer, more = self._handler(header, content)
        except OSError as error:
            answer, more = {"errno": max(error.errno or 0, 1)}, b""
        except Exception as error:
            self._log("Worker", f"{header.get('op')}: {type(error).__name__}: {error}")
            answer, more = {"errno": 121}, b""
        send(sock, answer, more)


def _bound(kind: socket.SocketKind, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    if kind == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("0.0.0.0", port))
    return sock


def connect(peer: Peer, secret: str) -> socket.socket:
    """Open an authenticated connection."""
    sock = socket.create_connection(peer, timeout=PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send(sock, {"secret": secret})
    try:
        receive(sock)
    except ConnectionError as error:
        sock.close()
        raise Refused(f"{peer[0]}:{peer[1]} hung up") from error
    return sock


class Peers:
    """Connections to any number of peers, kept open for further requests."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._idle: dict[Peer, list[socket.socket]] = {}
        self._lock = threading.Lock()

    def ask(self, peer: Peer, op: str, content: bytes | memoryview = b"", **args: Any) -> Reply:
        """Send one request and return the answer; an error of the peer is raised as OSError with its number."""
        return self.ask_all([(peer, {"op": op, **args}, content)])[0]

    def ask_all(self, questions: list[tuple[Peer, dict[str, Any], bytes | memoryview]]) -> list[Reply]:
        """Send several requests at once, to as many peers."""
        asked: list[tuple[Peer, socket.socket]] = []
        answers: list[Reply] = []
        try:
            for peer, header, content in questions:
                asked.append((peer, self._ask_one(peer, header, content)))
            for peer, sock in asked:
                answers.append(receive(sock))
                with self._lock:
                    self._idle.setdefault(peer, []).append(sock)
        except OSError:
            for _peer, sock in asked[len(answers) :]:
                sock.close()
            raise
        for header, _unused in answers:
            if header.get("errno"):
                raise OSError(header["errno"], os.strerror(header["errno"]))
        return answers

    def _ask_one(self, peer: Peer, header: dict[str, Any], content: bytes | memoryview) -> socket.socket:
        with self._lock:
            idle = self._idle.get(peer) or []
            sock = idle.pop() if idle else None
        if sock is not None and _alive(sock):
            send(sock, header, content)
            return sock
        if sock is not None:
            sock.close()
        sock = connect(peer, self._secret)
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Do not wait long for a peer whose machine has disappeared.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10000)
        send(sock, header, content)
        return sock


def _alive(sock: socket.socket) -> bool:
    """Return whether an idle connection is still open. An open one has nothing to read."""
    try:
        sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
