# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm on cgroup v2 with the role's defaults: jobs can use only the CPUs, devices and files that Slurm assigned.

The tests use a separate machine with eight CPUs on four NUMA nodes.
"""

from __future__ import annotations

from typing import Any

import pytest

from hardware import qemu
from hardware.controller import Task, play
from hardware.slurm import CPUS, HOST_FILE, OneNode

# Not in `make test`: there, test_scratch_boots.py, test_scratch_refusals.py and test_pins.py run.
pytestmark = pytest.mark.thorough
DENIED, ALLOWED = "EPERM", "ENXIO"
"""Error if the cgroup denies access to a device, and error if access is allowed, because the device has no driver."""


@pytest.fixture(scope="module")
def jobs(one_node: OneNode) -> list[dict[str, Any]]:
    """The output of three jobs that ran at the same time: two with a GPU each, and one without."""
    plain = "srun --time=5 --ntasks=1 --cpus-per-task=2 --mem=200"
    gpu = f"{plain} --gres=gpu:1"
    return [rank for [rank] in one_node.run_jobs(gpu, gpu, plain)]


@pytest.fixture(scope="module")
def gpu_jobs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs with a GPU."""
    return jobs[:2]


@pytest.fixture(scope="module")
def advice(one_node: OneNode) -> list[dict[str, Any]]:
    """numa_pin_check's advice for four ranks: CPUs and mask of each rank."""
    [result] = play(one_node.machine, Task("numa_pin_check", {"ranks_per_node": qemu.NUMA_NODES}))
    assert not result.failed, result.msg
    ranks: list[dict[str, Any]] = result["advice"]["ranks"]
    return ranks


def test_the_machine_has_cgroup_v2_and_four_numa_nodes(one_node: OneNode) -> None:
    machine = one_node.machine
    assert machine.run("stat -f -c %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert machine.run("nproc").strip() == str(CPUS)
    assert len(machine.run("ls -d /sys/devices/system/node/node*").split()) == qemu.NUMA_NODES


def test_defaults_constrain_jobs_by_cgroup(one_node: OneNode) -> None:
    shown = dict(
        line.split("=", 1) for line in one_node.machine.run("scontrol show config").splitlines() if "=" in line
    )
    config = {key.strip(): value.strip() for key, value in shown.items()}
    assert config["ProctrackType"] == "proctrack/cgroup"
    assert set(config["TaskPlugin"].split(",")) == {"task/affinity", "task/cgroup"}
    assert (config["ConstrainCores"], config["ConstrainDevices"], config["ConstrainRAMSpace"]) == ("yes",) * 3
    assert "config_overrides" not in config["SlurmdParameters"]


def test_two_jobs_have_different_cpus(gpu_jobs: list[dict[str, Any]]) -> None:
    first, second = gpu_jobs
    assert len(first["cpus"]) == len(second["cpus"]) == 2
    assert not set(first["cpus"]) & set(second["cpus"])
    assert first["cgroup"] != second["cgroup"]


def test_a_job_cannot_open_the_gpu_of_another_job(gpu_jobs: list[dict[str, Any]]) -> None:
    assert sorted(job["gpu"] for job in gpu_jobs) == ["0", "1"]
    for job in gpu_jobs:
        own = int(job["gpu"])
        assert job["devices"][own] == ALLOWED
        assert job["devices"][1 - own] == DENIED


def test_a_job_without_a_gpu_cannot_open_any(jobs: list[dict[str, Any]]) -> None:
    assert jobs[2]["gpu"] is None
    assert jobs[2]["devices"] == [DENIED, DENIED]


def test_each_job_has_a_private_tmp_that_is_removed_afterwards(one_node: OneNode, jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        assert job["files"] == {folder: [f"of-job-{job['job']}"] for folder in ("/tmp", "/dev/shm")}
    # The host's files are unchanged, and the jobs' private folders are removed.
    find = "find {} -name 'of-*' -printf '%f\\n'"
    assert one_node.machine.run(find.format("/tmp /dev/shm")).split() == [HOST_FILE] * 2
    assert one_node.machine.run("ls -d /scratch/job_tmp")
    one_node.machine.wait_until(f'[ -z "$({find.format("/scratch/job_tmp")})" ]', 60)


def test_ranks_run_with_the_recommended_masks(one_node: OneNode, advice: list[dict[str, Any]]) -> None:
    """The masks put one rank on each NUMA node."""
    masks = [str(rank["mask"]) for rank in advice]
    srun = f"srun --ntasks-per-node={len(masks)} --cpu-bind=mask_cpu:{','.join(masks)}"
    [ranks] = one_node.run_jobs(f"salloc --time=5 --exclusive --nodes=1 {srun}")
    wanted = [[cpu for cpu in range(CPUS) if int(mask, 16) >> cpu & 1] for mask in masks]
    assert [rank["cpus"] for rank in ranks] == wanted
    assert wanted == [[0, 1], [2, 3], [4, 5], [6, 7]]
