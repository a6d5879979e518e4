# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which processes to look at: by name, process id, control group, or Slurm job."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..machine.cgroup import (
    SLURM_INTERNAL_GROUPS,
    find_cgroups,
    find_slurm_job,
    inner_path,
    read_cgroup_of,
    read_cpus_allowed,
    read_pids,
)
from ..machine.cpuset import CpuSet
from ..machine.proc import Process, ancestors, read_environment, read_processes
from ..machine.root import Root


class SelectionError(ValueError):
    """Options that select in no sensible way; the message says which and why."""


@dataclass(frozen=True)
class Selection:
    """What to look at; nothing of it selects nothing.

    :ivar pattern: regular expression, searched for in the name and in the command line.
    :ivar pids: process ids.
    :ivar cgroup: path of a control group, with all below it.
    :ivar slurm_job: number of a Slurm job.

    One of the last three; a pattern chooses among what they select, or among all processes.
    """

    pattern: str | None = None
    pids: tuple[int, ...] = ()
    cgroup: str | None = None
    slurm_job: int | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.pids), self.cgroup is not None, self.slurm_job is not None)) > 1:
            raise SelectionError("Give one of pids, cgroup and slurm_job_id: each selects processes by itself.")
        if self.cgroup is not None and not inner_path(self.cgroup):
            raise SelectionError(f"cgroup {self.cgroup!r} would select every process: name a group below it.")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise SelectionError(f"{self.pattern!r} is no regular expression: {error}.") from error
        if self.pattern == "":
            raise SelectionError("An empty pattern would match every process: leave it out, or name the program.")

    def __bool__(self) -> bool:
        return bool(self.pattern or self.pids or self.cgroup is not None or self.slurm_job is not None)

    def __str__(self) -> str:
        criteria = []
        if self.pids:
            criteria.append(f"process ids {', '.join(map(str, self.pids))}")
        if self.cgroup is not None:
            criteria.append(f"control group {self.cgroup}")
        if self.slurm_job is not None:
            criteria.append(f"Slurm job {self.slurm_job}")
        if self.pattern:
            criteria.append(f"name or command line matching {self.pattern!r}")
        return " and ".join(criteria)


NOTHING = Selection()
"""Selects no process."""


@dataclass(frozen=True)
class Selected:
    """The processes that were found.

    :ivar processes: by process id.
    :ivar cpus: CPUs that their control groups allow; None where no cpuset controller says.
    :ivar missing: process ids that were asked for and are not there.
    """

    processes: tuple[Process, ...]
    cpus: CpuSet | None
    missing: tuple[int, ...] = ()


def select(root: Root, selection: Selection) -> Selected:
    """Find the processes, never this one nor one that it descends from, unless asked for by its very process id."""
    folders: tuple[str, ...] = ()
    if selection.cgroup is not None:
        folders = find_cgroups(root, selection.cgroup)
    elif selection.slurm_job is not None:
        folders = find_slurm_job(root, selection.slurm_job)
    if selection.pids:
        found = read_processes(root, selection.pids)
    elif folders:
        found = read_processes(
            root, set().union(*(read_pids(root, folder, SLURM_INTERNAL_GROUPS) for folder in folders))
        )
    elif selection.cgroup is not None:
        found = iter(())
    else:
        found = read_processes(root)
    processes = [process for process in found if _matches(process, selection.pattern)]
    if not selection.pids:
        ours = _ourselves(root)
        processes = [process for process in processes if process.pid not in ours and process.name != "slurmstepd"]
    if selection.slurm_job is not None and not folders:
        processes = [process for process in processes if _is_of_job(root, process, selection.slurm_job)]
    missing = set(selection.pids) - {process.pid for process in processes}
    return Selected(tuple(processes), _allowed(root, folders, processes), tuple(sorted(missing)))


def own_cpus(root: Root) -> CpuSet | None:
    """Return the CPUs that our own control group allows; None where that is not known, as in a captured tree."""
    folder = read_cgroup_of(root, os.getpid()) if root.is_this_machine else None
    return read_cpus_allowed(root, folder) if folder else None


def _matches(process: Process, pattern: str | None) -> bool:
    return pattern is None or bool(re.search(pattern, process.name) or re.search(pattern, process.command))


def _ourselves(root: Root) -> set[int]:
    return {os.getpid(), *ancestors(root, os.getpid())} if root.is_this_machine else set()


def _is_of_job(root: Root, process: Process, job: int) -> bool:
    # Where Slurm tracks processes without control groups (proctrack/linuxproc) only the environment tells the job.
    environment = read_environment(root, process.pid, ("SLURM_JOB_ID", "SLURM_JOBID")) or {}
    return str(job) in environment.values()


def _allowed(root: Root, folders: tuple[str, ...], processes: list[Process]) -> CpuSet | None:
    """The CPUs that the control groups allow to any of the processes; None where they do not say."""
    if folders:
        # Of version 1's trees only the cpuset's says.
        of_groups = [read_cpus_allowed(root, folder) for folder in folders]
        known = [cpus for cpus in of_groups if cpus is not None]
        return CpuSet(cpu for cpus in known for cpu in cpus) if known else None
    allowed: set[int] = set()
    for folder in {read_cgroup_of(root, process.pid) for process in processes}:
        cpus = read_cpus_allowed(root, folder) if folder else None
        if cpus is None:
            return None
        allowed |= cpus
    return CpuSet(allowed) if processes else None
