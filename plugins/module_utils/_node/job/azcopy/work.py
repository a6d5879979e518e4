# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folder of a run's logs and plans: made for it alone, removed when it ends well, kept for people when it fails.

A run that was killed removes nothing. The epilog that role blob_staging installs removes the folders of its job that
have no mark, and marked ones after a week: only in a folder with root's marker, only what is named as ``new_folder``
names it, and only as its owner. A folder that a user has made anywhere else stays, whatever its name is.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence
from typing import Callable

from ...machine.root import Root
from ...machine.run import Result, Run
from ...machine.user_folders import (
    Base,
    FolderProblem,
    adapt,
    owners_of_root,
    read_root_file,
    remove_as_owner,
    take,
    walk,
    write_new,
)

MARK = "failed"
"""A file in a folder that is kept."""
NAME = re.compile(r"hpcai-(?:stage|checkpoint)-(?P<job>\d+|none)-(?:\d+-)?[a-z0-9_]{8}")
"""How new_folder names folders."""


def parent_of(asked: str, preset: str) -> str:
    """Return where folders of runs are made.

    :param asked: the caller's wish; empty for none.
    :param preset: that of the settings. A machine without scratch has the settings as well, and takes the folder for
        temporary files.
    :raises ValueError: what is asked for is not there.
    """
    if asked and not os.path.isdir(asked):
        raise ValueError(f"the folder for azcopy's logs, {asked}, is not there: make it, or leave out --work.")
    return asked or (preset if _is_usable(preset) else tempfile.gettempdir())


def _is_usable(preset: str) -> bool:
    """Whether a user may write there, and no other user has made it: its owner could replace what is in it."""
    try:
        facts = os.lstat(preset)
    except OSError:
        return False
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid in (0, os.geteuid())
    return ours and os.access(preset, os.W_OK | os.X_OK)


def new_folder(what: str, parent: str, shard: str = "") -> str:
    """Make a folder for a run, and return it: what runs, the job, the shard if any, and what makes it unlike others."""
    words = ["hpcai", what, os.environ.get("SLURM_JOB_ID", "none"), *([shard] if shard else []), ""]
    return tempfile.mkdtemp(prefix="-".join(words), dir=parent)


def keep(folder: str) -> None:
    """Mark it as that of a run that failed, whose logs somebody may want to read."""
    with contextlib.suppress(OSError), open(os.path.join(folder, MARK), "w", encoding="ascii"):
        pass


MARKER = ".hpcai-azcopy"
KEEP_S = 7 * 86400.0
"""How long the folder of a run that failed is kept."""
LIMIT_S = 20.0
"""Seconds for a sweep. A user could make folders without end; the next epilog removes the rest."""
_TEXT = "The role hpcai.azure.blob_staging made this folder. Epilogs remove what killed runs of azcopy leave here.\n"
_OPEN_TO_ALL = 0o1777


Bounded = Callable[[Sequence[str], float], Result]
"""Runs a command for so many seconds at most, as machine/run.py does."""


def prepare(folder: str, root: Root) -> list[str]:
    """Make the folder with root's marker; return warnings. Without its parent, as without a scratch, there is none."""
    parent, name = os.path.split(folder.rstrip("/"))
    warnings: list[str] = []
    if not name or not os.path.isdir(root.at(parent)):
        return warnings
    try:
        with walk(root, parent) as base:
            handle, _made = take(base, name, owners_of_root(), warnings.append)
            try:
                warnings += _mark(Base(handle, folder))
            finally:
                os.close(handle)
    except (FolderProblem, OSError) as error:
        warnings.append(f"{folder} cannot be made: {error}")
    return warnings


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
            if read_root_file(base, MARKER) is None:
                return [], [
                    f"{folder} has no marker of root's, so nothing is removed there: run 'hpcnode stage prepare'"
                ]
            for name in sorted(os.listdir(base.handle)):
                owner = _owner_of_leftover(base, name, job, uid, now)
                remaining_s = deadline - time.monotonic()
                if owner is None or remaining_s <= 0:
                    continue
                problem = remove_as_owner(root.at(f"{folder}/{name}"), owner, _within(remaining_s, run))
                (problems if problem else removed).append(problem or f"{folder}/{name}")
    except FileNotFoundError:
        return [], []
    except (FolderProblem, OSError) as error:
        problems.append(f"{folder} cannot be swept: {error}")
    return removed, problems


def _mark(made: Base) -> list[str]:
    if read_root_file(made, MARKER) is None:
        if os.listdir(made.handle):
            return [
                f"{made.path} holds other things, so nothing is removed there: give azcopy a folder of its own with "
                f"blob_staging_work_folder"
            ]
        # Before users get in.
        write_new(made, MARKER, _TEXT, 0o644)
    adapt(made.handle, os.geteuid(), os.getegid(), _OPEN_TO_ALL)
    return []


def _within(limit_s: float, run: Bounded) -> Run:
    return lambda command: run(command, limit_s)


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
