# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client's connections to the servers, with retries for ``connCommRetrySecs``."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .interrupts import Interrupts
from .settings import Settings
from .wire import Peer, Peers, Reply

AGAIN_S = 0.25
Question = tuple[int, dict[str, Any], "bytes | memoryview"]


class Servers:
    """The management, the active metadata server and the storage targets."""

    def __init__(self, settings: Settings, interrupts: Interrupts) -> None:
        self._given_up = interrupts.given_up
        self._peers = Peers(settings.secret())
        self._patience_s = float(settings.number("connCommRetrySecs"))
        self.mgmtd: Peer = (settings.text("sysMgmtdHost"), settings.port("connMgmtdPortTCP"))
        self.found: dict[str, Any] = {"meta": [], "storage": [], "targets": []}
        self._targets: dict[int, Peer] = {}
        self._lock = threading.Lock()
        self.retries = True

    def refresh(self) -> None:
        """Get the current nodes and targets from the management."""
        found, _unused = self._peers.ask(self.mgmtd, "all")
        nodes = {node["number"]: (node["address"], node["port"]) for node in found["storage"]}
        with self._lock:
            self.found = found
            self._targets = {target["number"]: nodes[target["node"]] for target in found["targets"]}

    def tell_management(self, op: str, **what: Any) -> dict[str, Any]:
        """Send one message to the management, without retries."""
        return self._peers.ask(self.mgmtd, op, **what)[0]

    def meta(self, op: str, **args: Any) -> dict[str, Any]:
        """Ask the metadata server with the lowest number, which keeps all names."""

        def ask() -> list[Reply]:
            node = min(self.found["meta"], key=lambda found: int(found["number"]), default=None)
            if node is None:
                raise ConnectionError("no metadata server")
            return [self._peers.ask((node["address"], node["port"]), op, **args)]

        return self._with_retries(ask)[0][0]

    def storage(self, questions: list[Question]) -> list[Reply]:
        """Ask several storage targets at once."""

        def ask() -> list[Reply]:
            asked = []
            for target, header, content in questions:
                peer = self._targets.get(target)
                if peer is None:
                    raise ConnectionError(f"no storage target {target}")
                asked.append((peer, {**header, "target": target}, content))
            return self._peers.ask_all(asked)

        return self._with_retries(ask)

    def _with_retries(self, ask: Callable[[], list[Reply]]) -> list[Reply]:
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return ask()
            except OSError as error:
                lost = isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _LOST
                if not lost:
                    raise
            if self._given_up():
                raise OSError(errno.EINTR, os.strerror(errno.EINTR))
            if not self.retries or time.monotonic() > until:
                raise OSError(errno.ECOMM, os.strerror(errno.ECOMM))
            time.sleep(AGAIN_S)


_LOST = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EBADF, errno.EHOSTDOWN, errno.ENETDOWN}
