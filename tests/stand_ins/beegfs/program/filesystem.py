# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers the kernel's requests: names come from the metadata server, content from the storage servers."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time
from collections.abc import Callable
from typing import Any

from . import fuse_kernel as fuse
from .servers import Servers
from .stripes import CHUNK, Content

Inode = dict[str, Any]
Owner = tuple[int, int]
_SECOND = 10**9


def attributes(inode: Inode) -> bytes:
    """Return an inode as ``struct fuse_attr``."""
    times = [divmod(inode[key], _SECOND) for key in ("atime", "mtime", "ctime")]
    blocks = (inode["size"] + 511) // 512
    return fuse.ATTRIBUTES.pack(
        *(inode["number"], inode["size"], blocks, *(time[0] for time in times), *(time[1] for time in times)),
        *(inode["mode"], inode["nlink"], inode["uid"], inode["gid"], inode.get("rdev", 0), CHUNK, 0),
    )


def entry(inode: Inode) -> bytes:
    """Return ``struct fuse_entry_out`` for an inode. The kernel must not cache it: another node may change it."""
    return fuse.ENTRY.pack(inode["number"], 0, 0, 0, 0, 0) + attributes(inode)


def _changes(content: memoryview) -> Inode:
    valid, _unused, _fh, size, _unused, atime, mtime, ctime, *rest = fuse.SET_ATTRIBUTES.unpack_from(content)
    atime_ns, mtime_ns, ctime_ns, mode, _unused, uid, gid, _unused = rest
    now = time.time_ns()
    possible = [
        (fuse.SET_MODE, "mode", mode),
        (fuse.SET_UID, "uid", uid),
        (fuse.SET_GID, "gid", gid),
        (fuse.SET_SIZE, "size", size),
        (fuse.SET_ATIME, "atime", atime * _SECOND + atime_ns),
        (fuse.SET_MTIME, "mtime", mtime * _SECOND + mtime_ns),
        (fuse.SET_ATIME_NOW, "atime", now),
        (fuse.SET_MTIME_NOW, "mtime", now),
        (fuse.SET_CTIME, "ctime", ctime * _SECOND + ctime_ns),
    ]
    return {key: value for bit, key, value in possible if valid & bit}


class FileSystem:
    """Answers to the kernel's requests."""

    def __init__(self, servers: Servers) -> None:
        self._servers, self._content = servers, Content(servers)
        self._targets: dict[int, list[int]] = {}
        self._lists: dict[int, list[tuple[str, int, int]]] = {}
        self._handles = itertools.count(1)
        self._silent = {fuse.FORGET, fuse.BATCH_FORGET}
        self._operations: dict[int, Callable[[int, Owner, memoryview], bytes]] = {
            fuse.START: self._start,
            fuse.LOOKUP: self._lookup,
            fuse.GETATTR: self._getattr,
            fuse.SETATTR: self._setattr,
            fuse.READLINK: self._readlink,
            fuse.SYMLINK: self._symlink,
            fuse.MKNOD: self._mknod,
            fuse.MKDIR: self._mkdir,
            fuse.UNLINK: self._unlink,
            fuse.RMDIR: self._rmdir,
            fuse.RENAME_OLD: self._rename,
            fuse.RENAME_NEW: self._rename2,
            fuse.LINK: self._link,
            fuse.OPEN: self._open,
            fuse.CREATE_FILE: self._create,
            fuse.READ: self._read,
            fuse.WRITE: self._write,
            fuse.RELEASE: self._release,
            fuse.FSYNC: self._fsync,
            fuse.FSYNCDIR: self._fsyncdir,
            fuse.OPENDIR: self._opendir,
            fuse.READDIR: self._readdir,
            fuse.RELEASEDIR: self._releasedir,
            fuse.STATFS_OF: self._statfs,
            fuse.DESTROY: lambda _node, _owner, _content: b"",
        }

    def answer(self, operation: int, node: int, owner: Owner, content: memoryview) -> bytes | None:
        """Answer one request; None if the kernel expects no answer."""
        if operation in self._silent:
            return None
        do = self._operations.get(operation)
        if do is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return do(node, owner, content)

    def _start(self, _node: int, _owner: Owner, content: memoryview) -> bytes:
        _major, _minor, read_ahead, _flags = fuse.INIT.unpack_from(content)
        return fuse.INIT_REPLY.pack(
            *(fuse.MAJOR, fuse.MINOR, max(read_ahead, fuse.READ_AHEAD), fuse.ABILITIES, 64, 48),
            *(fuse.WRITE_AT_MOST, 1, fuse.PAGES_AT_MOST, 0, 0),
        )

    # Names.

    def _lookup(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        return entry(self._servers.meta("lookup", directory=node, name=os.fsdecode(fuse.name(content))))

    def _getattr(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        return fuse.ATTRIBUTES_VALID.pack(0, 0, 0) + attributes(self._servers.meta("get", number=node))

    def _setattr(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        changes = _changes(content)
        if "size" in changes:
            targets = self._targets_of(node)
            if targets:
                self._content.truncate(node, targets, changes["size"])
        inode = self._servers.meta("change", number=node, changes=changes)
        return fuse.ATTRIBUTES_VALID.pack(0, 0, 0) + attributes(inode)

    def _make(self, node: int, name: bytes, **what: Any) -> bytes:
        return entry(self._servers.meta("make", directory=node, name=os.fsdecode(name), what=what))

    def _symlink(self, node: int, owner: Owner, content: memoryview) -> bytes:
        name, target = bytes(content).split(b"\0")[:2]
        mode = stat.S_IFLNK | 0o777
        made = {"mode": mode, "uid": owner[0], "gid": owner[1], "size": len(target), "to": os.fsdecode(target)}
        return self._make(node, name, **made)

    def _readlink(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        return os.fsencode(self._servers.meta("get", number=node)["to"])

    def _mknod(self, node: int, owner: Owner, content: memoryview) -> bytes:
        mode, rdev, _umask, _unused = fuse.MAKE_NODE.unpack_from(content)
        name = fuse.name(content[fuse.MAKE_NODE.size :])
        return self._make(node, name, mode=mode, uid=owner[0], gid=owner[1], rdev=rdev)

    def _mkdir(self, node: int, owner: Owner, content: memoryview) -> bytes:
        mode, _umask = fuse.MAKE_DIRECTORY.unpack_from(content)
        name = fuse.name(content[fuse.MAKE_DIRECTORY.size :])
        return self._make(node, name, mode=stat.S_IFDIR | mode, uid=owner[0], gid=owner[1])

    def _unlink(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        done = self._servers.meta("unlink", directory=node, name=os.fsdecode(fuse.name(content)))
        self._remove_content(done["gone"], done["targets"])
        return b""

    def _remove_content(self, gone: int, targets: list[int]) -> None:
        if gone:
            self._targets.pop(gone, None)
            if targets:
                self._content.remove(gone, targets)

    def _rmdir(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        self._servers.meta("rmdir", directory=node, name=os.fsdecode(fuse.name(content)))
        return b""

    def _rename(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        (target,) = fuse.RENAME.unpack_from(content)
        return self._move(node, target, content[fuse.RENAME.size :], True)

    def _rename2(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        target, flags, _unused = fuse.RENAME2.unpack_from(content)
        if flags & ~fuse.NO_REPLACE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return self._move(node, target, content[fuse.RENAME2.size :], not flags)

    def _move(self, node: int, directory: int, names: memoryview, replace: bool) -> bytes:
        old, new = (os.fsdecode(name) for name in bytes(names).split(b"\0")[:2])
        done = self._servers.meta("rename", source=[node, old], target=[directory, new], replace=replace)
        self._remove_content(done["gone"], done["targets"])
        return b""

    def _link(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        (number,) = fuse.HANDLE.unpack_from(content)
        name = os.fsdecode(fuse.name(content[fuse.HANDLE.size :]))
        return entry(self._servers.meta("link", number=number, directory=node, name=name))

    # Files.

    def _targets_of(self, node: int) -> list[int]:
        found = self._targets.get(node)
        if found is None:
            found = self._targets[node] = self._servers.meta("get", number=node).get("targets", [])
        return found

    def _open(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        self._targets[node] = self._servers.meta("open", number=node).get("targets", [])
        return fuse.OPENED.pack(next(self._handles), 0, 0)

    def _create(self, node: int, owner: Owner, content: memoryview) -> bytes:
        _flags, mode, _umask, _unused = fuse.CREATE.unpack_from(content)
        name = os.fsdecode(fuse.name(content[fuse.CREATE.size :]))
        what = {"mode": mode, "uid": owner[0], "gid": owner[1]}
        inode = self._servers.meta("create", directory=node, name=name, what=what)
        self._targets[inode["number"]] = inode["targets"]
        return entry(inode) + fuse.OPENED.pack(next(self._handles), 0, 0)

    def _read(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        _fh, offset, length, *_unused = fuse.TRANSFER.unpack_from(content)
        length = min(length, self._servers.meta("get", number=node)["size"] - offset)
        return self._content.read(node, self._targets_of(node), offset, length) if length > 0 else b""

    def _write(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        _fh, offset, length, *_unused = fuse.TRANSFER.unpack_from(content)
        self._content.write(node, self._targets_of(node), offset, content[fuse.TRANSFER.size :][:length])
        self._servers.meta("wrote", number=node, end=offset + length)
        return fuse.WRITTEN.pack(length, 0)

    def _release(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        targets = self._targets.get(node, [])
        self._remove_content(self._servers.meta("close", number=node)["gone"], targets)
        return b""

    def _fsync(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        self._content.sync(node, self._targets_of(node))
        return self._fsyncdir(node, (0, 0), _content)

    def _fsyncdir(self, _node: int, _owner: Owner, _content: memoryview) -> bytes:
        self._servers.meta("sync")
        return b""

    # Directories and the file system as a whole.

    def _opendir(self, node: int, _owner: Owner, _content: memoryview) -> bytes:
        handle = next(self._handles)
        self._lists[handle] = self._servers.meta("list", directory=node)["entries"]
        return fuse.OPENED.pack(handle, 0, 0)

    def _readdir(self, node: int, _owner: Owner, content: memoryview) -> bytes:
        handle, offset, length, *_unused = fuse.TRANSFER.unpack_from(content)
        if not offset:
            # rewinddir() starts from the beginning, so list the current entries.
            self._lists[handle] = self._servers.meta("list", directory=node)["entries"]
        answer = b""
        for position, (name, number, mode) in enumerate(self._lists[handle][offset:], offset + 1):
            raw = os.fsencode(name)
            one = fuse.ENTRY_OF_DIRECTORY.pack(number, position, len(raw), stat.S_IFMT(mode) >> 12) + raw
            one += b"\0" * (-len(one) % 8)
            if len(answer) + len(one) > length:
                break
            answer += one
        return answer

    def _releasedir(self, _node: int, _owner: Owner, content: memoryview) -> bytes:
        self._lists.pop(fuse.HANDLE.unpack_from(content)[0], None)
        return b""

    def _statfs(self, _node: int, _owner: Owner, _content: memoryview) -> bytes:
        blocks, free, inodes, inodes_free = self._content.space()
        return fuse.STATFS.pack(blocks, free, free, inodes, inodes_free, 4096, 255, 4096, 0)
