# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Control groups, versions 1 and 2: which processes they hold, and on which CPUs these may run."""

from __future__ import annotations

import fnmatch
import os

from .cpuset import CpuSet
from .root import Root

_MOUNT = "/sys/fs/cgroup"
# Version 1 has a tree for each controller; Slurm tracks processes by the freezer's.
_CONTROLLERS_V1 = ("cpuset", "freezer", "memory", "cpu,cpuacct", "cpu", "pids", "devices", "systemd")
_EFFECTIVE = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
SLURM_INTERNAL_GROUPS = ("step_extern", "slurm")
"""Below a job of Slurm: the step that holds no program of the user's, and slurmstepd's own group within each step."""


def find_cgroups(root: Root, path: str) -> tuple[str, ...]:
    """Return the folders of control group ``path``: one in version 2, one for each controller in version 1.

    :param path: as below ``/sys/fs/cgroup``, with or without that; in version 1 with or without the controller.
    """
    inner = inner_path(path)
    candidates = [_MOUNT, *(f"{_MOUNT}/{controller}" for controller in _CONTROLLERS_V1)]
    found = (os.path.join(tree, inner) if inner else tree for tree in candidates)
    return tuple(folder for folder in found if root.exists(f"{folder}/cgroup.procs"))


def inner_path(path: str) -> str:
    """Return the path of a control group below ``/sys/fs/cgroup``; empty for the one that holds all processes."""
    inner = os.path.normpath("/" + path.strip()).lstrip("/")
    mount = _MOUNT.lstrip("/")
    if inner == mount or inner.startswith(mount + "/"):
        inner = inner[len(mount) :].lstrip("/")
    return inner


def find_slurm_job(root: Root, job: int) -> tuple[str, ...]:
    """Return the folders of a Slurm job's control groups; none where Slurm does not use them."""
    found = []
    # Several slurmd on one machine put their node's name before "slurmstepd.scope".
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
    """Return the processes of a control group and of all below it, except groups with one of the names ``without``."""
    found: set[int] = set()
    for parent, children, _files in os.walk(root.at(folder)):
        children[:] = [child for child in children if child not in without]
        try:
            with open(os.path.join(parent, "cgroup.procs"), encoding="ascii") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            # A group of threads has no processes (EOPNOTSUPP), and one may go while it is read.
            continue
    return found


def read_cpus_allowed(root: Root, folder: str) -> CpuSet | None:
    """Return the CPUs that a control group's processes may run on; None where no cpuset controller says.

    A group without the controller has what the nearest group above it has.
    """
    while len(folder) >= len(_MOUNT):
        for name in _EFFECTIVE:
            text = root.text(f"{folder}/{name}")
            if text:
                return CpuSet.parse_list(text)
        folder = os.path.dirname(folder)
    return None


def read_cgroup_of(root: Root, pid: int) -> str | None:
    """Return the folder of the control group that decides on a process's CPUs; None where that is not known."""
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
    # Seen from within a namespace of control groups, one outside is "/../..": no folder here, so the tree's own counts.
    return tree if ".." in path.split("/") else os.path.normpath(tree + path)
