# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA nodes: as promised, with other CPUs, missing, more, without memory, not to be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.numa import CHECK

from ..playing import context


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """An ND A100 v4."""
    return nd_a100_v4(tmp_path)


def measure(tree: MachineTree) -> Answer:
    """Look at the nodes."""
    return CHECK.measure(context(root=tree))


def test_passes_with_the_nodes_of_the_size(tree: MachineTree) -> None:
    answer = measure(tree)
    assert (answer.findings, answer.good) == ((), "4 NUMA nodes have their CPUs and memory")
    assert [one.value for one in answer.readings] == [4, 232186, 232186, 232186, 232186]
    assert answer.readings[0].limit == 4


def test_a_node_of_memory_alone_does_not_count(tree: MachineTree) -> None:
    tree.node(4, "", 81920)
    assert measure(tree).findings == ()


def test_fails_with_other_cpus(tree: MachineTree) -> None:
    tree.node(1, "24-46").node(2, "47-71")
    findings = measure(tree).findings
    assert [found.verdict for found in findings] == ["fail", "fail"]
    assert findings[0].summary == "NUMA node 1 has CPUs 24-46 instead of 24-47"


def test_fails_with_a_node_less_or_more(tmp_path: Path) -> None:
    two = MachineTree(tmp_path).cpus("0-95").node(0, "0-47").node(5, "48-95")
    assert {found.verdict for found in measure(two).findings} == {"fail"}
    assert [found.summary for found in measure(two).findings] == [
        "NUMA node 0 has CPUs 0-47 instead of 0-23",
        "NUMA node 1 of Standard_ND96asr_v4 is not there",
        "NUMA node 2 of Standard_ND96asr_v4 is not there",
        "NUMA node 3 of Standard_ND96asr_v4 is not there",
        "NUMA node 5 is there, and Standard_ND96asr_v4 has none of this number",
    ]


def test_cpus_that_are_offline_are_no_matter_of_this_check(tree: MachineTree) -> None:
    tree.cpus("0-71").node(3, "")
    tree.write("/sys/devices/system/cpu/present", "0-95\n")
    assert measure(tree).findings == ()


def test_a_node_without_memory_is_worth_a_warning(tree: MachineTree) -> None:
    tree.node(2, "48-71", 0)
    assert [(found.verdict, found.summary) for found in measure(tree).findings] == [
        ("warn", "NUMA node 2 has CPUs and no memory")
    ]


def test_cannot_measure_without_sysfs(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
