# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folders that enroot and pyxis need of a job's user, made by root before the job.

Where users make them themselves, whoever is first to make ``user-4001`` has what user 4001 runs in his containers.

pyxis makes its own as root, unless it is there (enroot_create_user_runtime_dir in pyxis_slurmstepd.c). Where that fails
for a batch job, Slurm drains the node ("batch job complete failure"), and any user can fill the scratch. A new folder
needs space, also for root; a new name for an old one does not. So there are spare folders, made while there is space.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ...machine import owners
from ...machine.mounts import is_full
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
"""Users whose first job on a node may start while the scratch is full. An empty folder takes an inode."""
_SPARE = ".spare-"


def make_all(options: EnrootOptions, uid: int, gid: int, root: Root) -> tuple[list[str], list[str]]:
    """Make the folders of a user, mode 0700, where only root can write; return what was made, and what could not be."""
    made: list[str] = []
    problems: list[str] = []
    for parent in options.user_folder_parents if options.root_makes_folders else ():
        folder = Folder(f"user-{uid}", str(uid), str(gid), _MODE, "")
        try:
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
        # pyxis' own default is in /run, which no user can fill.
        return
    with opened(root.at(parent), parent) as base:
        _refuse_open(base)
        name = str(uid)
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


def _refuse_open(base: Base) -> None:
    found = os.fstat(base.handle)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & _USERS_WRITE:
        raise FolderProblem(
            f"{base.path} can be written to by others than root: run 'systemctl restart hpcai-directories' and "
            "'systemd-tmpfiles --create', which close it"
        )


def _move_aside(base: Base, name: str, uid: int) -> str:
    """Another user made it before only root could: what is in it must not become this user's."""
    try:
        found = os.lstat(name, dir_fd=base.handle)
    except FileNotFoundError:
        return ""
    if stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
        return ""
    aside = next(f"{name}.aside-{number}" for number in range(1, 10000) if not _exists(base, f"{name}.aside-{number}"))
    os.rename(name, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    return f"{base.path}/{name} belonged to user {found.st_uid}: it is {base.path}/{aside} now; remove it"


def _exists(base: Base, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=base.handle)
    except FileNotFoundError:
        return False
    return True


# What jobs left behind that died with the machine: their containers and half-imported images.
#
# Only names of jobs: ``pyxis_<job>_<name>``, ``pyxis_<job>.<step>``, ``<job>.<step>.squashfs``. A container that
# a user made and named stays. What goes is removed with its owner's rights, so that no link can lead root elsewhere.

SWEPT = "/run/hpcai/containers.swept"
"""There after the sweep of this boot: /run is empty after each."""
_CONTAINER = re.compile(r"pyxis_(?P<job>\d+)(_.+|\.\d+)")
_IMAGE = re.compile(r"(?P<job>\d+)\.\d+\.squashfs")


@dataclass(frozen=True)
class Leftover:
    """Something of a job that is no more.

    :ivar uid: its owner.
    :ivar path: where it lies.
    """

    uid: int
    path: str


def live_jobs(root: Root) -> set[str]:
    """Return the ids of jobs that have a slurmstepd on this machine."""
    return {str(job) for job in owners.live_jobs(owners.read_owned(root))}


def leftovers(data_path: str, runtime_path: str, root: Root) -> list[Leftover]:
    """Return what jobs left behind that do not run any more.

    :param data_path: folder of the users' folders with containers, such as /scratch/enroot/data.
    :param runtime_path: pyxis' folder, of users' folders with images.
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
    """The folders of users in it: a real folder that belongs to the user whose number is in its name."""
    for name in root.entries(parent):
        number = name.rpartition("-")[2]
        if not number.isdecimal() or name not in (number, f"user-{number}"):
            continue
        found = os.lstat(root.at(f"{parent}/{name}"))
        if os.path.isdir(root.at(f"{parent}/{name}")) and found.st_uid == int(number) and not _is_link(found.st_mode):
            yield f"{parent}/{name}", found.st_uid


def _is_link(mode: int) -> bool:
    return mode & 0o170000 == 0o120000


def remove_leftovers(found: list[Leftover], run: Run) -> list[str]:
    """Remove them, each as its user; return what could not be removed, in words."""
    return [problem for leftover in found if (problem := remove_as_owner(leftover.path, leftover.uid, run))]
