# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Selects the processes to inspect: by name, process id, control group, or Slurm job."""

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
    """The options for the selection are invalid; the message says which and why."""


@dataclass(frozen=True)
class Selection:
    """The processes to inspect; an empty selection selects none.

    :ivar pattern: regular expression, searched for in the name and in the command line.
    :ivar pids: process ids.
    :ivar cgroup: path of a control group, including all groups below it.
    :ivar slurm_job: id of a Slurm job.

    At most one of the last three is set. The pattern filters the processes that it selects, or all processes.
    """

    pattern: str | None = None
    pids: tuple[int, ...] = ()
    cgroup: str | None = None
    slurm_job: int | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.pids), self.cgroup is not None, self.slurm_job is not None)) > 1:
            raise SelectionError("Set only one of pids, cgroup and slurm_job_id.")
        if self.cgroup is not None and not inner_path(self.cgroup):
            raise SelectionError(f"cgroup {self.cgroup!r} would select every process: use a group below it.")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise SelectionError(f"{self.pattern!r} is not a valid regular expression: {error}.") from error
        if self.pattern == "":
            raise SelectionError("An empty pattern would match every process: omit it, or set the program's name.")

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
    """The selected processes.

    :ivar processes: by process id.
    :ivar cpus: CPUs that their control groups allow; None if no cpuset controller limits them.
    :ivar missing: requested process ids that do not exist.
    """

    processes: tuple[Process, ...]
    cpus: CpuSet | None
    missing: tuple[int, ...] = ()


def select(root: Root, selection: Selection) -> Selected:
    """Find the processes, without this process and its ancestors unless their process ids are given."""
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
    """Return the CPUs that this process's control group allows; None if unknown, as in a captured tree."""
    folder = read_cgroup_of(root, os.getpid()) if root.is_this_machine else None
    return read_cpus_allowed(root, folder) if folder else None


def _matches(process: Process, pattern: str | None) -> bool:
    return pattern is None or bool(re.search(pattern, process.name) or re.search(pattern, process.command))


def _ourselves(root: Root) -> set[int]:
    return {os.getpid(), *ancestors(root, os.getpid())} if root.is_this_machine else set()


def _is_of_job(root: Root, process: Process, job: int) -> bool:
    # If Slurm tracks processes without control groups (proctrack/linuxproc), only the environment shows the job.
    environment = read_environment(root, process.pid, ("SLURM_JOB_ID", "SLURM_JOBID")) or {}
    return str(job) in environment.values()


def _allowed(root: Root, folders: tuple[str, ...], processes: list[Process]) -> CpuSet | None:
    """Return the CPUs that the control groups allow to any of the processes; None if unknown."""
    if folders:
        # In version 1, only the cpuset tree has them.
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
