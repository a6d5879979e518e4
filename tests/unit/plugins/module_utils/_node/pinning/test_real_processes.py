# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real processes, pinned or not, compared with what the kernel and taskset report about them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import PinningOptions, check, inspect
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import read_layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.report import as_data
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

PROGRAM = """
import os, sys, threading, time
mask = sys.argv[1]
if mask:
    os.sched_setaffinity(0, {int(cpu) for cpu in mask.split(",")})
for _ in range(int(sys.argv[2]) - 1):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("up", flush=True)
time.sleep(60)
"""
Start = Callable[..., int]
CPUS = sorted(os.sched_getaffinity(0))
# On one CPU all masks are equal; tests/hardware has four CPUs on any host.
several_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a rank on a set of CPUs and returns its process ID once it is pinned."""
    running = []

    def started(rank: int, cpus: str = "", threads: int = 1) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, cpus, str(threads), f"hpcai-test-{os.getpid()}"],
            env={**os.environ, "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process.pid

    yield started
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def own_processes() -> Selection:
    """Return the selection of this test's processes."""
    return Selection(f"hpcai-test-{os.getpid()}")


@several_cpus
def test_finds_each_rank_on_the_cpus_of_the_kernel(start: Start) -> None:
    pids = [start(0, str(CPUS[0]), 3), start(1, str(CPUS[1]))]
    found = inspect(Root(), read_layout(Root()), own_processes(), None)
    assert [rank.pids for rank in found.ranks] == [(pid,) for pid in pids]
    assert [set(rank.cpus) for rank in found.ranks] == [os.sched_getaffinity(pid) for pid in pids]
    assert [len(rank.threads) for rank in found.ranks] == [3, 1]
    assert {finding.code for finding in found.findings} <= {"threads_exceed_cpus", "cpus_restricted", "use_unknown"}


@several_cpus
def test_finds_two_ranks_on_one_cpu(start: Start) -> None:
    start(0, str(CPUS[0]))
    start(1, str(CPUS[0]))
    found = inspect(Root(), read_layout(Root()), own_processes(), None)
    overlap = next(finding for finding in found.findings if finding.code == "overlap")
    assert set(overlap.cpus) == {CPUS[0]}
    assert found.verdict == "bad"


@several_cpus
def test_ranks_that_are_moved_apart_do_not_overlap(start: Start) -> None:
    first, second = start(0, str(CPUS[0])), start(1, str(CPUS[0]))
    os.sched_setaffinity(second, {CPUS[1]})
    found = inspect(Root(), read_layout(Root()), own_processes(), None)
    assert "overlap" not in {finding.code for finding in found.findings}
    assert {rank.pids[0] for rank in found.ranks} == {first, second}


@pytest.mark.skipif(not shutil.which("taskset"), reason="there is no taskset")
def test_masks_have_the_format_of_taskset(start: Start) -> None:
    pid = start(0, str(CPUS[-1]))
    output = subprocess.run(["taskset", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    report = as_data(check(Root(), PinningOptions(own_processes()), lambda _root: None))
    assert report["ranks"][0]["mask"] == output.split()[-1]


def test_memory_of_a_real_process_is_found(start: Start) -> None:
    if not os.path.exists("/proc/self/numa_maps"):
        pytest.skip("this kernel has no NUMA")
    start(0)
    (rank,) = as_data(check(Root(), PinningOptions(own_processes(), memory=True), lambda _root: None))["ranks"]
    assert sum(rank["memory_mib"].values()) > 1


def test_one_pass_reads_hundreds_of_threads(start: Start) -> None:
    start(0, threads=300)
    (rank,) = as_data(check(Root(), PinningOptions(own_processes()), lambda _root: None))["ranks"]
    assert rank["threads"] == 300
    assert sum(rank["threads_by_cpus"].values()) == 300
