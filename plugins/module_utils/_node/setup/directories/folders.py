# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Making directories where every user may put something, without being led elsewhere by it.

Each part of a path is opened by itself, in the folder opened before it, and never through a symbolic link. So what is
changed is what was looked at, whatever is renamed meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..scratch.mounting import gid_of, uid_of
from .wanted import Folder

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)


class FolderProblem(RuntimeError):
    """A directory cannot be made or must not be touched; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Base:
    """The opened folder that all paths begin in.

    :ivar handle: its handle.
    :ivar path: its path, for messages.
    :ivar filesystem: what it lies on, in words.
    """

    handle: int
    path: str
    filesystem: str

    @property
    def free(self) -> str:
        """What is free there, in words."""
        found = os.fstatvfs(self.handle)
        return f"{found.f_bavail * found.f_frsize} bytes and {found.f_favail} inodes are free"


@contextlib.contextmanager
def opened(path: str, shown: str, filesystem: str) -> Iterator[Base]:
    """Open a folder that is none of a user's making.

    :raises OSError: it is not there, or a symbolic link.
    """
    handle = os.open(path, _OPEN)
    try:
        yield Base(handle, shown, filesystem)
    finally:
        os.close(handle)


def make(base: Base, folder: Folder, trusted: frozenset[int], check: bool = False) -> str:
    """Make a directory and its parents, or give an existing one its owner, group and mode.

    Nothing is changed below a directory that exists. Missing parents belong to root and have mode 0755.

    :param trusted: users whose directories may be used where every user may make one.
    :param check: only say what would be done.
    :return: what was done, or would be; empty where nothing is to be.
    :raises FolderProblem: it cannot be done.
    """
    path = f"{base.path}/{folder.path}"
    uid, gid = uid_of(folder.owner), gid_of(folder.group)
    mine = trusted | {uid, os.geteuid()}
    made = False
    parts = folder.path.split("/")
    with contextlib.ExitStack() as handles:
        here = base.handle
        for place, part in enumerate(parts, start=1):
            so_far = "/".join([base.path, *parts[:place]])
            with _told(so_far, base):
                try:
                    inside = os.open(part, _OPEN, dir_fd=here)
                except FileNotFoundError:
                    if check:
                        return f"make {path} {folder}"
                    inside = _make(part, here)
                    handles.callback(os.close, inside)
                    if place < len(parts):
                        os.fchmod(inside, 0o755)
                    made = True
                else:
                    handles.callback(os.close, inside)
                    _check(so_far, os.fstat(here), os.fstat(inside), mine)
            here = inside
        with _told(path, base):
            changed = adapt(here, uid, gid, folder.mode, check)
    return f"make {path} {folder}" if made or changed else ""


def adapt(handle: int, uid: int, gid: int, mode: int, check: bool = False) -> bool:
    """Give an opened folder its owner, group and mode; return whether it had others.

    :raises OSError: it cannot be done.
    """
    found = os.fstat(handle)
    if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (uid, gid, mode):
        return False
    if not check:
        if (found.st_uid, found.st_gid) != (uid, gid):
            os.fchown(handle, uid, gid)
        # After the owner: to change that takes set-user-id and the like away.
        os.fchmod(handle, mode)
    return True


def remove_empty(base: Base, paths: Iterable[str]) -> list[str]:
    """Remove those of the directories, and of their parents, in which there is nothing; return their paths."""
    parts = [path.split("/") for path in paths]
    all_paths = {"/".join(words[:depth]) for words in parts for depth in range(1, len(words) + 1)}
    # The deepest first: a parent is empty when what was in it is gone.
    return [
        path for path in sorted(all_paths, key=lambda path: (-path.count("/"), path)) if _remove_if_empty(base, path)
    ]


def _remove_if_empty(base: Base, path: str) -> bool:
    with contextlib.ExitStack() as handles:
        here = base.handle
        *parents, last = path.split("/")
        try:
            for part in parents:
                here = os.open(part, _OPEN, dir_fd=here)
                handles.callback(os.close, here)
            os.rmdir(last, dir_fd=here)
        except OSError:
            return False
    return True


def _make(part: str, here: int) -> int:
    # Nobody else gets in until owner and mode are right.
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=here)
    inside = os.open(part, _OPEN, dir_fd=here)
    if os.fstat(inside).st_uid != os.geteuid():
        os.close(inside)
        raise FileExistsError(errno.EEXIST, "somebody else made it in this very moment")
    return inside


def _check(path: str, parent: os.stat_result, found: os.stat_result, mine: frozenset[int]) -> None:
    """Where every user may make a directory, only those of known owners are used."""
    if parent.st_mode & stat.S_IWOTH and found.st_uid not in mine:
        raise FolderProblem(
            f"{path} belongs to user {found.st_uid}, who may have put anything there: remove it, or give it to root"
        )


@contextlib.contextmanager
def _told(path: str, base: Base) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderProblem(f"{path}: {_reason(error, base)}") from error


def _reason(error: OSError, base: Base) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "there is a file or a symbolic link of that name, which is not followed: remove it"
    if error.errno in _FULL:
        return f"the file system ({base.filesystem}) is full, {base.free}: remove something, or build it anew"
    return error.strerror or str(error)
