# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folder in which runs of azcopy have their folders: root makes it, and removes there what killed runs left.

Only in a folder with root's marker, only what is named as work.new_folder names it, and only as its owner. A folder
that a user has made anywhere else stays, whatever its name is.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from typing import Protocol

from ...machine.root import Root
from ...machine.run import Result
from ...machine.user_folders import (
    Base,
    FolderProblem,
    adapt,
    owners_of_root,
    read_own,
    remove_as_owner,
    take,
    walk,
    write_new,
)
from .work import MARK, NAME

MARKER = ".hpcai-azcopy"
KEEP_S = 7 * 86400.0
"""How long the folder of a run that failed is kept."""
LIMIT_S = 20.0
"""Seconds for a sweep. A user could make folders without end; the next epilog removes the rest."""
_TEXT = "The role hpcai.azure.blob_staging made this folder. Epilogs remove what killed runs of azcopy leave here.\n"
_OPEN_TO_ALL = 0o1777


class Bounded(Protocol):
    """Runs a command for so many seconds at most, as machine/run.py does."""

    def __call__(self, command: Sequence[str], timeout_s: float) -> Result:
        """Return what it answered."""


def prepare(folder: str, root: Root) -> list[str]:
    """Make the folder with root's marker; return warnings. Without its parent, as without a scratch, there is none."""
    parent, name = os.path.split(folder.rstrip("/"))
    told: list[str] = []
    if not name or not os.path.isdir(root.at(parent)):
        return told
    try:
        with walk(root, parent) as base:
            handle, _made = take(base, name, owners_of_root(), told.append)
            try:
                told += _mark(Base(handle, folder))
            finally:
                os.close(handle)
    except (FolderProblem, OSError) as error:
        told.append(f"{folder} cannot be made: {error}")
    return told


def sweep(folder: str, job: str, uid: int, root: Root, run: Bounded, now: float) -> tuple[list[str], list[str]]:
    """Remove what the job's runs left, and folders of failed runs of all jobs after a week.

    :param uid: the job's user.
    :return: the paths of what was removed, and what stays, in words.
    """
    removed: list[str] = []
    problems: list[str] = []
    deadline = time.monotonic() + LIMIT_S
    try:
        with walk(root, folder) as base:
            if read_own(base, MARKER) is None:
                return [], [
                    f"{folder} has no marker of root's, so nothing is removed there: run 'hpcnode stage prepare'"
                ]
            for name in sorted(os.listdir(base.handle)):
                owner = _owner_of_leftover(base, name, job, uid, now)
                left_s = deadline - time.monotonic()
                if owner is None or left_s <= 0:
                    continue
                problem = remove_as_owner(root.at(f"{folder}/{name}"), owner, functools.partial(run, timeout_s=left_s))
                (problems if problem else removed).append(problem or f"{folder}/{name}")
    except FileNotFoundError:
        return [], []
    except (FolderProblem, OSError) as error:
        problems.append(f"{folder} cannot be swept: {error}")
    return removed, problems


def _mark(made: Base) -> list[str]:
    if read_own(made, MARKER) is None:
        if os.listdir(made.handle):
            return [
                f"{made.path} holds other things, so nothing is removed there: give azcopy a folder of its own with "
                f"blob_staging_work_folder"
            ]
        # Before users get in.
        write_new(made, MARKER, _TEXT, 0o644)
    adapt(made.handle, os.geteuid(), os.getegid(), _OPEN_TO_ALL)
    return []


def _owner_of_leftover(base: Base, name: str, job: str, uid: int, now: float) -> int | None:
    """Return the owner of a folder that is to be removed; None if it is to stay."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    try:
        with base.enter(name) as folder:
            owner = os.fstat(folder.handle).st_uid
            mark = folder.look(MARK)
    except OSError:
        return None
    over = now - mark.st_mtime > KEEP_S if mark else (match["job"], owner) == (job, uid)
    return owner if over else None
