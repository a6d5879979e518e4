# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The one safe way for root to make, own, walk, mount and remove anything below a folder that users can write to.

A user who can write to a folder can put a file, a link or a folder there, and swap one for another while root looks.
So nothing is done by path: each part is opened in the folder opened before it, no link is followed, the owner is read
from what is open, and a command gets the open folder (/proc/PID/fd/N).
tests/unit/house/test_user_folders.py finds every other use in the collection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Callable

from .root import Root
from .run import Result

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TRIES = 1000
"""A user may recreate what root moves aside, as fast as root: root has to be first only once."""
_LARGEST = 1 << 16
"""Bytes to read of a file that root wrote."""


class FolderProblem(RuntimeError):
    """A folder cannot be made or must not be touched; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Base:
    """An open folder.

    :ivar handle: its descriptor.
    :ivar path: its path, for messages.
    :ivar filesystem: the file system it lies on, in words.
    """

    handle: int
    path: str
    filesystem: str = ""

    @property
    def free(self) -> str:
        """The free space there, in words."""
        found = os.fstatvfs(self.handle)
        return f"{found.f_bavail * found.f_frsize} bytes and {found.f_favail} inodes are free"

    @property
    def for_commands(self) -> str:
        """The open folder as a path for commands that root starts, such as mount and rm."""
        return f"/proc/{os.getpid()}/fd/{self.handle}"

    def look(self, name: str) -> os.stat_result | None:
        """Return the facts of an entry, of the link itself if it is one; None if it is missing."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def enter(self, name: str) -> Iterator[Base]:
        """Open a folder in this one.

        :raises OSError: it is missing, a file or a link.
        """
        handle = os.open(name, _OPEN, dir_fd=self.handle)
        try:
            yield Base(handle, f"{self.path}/{name}", self.filesystem)
        finally:
            os.close(handle)


@contextlib.contextmanager
def opened(path: str, shown: str, filesystem: str = "") -> Iterator[Base]:
    """Open a folder that users cannot replace, such as a mount point in the root folder.

    :raises OSError: it is missing, or a symbolic link.
    """
    handle = os.open(path, _OPEN)
    try:
        yield Base(handle, shown, filesystem)
    finally:
        os.close(handle)


@contextlib.contextmanager
def walk(root: Root, path: str, make_mode: int | None = None) -> Iterator[Base]:
    """Open a folder part by part. Where users can write, a part must be root's, in a folder with the sticky bit.

    :param make_mode: make missing parts, with these permissions.
    :raises FolderProblem: users could have put a part there, or could replace it.
    :raises OSError: a part is missing, or is no folder.
    """
    with contextlib.ExitStack() as handles:
        here = os.open(root.at("/"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        handles.callback(os.close, here)
        so_far = ""
        for name in filter(None, path.split("/")):
            so_far += f"/{name}"
            facts = os.fstat(here)
            if make_mode is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, make_mode, dir_fd=here)
            # A link in a folder that only root can write to is the operator's.
            inside = _open(name, here, so_far, _OPEN if is_open(facts) else _OPEN & ~os.O_NOFOLLOW)
            handles.callback(os.close, inside)
            if is_open(facts):
                _demand_root(so_far, facts, os.fstat(inside))
            here = inside
        yield Base(here, so_far)


def is_open(facts: os.stat_result) -> bool:
    """Whether somebody else than root can make or rename something in a folder."""
    return bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or facts.st_uid not in owners_of_root()


def owners_of_root() -> frozenset[int]:
    """Return the users whose files count as root's: root, and whoever runs the tests."""
    return frozenset({0, os.geteuid()})


def take(base: Base, name: str, trusted: frozenset[int], warn: Callable[[str], None]) -> tuple[int, bool]:
    """Open a folder in ``base``, made if it is missing, with mode 0700. Return its descriptor and whether it was made.

    Where users can write, whatever is in its place and belongs to none of ``trusted`` is moved aside with a warning;
    a link, an empty folder or an empty file is removed.

    :raises FolderProblem: users recreate what is in its place again and again.
    :raises OSError: it cannot be made.
    """
    facts = os.fstat(base.handle)
    warned = False
    for _try in range(_TRIES if is_open(facts) else 1):
        # Nobody else gets in until owner and mode are right.
        made = False
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=base.handle)
            made = True
        if not is_open(facts):
            return os.open(name, _OPEN, dir_fd=base.handle), made
        inside = _open_of(name, base.handle, trusted)
        if inside is not None:
            return inside, made
        words = _move_aside(base, name)
        if words and not warned:
            warn(words)
            warned = True
    raise FolderProblem(f"{base.path}/{name}: users recreate what is in its place {_TRIES} times: remove it")


def foreign(base: Base, name: str, trusted: frozenset[int]) -> str:
    """Return what of others is in the place of a folder, in words; nothing if it is missing or belongs to one of
    ``trusted``. Changes nothing."""
    facts = base.look(name)
    if facts is None or not is_open(os.fstat(base.handle)):
        return ""
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid in trusted:
        return ""
    return f"{base.path}/{name} is {_kind(facts)} of user {facts.st_uid}"


def adapt(handle: int, uid: int, gid: int, mode: int, check: bool = False) -> bool:
    """Give an open folder its owner, group and mode; return whether it had others.

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


def read_root_file(base: Base, name: str) -> str | None:
    """Return the text of a file of root's; None if it is missing, no file, or a user's."""
    try:
        # A pipe of a user's must not block.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=base.handle)
    except OSError:
        return None
    with open(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in owners_of_root():
            return None
        return file.read(_LARGEST).decode("utf-8", "replace").strip()


def write_new(base: Base, name: str, text: str, mode: int) -> None:
    """Write a file that is not there yet.

    :raises OSError: it is there, or cannot be written.
    """
    handle = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=base.handle
    )
    with open(handle, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def as_problem(path: str, base: Base) -> Iterator[None]:
    """Turn an OSError within into a FolderProblem that names the path.

    :raises FolderProblem: see there.
    """
    try:
        yield
    except OSError as error:
        raise FolderProblem(f"{path}: {_reason(error, base)}") from error


def _open(name: str, here: int, shown: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise FolderProblem(f"{shown} is a file or a symbolic link, which is not followed: remove it") from None
        raise OSError(error.errno, error.strerror, shown) from None


def _demand_root(shown: str, parent: os.stat_result, found: os.stat_result) -> None:
    if found.st_uid not in owners_of_root():
        raise FolderProblem(f"{shown} belongs to user {found.st_uid}, and not to root: remove it")
    if not parent.st_mode & stat.S_ISVTX:
        raise FolderProblem(f"users can replace {shown}: take write permission in its parent from them, or chmod +t it")


def _open_of(name: str, here: int, trusted: frozenset[int]) -> int | None:
    """Return the descriptor of a folder of a trusted user; None if it is something else."""
    try:
        handle = os.open(name, _OPEN, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return None
        raise
    if os.fstat(handle).st_uid in trusted:
        return handle
    os.close(handle)
    return None


def _move_aside(base: Base, name: str) -> str:
    """Rename what is in a place, which follows no link; return what it was, in words."""
    facts = base.look(name)
    aside = f"{name}.aside-{secrets.token_hex(4)}"
    try:
        os.rename(name, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    except FileNotFoundError:
        return ""
    moved = base.look(aside)
    facts = moved or facts
    # Without content, nobody misses it, and a user who recreates it does not fill the folder with names.
    with contextlib.suppress(OSError):
        if moved and stat.S_ISDIR(moved.st_mode):
            os.rmdir(aside, dir_fd=base.handle)
        elif moved and (not stat.S_ISREG(moved.st_mode) or not moved.st_size):
            os.unlink(aside, dir_fd=base.handle)
    became = f"it was moved to {base.path}/{aside}" if base.look(aside) else "it was removed"
    return f"{base.path}/{name} was {_kind(facts)} of user {facts.st_uid}: {became}" if facts else ""


def _kind(facts: os.stat_result) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a symbolic link"), (stat.S_ISREG, "a file"))
    return next((words for test, words in kinds if test(facts.st_mode)), "a special file")


def _reason(error: OSError, base: Base) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "there is a file or a symbolic link of that name, which is not followed: remove it"
    if error.errno in _FULL:
        return f"the file system ({base.filesystem}) is full, {base.free}: remove something, or build it anew"
    return error.strerror or str(error)


_NOBODY = 65534
_RM = ("rm", "-rf", "--one-file-system", "--")

Run = Callable[[Sequence[str]], Result]


def remove(base: Base, names: Iterable[str], run: Run) -> Result | None:
    """Remove entries of a folder that only root can write to, with all that users made below them.

    rm descends by descriptors, follows no link and stays on the file system, however deep it is.

    :return: what rm answered; None if there was nothing to remove.
    :raises FolderProblem: users can write to the folder: what they own is removed as them.
    """
    if is_open(os.fstat(base.handle)):
        raise FolderProblem(f"{base.path}: users can write there, so root removes nothing in it")
    paths = [f"{base.for_commands}/{name}" for name in names]
    return run([*_RM, *paths]) if paths else None


def remove_as_owner(path: str, uid: int, run: Run) -> str:
    """Remove a user's file or folder as this user, who can lead it only to what he could remove himself.

    :return: why it stays, in words; nothing if it is gone.
    """
    become = ("setpriv", f"--reuid={uid}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs")
    prefix = [*become, "--"] if os.geteuid() == 0 else []
    # Images have folders that their owner may not write to. find follows no links.
    run([*prefix, "find", path, "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", "+"])
    answer = run([*prefix, *_RM, path])
    return "" if answer.rc == 0 else f"{path}: {(answer.stderr.strip().splitlines() or ['it stays'])[0]}"


def remove_empty(base: Base, paths: Iterable[str]) -> list[str]:
    """Remove those of the folders, and of their parents, in which there is nothing; return their paths."""
    split_paths = [path.split("/") for path in paths]
    all_paths = {"/".join(words[:depth]) for words in split_paths for depth in range(1, len(words) + 1)}
    # The deepest first: a parent is empty when what was in it is gone.
    return [
        path for path in sorted(all_paths, key=lambda path: (-path.count("/"), path)) if _remove_if_empty(base, path)
    ]


def _remove_if_empty(base: Base, path: str) -> bool:
    *parents, last = path.split("/")
    try:
        with contextlib.ExitStack() as entered:
            here = base
            for name in parents:
                here = entered.enter_context(here.enter(name))
            os.rmdir(last, dir_fd=here.handle)
    except OSError:
        return False
    return True
