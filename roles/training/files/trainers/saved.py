# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checkpoints in a folder: which are finished, who wrote them, and which one all ranks can load.

Nodes may have checkpoints of other trainings, or of another run of this job on other nodes. So each contains its
writer: the job, and a random name of the run. Only parts of one writer belong together.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
from collections.abc import Mapping, Sequence

MARKER = ".complete"
WORLD = "world"
"""In each checkpoint: how many processes wrote it."""
WRITER = "writer"
"""In each checkpoint: job and run that wrote it. Earlier releases, and other programs, do not write it."""


def new_writer() -> str:
    """Return the name of this run, for the checkpoints that it writes. Outside of Slurm it has no job."""
    return f"{os.environ.get('SLURM_JOB_ID', '')}/{secrets.token_hex(8)}"


def finished(run: str) -> dict[int, str]:
    """Return the writers of the finished checkpoints by step; an empty one if it is unknown."""
    found = {}
    for marker in glob.glob(f"{glob.escape(run)}/step*/{MARKER}"):
        folder = os.path.dirname(marker)
        digits = os.path.basename(folder)[len("step") :]
        if not digits.isdecimal():
            continue
        try:
            with open(f"{folder}/{WRITER}", encoding="ascii") as file:
                found[int(digits)] = file.read().strip()
        except FileNotFoundError:
            found[int(digits)] = ""
    return found


def foreign(run: str, checkpoints: Mapping[int, str], job: str) -> int:
    """Return the step of the newest checkpoint if another job wrote it and it was not restored; 0 otherwise."""
    newest = max(checkpoints, default=0)
    writer = checkpoints.get(newest, "")
    if not writer or job_of(writer) == job or f"step{newest}" in _restored(run):
        return 0
    return newest


def job_of(writer: str) -> str:
    """Return the job of a writer."""
    return writer.partition("/")[0]


def _restored(run: str) -> set[str]:
    """Return the folders that ``hpcnode checkpoint restore`` has fetched or found equal to what is in the store."""
    found = set()
    for path in glob.glob(f"{glob.escape(run)}/.hpcai-checkpoint/record-*.json"):
        try:
            with open(path, encoding="utf-8") as file:
                found |= {one["folder"] for one in json.load(file)["seen"] if one["state"] == "restored"}
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return found


def newest_common(of_ranks: Sequence[Mapping[int, str]]) -> int:
    """Return the newest step of which all ranks have a checkpoint of the same writer; 0 if there is none."""
    common = set(of_ranks[0].items()).intersection(*(one.items() for one in of_ranks[1:]))
    return max((step for step, _writer in common), default=0)


def mark(folder: str, world: int, writer: str) -> None:
    """Mark a checkpoint as finished.

    :raises OSError: it cannot be written.
    """
    for name, text in ((WORLD, str(world)), (WRITER, writer), (MARKER, "")):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    _sync_one(folder)


def sync(folder: str) -> None:
    """Write a folder to the disk. Otherwise only the marker may survive a crash of the node.

    :raises OSError: it cannot be written.
    """
    for path, _folders, names in os.walk(folder):
        for name in names:
            _sync_one(f"{path}/{name}")
        _sync_one(path)
    _sync_one(os.path.dirname(folder))


def _sync_one(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
