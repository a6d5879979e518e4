# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Owners of the machine's processes and temporary files, and the processes of Slurm's jobs, from /proc."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .cgroup import slurm_jobs_of
from .proc import read_command, read_stat
from .root import Root

_UID = re.compile(r"^Uid:\s*(\d+)", re.MULTILINE)
# slurmstepd shows job and step in its process title; -M and several slurmd on one machine do not change that.
_STEPD = re.compile(r"slurmstepd: \[(\d+)\.")
_PROGRAM = "slurmstepd"


@dataclass(frozen=True)
class OwnedProcess:
    """A process of the machine; kernel threads are not included.

    :ivar uid: id of its owner.
    :ivar state: as in ``TaskStat``.
    :ivar started: start time in ticks since the boot: together with the pid it identifies one process.
    :ivar groups: its control groups as in /proc, one per line.
    :ivar job: the job in whose control group it is; None if it is in none.
    :ivar steps_of: the job whose step this slurmstepd manages; None for other processes.
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
    """Return the processes by id, without those that have ended."""
    found = {}
    for pid, folder in root.numbered("/proc", ""):
        facts = read_stat(root, pid)
        uid = _UID.search(root.text(f"{folder}/status") or "")
        if facts is None or uid is None or facts.is_kernel_thread or facts.state in "ZX":
            continue
        # The name, the second field, may contain spaces and parentheses: the last one closes it (proc(5)).
        fields = (root.text(f"{folder}/stat") or "").rpartition(")")[2].split()
        groups = root.text(f"{folder}/cgroup") or ""
        jobs = slurm_jobs_of(groups)
        found[pid] = OwnedProcess(
            pid=pid,
            parent=facts.parent,
            uid=int(uid[1]),
            name=facts.name,
            state=facts.state,
            started=int(fields[19]) if len(fields) > 19 else 0,
            groups=groups,
            job=int(min(jobs)) if jobs else None,
            steps_of=steps_of(root, pid) if facts.name.startswith(_PROGRAM) else None,
        )
    return found


def uid_of(root: Root, pid: int) -> int | None:
    """Return the user id of a process's owner; None if there is no such process."""
    uid = _UID.search(root.text(f"/proc/{pid}/status") or "")
    return int(uid[1]) if uid else None


def is_slurmstepd(root: Root, pid: int) -> bool:
    """Return whether a process is a slurmstepd that Slurm started.

    A user can set a process's name and title, and can start a set-user-ID program through a link with this name. So the
    owner and the program file are checked too.
    """
    facts = read_stat(root, pid)
    if facts is None or not facts.name.startswith(_PROGRAM) or uid_of(root, pid) != 0:
        return False
    program = root.link_name(f"/proc/{pid}/exe")
    # In Debian the program is slurmstepd-wlm; its link ends with " (deleted)" during a package upgrade. A captured tree
    # has no link.
    return program is None or program.startswith(_PROGRAM)


def steps_of(root: Root, pid: int) -> int | None:
    """Return the job whose step a process manages; None if it is no slurmstepd."""
    step = _STEPD.match(read_command(root, pid)) if is_slurmstepd(root, pid) else None
    return int(step[1]) if step else None


def any_slurmstepd(root: Root) -> bool:
    """Return whether there is a slurmstepd, so that a job step may run on this machine."""
    return any(is_slurmstepd(root, pid) for pid, _path in root.numbered("/proc", ""))


def live_jobs(processes: Mapping[int, OwnedProcess]) -> set[int]:
    """Return the jobs that have a slurmstepd."""
    return {process.steps_of for process in processes.values() if process.steps_of is not None}


def of_live_jobs(processes: Mapping[int, OwnedProcess]) -> set[int]:
    """Return the ids of the processes of live jobs: in their control groups, or descendants of their slurmstepd."""
    live = live_jobs(processes)
    return {
        pid
        for pid, process in processes.items()
        if process.job in live or _job_of_step_above(process, processes) is not None
    }


def users_of_live_jobs(processes: Mapping[int, OwnedProcess]) -> dict[int, set[int]]:
    """Return the ids of the users with processes in each live job, without root.

    The set is empty if only root's processes are there: slurmstepd's own, and the ``sleep`` of the extern step, which
    also runs as root (``_spawn_job_container`` in Slurm's src/slurmd/slurmstepd/mgr.c).
    """
    users: dict[int, set[int]] = {job: set() for job in live_jobs(processes)}
    for process in processes.values():
        job = process.job if process.job in users else _job_of_step_above(process, processes)
        if job is not None and process.uid != 0:
            users[job].add(process.uid)
    return users


def _job_of_step_above(process: OwnedProcess, processes: Mapping[int, OwnedProcess]) -> int | None:
    visited: set[int] = set()
    current: OwnedProcess | None = process
    while current is not None and current.pid not in visited:
        if current.steps_of is not None:
            return current.steps_of
        visited.add(current.pid)
        current = processes.get(current.parent)
    return None


@dataclass(frozen=True)
class OwnedFile:
    """A direct entry of a folder: a file or a subfolder.

    :ivar size_bytes: of a file; 0 for a subfolder, whose content is not read.
    """

    path: str
    uid: int
    size_bytes: int


def read_files(root: Root, folders: Iterable[str]) -> Iterator[OwnedFile]:
    """Yield the direct entries of the folders; unreadable ones are left out."""
    for folder in folders:
        for name in root.entries(folder):
            path = f"{folder.rstrip('/')}/{name}"
            try:
                facts = os.lstat(root.at(path))
            except OSError:
                continue
            # Use allocated blocks, not the length: a sparse file uses less memory.
            yield OwnedFile(path, facts.st_uid, facts.st_blocks * 512 if stat.S_ISREG(facts.st_mode) else 0)
