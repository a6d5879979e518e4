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
# Jobs by name: how each of their ranks is started. The Python program writes a file when it is ready.
JOBS: Mapping[str, tuple[str, ...]] = {
    "well": tuple(
        f"env OMPI_COMM_WORLD_LOCAL_RANK={node} numactl --cpunodebind={node} --localalloc {{rank}}" for node in range(4)
    ),
    "loose": ("{rank}",),
    "crowded": ("taskset -c 0,1 {rank}", "taskset -c 1,2 {rank}", "taskset -c 2 {rank}", "taskset -c 3 {rank}"),
    "lopsided": tuple(f"taskset -c {cpu} {{rank}}" for cpu in (0, 0, 0, 1)),
    # Threads that the quota holds up want to run all the same, and leave the emulator its time.
    "busy": ("systemd-run --quiet --scope --property=CPUQuota=10% taskset -c 2 {rank} busy=4",),
    "astray": ("taskset -c 0 {rank} astray=3",),
    "bound": ("numactl --physcpubind=0 --membind=3 {rank}",),
    "late": ("numactl --cpunodebind=1 --localalloc {rank} mib=300",),
}
DAILY = ("well", "loose", "crowded", "astray")
# Moved after it had its memory, as by a launcher that pins too late.
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
    """Start these jobs' ranks, and wait until each has said that it runs."""
    ranks = [(name, how) for name in names for how in JOBS[name]]
    lines = [
        f"{how.format(rank=f'python3 /opt/rank.py {name}')} </dev/null >>/run/ranks.log 2>&1 &" for name, how in ranks
    ]
    machine.run("\n".join(lines))
    there = " ".join(f"/run/ranks/{name}.*" for name in names)
    # One of them has a tenth of an emulated CPU to start Python with.
    machine.wait_until(f"[ $(ls {there} | wc -l) = {len(ranks)} ]", 240)


def ask_of(machine: Machine, names: list[str], *more: Task) -> list[Result]:
    """What the module says of these jobs, and what else is asked, all in one play."""
    machine.write("/opt/rank.py", RANK)
    machine.run("rm -rf /run/ranks; mkdir /run/ranks")
    # The scope first and alone: for it systemd switches controllers, and Linux 6.1 then forgets all ranks' CPU masks.
    start_ranks(machine, [name for name in names if any("--scope" in how for how in JOBS[name])])
    start_ranks(machine, [name for name in names if not any("--scope" in how for how in JOBS[name])])
    machine.run(AFTERWARDS)
    tasks = [Task("numa_pin_check", {"processes": f"rank.py {name}", "memory": True}, check=True) for name in names]
    results = play(machine, *tasks, *more)
    # pkill fails where all of them have ended by themselves.
    machine.run("pkill -f '[/]opt/rank.py' || true; rm -rf /run/ranks")
    return results


@pytest.fixture(scope="module")
def answers(started: Machine) -> dict[str, Result]:
    """What the module says of the daily jobs, and of two of them with `fail_on`, and its advice."""
    more = [
        Task("numa_pin_check", {"processes": "rank.py loose", "fail_on": ["error"]}),
        Task("numa_pin_check", {"processes": "rank.py well", "fail_on": ["error", "warning"]}),
        Task("numa_pin_check", {"ranks_per_node": 4}),
    ]
    return dict(zip([*DAILY, "fails", "passes", "advice"], ask_of(started, list(DAILY), *more), strict=True))


@pytest.fixture(scope="module")
def rarer(started: Machine) -> dict[str, Result]:
    """What it says of the others."""
    names = [name for name in JOBS if name not in DAILY]
    return dict(zip(names, ask_of(started, names), strict=True))


def codes(result: Result) -> set[str]:
    """Codes of the findings that are more than a remark."""
    return {found["code"] for found in result["findings"] if found["severity"] != "info"}


def rank_of(result: Result, number: int = 0) -> dict[str, Any]:
    """One of the ranks it saw."""
    rank: dict[str, Any] = result["ranks"][number]
    return rank


def test_finds_nothing_wrong_with_ranks_on_nodes_of_their_own(answers: dict[str, Result]) -> None:
    well = answers["well"]
    assert not well.failed, well.msg
    assert codes(well) == set()
    assert well["verdict"] == "good"
    assert [(rank["rank"], rank["cpus"], rank["nodes"]) for rank in well["ranks"]] == [
        (node, str(node), [node]) for node in range(4)
    ]


@pytest.mark.parametrize("job", [job for job in FINDS if job in DAILY])
def test_finds_what_is_wrong(answers: dict[str, Result], job: str) -> None:
    assert not answers[job].failed, answers[job].msg
    assert FINDS[job] in codes(answers[job])


@pytest.mark.thorough
@pytest.mark.parametrize("job", [job for job in FINDS if job not in DAILY])
def test_finds_what_is_rarer(rarer: dict[str, Result], job: str) -> None:
    assert not rarer[job].failed, rarer[job].msg
    assert not rarer[job].changed
    assert FINDS[job] in codes(rarer[job])


def test_says_where_each_thread_may_run(answers: dict[str, Result]) -> None:
    assert rank_of(answers["astray"])["threads_by_cpus"] == {"0": 1, "3": 1}


@pytest.mark.thorough
def test_counts_threads(rarer: dict[str, Result]) -> None:
    assert rank_of(rarer["busy"])["threads"] == 5


@pytest.mark.thorough
def test_measures_memory_by_node(rarer: dict[str, Result]) -> None:
    memory = rank_of(rarer["late"])["memory_mib"]
    assert memory["1"] > 290
    assert rank_of(rarer["late"])["nodes"] == [0]


def test_never_changes_anything_and_fails_only_where_told(answers: dict[str, Result]) -> None:
    assert not any(result.changed for result in answers.values())
    assert answers["fails"].failed
    assert "unpinned" in json.dumps(answers["fails"].data)
    assert not answers["passes"].failed, answers["passes"].msg


def test_advises_disjoint_masks_that_start_ranks_where_they_should_be(
    machine: Machine, answers: dict[str, Result]
) -> None:
    advice = answers["advice"]["advice"]
    assert [rank["node"] for rank in advice["ranks"]] == [0, 1, 2, 3]
    masks = [int(rank["mask"], 16) for rank in advice["ranks"]]
    assert sorted(masks) == [1, 2, 4, 8]
    # The kernel takes the mask as it is printed, and has the rank where the advice says.
    for rank in advice["ranks"]:
        told = machine.run(f"taskset {rank['mask']} numactl --show")
        assert f"nodebind: {rank['node']} " in told


@pytest.mark.thorough
def test_does_not_advise_a_cpu_that_is_offline(machine: Machine) -> None:
    machine.run("echo 0 > /sys/devices/system/cpu/cpu3/online")
    try:
        [result] = play(machine, Task("numa_pin_check", {"ranks_per_node": 3}))
    finally:
        machine.run("echo 1 > /sys/devices/system/cpu/cpu3/online")
    assert not result.failed, result.msg
    assert result["machine"]["cpus_online"] == "0-2"
    assert [rank["cpus"] for rank in result["advice"]["ranks"]] == ["0", "1", "2"]


@pytest.mark.thorough
def test_looks_at_a_control_group_and_heeds_its_cpus(machine: Machine) -> None:
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
