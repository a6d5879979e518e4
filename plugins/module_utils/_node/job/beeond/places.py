# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where a job's parts lie on a node, and what is written down of them, in /run, which is empty after a boot."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from dataclasses import asdict, dataclass

from ...machine.atomic import write_file
from ...machine.root import Root

RUN = "/run/hpcai/beeond"
LOCK = "/run/hpcai/beeond.lock"
LEFT = "/run/hpcai/beeond.left"
"""What the last sweep could not take down, a line each; the health check ``leftovers`` reads it."""
SCHEMA = 1
MARKER = ".hpcai-beeond"
"""In a job's data folder: what bears it is ours, and may be removed when the job is over."""
FILES = "files"
"""In the data folder of a job of one node: what its user sees."""
BEEGFS, BIND = "beegfs", "bind"
_STATE = "state.json"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Held:
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


def write_down(held: Held, root: Root) -> None:
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


def written_down(job: str, root: Root) -> Held | None:
    """Return what the job holds here; None if it holds nothing, or nothing that can be read."""
    try:
        given = json.loads(root.text(f"{run_folder(job)}/{_STATE}") or "")
        if given.pop("schema") != SCHEMA or given["job"] != job:
            return None
        return Held(**{**given, "daemons": tuple(given["daemons"])})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def jobs_written_down(root: Root) -> list[str]:
    """Return the ids of jobs that have a folder in /run."""
    return [name for name in root.entries(RUN) if name.isdecimal()]


def boot_id(root: Root) -> str:
    """Return the kernel's name of this boot."""
    return root.text(_BOOT_ID) or ""


def make_data(job: str, data_root: str, root: Root) -> str:
    """Make the job's folder on the scratch, with its marker first, and return its path.

    :raises OSError: it cannot be made; FileExistsError: a job of that id has left one.
    """
    os.makedirs(root.at(data_root), mode=0o711, exist_ok=True)
    path = f"{data_root}/{job}"
    os.mkdir(root.at(path), 0o711)
    os.chmod(root.at(path), 0o711)
    marker = {"schema": SCHEMA, "job": job, "boot_id": boot_id(root)}
    write_file(root.at(f"{path}/{MARKER}"), json.dumps(marker, sort_keys=True) + "\n", 0o600)
    return path


def jobs_with_data(data_root: str, root: Root) -> dict[str, str]:
    """Return the boot in which each job's data was made, by the job's id; only of folders with its marker."""
    made = {}
    for name in root.entries(data_root):
        marker = _marker(f"{data_root}/{name}", root) if name.isdecimal() else None
        if marker and marker.get("job") == name:
            made[name] = str(marker.get("boot_id"))
    return made


def refusal(held: Held, root: Root) -> str:
    """Return why the job's data must not be removed, in words; nothing if it may."""
    if held.data != f"{held.data_root}/{held.job}":
        return f"{held.data} does not lie in {held.data_root}"
    path = root.at(held.data)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{held.data} cannot be looked at: {error.strerror}"
    inside = os.path.join(os.path.realpath(root.at(held.data_root)), held.job)
    if not stat.S_ISDIR(found.st_mode) or os.path.realpath(path) != inside:
        return f"{held.data} is no folder of its own, but leads elsewhere"
    if (_marker(held.data, root) or {}).get("job") != held.job:
        # What a start made that was cut off before the marker is empty.
        return f"{held.data} has no marker of job {held.job}" if os.listdir(path) else ""
    return ""


def remove_run_folder(job: str, root: Root) -> None:
    """Remove the job's folder in /run.

    :raises OSError: it stays.
    """
    path = root.at(run_folder(job))
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def _marker(folder: str, root: Root) -> dict[str, object] | None:
    try:
        found = json.loads(root.text(f"{folder}/{MARKER}") or "")
        owner = os.lstat(root.at(f"{folder}/{MARKER}"))
    except (ValueError, OSError, RecursionError):
        return None
    # A user's file of that name counts for nothing; for tests, which run as anybody, that is their own user.
    if not stat.S_ISREG(owner.st_mode) or owner.st_uid not in (0, os.geteuid()):
        return None
    return found if isinstance(found, dict) else None
