# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folder with a run's logs and plans: each run creates its own, removes it on success and keeps it on failure.

A killed run removes nothing. The epilog of the role blob_staging removes the unmarked folders of its job, and marked
ones after a week. It does so only below a folder with root's marker, only for names that ``new_folder`` makes, and with
the owner's rights. A folder that a user creates anywhere else stays, whatever its name is.
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

from ...machine.mounts import users_mounts
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
"""This file marks a folder to keep."""
NAME = re.compile(r"hpcai-(?:stage|checkpoint)-(?P<job>\d+|none)-(?:\d+-)?[a-z0-9_]{8}")
"""The names that new_folder makes."""


def parent_of(asked: str, preset: str) -> str:
    """Return the parent of the runs' folders.

    :param asked: the caller's folder; empty for none.
    :param preset: the folder of the settings. If it is not usable, for example on a machine without scratch, the folder
        for temporary files is used.
    :raises ValueError: the caller's folder does not exist.
    """
    if asked and not os.path.isdir(asked):
        raise ValueError(f"the folder for azcopy's logs, {asked}, does not exist: create it, or omit --work.")
    return asked or (preset if _is_usable(preset) else tempfile.gettempdir())


def _is_usable(preset: str) -> bool:
    """Whether this user can write there and no other user owns it: the owner could replace its content."""
    try:
        facts = os.lstat(preset)
    except OSError:
        return False
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid in (0, os.geteuid())
    return ours and os.access(preset, os.W_OK | os.X_OK)


def new_folder(what: str, parent: str, shard: str = "") -> str:
    """Create a folder for a run, named for what runs, the job, the shard if any, and a random suffix."""
    words = ["hpcai", what, os.environ.get("SLURM_JOB_ID", "none"), *([shard] if shard else []), ""]
    return tempfile.mkdtemp(prefix="-".join(words), dir=parent)


def keep(folder: str) -> None:
    """Mark the folder of a failed run, so that its logs can be read later."""
    with contextlib.suppress(OSError), open(os.path.join(folder, MARK), "w", encoding="ascii"):
        pass


MARKER = ".hpcai-azcopy"
KEEP_S = 7 * 86400.0
"""How long the folder of a failed run is kept."""
LIMIT_S = 15.0
"""Time limit of a sweep, because a user could create any number of folders. The next epilog removes the rest.

It is less than that of the epilog's script, because Slurm drains a node whose epilog fails."""
_TEXT = "The role hpcai.azure.blob_staging created this folder. Epilogs remove what killed runs of azcopy leave here.\n"
_OPEN_TO_ALL = 0o1777


Bounded = Callable[[Sequence[str], float], Result]
"""Runs a command with a timeout in seconds, as machine/run.py does."""


def prepare(folder: str, root: Root) -> list[str]:
    """Create the folder with root's marker, and return warnings. Do nothing if its parent, the scratch, is missing."""
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
        warnings.append(f"cannot create {folder}: {error}")
    return warnings


def sweep(folder: str, job: str, uid: int, root: Root, run: Bounded, now: float) -> tuple[list[str], list[str]]:
    """Remove what the job's runs left, and folders of all jobs' failed runs after a week.

    :param uid: the job's user.
    :return: the removed paths, and messages about what could not be removed.
    """
    removed: list[str] = []
    problems: list[str] = []
    deadline = time.monotonic() + LIMIT_S
    mounted = users_mounts(root)
    try:
        with walk(root, folder) as base:
            if read_root_file(base, MARKER) is None:
                return [], [
                    f"{folder} has no marker file of root, so nothing is removed there: run 'hpcnode stage prepare'"
                ]
            with os.scandir(base.handle) as entries:
                for entry in entries:
                    if time.monotonic() >= deadline:
                        break
                    is_mounted = f"{folder.rstrip('/')}/{entry.name}" in mounted
                    owner = None if is_mounted else _owner_of_leftover(base, entry.name, job, uid, now)
                    if owner is None:
                        continue
                    problem = remove_as_owner(root.at(f"{folder}/{entry.name}"), owner, _until(deadline, run))
                    (problems if problem else removed).append(problem or f"{folder}/{entry.name}")
    except FileNotFoundError:
        return [], []
    except (FolderProblem, OSError) as error:
        problems.append(f"cannot clean up {folder}: {error}")
    return sorted(removed), problems


def _mark(made: Base) -> list[str]:
    if read_root_file(made, MARKER) is None:
        if os.listdir(made.handle):
            return [
                f"{made.path} contains other files, so nothing is removed there: set blob_staging_work_folder to a "
                f"folder for azcopy only"
            ]
        # Write the marker before users can write to the folder.
        write_new(made, MARKER, _TEXT, 0o644)
    adapt(made.handle, os.geteuid(), os.getegid(), _OPEN_TO_ALL)
    return []


def _until(deadline: float, run: Bounded) -> Run:
    return lambda command: run(command, max(deadline - time.monotonic(), 0.1))


def _owner_of_leftover(base: Base, name: str, job: str, uid: int, now: float) -> int | None:
    """Return the owner of a folder to remove; None if it must stay."""
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
