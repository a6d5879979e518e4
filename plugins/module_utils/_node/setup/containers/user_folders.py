# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folders that enroot needs of a job's user, made by root before the job.

Where users make them themselves, whoever is first to make ``user-4001`` has what user 4001 runs in his containers.
"""

from __future__ import annotations

import os
import stat

from ...machine.root import Root
from ..directories.folders import Base, FolderProblem, make, opened
from ..directories.wanted import Folder
from .options import Options

_MODE = 0o700
_USERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TRUSTED = frozenset({0})


def make_all(options: Options, uid: int, gid: int, root: Root) -> tuple[list[str], list[str]]:
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
    return made, problems


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
    aside = next(
        f"{name}.aside-{number}" for number in range(1, 10000) if not _is_there(base, f"{name}.aside-{number}")
    )
    os.rename(name, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    return f"{base.path}/{name} belonged to user {found.st_uid}: it is {base.path}/{aside} now; remove it"


def _is_there(base: Base, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=base.handle)
    except FileNotFoundError:
        return False
    return True
