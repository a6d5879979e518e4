# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each finding about a single rank: when it is reported, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, Thread

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import Inspection
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.finding import Finding

from .conftest import Look

FAR_MEMORY = "7f0000000000 default anon=262144 N0=131072 N2=131072 kernelpagesize_kB=4\n"


def only(found: Inspection, code: str) -> Finding | None:
    """Return the only finding with this code, if there is one."""
    matching = [finding for finding in found.findings if finding.code == code]
    assert len(matching) < 2
    return matching[0] if matching else None


def test_unpinned(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-127", last_cpu=30)
    finding = only(look(nd), "unpinned")
    assert finding
    assert (finding.severity, finding.pids, finding.cpus.as_list()) == ("error", (50,), "0-95")
    assert "last ran on NUMA nodes 1" in finding.text
    # The mask also has CPUs that the kernel supports but the machine lacks: these are not offline CPUs.
    assert not only(look(nd), "offline_cpu")


def test_a_rank_on_all_cpus_of_its_control_group_is_unpinned(nd: MachineTree, look: Look) -> None:
    nd.cgroup("job", [50], cpuset__cpus__effective="12-35").process(50, "12-35", cgroup="0::/job")
    assert only(look(nd), "unpinned")


def test_a_rank_on_all_cpus_of_a_single_numa_node_is_good(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").node(0, "0-3").process(50, "0-3")
    assert look(tree).findings == ()


def test_spans_nodes(nd: MachineTree, look: Look) -> None:
    for rank, cpus in enumerate(("0-11", "20-27", "48-59", "72-83")):
        nd.process(50 + rank, cpus, environment={"LOCAL_RANK": str(rank)})
    finding = only(look(nd), "spans_nodes")
    assert finding
    assert (finding.severity, finding.ranks, finding.text) == (
        "error",
        ("1",),
        "Rank 1 may run on NUMA nodes 0-1 (CPUs 20-27).",
    )
    assert not only(look(nd), "spans_nodes_few_ranks")


def test_spans_nodes_with_fewer_ranks_than_numa_nodes(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-47").process(51, "48-71")
    found = look(nd)
    finding = only(found, "spans_nodes_few_ranks")
    assert finding
    assert (finding.severity, finding.pids) == ("info", (50,))
    assert not only(found, "spans_nodes")


def test_far_from_gpu(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11").process(51, "24-35")
    finding = only(look(nd, {50: ("0001:00:00.0",), 51: ("0002:00:00.0",)}), "far_from_gpu")
    assert finding
    assert (finding.severity, finding.pids, finding.gpus) == ("error", (50,), CpuSet({0}))
    assert finding.text == "Pid 50 runs on NUMA node 0, far from its GPU 0 on 1."


def test_a_rank_near_one_of_its_gpus_is_near(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11")
    assert not only(look(nd, {50: ("0001:00:00.0", "0003:00:00.0")}), "far_from_gpu")


def test_far_from_a_gpu_named_in_the_environment(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", environment={"CUDA_VISIBLE_DEVICES": "0"})
    nd.process(51, "24-35", environment={"CUDA_VISIBLE_DEVICES": "1"})
    found = look(nd)
    finding = only(found, "far_from_assumed_gpu")
    assert finding
    assert (finding.severity, finding.pids) == ("warning", (50,))
    assert "according to its environment" in finding.text
    assert not only(found, "far_from_gpu")


def test_a_gpu_of_unknown_numa_node_is_far_from_no_rank(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").node(0, "0-1").node(1, "2-3").gpu("0001:00:00.0", -1)
    tree.process(50, "2-3")
    found = look(tree, {50: ("0001:00:00.0",)})
    assert [finding.code for finding in found.findings] == ["locality_unknown"]


def test_far_from_hca(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", files=["/dev/infiniband/uverbs0"]).process(51, "12-23", files=["/dev/infiniband/uverbs2"])
    # This rank opened all adapters, as some libraries do: it is not known which one it uses.
    nd.process(52, "24-35", files=[f"/dev/infiniband/uverbs{number}" for number in range(8)])
    finding = only(look(nd), "far_from_hca")
    assert finding
    assert (finding.severity, finding.pids) == ("warning", (50,))
    assert "mlx5_ib0" in finding.text


def threads_of(pid: int, states: str, cpus: str) -> list[Thread]:
    """Return a thread for each letter of the states."""
    return [(pid + index, cpus, 0, state) for index, state in enumerate(states)]


def test_more_busy_threads_than_cpus(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-1", threads=threads_of(50, "RRRS", "0-1")).process(60, "2-3", threads=threads_of(60, "RR", "2-3"))
    found = look(nd)
    finding = only(found, "busy_threads_exceed_cpus")
    assert finding
    assert (finding.severity, finding.pids) == ("warning", (50,))
    assert not only(found, "threads_exceed_cpus")


def test_more_threads_than_cpus_but_not_more_busy_ones(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-1", threads=threads_of(50, "RRSS", "0-1"))
    found = look(nd)
    finding = only(found, "threads_exceed_cpus")
    assert finding
    assert finding.severity == "info"
    assert not only(found, "busy_threads_exceed_cpus")


def test_as_many_threads_as_cpus_are_fine(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-3", threads=threads_of(50, "RRRR", "0-3"))
    assert not {finding.code for finding in look(nd).findings} & {"threads_exceed_cpus", "busy_threads_exceed_cpus"}


def test_thread_outside_mask(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", threads=[(50, "0-11", 0, "S"), (51, "4", 4, "S"), (52, "0-95", 80, "S")])
    finding = only(look(nd), "thread_outside_mask")
    assert finding
    assert (finding.severity, finding.cpus.as_list()) == ("warning", "12-95")
    assert "1 threads" in finding.text


def test_threads_within_the_mask_are_fine(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", threads=[(50, "0-11", 0, "S"), (51, "4", 4, "S"), (52, "0-11", 8, "S")])
    assert not only(look(nd), "thread_outside_mask")


def test_offline_cpu(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-5").node(0, "0-2").node(1, "3-5")
    tree.process(50, "4-7", environment={"LOCAL_RANK": "0"}).process(51, "0-2", environment={"LOCAL_RANK": "1"})
    finding = only(look(tree), "offline_cpu")
    assert finding
    assert (finding.severity, finding.ranks, finding.cpus.as_list()) == ("warning", ("0",), "6-7")


def test_memory_far(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", numa_maps=FAR_MEMORY)
    finding = only(look(nd, with_memory=True), "memory_far")
    assert finding
    assert finding.severity == "warning"
    assert finding.text == "Pid 50 has 512 of 1024 MiB on NUMA node 2, but runs on 0."
    # Without with_memory, memory is not inspected.
    assert not only(look(nd), "memory_far")


@pytest.mark.parametrize(
    ("near_mib", "far_mib", "reported"),
    [(1024, 1, False), (4000, 300, False), (10, 200, False), (2500, 300, True), (0, 256, True)],
)
def test_far_memory_is_reported_from_10_percent_and_256_mib(
    nd: MachineTree, look: Look, near_mib: int, far_mib: int, reported: bool
) -> None:
    pages = f"N0={near_mib * 256} N2={far_mib * 256}"
    nd.process(50, "0-11", numa_maps=f"7f0000000000 default anon=1 {pages} kernelpagesize_kB=4\n")
    assert bool(only(look(nd, with_memory=True), "memory_far")) == reported


def test_memory_of_a_node_without_cpus_is_not_far(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").node(0, "0-1").node(1, "2-3").node(2, "")
    tree.process(50, "0-1", numa_maps=FAR_MEMORY)
    assert not only(look(tree, with_memory=True), "memory_far")


@pytest.mark.parametrize(
    ("policy", "leads_away"),
    [
        ("default", False),
        ("local", False),
        ("bind:0", False),
        ("prefer:0", False),
        ("bind:1", True),
        ("prefer:3", True),
        ("interleave:0-3", True),
        ("bind=static:2", True),
        ("interleave:x", False),
    ],
)
def test_memory_policy(nd: MachineTree, look: Look, policy: str, leads_away: bool) -> None:
    nd.process(50, "0-11", numa_maps=f"7f0000000000 {policy} anon=1 N0=1 kernelpagesize_kB=4\n")
    finding = only(look(nd, with_memory=True), "memory_policy")
    assert bool(finding) == leads_away
    assert finding is None or (finding.severity == "warning" and policy in finding.text)


@pytest.mark.parametrize(
    ("cpus", "mems", "allowed"),
    [("0-11", "0-3", True), ("0-11", "0", True), ("20-27", "0", True), ("0-11", "1", False), ("20-27", "2-3", False)],
)
def test_memory_not_allowed(nd: MachineTree, look: Look, cpus: str, mems: str, allowed: bool) -> None:
    nd.process(50, cpus, mems=mems)
    finding = only(look(nd), "memory_not_allowed")
    assert bool(finding) != allowed
    assert finding is None or finding.severity == "error"
