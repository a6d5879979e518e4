# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Users' home directories: where to make one, and how."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from typing import Callable

from ...machine.config import read_config
from ...machine.mounts import read_mounts
from ...machine.root import Root
from ...machine.user_folders import FolderProblem, is_open, walk
from ..managed_file import BrokenBlock, with_block, without_block
from .options import User, UserProblem

AUTO, ALWAYS, NEVER = "auto", "always", "never"
MODES = (AUTO, ALWAYS, NEVER)
BLOCK = "hpcai.azure.cluster_users"
SKELETON = "/etc/skel"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMOTE = ("nfs", "nfs4", "lustre", "autofs", "cifs", "ceph", "beegfs", "9p", "fuse.glusterfs")
_LARGEST_KEYS = 1 << 20

Give = Callable[[int, int, int], None]


def is_remote(root: Root, path: str) -> bool:
    """Whether a path is, or will be, on another machine's disks. The path itself is not accessed.

    Accessing a file system whose server does not answer would hang.
    """
    best, kind = "", ""
    for mount in read_mounts(root):
        where = mount.mountpoint.rstrip("/")
        if f"{path}/".startswith(f"{where}/") and len(where) >= len(best):
            # Of several mounts at one place, the last one is visible.
            best, kind = where, mount.filesystem
    if kind in _REMOTE:
        return True
    shared = (read_config(root, "shared_fs") or {}).get("mounts") or []
    return any(f"{path}/".startswith(f"{str(mount.get('path', '?')).rstrip('/')}/") for mount in shared)


def make(root: Root, user: User, check: bool, give: Give = os.fchown) -> str:
    """Make the home with the skeleton's files if it does not exist; return what was done, or would be done.

    :param give: changes user and group of an opened file.
    :raises UserProblem: the path belongs to another user, or is not a folder.
    """
    path = root.at(user.home)
    if os.path.lexists(path):
        about = os.lstat(path)
        if not stat.S_ISDIR(about.st_mode):
            raise UserProblem(f"home {user.home} of {user.name} is not a folder. Remove it, or set another home")
        if about.st_uid != user.uid:
            raise UserProblem(
                f"home {user.home} belongs to uid {about.st_uid}, not to {user.name} ({user.uid}). Set another home, "
                f"or change its owner ('chown --recursive --from={about.st_uid} {user.uid}:{user.gid} {user.home}')"
            )
        return ""
    if not check:
        _refuse_open(root, os.path.dirname(user.home), user)
        # Built under another name and renamed, so that nobody enters an incomplete home, also after an interruption.
        beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.hpcai")
        _remove(beside)
        _copy(root.at(SKELETON), beside, user, give)
        os.chmod(beside, 0o700)
        os.rename(beside, path)
    return f"make home {user.home}"


def _refuse_open(root: Root, parent: str, user: User) -> None:
    """Make the parent of a home, and refuse one where users could replace files while they are copied."""
    try:
        with walk(root, parent, make_mode=0o755) as folder:
            if is_open(os.fstat(folder.handle)):
                raise UserProblem(
                    f"users can write to {parent}, so home {user.home} of {user.name} cannot be made safely. Run "
                    f"'chown root {parent}; chmod 0755 {parent}', or set another home"
                )
    except FolderProblem as error:
        raise UserProblem(f"home {user.home} of {user.name} cannot be made: {error}") from error


def write_keys(root: Root, user: User, check: bool, give: Give = os.fchown) -> str:
    """Write the user's public keys as a block into ~/.ssh/authorized_keys; other lines stay.

    No symbolic link is followed, because the user controls the home.

    :return: what was done, or would be done.
    :raises UserProblem: the file does not belong to the user.
    """
    home = root.at(user.home)
    shown = f"{user.home}/.ssh/authorized_keys"
    if not os.path.isdir(home):
        # In check mode, the home was not made.
        return f"write {shown}" if user.keys else ""
    with ExitStack() as opened:
        try:
            inside = os.open(home, _FOLDER)
            opened.callback(os.close, inside)
            folder = _ssh_folder(inside, user, check or not user.keys, give)
            if folder is None:
                return f"write {shown}" if user.keys else ""
            opened.callback(os.close, folder)
            before = _read(folder, user, shown)
            block = [*user.keys]
            after = with_block(before, BLOCK, block) if block else without_block(before, BLOCK)
        except BrokenBlock as error:
            raise UserProblem(f"{shown}: {error} Correct the file") from error
        except OSError as error:
            raise UserProblem(f"{shown}: {error.strerror}. A link or a file is in the way. Remove it") from error
        if after == before:
            return ""
        if not check:
            _replace(folder, after, user, give)
        return f"write {shown}"


def _ssh_folder(home: int, user: User, only_look: bool, give: Give) -> int | None:
    try:
        return os.open(".ssh", _FOLDER, dir_fd=home)
    except FileNotFoundError:
        if only_look:
            return None
        os.mkdir(".ssh", 0o700, dir_fd=home)
        folder = os.open(".ssh", _FOLDER, dir_fd=home)
        give(folder, user.uid, user.gid)
        return folder


def _read(folder: int, user: User, shown: str) -> str:
    try:
        handle = os.open("authorized_keys", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return ""
    with open(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid not in (user.uid, 0) or about.st_size > _LARGEST_KEYS:
            raise UserProblem(f"{shown} is not a regular file of {user.name} up to 1 MiB. Remove it")
        return file.read().decode("utf-8", "surrogateescape")


def _replace(folder: int, text: str, user: User, give: Give) -> None:
    name = ".authorized_keys.hpcai"
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with open(handle, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        give(file.fileno(), user.uid, user.gid)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, "authorized_keys", src_dir_fd=folder, dst_dir_fd=folder)


def _copy(source: str, target: str, user: User, give: Give) -> None:
    """Copy the skeleton folder, which belongs to root."""
    os.mkdir(target, 0o700)
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
        origin, copy = os.path.join(source, name), os.path.join(target, name)
        if os.path.islink(origin):
            os.symlink(os.readlink(origin), copy)
        elif os.path.isdir(origin):
            _copy(origin, copy, user, give)
            os.chmod(copy, stat.S_IMODE(os.stat(origin).st_mode))
        elif os.path.isfile(origin):
            with open(origin, "rb") as original, open(copy, "wb") as file:
                file.write(original.read())
                give(file.fileno(), user.uid, user.gid)
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(original.fileno()).st_mode))
    handle = os.open(target, _FOLDER)
    try:
        give(handle, user.uid, user.gid)
    finally:
        os.close(handle)


def _remove(folder: str) -> None:
    """Remove what an interrupted run left in a folder that belongs to root."""
    for here, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(here, name))
        for name in folders:
            path = os.path.join(here, name)
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    if os.path.isdir(folder):
        os.rmdir(folder)
