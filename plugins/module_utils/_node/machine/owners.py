# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whose the machine's processes and temporary files are, and which of them belong to Slurm's jobs, out of /proc."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .proc import read_stat
from .root import Root

_UID = re.compile(r"^Uid:\s*(\d+)", re.MULTILINE)
# slurmstepd puts job and step into its title; -M and several slurmd on one machine leave that as it is.
_STEPD = re.compile(r"slurmstepd: \[(\d+)\.")
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True)
class OwnedProcess:
    """A process of the machine, without the kernel's.

    :ivar uid: whose it is.
    :ivar state: as in ``TaskStat``.
    :ivar started: when, in ticks since the boot: with the pid it names one process and no later one.
    :ivar groups: its control groups as /proc tells them, a line each.
    :ivar job: the job in whose control group it is; None where it is in none.
    :ivar steps_of: the job whose step this slurmstepd looks after; None for other processes.
    """

    pid: int
    parent: int
    uid: int
    name: str
    state: str
    started: int
    groups: str = ""
    job: int | None = None
    steps_of: int | None = None


def read_owned(root: Root) -> dict[int, OwnedProcess]:
    """Return the processes by id, those that have ended left out."""
    found = {}
    for pid, folder in root.numbered("/proc", ""):
        facts = read_stat(root, pid)
        uid = _UID.search(root.text(f"{folder}/status") or "")
        if facts is None or uid is None or facts.is_kernel_thread or facts.state in "ZX":
            continue
        # The name, the second field, may hold spaces and parentheses: the last one closes it (proc(5)).
        fields = (root.text(f"{folder}/stat") or "").rpartition(")")[2].split()
        groups = root.text(f"{folder}/cgroup") or ""
        job = _JOB.search(groups)
        title = (root.text(f"{folder}/cmdline") or "").replace("\0", " ") if facts.name.startswith("slurmstepd") else ""
        step = _STEPD.match(title)
        found[pid] = OwnedProcess(
            pid=pid,
            parent=facts.parent,
            uid=int(uid[1]),
            name=facts.name,
            state=facts.state,
            started=int(fields[19]) if len(fields) > 19 else 0,
            groups=groups,
            job=int(job[1]) if job else None,
            steps_of=int(step[1]) if step else None,
        )
    return found


def live_jobs(processes: Mapping[int, OwnedProcess]) -> set[int]:
    """Return the jobs that have a slurmstepd."""
    return {process.steps_of for process in processes.values() if process.steps_of is not None}


def of_live_jobs(processes: Mapping[int, OwnedProcess]) -> set[int]:
    """Return the ids of the processes of live jobs: in their control groups, or below their slurmstepd."""
    live = live_jobs(processes)
    return {pid for pid, process in processes.items() if process.job in live or _has_step_above(process, processes)}


def _has_step_above(process: OwnedProcess, processes: Mapping[int, OwnedProcess]) -> bool:
    seen: set[int] = set()
    current: OwnedProcess | None = process
    while current is not None and current.pid not in seen:
        if current.steps_of is not None:
            return True
        seen.add(current.pid)
        current = processes.get(current.parent)
    return False


@dataclass(frozen=True)
class OwnedFile:
    """Something directly in a folder: a file, or a folder with all that is in it.

    :ivar size_bytes: of a file; 0 for a folder, which is not looked into.
    """

    path: str
    uid: int
    size_bytes: int


def read_files(root: Root, folders: Iterable[str]) -> Iterator[OwnedFile]:
    """Yield what lies directly in the folders; what cannot be looked at is left out."""
    for folder in folders:
        for name in root.entries(folder):
            path = f"{folder.rstrip('/')}/{name}"
            try:
                facts = os.lstat(root.at(path))
            except OSError:
                continue
            # Blocks, not the length: a file in memory may have holes.
            yield OwnedFile(path, facts.st_uid, facts.st_blocks * 512 if stat.S_ISREG(facts.st_mode) else 0)
