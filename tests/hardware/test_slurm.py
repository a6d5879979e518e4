# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm on cgroup v2, with the role's defaults: what a job may use is really all that it may use.

A machine of its own, with eight CPUs on four NUMA nodes.
"""

from __future__ import annotations

from typing import Any

import pytest

from hardware import qemu
from hardware.controller import Task, play
from hardware.slurm import CPUS, OF_THE_HOST, OneNode

# Not daily: test_scratch_boots.py, test_scratch_refusals.py and test_pins.py hold the daily part.
pytestmark = pytest.mark.thorough
DENIED, ALLOWED = "EPERM", "ENXIO"
"""What the kernel says of a device that the cgroup bars, and of one that it lets through and that has no driver."""


@pytest.fixture(scope="module")
def jobs(one_node: OneNode) -> list[dict[str, Any]]:
    """What three jobs saw that ran at the same time: two with a GPU each, and one without."""
    plain = "srun --time=5 --ntasks=1 --cpus-per-task=2 --mem=200"
    gpu = f"{plain} --gres=gpu:1"
    return [rank for [rank] in one_node.look(gpu, gpu, plain)]


@pytest.fixture(scope="module")
def two_jobs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a GPU."""
    return jobs[:2]


@pytest.fixture(scope="module")
def advice(one_node: OneNode) -> list[dict[str, Any]]:
    """What numa_pin_check recommends for four ranks: a rank's CPUs and mask each."""
    [result] = play(one_node.machine, Task("numa_pin_check", {"ranks_per_node": qemu.NUMA_NODES}))
    assert not result.failed, result.msg
    ranks: list[dict[str, Any]] = result["advice"]["ranks"]
    return ranks


def test_machine_has_what_the_claims_are_about(one_node: OneNode) -> None:
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


def test_two_jobs_have_cpus_of_their_own(two_jobs: list[dict[str, Any]]) -> None:
    first, second = two_jobs
    assert len(first["cpus"]) == len(second["cpus"]) == 2
    assert not set(first["cpus"]) & set(second["cpus"])
    assert first["cgroup"] != second["cgroup"]


def test_each_job_is_refused_the_others_gpu(two_jobs: list[dict[str, Any]]) -> None:
    assert sorted(job["gpu"] for job in two_jobs) == ["0", "1"]
    for job in two_jobs:
        own = int(job["gpu"])
        assert job["devices"][own] == ALLOWED
        assert job["devices"][1 - own] == DENIED


def test_job_without_a_gpu_is_refused_both(jobs: list[dict[str, Any]]) -> None:
    assert jobs[2]["gpu"] is None
    assert jobs[2]["devices"] == [DENIED, DENIED]


def test_each_job_has_a_tmp_of_its_own_that_goes_with_it(one_node: OneNode, jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        assert job["files"] == {folder: [f"of-job-{job['job']}"] for folder in ("/tmp", "/dev/shm")}
    # The host's own are as they were, and where those of jobs have been, there are none any more.
    find = "find {} -name 'of-*' -printf '%f\\n'"
    assert one_node.machine.run(find.format("/tmp /dev/shm")).split() == [OF_THE_HOST] * 2
    assert one_node.machine.run("ls -d /scratch/job_tmp")
    one_node.machine.wait_until(f'[ -z "$({find.format("/scratch/job_tmp")})" ]', 60)


def test_recommended_masks_arrive(one_node: OneNode, advice: list[dict[str, Any]]) -> None:
    """One rank on each NUMA node, by the option that numa_pin_check recommends."""
    masks = [str(rank["mask"]) for rank in advice]
    srun = f"srun --ntasks-per-node={len(masks)} --cpu-bind=mask_cpu:{','.join(masks)}"
    [ranks] = one_node.look(f"salloc --time=5 --exclusive --nodes=1 {srun}")
    wanted = [[cpu for cpu in range(CPUS) if int(mask, 16) >> cpu & 1] for mask in masks]
    assert [rank["cpus"] for rank in ranks] == wanted
    assert wanted == [[0, 1], [2, 3], [4, 5], [6, 7]]
