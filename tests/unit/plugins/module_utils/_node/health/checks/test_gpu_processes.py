# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes on GPUs: of a job, of no job, of a finished job, of a daemon, none; memory that is still in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import EPILOG, PROLOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_processes import GPU_PROCESSES

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look

OF_JOB = "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0"
OF_SESSION = "0::/user.slice/user-1007.slice/session-3.scope"
FREE_UID = 4_000_000_017
"""A user id that no test machine has."""


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """A machine without processes."""
    return MachineTree(tmp_path)


def process(tree: MachineTree, pid: int, uid: int = FREE_UID, **facts: Any) -> None:
    """Add a process of a user."""
    tree.process(pid, "0", uid=uid, **{"name": "train", **facts})


@pytest.mark.parametrize("tier", [PROLOG, EPILOG])
def test_passes_without_processes(tree: MachineTree, tier: str) -> None:
    result = look(GPU_PROCESSES, gpu(0), gpu(1), root=tree, tier=tier, job="17")
    assert (result.verdict, result.summary) == ("pass", "no process is left on the GPUs")
    assert [(one.name, one.value) for one in result.answer.readings][:2] == [
        ("gpu_processes", 0),
        ("gpu_idle_memory", 4.0),
    ]


@pytest.mark.parametrize(("tier", "job"), [(PROLOG, "17"), (PROLOG, "18"), (EPILOG, "18"), (EPILOG, "1")])
def test_passes_with_processes_of_jobs_that_run(tree: MachineTree, tier: str, job: str) -> None:
    process(tree, 100, cgroup=OF_JOB)
    result = look(GPU_PROCESSES, gpu(0, processes=(100,), memory_used=30000.0), root=tree, tier=tier, job=job)
    assert (result.verdict, result.answer.readings[0].value) == ("pass", 1)


def test_passes_with_a_process_of_a_step_without_control_groups(tree: MachineTree) -> None:
    tree.process(90, "0", name="slurmstepd", parent=1)
    tree.process(95, "0", name="bash", parent=90)
    process(tree, 100, cgroup=OF_SESSION, parent=95)
    assert look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=PROLOG).verdict == "pass"


def test_fails_with_a_child_of_a_users_process_named_slurmstepd(tree: MachineTree) -> None:
    tree.process(90, "0", name="slurmstepd", parent=1, uid=1001)
    process(tree, 100, cgroup=OF_SESSION, parent=90)
    assert look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=PROLOG).verdict == "fail"


@pytest.mark.parametrize("tier", [PROLOG, EPILOG])
def test_fails_with_a_process_that_belongs_to_no_job(tree: MachineTree, tier: str) -> None:
    process(tree, 100, cgroup=OF_SESSION)
    result = look(GPU_PROCESSES, gpu(0), gpu(1, processes=(100,)), root=tree, tier=tier, job="17")
    assert (result.verdict, result.cause, result.action, result.fault) == ("fail", "user", "nothing", "")
    assert result.summary == f"process 100 (train) of user {FREE_UID} uses GPU 1 (0002:00:00.0), but belongs to no job"


def test_fails_with_a_process_of_the_job_that_has_ended(tree: MachineTree) -> None:
    process(tree, 100, cgroup=OF_JOB)
    result = look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=EPILOG, job="17")
    assert (result.verdict, result.cause) == ("fail", "user")
    assert result.summary == "process 100 (train) of finished job 17 still uses GPU 0 (0001:00:00.0)"


@pytest.mark.parametrize(
    ("uid", "verdict", "cause"), [(0, "warn", "node"), (999, "warn", "node"), (1000, "fail", "user")]
)
def test_warns_of_a_process_of_a_system_user(tree: MachineTree, uid: int, verdict: str, cause: str) -> None:
    process(tree, 100, uid=uid, cgroup="0::/system.slice/mps.service")
    result = look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=PROLOG)
    assert (result.verdict, result.cause) == (verdict, cause)


def test_a_process_that_has_ended_meanwhile_is_ignored(tree: MachineTree) -> None:
    assert look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=PROLOG).verdict == "pass"


@pytest.mark.parametrize(("mib", "verdict"), [(1024.0, "pass"), (1025.0, "warn")])
def test_warns_of_used_memory_without_a_process_above_the_limit(tree: MachineTree, mib: float, verdict: str) -> None:
    assert look(GPU_PROCESSES, gpu(0, memory_used=mib), root=tree, tier=PROLOG).verdict == verdict


def test_the_site_can_set_another_limit(tree: MachineTree) -> None:
    option = {"gpu_processes": {"idle_memory_mib": 100}}
    assert look(GPU_PROCESSES, gpu(0, memory_used=100.0), root=tree, options=option).verdict == "pass"
    assert look(GPU_PROCESSES, gpu(0, memory_used=101.0), root=tree, options=option).verdict == "warn"


@pytest.mark.parametrize(
    ("missing", "words"),
    [("processes", "its processes"), ("memory_used", "its used memory")],
)
def test_cannot_measure_without_processes_or_used_memory(missing: str, words: str) -> None:
    result = look(GPU_PROCESSES, gpu(0, **{missing: None}))
    assert (result.verdict, result.summary) == ("unknown", f"GPU 0 (0001:00:00.0) does not report {words}")


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_PROCESSES)


@pytest.mark.timeout(30)
def test_does_not_read_command_lines(tree: MachineTree) -> None:
    """The user decides how long that takes; here it never ends. The check would exceed its limit in each epilog."""
    process(tree, 100, cgroup=OF_JOB)
    words = tree.path / "proc/100/cmdline"
    words.unlink()
    os.mkfifo(words)
    result = look(GPU_PROCESSES, gpu(0, processes=(100,)), root=tree, tier=EPILOG, job="17")
    assert result.summary == "process 100 (train) of finished job 17 still uses GPU 0 (0001:00:00.0)"
