# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folders that enroot and pyxis need for a job's user, made by root before the job.

If users made them themselves, a user who is first to create ``user-4001`` would control the containers of user 4001.

pyxis creates its own folder as root if it does not exist (enroot_create_user_runtime_dir in pyxis_slurmstepd.c). If
that fails for a batch job, Slurm drains the node ("batch job complete failure"), and any user can fill the scratch.
A new folder needs space, even for root; renaming an existing one does not. So spare folders are made while there is
space.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ...machine import owners
from ...machine.mounts import is_full, users_mounts
from ...machine.root import Root
from ...machine.run import Run
from ...machine.user_folders import Base, FolderProblem, adapt, opened, remove_as_owner
from ..directories.apply import make
from ..directories.options import Folder
from .options import EnrootOptions

_MODE = 0o700
_USERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TRUSTED = frozenset({0})
SPARES = 64
"""How many users can start their first job on a node while the scratch is full. An empty folder needs one inode."""
_SPARE = ".spare-"


def make_all(options: EnrootOptions, uid: int, gid: int, root: Root) -> tuple[list[str], list[str]]:
    """Make a user's folders, mode 0700, in parents where only root can write; return what was made, and the errors."""
    made: list[str] = []
    problems: list[str] = []
    for parent in options.user_folder_parents if options.root_makes_folders else ():
        folder = Folder(f"user-{uid}", str(uid), str(gid), _MODE, "")
        try:
            _refuse_users_mount(f"{parent}/{folder.path}", root)
            with opened(root.at(parent), parent, "the file system of containers") as base:
                _refuse_open(base)
                made += filter(None, [_move_aside(base, folder.path, uid), make(base, folder, _TRUSTED)])
        except FolderProblem as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{parent}/user-{uid}: {error.strerror or error}")
    try:
        _make_for_pyxis(options.pyxis_runtime_path, uid, gid, root)
    except FolderProblem as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{options.pyxis_runtime_path}/{uid}: {error.strerror or error}")
    return made, problems


def _make_for_pyxis(parent: str, uid: int, gid: int, root: Root) -> None:
    if not parent or not root.exists(parent):
        # pyxis' default is in /run, which users cannot fill.
        return
    name = str(uid)
    _refuse_users_mount(f"{parent}/{name}", root)
    with opened(root.at(parent), parent) as base:
        _refuse_open(base)
        spares = sorted(entry for entry in os.listdir(base.handle) if entry.startswith(_SPARE))
        if base.look(name) is None:
            try:
                os.mkdir(name, _MODE, dir_fd=base.handle)
            except OSError as error:
                if not is_full(error) or not spares:
                    raise
                os.rename(spares.pop(), name, src_dir_fd=base.handle, dst_dir_fd=base.handle)
        with base.enter(name) as folder:
            adapt(folder.handle, uid, gid, _MODE)
        with contextlib.suppress(OSError):
            for number in range(SPARES):
                if f"{_SPARE}{number:06}" not in spares:
                    os.mkdir(f"{_SPARE}{number:06}", _MODE, dir_fd=base.handle)


def _refuse_users_mount(path: str, root: Root) -> None:
    if path in users_mounts(root):
        raise FolderProblem(f"a user mounted a FUSE file system on {path}: unmount it")


def _refuse_open(base: Base) -> None:
    found = os.fstat(base.handle)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & _USERS_WRITE:
        raise FolderProblem(
            f"users other than root can write to {base.path}. Run 'systemctl restart hpcai-directories' and "
            "'systemd-tmpfiles --create', which correct its mode"
        )


def _move_aside(base: Base, name: str, uid: int) -> str:
    """Move away a folder that another user made before only root could: its content must not become this user's."""
    try:
        found = os.lstat(name, dir_fd=base.handle)
    except FileNotFoundError:
        return ""
    if stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
        return ""
    aside = next(f"{name}.aside-{number}" for number in range(1, 10000) if not _exists(base, f"{name}.aside-{number}"))
    os.rename(name, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    return f"{base.path}/{name} belonged to user {found.st_uid}: it was moved to {base.path}/{aside}. Remove it"


def _exists(base: Base, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=base.handle)
    except FileNotFoundError:
        return False
    return True


# The remains of jobs that ended with a reboot: their containers and incomplete images.
#
# Only names of jobs match: ``pyxis_<job>_<name>``, ``pyxis_<job>.<step>``, ``<job>.<step>.squashfs``. Containers that
# a user created and named stay. The remains are removed as their owner, so that no link can misdirect root.

SWEPT = "/run/hpcai/containers.swept"
"""Exists after the clean-up of this boot: /run is empty after each boot."""
_CONTAINER = re.compile(r"pyxis_(?P<job>\d+)(_.+|\.\d+)")
_IMAGE = re.compile(r"(?P<job>\d+)\.\d+\.squashfs")


@dataclass(frozen=True)
class Leftover:
    """A file or folder of a job that no longer runs.

    :ivar uid: its owner.
    :ivar path: its path.
    """

    uid: int
    path: str


def live_jobs(root: Root) -> set[str]:
    """Return the ids of jobs that have a slurmstepd on this machine."""
    return {str(job) for job in owners.live_jobs(owners.read_owned(root))}


def leftovers(data_path: str, runtime_path: str, root: Root) -> list[Leftover]:
    """Return what jobs that no longer run have left.

    :param data_path: parent of the users' folders with containers, such as /scratch/enroot/data.
    :param runtime_path: pyxis' folder, the parent of the users' folders with images.
    """
    live = live_jobs(root)
    found = []
    for parent, form in ((data_path, _CONTAINER), (runtime_path, _IMAGE)):
        for folder, uid in _folders_of_users(parent, root) if parent else ():
            for name in root.entries(folder):
                match = form.fullmatch(name)
                if match and match["job"] not in live:
                    found.append(Leftover(uid, root.at(f"{folder}/{name}")))
    return found


def _folders_of_users(parent: str, root: Root) -> Iterator[tuple[str, int]]:
    """Yield the users' folders in it: a real folder that belongs to the user whose uid is in its name."""
    mounted = users_mounts(root)
    for name in root.entries(parent):
        number = name.rpartition("-")[2]
        if not number.isdecimal() or name not in (number, f"user-{number}") or f"{parent}/{name}" in mounted:
            continue
        try:
            found = os.lstat(root.at(f"{parent}/{name}"))
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == int(number):
            yield f"{parent}/{name}", found.st_uid


def remove_leftovers(found: list[Leftover], run: Run) -> list[str]:
    """Remove them, each as its owner; return the errors."""
    return [problem for leftover in found if (problem := remove_as_owner(leftover.path, leftover.uid, run))]
