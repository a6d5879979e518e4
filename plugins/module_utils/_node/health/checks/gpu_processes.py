# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Nothing is left on the GPUs: no process without a job, no memory in use without a process."""

from __future__ import annotations

import pwd
from collections.abc import Iterator

from ...machine.cgroup import slurm_jobs_of
from ...machine.gpu import GpuHealth
from ...machine.owners import is_slurmstepd, uid_of
from ...machine.proc import ancestors, read_stat
from ...machine.root import Root
from ..applies import with_nvidia_gpus
from ..check import EPILOG, FAIL, NODE, OBSERVE, PROLOG, USER, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Observation, judge_each, not_reported
from ..gpus import CHECK_LIMIT_S

_IDLE_MIB = 1024
"""An unused GPU has almost no memory in use; a single CUDA context takes some hundred MiB. The limit is the
collection's own, because no source has one."""
_FIRST_USER = 1000
"""Lower user ids belong to the system (login.defs: UID_MIN)."""


def _measure(context: Context) -> Answer:
    most = float(context.option(GPU_PROCESSES, "idle_memory_mib"))
    root, ended = context.root, context.job if context.tier == EPILOG else ""

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        if gpu.processes is None:
            return
        yield Reading("gpu_processes", len(gpu.processes), "processes", gpu.device)
        for pid in gpu.processes:
            yield from _judge(root, gpu, pid, ended)
        if gpu.processes:
            return
        if gpu.memory_used is None:
            yield not_reported(gpu, "its used memory", "memory_used")
            return
        yield Reading("gpu_idle_memory", gpu.memory_used, "MiB", gpu.device, most, at_most=True)
        if gpu.memory_used > most:
            words = f"{gpu.memory_used:g} MiB of {gpu.label} are in use, but no process uses it"
            yield Finding(WARN, words, gpu.device, "Find the process with 'fuser -v /dev/nvidia*'; else reset the GPU")

    limit = f"no process without a job; at most {most:g} MiB in use without a process (option idle_memory_mib)"
    return judge_each(context, "its processes", "processes", judge, "no process is left on the GPUs", limit)


def _judge(root: Root, gpu: GpuHealth, pid: int, ended: str) -> Iterator[Observation]:
    process = read_stat(root, pid)
    # The process ended while the GPUs were read.
    if process is None or process.state in "ZX":
        return
    jobs = slurm_jobs_of(root.text(f"/proc/{pid}/cgroup") or "")
    if ended and ended in jobs:
        words = f"process {pid} ({process.name}) of finished job {ended} still uses {gpu.label}"
        yield Finding(FAIL, words, gpu.device, f"Kill it: 'kill -9 {pid}'", cause=USER)
        return
    if jobs or _has_step_daemon(root, pid):
        return
    user = _user_of(root, pid)
    words = f"process {pid} ({process.name}) of {user} uses {gpu.label}, but belongs to no job"
    if _is_system_user(root, pid):
        yield Finding(
            WARN, words, gpu.device, "It takes memory and time from jobs; stop it if it is not needed", cause=NODE
        )
    else:
        yield Finding(FAIL, words, gpu.device, f"Kill it: 'kill -9 {pid}'", cause=USER)


def _has_step_daemon(root: Root, pid: int) -> bool:
    """Return whether a process comes from a step of a job, for a Slurm without control groups."""
    return any(is_slurmstepd(root, parent) for parent in ancestors(root, pid))


def _is_system_user(root: Root, pid: int) -> bool:
    uid = uid_of(root, pid)
    return uid is not None and uid < _FIRST_USER


def _user_of(root: Root, pid: int) -> str:
    uid = uid_of(root, pid)
    if uid is None:
        return "a user"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


GPU_PROCESSES = Check(
    name="gpu_processes",
    title="Processes left on the GPUs",
    explain=(
        "Runs before and after a job. Each process that uses a GPU belongs to a job: it is in the control group of a "
        "job, or a slurmstepd is among its ancestors. After a job, no process of this job uses a GPU. If a process "
        "breaks these rules, the check fails, but the node is not drained. The check only warns about a system user's "
        f"process that belongs to no job, and about a GPU on which more than {_IDLE_MIB} MiB of memory are in use "
        "without a process (option idle_memory_mib)."
    ),
    tiers=(PROLOG, EPILOG),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
    options={"idle_memory_mib": _IDLE_MIB},
)
