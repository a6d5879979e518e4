# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines whose firmware contradicts itself: ranks that follow the advice are judged as good."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.advise import MASKS, AdviceError
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import PinningOptions, Report, check
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import UnknownLayout
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

EVERY_TWO = ",".join(map(str, range(4, 21, 2)))
ODD = ",".join(map(str, range(5, 20, 2)))


def report_on(tree: MachineTree, options: PinningOptions) -> Report:
    """Return the report on a tree."""
    return check(Root(str(tree.path)), options, lambda _root: None)


def overlapping(path: Path) -> MachineTree:
    """As hwloc's 8em64t-2s2ca2c-buggynuma: both NUMA nodes of a machine with eight CPUs list all of them."""
    return MachineTree(path).cpus("0-7").node(0, "0-7").node(1, "0-7")


def partly_overlapping(path: Path) -> MachineTree:
    """Return two NUMA nodes that share some of their CPUs."""
    return MachineTree(path).cpus("0-7").node(0, "0-4").node(1, "3-7").gpu("0001:00:00.0", 1).gpu("0002:00:00.0", 0)


def without_node_0(path: Path) -> MachineTree:
    """As hwloc's offline-cpu0-node0: NUMA node 0 is offline, but nine of its CPUs are online."""
    return MachineTree(path).cpus(f"{EVERY_TWO},{ODD}").node(1, f"1,3,{ODD},21,23").gpu("0001:00:00.0", 0)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("machine", [overlapping, partly_overlapping, without_node_0])
def test_ranks_that_follow_the_advice_are_good(tmp_path: Path, machine: type, ranks: int, masks: str) -> None:
    tree = machine(tmp_path)
    advice = report_on(tree, PinningOptions(ranks_per_node=ranks, masks=masks)).advice
    assert advice is not None
    for placement in advice.placements:
        tree.process(50 + placement.rank, placement.cpus.as_list(), environment={"LOCAL_RANK": str(placement.rank)})
    found = report_on(tree, PinningOptions(Selection("xhpl"), ranks_per_node=ranks)).inspection
    assert found is not None
    assert found.verdict == "good"
    assert {one.code for one in found.findings} <= {
        "cpus_on_several_nodes",
        "cpus_without_node",
        "shared_domain",
        "locality_unknown",
        "use_unknown",
    }


def test_cpus_on_several_numa_nodes_are_named_and_count_for_the_first(tmp_path: Path) -> None:
    report = report_on(partly_overlapping(tmp_path), PinningOptions())
    assert report.inspection is not None
    assert report.advice is not None
    assert {node: cpus.as_list() for node, cpus in report.inspection.layout.nodes.items()} == {0: "0-4", 1: "5-7"}
    (found,) = (one for one in report.inspection.findings if one.code == "cpus_on_several_nodes")
    assert (found.severity, found.text) == ("warning", "The firmware lists CPUs 3-4 on several NUMA nodes.")
    assert (
        "The firmware lists CPUs 3-4 on several NUMA nodes: each counts for the first of them." in report.advice.notes
    )


def test_cpus_without_a_numa_node_are_named_and_get_no_rank(tmp_path: Path) -> None:
    report = report_on(without_node_0(tmp_path), PinningOptions(ranks_per_node=2))
    assert report.inspection is not None
    assert report.advice is not None
    (found,) = (one for one in report.inspection.findings if one.code == "cpus_without_node")
    assert found.text == f"CPUs {EVERY_TWO} are on no NUMA node."
    assert f"CPUs {EVERY_TWO} are on no NUMA node, so they get no rank." in report.advice.notes
    assert [placement.cpus.as_list() for placement in report.advice.placements] == ["5,7,9,11", "13,15,17,19"]


def test_a_rank_on_cpus_without_a_numa_node_is_far_from_nothing(tmp_path: Path) -> None:
    tree = without_node_0(tmp_path).process(50, "4,6", mems="1", environment={"CUDA_VISIBLE_DEVICES": "0"})
    found = report_on(tree, PinningOptions(Selection("xhpl"))).inspection
    assert found is not None
    assert {one.code for one in found.findings} == {"cpus_without_node"}


def test_only_cpus_without_a_numa_node_give_no_advice(tmp_path: Path) -> None:
    tree = without_node_0(tmp_path).cgroup("job", [50], cpuset__cpus__effective="4,6").process(50, "4,6")
    report = report_on(tree, PinningOptions(Selection(cgroup="job")))
    assert report.no_advice == "The usable CPUs, 4,6, are on no NUMA node."
    with pytest.raises(AdviceError, match="must be at least 1"):
        PinningOptions(ranks_per_node=0)


def test_numa_nodes_without_an_online_cpu_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownLayout, match=r"No NUMA node in .* has an online CPU"):
        report_on(MachineTree(tmp_path).cpus("0-3").node(0, "8-11"), PinningOptions())
