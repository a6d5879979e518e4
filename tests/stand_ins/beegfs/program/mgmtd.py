# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The management daemon: registers nodes and targets, assigns their IDs, and tracks when each last reported."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .daemon import Daemon, live
from .wire import Reply

CLIENT_FORGOTTEN_S = 1800.0


class Registry:
    """Nodes and targets, stored in a file in the management's folder."""

    def __init__(self, folder: Path, offline_s: float, new_allowed: bool) -> None:
        self._file, self._offline_s, self._new_allowed = folder / "nodes.json", offline_s, new_allowed
        self._lock = threading.Lock()
        self._heard: dict[tuple[str, int], float] = {}
        self._nodes: dict[str, dict[int, dict[str, Any]]] = {"meta": {}, "storage": {}, "client": {}}
        self._targets: dict[int, dict[str, Any]] = {}
        if self._file.exists():
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            self._targets = {int(number): target for number, target in kept["targets"].items()}
            for kind, nodes in kept["nodes"].items():
                self._nodes[kind] = {int(number): node for number, node in nodes.items()}

    def _keep(self) -> None:
        text = json.dumps({"nodes": self._nodes, "targets": self._targets})
        fresh = self._file.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._file)

    def register(self, node: dict[str, Any]) -> Reply:
        """Add a node or record its report; return its ID and those of its targets."""
        kind, wanted = node["kind"], {key: node[key] for key in ("name", "address", "port")}
        with self._lock:
            nodes, before = self._nodes[kind], json.dumps([self._nodes, self._targets])
            number = next((found for found, one in nodes.items() if one["name"] == node["name"]), 0)
            if not number:
                if not self._new_allowed and kind != "client":
                    raise PermissionError(errno.EPERM, "Registration of new servers disabled")
                number = next(free for free in range(1, 1 << 16) if free not in nodes)
            nodes[number] = wanted
            targets = {path: self._target(number, path) for path in node.get("targets", [])}
            self._heard[kind, number] = time.monotonic()
            if json.dumps([self._nodes, self._targets]) != before:
                self._keep()
        return {"number": number, "targets": targets}, b""

    def _target(self, node: int, path: str) -> int:
        for number, target in self._targets.items():
            if target == {"node": node, "path": path}:
                return number
        number = max(self._targets, default=0) + 1
        self._targets[number] = {"node": node, "path": path}
        return number

    def remove(self, kind: str, name: str) -> Reply:
        """Deregister a client."""
        with self._lock:
            self._nodes[kind] = {number: one for number, one in self._nodes[kind].items() if one["name"] != name}
            self._keep()
        return {}, b""

    def state(self, kind: str, number: int) -> str:
        """Return a node's state. Like the real management, it is "Probably-offline" after half of the timeout."""
        heard = self._heard.get((kind, number))
        silent = time.monotonic() - heard if heard is not None else self._offline_s / 2
        if silent >= self._offline_s:
            return "Offline"
        return "Probably-offline" if silent >= self._offline_s / 2 else "Online"

    def all(self) -> Reply:
        """Return all nodes and targets, for tools, clients and the metadata server."""
        with self._lock:
            self._forget_clients()
            nodes = {
                kind: [
                    {"number": number, "state": self.state(kind, number), **one}
                    for number, one in sorted(found.items())
                ]
                for kind, found in self._nodes.items()
            }
            targets = [
                {"number": number, "node": target["node"], "state": self.state("storage", target["node"])}
                for number, target in self._targets.items()
            ]
        return {**nodes, "targets": targets}, b""

    def _forget_clients(self) -> None:
        now = time.monotonic()
        for number in list(self._nodes["client"]):
            if now - self._heard.setdefault(("client", number), now) > CLIENT_FORGOTTEN_S:
                del self._nodes["client"][number]


def _serve(daemon: Daemon) -> Callable[[], None]:
    settings = daemon.settings
    folder = daemon.folder(settings.text("storeMgmtdDirectory"))
    offline_s = float(settings.number("sysTargetOfflineTimeoutSecs"))
    registry = Registry(folder, offline_s, settings.true("sysAllowNewServers"))

    me = {"number": 1, "name": socket.gethostname(), "address": daemon.address}
    me["port"] = settings.port("connMgmtdPortTCP")

    def answer(asked: dict[str, Any], _content: bytes) -> Reply:
        if asked["op"] == "register":
            return registry.register(asked)
        if asked["op"] == "remove":
            return registry.remove(asked["kind"], asked["name"])
        found, _unused = registry.all()
        return {"mgmt": [me], **found}, b""

    daemon.listen(settings.port("connMgmtdPortTCP"), answer)
    return lambda: None


def main(argv: list[str]) -> int:
    """``beegfs-mgmtd cfgFile=FILE``"""
    return live("mgmtd", argv[1:], _serve)
