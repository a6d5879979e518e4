# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Control groups, versions 1 and 2: their processes, and the CPUs on which these may run."""

from __future__ import annotations

import fnmatch
import os
import re

from .cpuset import CpuSet
from .root import Root

_MOUNT = "/sys/fs/cgroup"
# Version 1 has a tree for each controller; Slurm tracks processes in the freezer's tree.
_CONTROLLERS_V1 = ("cpuset", "freezer", "memory", "cpu,cpuacct", "cpu", "pids", "devices", "systemd")
_EFFECTIVE = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
SLURM_INTERNAL_GROUPS = ("step_extern", "slurm")
"""Below a Slurm job: the step without programs of the user, and slurmstepd's own group in each step."""
_USERS = re.compile(r"/user@\d+\.service(/|$)")
_SLURM_JOB = re.compile(r"/(?:slurm[^/]*/uid_\d+|[^/]*slurmstepd\.scope)/job_(\d+)(?:/|$)")


def system_groups(groups: str) -> list[str]:
    """Return the lines of a process's ``cgroup`` file, without groups that users can create and name.

    Those are below a user's service manager (user@UID.service), which any user can start.
    """
    return [line for line in groups.split("\n") if not _USERS.search(line)]


def slurm_jobs_of(groups: str) -> set[str]:
    """Return the Slurm jobs in whose control groups a process is, by the lines of its ``cgroup`` file."""
    return {job for line in system_groups(groups) for job in _SLURM_JOB.findall(line)}


def find_cgroups(root: Root, path: str) -> tuple[str, ...]:
    """Return the folders of control group ``path``: one in version 2, one for each controller in version 1.

    :param path: with or without ``/sys/fs/cgroup``; in version 1 with or without the controller.
    """
    inner = inner_path(path)
    candidates = [_MOUNT, *(f"{_MOUNT}/{controller}" for controller in _CONTROLLERS_V1)]
    found = (os.path.join(tree, inner) if inner else tree for tree in candidates)
    return tuple(folder for folder in found if root.exists(f"{folder}/cgroup.procs"))


def inner_path(path: str) -> str:
    """Return the path of a control group below ``/sys/fs/cgroup``; empty for the root group."""
    inner = os.path.normpath("/" + path.strip()).lstrip("/")
    mount = _MOUNT.lstrip("/")
    if inner == mount or inner.startswith(mount + "/"):
        inner = inner[len(mount) :].lstrip("/")
    return inner


def find_slurm_job(root: Root, job: int) -> tuple[str, ...]:
    """Return the folders of a Slurm job's control groups; none if Slurm does not use control groups."""
    found = []
    # If several slurmd run on one machine, "slurmstepd.scope" is prefixed with the node's name.
    for parent in (f"{_MOUNT}/system.slice", _MOUNT):
        for scope in fnmatch.filter(root.entries(parent), "*slurmstepd.scope"):
            found.append(f"{parent}/{scope}/job_{job}")
    for controller in _CONTROLLERS_V1:
        tree = f"{_MOUNT}/{controller}"
        for slurm in fnmatch.filter(root.entries(tree), "slurm*"):
            for user in fnmatch.filter(root.entries(f"{tree}/{slurm}"), "uid_*"):
                found.append(f"{tree}/{slurm}/{user}/job_{job}")
    return tuple(folder for folder in found if root.exists(folder))


def read_pids(root: Root, folder: str, without: tuple[str, ...] = ()) -> set[int]:
    """Return the processes of a control group and all groups below it, except groups named in ``without``."""
    found: set[int] = set()
    for parent, children, _files in os.walk(root.at(folder)):
        children[:] = [child for child in children if child not in without]
        try:
            with open(os.path.join(parent, "cgroup.procs"), encoding="ascii") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            # A threaded group cannot list processes (EOPNOTSUPP), and a group may disappear while it is read.
            continue
    return found


def read_cpus_allowed(root: Root, folder: str) -> CpuSet | None:
    """Return the CPUs on which a control group's processes may run; None if no cpuset controller limits them.

    A group without the controller inherits from the nearest group above it.
    """
    while len(folder) >= len(_MOUNT):
        for name in _EFFECTIVE:
            text = root.text(f"{folder}/{name}")
            if text:
                return CpuSet.parse_list(text)
        folder = os.path.dirname(folder)
    return None


def read_cgroup_of(root: Root, pid: int) -> str | None:
    """Return the folder of the control group that limits a process's CPUs; None if it is unknown."""
    unified = None
    for line in (root.text(f"/proc/{pid}/cgroup") or "").splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if "cpuset" in controllers.split(","):
            return _below(f"{_MOUNT}/cpuset", path)
        if not controllers:
            unified = _below(_MOUNT, path)
    return unified


def _below(tree: str, path: str) -> str:
    # In a cgroup namespace, a group outside of it has an invisible path such as "/../..": use the tree's root.
    return tree if ".." in path.split("/") else os.path.normpath(tree + path)
