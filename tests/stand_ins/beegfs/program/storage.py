# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage server: keeps a target's part of each file in one file in the folder ``chunks``."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .daemon import Daemon, live
from .faults import faults
from .wire import Reply

_NUMBER = re.compile(r"[0-9A-F]{1,16}")


class Targets:
    """The folders of this server, by the target IDs that the management assigned."""

    def __init__(self) -> None:
        self.folders: dict[int, Path] = {}

    def _path(self, asked: dict[str, Any]) -> Path:
        folder = self.folders.get(asked["target"])
        if folder is None or not _NUMBER.fullmatch(asked["file"]):
            raise OSError(errno.EREMOTEIO, "Unknown storage target")
        return folder / "chunks" / str(asked["file"])

    def write(self, asked: dict[str, Any], content: bytes) -> Reply:
        """Write at an offset of this target's part."""
        if "disk-full" in faults("storage"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = os.open(self._path(asked), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            done = 0
            while done < len(content):
                done += os.pwrite(descriptor, memoryview(content)[done:], asked["offset"] + done)
        finally:
            os.close(descriptor)
        return {}, b""

    def read(self, asked: dict[str, Any], _content: bytes) -> Reply:
        """Read from an offset; returns fewer bytes, or none, at the end."""
        try:
            descriptor = os.open(self._path(asked), os.O_RDONLY)
        except FileNotFoundError:
            return {}, b""
        try:
            return {}, os.pread(descriptor, asked["length"], asked["offset"])
        finally:
            os.close(descriptor)

    def truncate(self, asked: dict[str, Any], _content: bytes) -> Reply:
        """Truncate this target's part, if it exists."""
        path = self._path(asked)
        if path.exists() and path.stat().st_size > asked["length"]:
            os.truncate(path, asked["length"])
        return {}, b""

    def sync(self, asked: dict[str, Any], _content: bytes) -> Reply:
        """Flush this target's part to the disk."""
        try:
            descriptor = os.open(self._path(asked), os.O_RDONLY)
        except FileNotFoundError:
            return {}, b""
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return {}, b""

    def remove(self, asked: dict[str, Any], _content: bytes) -> Reply:
        """Remove this target's part of a file."""
        self._path(asked).unlink(missing_ok=True)
        return {}, b""

    def space(self, _asked: dict[str, Any], _content: bytes) -> Reply:
        """Return blocks of 4096 bytes and inodes, total and free, of each target."""
        full, found = "disk-full" in faults("storage"), {}
        for number, folder in self.folders.items():
            disk = os.statvfs(folder)
            free = 0 if full else disk.f_bavail * disk.f_frsize // 4096
            found[number] = [disk.f_blocks * disk.f_frsize // 4096, free, disk.f_files, disk.f_favail]
        return {"targets": found}, b""


def _serve(daemon: Daemon) -> Callable[[], None]:
    folders = [path.strip() for path in daemon.settings.text("storeStorageDirectory").split(",")]
    for path in folders:
        (daemon.folder(path) / "chunks").mkdir(exist_ok=True)
    targets = Targets()
    answers = {name: getattr(targets, name) for name in ("write", "read", "truncate", "sync", "remove", "space")}
    port = daemon.settings.port("connStoragePortTCP")
    daemon.listen(port, lambda asked, content: answers[asked["op"]](asked, content))
    known = daemon.register(port, targets=folders)
    for path, number in known["targets"].items():
        targets.folders[number] = Path(path)
        (Path(path) / "targetNumID").write_text(f"{number}\n", encoding="ascii")
        (Path(path) / "nodeNumID").write_text(f"{known['number']}\n", encoding="ascii")
        daemon.log("App", f"Storage target: {path}; target ID: {number}", 2)
    return lambda: None


def main(argv: list[str]) -> int:
    """``beegfs-storage cfgFile=FILE``"""
    return live("storage", argv[1:], _serve)
