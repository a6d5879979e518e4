# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata server. The one with the lowest number keeps all names; others only register."""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

from .daemon import HEARTBEAT_S, Daemon, live
from .faults import faults
from .names import Inode, Names
from .wire import Reply

STRIPES = 4


class Metadata:
    """Answers requests from the tree of names."""

    def __init__(self, daemon: Daemon, names: Names) -> None:
        self._daemon, self._names = daemon, names

    def answer(self, asked: dict[str, Any], _content: bytes) -> Reply:
        """Answer one request."""
        reply: dict[str, Any] = getattr(self, "do_" + asked.pop("op"))(**asked)
        return reply, b""

    def do_get(self, number: int) -> Inode:
        return self._names.get(number)

    def do_lookup(self, directory: int, name: str) -> Inode:
        return self._names.lookup(directory, name)

    def do_make(self, directory: int, name: str, what: Inode) -> Inode:
        if "disk-full" in faults("meta"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if stat.S_ISREG(what["mode"]):
            what["targets"] = self._targets()
        return self._names.make(directory, name, what)

    def _targets(self) -> list[int]:
        found, _unused = self._daemon.peers.ask(self._daemon.mgmtd, "all")
        there = [target["number"] for target in found["targets"] if target["state"] == "Online"]
        if not there:
            raise OSError(errno.EREMOTEIO, "No usable storage targets")
        return random.sample(there, min(STRIPES, len(there)))

    def do_create(self, directory: int, name: str, what: Inode) -> Inode:
        made = self.do_make(directory, name, what)
        return self._names.open(made["number"])

    def do_link(self, number: int, directory: int, name: str) -> Inode:
        return self._names.link(number, directory, name)

    def do_unlink(self, directory: int, name: str) -> dict[str, Any]:
        before = self._names.lookup(directory, name)
        return {"gone": self._names.unlink(directory, name), "targets": before.get("targets", [])}

    def do_rmdir(self, directory: int, name: str) -> dict[str, Any]:
        self._names.rmdir(directory, name)
        return {}

    def do_rename(self, source: list[Any], target: list[Any], replace: bool) -> dict[str, Any]:
        try:
            before = self._names.lookup(target[0], target[1]).get("targets", [])
        except FileNotFoundError:
            before = []
        gone = self._names.rename((source[0], source[1]), (target[0], target[1]), replace)
        return {"gone": gone, "targets": before}

    def do_list(self, directory: int) -> dict[str, Any]:
        return {"entries": self._names.list(directory)}

    def do_change(self, number: int, changes: Inode) -> Inode:
        return self._names.change(number, changes)

    def do_wrote(self, number: int, end: int) -> dict[str, Any]:
        self._names.wrote(number, end)
        return {}

    def do_open(self, number: int) -> Inode:
        return self._names.open(number)

    def do_close(self, number: int) -> dict[str, Any]:
        return {"gone": self._names.close(number)}

    def do_sync(self) -> dict[str, Any]:
        self._names.keep_all()
        return {}

    def do_count(self) -> dict[str, Any]:
        return {"inodes": self._names.count()}


def _serve(daemon: Daemon) -> Callable[[], None]:
    names = Names(daemon.folder(daemon.settings.text("storeMetaDirectory")))
    port = daemon.settings.port("connMetaPortTCP")
    daemon.listen(port, Metadata(daemon, names).answer)
    daemon.register(port)

    def keep_regularly() -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            names.keep_all()

    threading.Thread(target=keep_regularly, daemon=True).start()
    return names.keep_all


def main(argv: list[str]) -> int:
    """``beegfs-meta cfgFile=FILE``"""
    return live("meta", argv[1:], _serve)
