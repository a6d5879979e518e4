# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""numa_pin_check on real processes, pinned by numactl and taskset on a kernel with four NUMA nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hardware.controller import Result, Task, play
from hardware.vm import Machine

RANK = (Path(__file__).parent / "rank.py").read_text(encoding="utf-8")
# The command of each rank, by job. The Python program writes a file when it is ready.
JOBS: Mapping[str, tuple[str, ...]] = {
    "well": tuple(
        f"env OMPI_COMM_WORLD_LOCAL_RANK={node} numactl --cpunodebind={node} --localalloc {{rank}}" for node in range(4)
    ),
    "loose": ("{rank}",),
    "crowded": ("taskset -c 0,1 {rank}", "taskset -c 1,2 {rank}", "taskset -c 2 {rank}", "taskset -c 3 {rank}"),
    "lopsided": tuple(f"taskset -c {cpu} {{rank}}" for cpu in (0, 0, 0, 1)),
    # With the quota, the threads stay runnable, but use little time of the emulator.
    "busy": ("systemd-run --quiet --scope --property=CPUQuota=10% taskset -c 2 {rank} busy=4",),
    "astray": ("taskset -c 0 {rank} astray=3",),
    "bound": ("numactl --physcpubind=0 --membind=3 {rank}",),
    "late": ("numactl --cpunodebind=1 --localalloc {rank} mib=300",),
}
DAILY = ("well", "loose", "crowded", "astray")
# Moves ranks after they allocated memory, like a launcher that pins too late.
AFTERWARDS = "pgrep -f '[r]ank.py late' | xargs -r -n1 taskset -acp 0"
FINDS = {
    "loose": "unpinned",
    "crowded": "overlap",
    "lopsided": "idle_node",
    "busy": "busy_threads_exceed_cpus",
    "astray": "thread_outside_mask",
    "bound": "memory_policy",
    "late": "memory_far",
}


def start_ranks(machine: Machine, names: list[str]) -> None:
    """Start the ranks of these jobs, and wait until all of them run."""
    ranks = [(name, how) for name in names for how in JOBS[name]]
    lines = [
        f"{how.format(rank=f'python3 /opt/rank.py {name}')} </dev/null >>/run/ranks.log 2>&1 &" for name, how in ranks
    ]
    machine.run("\n".join(lines))
    there = " ".join(f"/run/ranks/{name}.*" for name in names)
    # One rank has 10 % of an emulated CPU, and must start Python with it.
    machine.wait_until(f"[ $(ls {there} | wc -l) = {len(ranks)} ]", 240)


def check_jobs(machine: Machine, names: list[str], *more: Task) -> list[Result]:
    """Run numa_pin_check on each of these jobs, and more tasks, in one play."""
    machine.write("/opt/rank.py", RANK)
    machine.run("rm -rf /run/ranks; mkdir /run/ranks")
    # The scope must start first: systemd enables controllers for it, and Linux 6.1 then resets all ranks' CPU masks.
    start_ranks(machine, [name for name in names if any("--scope" in how for how in JOBS[name])])
    start_ranks(machine, [name for name in names if not any("--scope" in how for how in JOBS[name])])
    machine.run(AFTERWARDS)
    tasks = [Task("numa_pin_check", {"processes": f"rank.py {name}", "memory": True}, check=True) for name in names]
    results = play(machine, *tasks, *more)
    # pkill fails if all ranks have ended already.
    machine.run("pkill -f '[/]opt/rank.py' || true; rm -rf /run/ranks")
    return results


@pytest.fixture(scope="module")
def daily_results(started: Machine) -> dict[str, Result]:
    """The module's results for the jobs of `make test`, for two of them with `fail_on`, and its advice."""
    more = [
        Task("numa_pin_check", {"processes": "rank.py loose", "fail_on": ["error"]}),
        Task("numa_pin_check", {"processes": "rank.py well", "fail_on": ["error", "warning"]}),
        Task("numa_pin_check", {"ranks_per_node": 4}),
    ]
    return dict(zip([*DAILY, "fails", "passes", "advice"], check_jobs(started, list(DAILY), *more), strict=True))


@pytest.fixture(scope="module")
def other_results(started: Machine) -> dict[str, Result]:
    """The module's results for the other jobs."""
    names = [name for name in JOBS if name not in DAILY]
    return dict(zip(names, check_jobs(started, names), strict=True))


def codes(result: Result) -> set[str]:
    """Codes of the findings with a severity above info."""
    return {found["code"] for found in result["findings"] if found["severity"] != "info"}


def rank_of(result: Result, number: int = 0) -> dict[str, Any]:
    """One of the ranks in a result."""
    rank: dict[str, Any] = result["ranks"][number]
    return rank


def test_ranks_on_separate_numa_nodes_have_no_findings(daily_results: dict[str, Result]) -> None:
    well = daily_results["well"]
    assert not well.failed, well.msg
    assert codes(well) == set()
    assert well["verdict"] == "good"
    assert [(rank["rank"], rank["cpus"], rank["nodes"]) for rank in well["ranks"]] == [
        (node, str(node), [node]) for node in range(4)
    ]


@pytest.mark.parametrize("job", [job for job in FINDS if job in DAILY])
def test_wrong_pinning_is_found(daily_results: dict[str, Result], job: str) -> None:
    assert not daily_results[job].failed, daily_results[job].msg
    assert FINDS[job] in codes(daily_results[job])


@pytest.mark.thorough
@pytest.mark.parametrize("job", [job for job in FINDS if job not in DAILY])
def test_rare_kinds_of_wrong_pinning_are_found(other_results: dict[str, Result], job: str) -> None:
    assert not other_results[job].failed, other_results[job].msg
    assert not other_results[job].changed
    assert FINDS[job] in codes(other_results[job])


def test_threads_are_counted_by_cpu_mask(daily_results: dict[str, Result]) -> None:
    assert rank_of(daily_results["astray"])["threads_by_cpus"] == {"0": 1, "3": 1}


@pytest.mark.thorough
def test_all_threads_of_a_rank_are_counted(other_results: dict[str, Result]) -> None:
    assert rank_of(other_results["busy"])["threads"] == 5


@pytest.mark.thorough
def test_memory_is_measured_by_numa_node(other_results: dict[str, Result]) -> None:
    memory = rank_of(other_results["late"])["memory_mib"]
    assert memory["1"] > 290
    assert rank_of(other_results["late"])["nodes"] == [0]


def test_the_module_changes_nothing_and_fails_only_with_fail_on(daily_results: dict[str, Result]) -> None:
    assert not any(result.changed for result in daily_results.values())
    assert daily_results["fails"].failed
    assert "unpinned" in json.dumps(daily_results["fails"].data)
    assert not daily_results["passes"].failed, daily_results["passes"].msg


def test_advised_masks_are_disjoint_and_put_ranks_on_their_nodes(
    machine: Machine, daily_results: dict[str, Result]
) -> None:
    advice = daily_results["advice"]["advice"]
    assert [rank["node"] for rank in advice["ranks"]] == [0, 1, 2, 3]
    masks = [int(rank["mask"], 16) for rank in advice["ranks"]]
    assert sorted(masks) == [1, 2, 4, 8]
    # taskset accepts the printed mask, and the process runs on the advised node.
    for rank in advice["ranks"]:
        shown = machine.run(f"taskset {rank['mask']} numactl --show")
        assert f"nodebind: {rank['node']} " in shown


@pytest.mark.thorough
def test_offline_cpus_are_not_advised(machine: Machine) -> None:
    machine.run("echo 0 > /sys/devices/system/cpu/cpu3/online")
    try:
        [result] = play(machine, Task("numa_pin_check", {"ranks_per_node": 3}))
    finally:
        machine.run("echo 1 > /sys/devices/system/cpu/cpu3/online")
    assert not result.failed, result.msg
    assert result["machine"]["cpus_online"] == "0-2"
    assert [rank["cpus"] for rank in result["advice"]["ranks"]] == ["0", "1", "2"]


@pytest.mark.thorough
def test_a_control_group_can_be_checked_with_its_cpus(machine: Machine) -> None:
    machine.write("/opt/rank.py", RANK)
    machine.run("mkdir -p /run/ranks; rm -f /run/ranks/caged.*")
    machine.run("systemd-run --quiet --unit=caged --property=AllowedCPUs=1 python3 /opt/rank.py caged")
    try:
        machine.wait_until("ls /run/ranks/caged.*", 60)
        [result] = play(machine, Task("numa_pin_check", {"cgroup": "/system.slice/caged.service"}))
    finally:
        machine.run("systemctl stop caged")
    assert not result.failed, result.msg
    assert len(result["ranks"]) == 1
    assert result["machine"]["cpus_usable"] == "1"
    assert "cpus_restricted" in {found["code"] for found in result["findings"]}
