# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where a job's parts lie on a node, and what is written down of them, in /run, which is empty after a boot."""

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
"""What the last sweep could not take down, a line each; the health check ``leftovers`` reads it."""
SCHEMA = 1
MARKER = ".hpcai-beeond"
"""In a job's data folder: what bears it is ours, and may be removed when the job is over."""
REMOVED = ".removed-"
"""Begins the name of what is being removed: data of an ended job."""
FILES = "files"
"""In the data folder of a job of one node: what its user sees."""
BEEGFS, BIND = "beegfs", "bind"
_STATE = "state.json"
_TIMED_OUT = 124
"""Exit status that machine/run.py gives a command that it ended."""


@dataclass(frozen=True)
class Holding:
    """What a job holds on this node.

    :ivar job: its id.
    :ivar kind: BEEGFS, or BIND for a job of one node.
    :ivar mount_point: where it is mounted.
    :ivar data: its folder on the scratch.
    :ivar data_root: the folder that this must lie in.
    :ivar daemons: those that were started, in this order: ``mgmtd``, ``meta``, ``storage``, ``helperd``.
    :ivar release: of BeeGFS.
    :ivar since: when it began, in seconds since the epoch.
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
    """Return where the job's configuration lies."""
    return f"{RUN}/{job}"


def write_state(held: Holding, root: Root) -> None:
    """Make the job's folder in /run, and note what it holds before it does.

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
    """Return what the job holds here; None if it holds nothing, or nothing that can be read."""
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
    """Make the folder of all jobs' data, which only root may enter; return a warning, if users had put something there.

    Without the scratch there is none.

    :raises FolderProblem: users can replace it.
    :raises OSError: it cannot be made.
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
    """Make the job's folder on the scratch, with its marker first, and return its path.

    :raises FolderProblem: users can replace its parent.
    :raises OSError: it cannot be made; FileExistsError: a job of that id has left one.
    """
    marker = {"schema": SCHEMA, "job": job, "boot_id": read_boot_id(root)}
    with walk(root, data_root) as base:
        os.mkdir(job, 0o700, dir_fd=base.handle)
        with base.enter(job) as folder:
            write_new(folder, MARKER, json.dumps(marker, sort_keys=True) + "\n", 0o600)
    return f"{data_root}/{job}"


@contextlib.contextmanager
def make_inside(data: str, name: str, root: Root) -> Iterator[Base]:
    """Make a folder in a job's folder on the scratch, and keep it open: for a daemon, or to be mounted.

    :raises FolderProblem: users can replace a part of the path.
    :raises OSError: it cannot be made.
    """
    with walk(root, data) as folder:
        os.mkdir(name, 0o700, dir_fd=folder.handle)
        with folder.enter(name) as inside:
            yield inside


def jobs_with_data(data_root: str, root: Root) -> dict[str, str]:
    """Return the boot in which each job's data was made, by the job's id; only of folders with its marker."""
    made = {}
    with contextlib.suppress(FolderProblem, OSError), walk(root, data_root) as base:
        for name in sorted(os.listdir(base.handle)):
            marker = _marker(base, name) if name.isdecimal() else None
            if marker and marker.get("job") == name:
                made[name] = str(marker.get("boot_id"))
    return made


def remove_data(held: Holding, root: Root, run: Run) -> str:
    """Remove the job's folder on the scratch; return why it stays, in words; nothing if it is gone."""
    if held.data != f"{held.data_root}/{held.job}":
        return f"{held.data} does not lie in {held.data_root}: it is not removed"
    try:
        with walk(root, held.data_root) as base:
            facts = base.look(held.job)
            if facts is None:
                return ""
            if not stat.S_ISDIR(facts.st_mode):
                return f"{held.data} is no folder of its own, but leads elsewhere: it is not removed"
            with base.enter(held.job) as folder:
                # What a start made that was cut off before the marker is empty.
                if os.listdir(folder.handle) and (_marker(base, held.job) or {}).get("job") != held.job:
                    return f"{held.data} has no marker of job {held.job}: it is not removed"
            # It is no job's any more: a user may have made more files than can be removed in an epilog's time.
            aside = f"{REMOVED}{held.job}-{secrets.token_hex(4)}"
            os.rename(held.job, aside, src_dir_fd=base.handle, dst_dir_fd=base.handle)
            return _remove_aside(base, [aside], held.data, run)
    except FileNotFoundError:
        return ""
    except (FolderProblem, OSError) as error:
        return f"{held.data} cannot be looked at: {error}"


def remove_leftovers(data_root: str, root: Root, run: Run) -> str:
    """Go on with removals that were cut off; return why something stays, in words; nothing otherwise."""
    try:
        with walk(root, data_root) as base:
            names = sorted(name for name in os.listdir(base.handle) if name.startswith(REMOVED))
            return _remove_aside(base, names, data_root, run)
    except FileNotFoundError:
        return ""
    except (FolderProblem, OSError) as error:
        return f"{data_root} cannot be looked at: {error}"


def _remove_aside(base: Base, names: list[str], shown: str, run: Run) -> str:
    answer = remove(base, names, run)
    # The sweep goes on with what takes longer.
    is_over = answer is None or answer.rc in (0, _TIMED_OUT)
    return "" if answer is None or is_over else f"{shown} cannot be removed: {last_line(answer)}"


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
