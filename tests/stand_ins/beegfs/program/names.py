# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree of names: directories and inodes in memory. Changes of names are written to disk immediately.

``dentries/DIRECTORY/NAME`` contains the number of an inode, ``inodes/NUMBER`` its attributes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import threading
import time
from pathlib import Path
from typing import Any

Inode = dict[str, Any]
ROOT = 1
NAME_AT_MOST = 255
_RESERVED = 1024


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Names:
    """All operations are atomic: each holds the one lock from request to answer."""

    def __init__(self, folder: Path) -> None:
        self._inodes_at, self._dentries_at, self._next_at = folder / "inodes", folder / "dentries", folder / "nextInode"
        self._lock = threading.RLock()
        self._inodes: dict[int, Inode] = {}
        self._entries: dict[int, dict[str, int]] = {}
        self._opened: dict[int, int] = {}
        self._dirty: set[int] = set()
        for made in (self._inodes_at, self._dentries_at):
            made.mkdir(exist_ok=True)
        self._next = int(self._next_at.read_text(encoding="ascii")) if self._next_at.exists() else ROOT
        self._reserved = self._next
        for file in self._inodes_at.iterdir():
            self._inodes[int(file.name, 16)] = json.loads(file.read_text(encoding="ascii"))
        for directory in self._dentries_at.iterdir():
            self._entries[int(directory.name, 16)] = {
                entry.name: int(entry.read_text(encoding="ascii"), 16) for entry in directory.iterdir()
            }
        if ROOT not in self._inodes:
            self._add({"mode": stat.S_IFDIR | 0o777, "uid": 0, "gid": 0, "parent": ROOT})

    # The files on disk.

    def _keep(self, number: int) -> None:
        path = self._inodes_at / f"{number:X}"
        path.write_text(json.dumps(self._inodes[number]), encoding="ascii")
        self._dirty.discard(number)

    def _entry_path(self, directory: int, name: str) -> Path:
        return self._dentries_at / f"{directory:X}" / name

    def _add_entry(self, directory: int, name: str, number: int) -> None:
        self._entries[directory][name] = number
        self._entry_path(directory, name).write_text(f"{number:X}", encoding="ascii")
        self._touched(directory)

    def _remove_entry(self, directory: int, name: str) -> None:
        del self._entries[directory][name]
        self._entry_path(directory, name).unlink()
        self._touched(directory)

    def _touched(self, directory: int) -> None:
        self._inodes[directory].update(mtime=time.time_ns(), ctime=time.time_ns())
        self._dirty.add(directory)

    def keep_all(self) -> None:
        """Write sizes and times that are only in memory so far."""
        with self._lock:
            for number in list(self._dirty):
                self._keep(number)

    def _add(self, what: Inode) -> int:
        number, self._next = self._next, self._next + 1
        if self._next > self._reserved:
            # Reserve numbers in advance, so that none is assigned twice, even after a crash.
            self._reserved = self._next + _RESERVED
            self._next_at.write_text(f"{self._reserved}\n", encoding="ascii")
        now = time.time_ns()
        links = 2 if stat.S_ISDIR(what["mode"]) else 1
        self._inodes[number] = {"size": 0, "nlink": links, "atime": now, "mtime": now, "ctime": now, **what}
        if stat.S_ISDIR(what["mode"]):
            self._entries[number] = {}
            (self._dentries_at / f"{number:X}").mkdir(exist_ok=True)
        self._keep(number)
        return number

    # Requests.

    def _inode(self, number: int) -> Inode:
        found = self._inodes.get(number)
        if found is None:
            raise _error(errno.ESTALE)
        return found

    def _directory(self, number: int) -> dict[str, int]:
        if number not in self._entries:
            raise _error(errno.ENOTDIR if number in self._inodes else errno.ESTALE)
        return self._entries[number]

    def _child(self, directory: int, name: str) -> int:
        number = self._directory(directory).get(name)
        if number is None:
            raise _error(errno.ENOENT)
        return number

    def get(self, number: int) -> Inode:
        """Return an inode's attributes."""
        with self._lock:
            return {"number": number, **self._inode(number)}

    def lookup(self, directory: int, name: str) -> Inode:
        """Return the inode of a name."""
        with self._lock:
            return self.get(self._child(directory, name))

    def make(self, directory: int, name: str, what: Inode) -> Inode:
        """Create a file, directory, symbolic link or special file."""
        if len(os.fsencode(name)) > NAME_AT_MOST:
            raise _error(errno.ENAMETOOLONG)
        with self._lock:
            if name in self._directory(directory):
                raise _error(errno.EEXIST)
            above = self._inode(directory)
            if not above["nlink"]:
                raise _error(errno.ENOENT)
            if above["mode"] & stat.S_ISGID:
                what["gid"] = above["gid"]
                what["mode"] |= stat.S_ISGID if stat.S_ISDIR(what["mode"]) else 0
            if stat.S_ISDIR(what["mode"]):
                what["parent"] = directory
                above["nlink"] += 1
            number = self._add(what)
            self._add_entry(directory, name, number)
            return self.get(number)

    def link(self, number: int, directory: int, name: str) -> Inode:
        """Add another name for a file."""
        with self._lock:
            if name in self._directory(directory):
                raise _error(errno.EEXIST)
            inode = self._inode(number)
            inode["nlink"] += 1
            inode["ctime"] = time.time_ns()
            self._keep(number)
            self._add_entry(directory, name, number)
            return self.get(number)

    def unlink(self, directory: int, name: str) -> int:
        """Remove a name. Return the file's number if it has no other name and is not open, else 0."""
        with self._lock:
            number = self._child(directory, name)
            if number in self._entries:
                raise _error(errno.EISDIR)
            self._remove_entry(directory, name)
            return self._drop(number)

    def _drop(self, number: int) -> int:
        inode = self._inodes[number]
        inode["nlink"] -= 1
        inode["ctime"] = time.time_ns()
        if inode["nlink"] or self._opened.get(number):
            self._dirty.add(number)
            return 0
        return self._forget(number)

    def _forget(self, number: int) -> int:
        del self._inodes[number]
        self._dirty.discard(number)
        (self._inodes_at / f"{number:X}").unlink(missing_ok=True)
        return number

    def rmdir(self, directory: int, name: str) -> None:
        """Remove an empty directory."""
        with self._lock:
            number = self._child(directory, name)
            if self._directory(number):
                raise _error(errno.ENOTEMPTY)
            self._remove_entry(directory, name)
            self._inodes[directory]["nlink"] -= 1
            del self._entries[number]
            shutil.rmtree(self._dentries_at / f"{number:X}")
            self._forget(number)

    def rename(self, source: tuple[int, str], target: tuple[int, str], replace: bool) -> int:
        """Move a name. Return the number of a replaced file, as ``unlink`` does."""
        with self._lock:
            number = self._child(*source)
            other = self._directory(target[0]).get(target[1])
            if other == number:
                return 0
            gone = 0
            if other is not None:
                if not replace:
                    raise _error(errno.EEXIST)
                gone = self._make_room(number, other, target)
            if number in self._entries:
                self._inodes[source[0]]["nlink"] -= 1
                self._inodes[target[0]]["nlink"] += 1
                self._inodes[number]["parent"] = target[0]
                self._dirty.add(number)
            self._remove_entry(*source)
            self._add_entry(*target, number)
            return gone

    def _make_room(self, number: int, other: int, target: tuple[int, str]) -> int:
        if number in self._entries and other not in self._entries:
            raise _error(errno.ENOTDIR)
        if other not in self._entries:
            return self.unlink(*target)
        if number not in self._entries:
            raise _error(errno.EISDIR)
        self.rmdir(*target)
        return 0

    def list(self, directory: int) -> list[tuple[str, int, int]]:
        """Return a directory's entries: name, number and mode."""
        with self._lock:
            above = self._inode(directory).get("parent", ROOT)
            entries = [(".", directory), ("..", above), *self._directory(directory).items()]
            return [(name, number, self._inode(number)["mode"]) for name, number in entries]

    def change(self, number: int, changes: Inode) -> Inode:
        """Change mode, owner, size or times."""
        with self._lock:
            inode = self._inode(number)
            if "mode" in changes:
                changes["mode"] = stat.S_IFMT(inode["mode"]) | stat.S_IMODE(changes["mode"])
            if "size" in changes and changes["size"] != inode["size"]:
                changes.setdefault("mtime", time.time_ns())
            inode.update(changes, ctime=changes.get("ctime", time.time_ns()))
            self._keep(number)
            return self.get(number)

    def wrote(self, number: int, end: int) -> None:
        """Record that a client has written up to ``end``."""
        with self._lock:
            inode = self._inode(number)
            now = time.time_ns()
            inode.update(size=max(inode["size"], end), mtime=now, ctime=now)
            self._dirty.add(number)

    def open(self, number: int) -> Inode:
        """Record that a client has opened the file."""
        with self._lock:
            found = self.get(number)
            self._opened[number] = self._opened.get(number, 0) + 1
            return found

    def close(self, number: int) -> int:
        """Record that a client has closed the file. Return its number if it is now removed, else 0."""
        with self._lock:
            left = self._opened.get(number, 1) - 1
            if left > 0:
                self._opened[number] = left
                return 0
            self._opened.pop(number, None)
            inode = self._inodes.get(number)
            if inode is None:
                return 0
            if inode["nlink"]:
                if number in self._dirty:
                    self._keep(number)
                return 0
            return self._forget(number)

    def count(self) -> int:
        """Return the number of inodes."""
        return len(self._inodes)
