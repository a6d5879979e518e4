# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Safe access by root to folders that users can write to: create, change the owner, open, mount and remove.

A user who can write to a folder can create a file, a link or a folder there, and exchange them while root works. So
nothing is done by path: each part is opened relative to its open parent, no link is followed, the owner is read from
the open descriptor, and a command gets the open folder (/proc/PID/fd/N).
tests/unit/house/test_user_folders.py finds any other access in the collection.
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
"""How often root tries: a user may recreate what root moves aside, but root has to be faster only once."""
_LARGEST = 1 << 16
"""Most bytes to read from a file that root wrote."""


class FolderProblem(RuntimeError):
    """A folder cannot be created or must not be changed; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Base:
    """An open folder.

    :ivar handle: its descriptor.
    :ivar path: its path, for messages.
    :ivar filesystem: its file system, for messages.
    """

    handle: int
    path: str
    filesystem: str = ""

    @property
    def free(self) -> str:
        """The free space, for messages."""
        found = os.fstatvfs(self.handle)
        return f"{found.f_bavail * found.f_frsize} bytes and {found.f_favail} inodes are free"

    @property
    def for_commands(self) -> str:
        """The open folder as a path for commands that root starts, such as mount and rm."""
        return f"/proc/{os.getpid()}/fd/{self.handle}"

    def look(self, name: str) -> os.stat_result | None:
        """Return the stat result of an entry, without following a link; None if it is missing."""
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
    """Open a folder part by part. If users can write to a part's parent, root must own both, and the parent be sticky.

    :param make_mode: create missing parts, with these permissions.
    :raises FolderProblem: users could have created a part, or could replace it.
    :raises OSError: a part is missing, or is not a folder.
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
            # Follow links in folders that only root can write to: an operator created them.
            inside = _open(name, here, so_far, _OPEN if is_open(facts) else _OPEN & ~os.O_NOFOLLOW)
            handles.callback(os.close, inside)
            if is_open(facts):
                _demand_root(so_far, facts, os.fstat(inside))
            here = inside
        yield Base(here, so_far)


def is_open(facts: os.stat_result) -> bool:
    """Whether users other than root can create or rename entries in a folder."""
    return bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or facts.st_uid not in owners_of_root()


def owners_of_root() -> frozenset[int]:
    """Return the users whose files count as root's: root, and in tests the user who runs them."""
    return frozenset({0, os.geteuid()})


def take(base: Base, name: str, trusted: frozenset[int], warn: Callable[[str], None]) -> tuple[int, bool]:
    """Open a folder in ``base``, or create it with mode 0700. Return its descriptor and whether it was created.

    If users can write to ``base``, any other entry at this path, or a folder that none of ``trusted`` owns, is moved
    aside with a warning; a link, an empty folder or an empty file is removed.

    :raises FolderProblem: users recreate the entry again and again.
    :raises OSError: it cannot be created.
    """
    facts = os.fstat(base.handle)
    warned = False
    for _try in range(_TRIES if is_open(facts) else 1):
        # Mode 0700: no other user can enter the folder until its owner and mode are set.
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
    raise FolderProblem(f"{base.path}/{name}: users recreated this path {_TRIES} times: end their process, remove it")


def foreign(base: Base, name: str, trusted: frozenset[int]) -> str:
    """Return a message about a foreign entry at a folder's path; an empty text if there is none, or one of ``trusted``
    owns the folder. Changes nothing."""
    facts = base.look(name)
    if facts is None or not is_open(os.fstat(base.handle)):
        return ""
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid in trusted:
        return ""
    return f"{base.path}/{name} is {_kind(facts)} of user {facts.st_uid}"


def adapt(handle: int, uid: int, gid: int, mode: int, check: bool = False) -> bool:
    """Set owner, group and mode of an open folder; return whether they were different.

    :raises OSError: they cannot be set.
    """
    found = os.fstat(handle)
    if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (uid, gid, mode):
        return False
    if not check:
        if (found.st_uid, found.st_gid) != (uid, gid):
            os.fchown(handle, uid, gid)
        # Set the mode after the owner, because a change of owner clears set-user-ID bits.
        os.fchmod(handle, mode)
    return True


def read_root_file(base: Base, name: str) -> str | None:
    """Return the text of a file that root owns; None if it is missing, not a regular file, or owned by a user."""
    try:
        # O_NONBLOCK: a user's named pipe must not block this.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=base.handle)
    except OSError:
        return None
    with open(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in owners_of_root():
            return None
        return file.read(_LARGEST).decode("utf-8", "replace").strip()


_SYSTEM_USERS = 999
"""The highest id of a system account (SYS_UID_MAX of login.defs on Debian and EL)."""
_DEBIANS = range(60000, 65000)
"""Ids of packages that Debian assigns (policy, 9.2.2); slurm has 64030."""


def open_system_file(root: Root, path: str) -> int:
    """Open a regular file of root or of a system account for reading, and return its descriptor.

    In a folder that another user can write to, no link is followed, and the file must have no second name, because a
    user could have linked another file there. A pipe does not block this.

    :raises FolderProblem: a user could have put the file there.
    :raises OSError: it is missing, or cannot be read.
    """
    folder, name = os.path.split(path)
    with contextlib.ExitStack() as handles:
        here = os.open(root.at("/"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        handles.callback(os.close, here)
        so_far = ""
        for part in filter(None, folder.split("/")):
            so_far += f"/{part}"
            here = _open(part, here, so_far, _OPEN if is_open(os.fstat(here)) else _OPEN & ~os.O_NOFOLLOW)
            handles.callback(os.close, here)
        guarded = is_open(os.fstat(here))
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if guarded else 0)
        try:
            handle = os.open(name, flags, dir_fd=here)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FolderProblem("this is a symbolic link in a folder that users can write to") from None
            raise
    facts = os.fstat(handle)
    is_systems = facts.st_uid in owners_of_root() or facts.st_uid <= _SYSTEM_USERS or _is_debians(root, facts.st_uid)
    if stat.S_ISREG(facts.st_mode) and is_systems and not (guarded and facts.st_nlink > 1):
        return handle
    os.close(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise FolderProblem(f"this is {_kind(facts)}, not a file")
    raise FolderProblem(
        f"user {facts.st_uid} could have put this file there"
        if is_systems
        else f"this file belongs to user {facts.st_uid}"
    )


def _is_debians(root: Root, uid: int) -> bool:
    """Whether this is the account of one of Debian's packages: a local one without a login."""
    accounts = [line.split(":") for line in (root.text("/etc/passwd") or "").splitlines()] if uid in _DEBIANS else []
    return any(one[2:3] == [str(uid)] and one[-1].endswith(("/nologin", "/false")) for one in accounts)


def write_new(base: Base, name: str, text: str, mode: int) -> None:
    """Write a new file.

    :raises OSError: it exists, or cannot be written.
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
    """Turn an OSError in this context into a FolderProblem that names the path.

    :raises FolderProblem: an OSError occurred.
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
            raise FolderProblem(f"{shown} is a file or a symbolic link, not a folder: remove it") from None
        raise OSError(error.errno, error.strerror, shown) from None


def _demand_root(shown: str, parent: os.stat_result, found: os.stat_result) -> None:
    if found.st_uid not in owners_of_root():
        raise FolderProblem(f"{shown} belongs to user {found.st_uid}, not to root: remove it")
    # The sticky bit does not bind the parent's owner.
    if parent.st_uid not in owners_of_root() or not parent.st_mode & stat.S_ISVTX:
        raise FolderProblem(f"users can replace {shown}: run 'chown root' and 'chmod +t' (or 'go-w') on its parent")


def _open_of(name: str, here: int, trusted: frozenset[int]) -> int | None:
    """Return the descriptor of a folder that a trusted user owns; None if it is something else."""
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
    """Rename an entry, without following a link; return a message about what it was."""
    facts = base.look(name)
    aside = f"{name}.aside-{secrets.token_hex(4)}"
    try:
        os.rename(name, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    except FileNotFoundError:
        return ""
    moved = base.look(aside)
    facts = moved or facts
    # Remove empty entries, so that a user who recreates them does not fill the folder with names.
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
        return "there is a file or a symbolic link with this name: remove it"
    if error.errno in _FULL:
        return f"the file system ({base.filesystem}) is full, {base.free}: remove files, or rebuild the file system"
    return error.strerror or str(error)


_NOBODY = 65534
_RM = ("rm", "-rf", "--one-file-system", "--")

Run = Callable[[Sequence[str]], Result]


def remove(base: Base, names: Iterable[str], run: Run) -> Result | None:
    """Remove entries of a folder that only root can write to, with everything that users created in them.

    rm descends by descriptors, follows no links and stays on the file system at any depth.

    :return: the result of rm; None if there was nothing to remove.
    :raises FolderProblem: users can write to the folder; use ``remove_as_owner`` there.
    """
    if is_open(os.fstat(base.handle)):
        raise FolderProblem(f"{base.path}: users can write to it, so root removes nothing in it")
    paths = [f"{base.for_commands}/{name}" for name in names]
    return run([*_RM, *paths]) if paths else None


def remove_as_owner(path: str, uid: int, run: Run) -> str:
    """Remove a user's file or folder with that user's rights, so that a trick of the user can only remove own files.

    :return: the error if it stays; an empty text if it is removed.
    """
    become = ("setpriv", f"--reuid={uid}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs")
    prefix = [*become, "--"] if os.geteuid() == 0 else []
    # Container images have folders without write permission for their owner. find follows no links.
    run([*prefix, "find", path, "-xdev", "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", "+"])
    answer = run([*prefix, *_RM, path])
    return "" if answer.rc == 0 else f"{path}: {(answer.stderr.strip().splitlines() or ['it stays'])[0]}"


def remove_empty(base: Base, paths: Iterable[str]) -> list[str]:
    """Remove the empty ones of the folders and of their parents; return their paths."""
    split_paths = [path.split("/") for path in paths]
    all_paths = {"/".join(words[:depth]) for words in split_paths for depth in range(1, len(words) + 1)}
    # Remove the deepest first: a parent may be empty after its subfolders are removed.
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
