# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folders of a job's file system on a node, and the record of its parts in /run, which is empty after a boot."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ...machine.atomic import write_file
from ...machine.kernel import read_boot_id
from ...machine.root import Root
from ...machine.user_folders import (
    Base,
    FolderProblem,
    Run,
    adapt,
    owners_of_root,
    read_root_file,
    remove,
    take,
    walk,
    write_new,
)
from .job import last_line

RUN = "/run/hpcai/beeond"
LOCK = "/run/hpcai/beeond.lock"
LEFTOVERS = "/run/hpcai/beeond.left"
"""What the last sweep could not remove, one line each; the health check ``leftovers`` reads it."""
SCHEMA = 1
MARKER = ".hpcai-beeond"
"""A folder with this file is a job's data folder, and may be removed when the job has ended."""
REMOVED = ".removed-"
"""Prefix of data of an ended job while it is removed."""
FILES = "files"
"""In the data folder of a one-node job: the folder that its user sees."""
BEEGFS, BIND = "beegfs", "bind"
_STATE = "state.json"
_TIMED_OUT = 124
"""Exit status that machine/run.py returns for a command that reached its timeout."""


@dataclass(frozen=True)
class Holding:
    """A job's parts on this node.

    :ivar job: its id.
    :ivar kind: BEEGFS, or BIND for a job of one node.
    :ivar mount_point: where it is mounted.
    :ivar data: its folder on the scratch.
    :ivar data_root: the parent that ``data`` must have.
    :ivar daemons: the daemons to start: ``mgmtd``, ``meta``, ``storage``, ``helperd``.
    :ivar release: of BeeGFS.
    :ivar since: when the start began, in seconds since the epoch.
    """

    job: str
    kind: str
    mount_point: str
    data: str
    data_root: str
    daemons: tuple[str, ...] = ()
    release: str = "7.4"
    since: float = 0.0


def run_folder(job: str) -> str:
    """Return the folder of the job's configuration."""
    return f"{RUN}/{job}"


def write_state(held: Holding, root: Root) -> None:
    """Create the job's folder in /run, and record the job's parts before they are created.

    :raises OSError: it cannot be written.
    """
    folder = root.at(run_folder(held.job))
    os.makedirs(os.path.dirname(folder), mode=0o711, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    os.chmod(folder, 0o700)
    text = json.dumps({"schema": SCHEMA, **asdict(held)}, indent=2, sort_keys=True) + "\n"
    write_file(os.path.join(folder, _STATE), text, 0o600)


def read_state(job: str, root: Root) -> Holding | None:
    """Return the record of the job's parts; None if there is none, or it is invalid."""
    try:
        given = json.loads(root.text(f"{run_folder(job)}/{_STATE}") or "")
        if given.pop("schema") != SCHEMA or given["job"] != job:
            return None
        return Holding(**{**given, "daemons": tuple(given["daemons"])})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def jobs_with_state(root: Root) -> list[str]:
    """Return the ids of jobs that have a folder in /run."""
    return [name for name in root.entries(RUN) if name.isdecimal()]


def make_root(data_root: str, root: Root) -> str:
    """Create the folder of all jobs' data, which only root may enter. Do nothing if the scratch is missing.

    Return a warning if a user had created something at its path.

    :raises FolderProblem: users can replace it.
    :raises OSError: it cannot be created.
    """
    scratch, name = os.path.split(data_root)
    moved: list[str] = []
    if not os.path.isdir(root.at(scratch)):
        return ""
    with walk(root, scratch) as base:
        handle, _made = take(base, name, owners_of_root(), moved.append)
        try:
            adapt(handle, os.geteuid(), os.getegid(), 0o700)
        finally:
            os.close(handle)
    with walk(root, data_root):
        return "".join(moved)


def make_data(job: str, data_root: str, root: Root) -> str:
    """Create the job's folder on the scratch, first of all with its marker, and return its path.

    :raises FolderProblem: users can replace its parent.
    :raises OSError: it cannot be created; FileExistsError: a job with that id has left one.
    """
    marker = {"schema": SCHEMA, "job": job, "boot_id": read_boot_id(root)}
    with walk(root, data_root) as base:
        os.mkdir(job, 0o700, dir_fd=base.handle)
        with base.enter(job) as folder:
            write_new(folder, MARKER, json.dumps(marker, sort_keys=True) + "\n", 0o600)
    return f"{data_root}/{job}"


@contextlib.contextmanager
def make_inside(data: str, name: str, root: Root) -> Iterator[Base]:
    """Create a folder in a job's folder on the scratch, for a daemon or to be mounted, and keep it open.

    :raises FolderProblem: users can replace a part of the path.
    :raises OSError: it cannot be created.
    """
    with walk(root, data) as folder:
        os.mkdir(name, 0o700, dir_fd=folder.handle)
        with folder.enter(name) as inside:
            yield inside


def jobs_with_data(data_root: str, root: Root) -> dict[str, str]:
    """Return the boot id in which each job's data was created, by job id; only for folders with the marker."""
    made = {}
    with contextlib.suppress(FolderProblem, OSError), walk(root, data_root) as base:
        for name in sorted(os.listdir(base.handle)):
            marker = _marker(base, name) if name.isdecimal() else None
            if marker and marker.get("job") == name:
                made[name] = str(marker.get("boot_id"))
    return made


def remove_data(held: Holding, root: Root, run: Run) -> str:
    """Remove the job's folder on the scratch; return a message if it stays, or an empty text if it is gone."""
    if held.data != f"{held.data_root}/{held.job}":
        return f"{held.data} is not in {held.data_root}, so it is not removed"
    try:
        with walk(root, held.data_root) as base:
            facts = base.look(held.job)
            if facts is None:
                return ""
            if not stat.S_ISDIR(facts.st_mode):
                return f"{held.data} is not a folder, but for example a link, so it is not removed"
            with base.enter(held.job) as folder:
                # A start that was interrupted before it wrote the marker leaves an empty folder.
                if os.listdir(folder.handle) and (_marker(base, held.job) or {}).get("job") != held.job:
                    return f"{held.data} has no marker of job {held.job}, so it is not removed"
            # Rename it first, so that it is free: it may have more files than an epilog has time to remove.
            aside = f"{REMOVED}{held.job}-{secrets.token_hex(4)}"
            os.rename(held.job, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
            return _remove_aside(base, [aside], held.data, run)
    except FileNotFoundError:
        return ""
    except (FolderProblem, OSError) as error:
        return f"cannot inspect {held.data}: {error}"


def remove_leftovers(data_root: str, root: Root, run: Run) -> str:
    """Continue removals that were interrupted; return a message if something stays, otherwise an empty text."""
    try:
        with walk(root, data_root) as base:
            names = sorted(name for name in os.listdir(base.handle) if name.startswith(REMOVED))
            return _remove_aside(base, names, data_root, run)
    except FileNotFoundError:
        return ""
    except (FolderProblem, OSError) as error:
        return f"cannot inspect {data_root}: {error}"


def _remove_aside(base: Base, names: list[str], shown: str, run: Run) -> str:
    answer = remove(base, names, run)
    # After a timeout, the next sweep continues.
    is_over = answer is None or answer.rc in (0, _TIMED_OUT)
    return "" if answer is None or is_over else f"cannot remove {shown}: {last_line(answer)}"


def remove_run_folder(job: str, root: Root) -> None:
    """Remove the job's folder in /run.

    :raises OSError: it stays.
    """
    path = root.at(run_folder(job))
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def _marker(base: Base, job: str) -> dict[str, object] | None:
    try:
        with base.enter(job) as folder:
            found = json.loads(read_root_file(folder, MARKER) or "")
    except (ValueError, OSError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
