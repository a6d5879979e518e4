# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes and threads: unusual ones from files, and real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stand_ins import long_command_line
from stand_ins.machine_tree import MachineTree, stat

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import owners, proc
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

# As Linux 6.1 writes it for the main thread of a process called "a) b (c" that ran on CPU 17 last.
RECORDED_STAT = (
    b"4242 (a) b (c) S 4200 4242 4200 34816 4242 4194304 105 0 0 0 0 0 0 0 20 0 3 0 1234567 8380416 890 "
    b"18446744073709551615 94000000000000 94000000020000 140720000000000 0 0 0 0 0 0 0 0 0 17 17 0 0 0 0 0 "
    b"94000000030000 94000000032000 94000010000000 140720000001000 140720000001020 140720000001020 140720000001999 0\n"
)
NUMA_MAPS = """\
55d4c8a00000 default file=/usr/bin/python3.11 mapped=5 N0=5 kernelpagesize_kB=4
55d4c9000000 default heap anon=300 dirty=300 N0=100 N1=200 kernelpagesize_kB=4
7f0000000000 interleave:0-1 anon=256 dirty=256 N0=128 N1=128 kernelpagesize_kB=4
7f0040000000 default file=/anon_hugepage\\040(deleted) huge anon=4 dirty=4 N1=4 kernelpagesize_kB=2048
7ffd00000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffd10000000 bind:1
"""


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """A machine without processes."""
    return MachineTree(tmp_path)


def root_of(tree: MachineTree) -> Root:
    """The tree as a root."""
    return Root(str(tree.path))


def test_names_with_spaces_and_parentheses_do_not_shift_the_fields() -> None:
    assert proc.parse_stat(RECORDED_STAT) == proc.TaskStat("a) b (c", "S", 4200, False, 17)


def test_kernel_threads_are_recognised() -> None:
    assert proc.parse_stat(stat(7, "kworker/0:1", "I", 2, 0x04208060, 0).encode()).is_kernel_thread


@pytest.mark.parametrize("raw", [b"", b"1 (x", b"1 x) S 0", b"1 (x) S 1 2 3"])
def test_an_incomplete_stat_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="stat"):
        proc.parse_stat(raw)


def test_finds_processes_without_kernel_threads_and_dead_ones(tree: MachineTree) -> None:
    tree.process(10, "0", "a", command="./a  --flag x").process(11, "0", "b", command="")
    tree.process(12, "0", "kworker", flags=0x04208060).process(13, "0", "zombie", state="Z")
    found = list(proc.read_processes(root_of(tree)))
    assert [(process.pid, process.name, process.command) for process in found] == [
        (10, "a", "./a --flag x"),
        (11, "b", "b"),
    ]
    assert [process.pid for process in proc.read_processes(root_of(tree), {11, 99})] == [11]


def test_threads_are_listed_with_the_main_thread_first(tree: MachineTree) -> None:
    threads = [(99, "3", 3, "R"), (100, "0-3", 1, "S"), (101, "0-3", 2, "S"), (102, "2", 2, "Z")]
    tree.process(100, "0-3", threads=threads)
    found = proc.read_threads(root_of(tree), 100)
    assert [(thread.tid, thread.cpus.as_list(), thread.last_cpu, thread.state) for thread in found] == [
        (100, "0-3", 1, "S"),
        (99, "3", 3, "R"),
        (101, "0-3", 2, "S"),
    ]


def test_threads_and_processes_that_vanish_are_left_out(tree: MachineTree) -> None:
    tree.process(100, "0", threads=[(100, "0", 0, "S"), (101, "0", 0, "S"), (102, "0", 0, "S")])
    (tree.path / "proc/100/task/101/stat").unlink()
    (tree.path / "proc/100/task/102/status").unlink()
    assert [thread.tid for thread in proc.read_threads(root_of(tree), 100)] == [100]
    shutil.rmtree(tree.path / "proc/100")
    root = root_of(tree)
    assert proc.read_threads(root, 100) == ()
    assert proc.read_stat(root, 100) is None
    assert proc.read_environment(root, 100, ("A",)) is None
    assert proc.read_open_files(root, 100, "/dev") is None
    assert proc.read_memory(root, 100) is None
    assert proc.read_memory_nodes(root, 100) is None


def test_only_the_requested_variables_are_read(tree: MachineTree) -> None:
    tree.process(100, "0", environment={"LOCAL_RANK": "3", "TOKEN": "secret", "A": "x=y"})
    assert proc.read_environment(root_of(tree), 100, ("LOCAL_RANK", "A", "B")) == {"LOCAL_RANK": "3", "A": "x=y"}


def test_open_devices_are_listed(tree: MachineTree) -> None:
    files = ["/dev/infiniband/uverbs1", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/null", "socket:[1]"]
    tree.process(100, "0", files=files)
    assert proc.read_open_files(root_of(tree), 100, "/dev/infiniband") == ("uverbs0", "uverbs1")


def test_memory_and_huge_pages_are_summed_up_by_node(tree: MachineTree) -> None:
    tree.process(100, "0", numa_maps=NUMA_MAPS)
    memory = proc.read_memory(root_of(tree), 100)
    assert memory is not None
    # 100 + 128 + 3 pages of 4 KiB; 200 + 128 of 4 KiB and 4 of 2 MiB. The program itself is not counted.
    assert memory.mib_by_node == {0: 231 * 4 / 1024, 1: 328 * 4 / 1024 + 8}
    assert memory.policies == ("default", "interleave:0-1")


def test_the_nodes_that_memory_may_come_from_are_read(tree: MachineTree) -> None:
    tree.process(100, "0", mems="0,2")
    assert proc.read_memory_nodes(root_of(tree), 100) == CpuSet({0, 2})


def test_ancestors_end_at_the_first_process(tree: MachineTree) -> None:
    tree.process(1, "0", parent=0).process(20, "0", parent=1).process(30, "0", parent=20)
    assert proc.ancestors(root_of(tree), 30) == {1, 20}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    """A real process of four threads; the last one is bound to CPU 0."""
    script = """
import os, threading, time
for number in range(3):
    thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    thread.start()
os.sched_setaffinity(thread.native_id, {0})
print("up", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script, "a word"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def test_a_real_process_is_read_as_the_kernel_reports_it(sleeper: subprocess.Popen[str]) -> None:
    os.sched_setaffinity(sleeper.pid, {1} if 1 in os.sched_getaffinity(0) else {0})
    root = Root()
    threads = proc.read_threads(root, sleeper.pid)
    assert [thread.tid for thread in threads] == sorted(int(tid) for tid in os.listdir(f"/proc/{sleeper.pid}/task"))
    assert [set(thread.cpus) for thread in threads] == [os.sched_getaffinity(thread.tid) for thread in threads]
    assert threads[-1].cpus == CpuSet({0})
    assert all(thread.last_cpu in os.sched_getaffinity(0) for thread in threads)
    (found,) = proc.read_processes(root, {sleeper.pid})
    assert found.parent == os.getpid()
    assert found.command.endswith("a word")
    assert os.getpid() in proc.ancestors(root, sleeper.pid)


def test_the_memory_of_a_real_process_is_read(sleeper: subprocess.Popen[str]) -> None:
    if not os.path.exists(f"/proc/{sleeper.pid}/numa_maps"):
        pytest.skip("this kernel has no NUMA")
    memory = proc.read_memory(Root(), sleeper.pid)
    assert memory is not None
    assert sum(memory.mib_by_node.values()) > 1
    assert memory.policies == ("default",)


@pytest.fixture(scope="module")
def endless() -> Iterator[int]:
    """A real process whose command line and environment have 128 MiB: that much is read in a moment, if it is read."""
    words = [sys.executable, long_command_line.__file__, str(128 << 20)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip(f"this kernel has no PR_SET_MM_MAP: {process.stderr.read()}")
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    "read",
    [
        lambda root, pid: [one.command for one in proc.read_processes(root, [pid])] == ["A=1"],
        lambda root, pid: proc.read_command(root, pid) == "A=1",
        lambda root, pid: proc.read_environment(root, pid, ("A",)) == {"A": "1"},
    ],
    ids=["processes", "command", "environment"],
)
def test_a_command_line_of_any_length_takes_little_memory(endless: int, read: Callable[[Root, int], bool]) -> None:
    """A process of a job decides the length, and root reads it."""
    tracemalloc.start()
    try:
        assert read(Root(), endless)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_long_title_of_a_slurmstepd_has_its_job(tree: MachineTree) -> None:
    tree.process(100, "0", "slurmstepd", command=f"slurmstepd: [17.batch] {'x' * 100_000}", uid=0)
    assert owners.steps_of(root_of(tree), 100) == 17
    assert len(proc.read_command(root_of(tree), 100)) == 1 << 14


def test_children_are_those_that_have_not_ended(tree: MachineTree) -> None:
    tree.process(20, "0").process(30, "0", parent=20).process(31, "0", parent=20, state="Z").process(32, "0", parent=30)
    assert proc.children(root_of(tree), 20) == [30]
