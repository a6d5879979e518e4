# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparing a topology with a machine: each way in which the two can differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.sized_machine import (
    DISPLAY_CLASS,
    GPU_CLASS,
    INFINIBAND_CLASS,
    MELLANOX,
    MICROSOFT,
    NVIDIA,
    SizedMachine,
)

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.topology import (
    FAMILIES,
    Topology,
    topology_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.verify import (
    Comparison,
    read_machine,
    verify,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size


def verdict_of(tree: SizedMachine, size: str = "nd96asr_v4") -> Comparison:
    """Compare the topology of a size with a tree."""
    topology = topology_of(find_size(size))
    assert isinstance(topology, Topology)
    return verify(topology, read_machine(Root(str(tree.path))))


def findings(verdict: Comparison) -> list[tuple[str, str, str, str]]:
    """The mismatches as tuples."""
    return [(one.what, one.kind, one.expected, one.found) for one in verdict.mismatches]


@pytest.fixture
def tree(tmp_path: Path) -> SizedMachine:
    """A correct ND A100 v4."""
    return SizedMachine.of_size(tmp_path, "nd96asr_v4")


@pytest.mark.parametrize("size", list(FAMILIES))
def test_a_machine_that_matches_its_size_has_no_mismatch(tmp_path: Path, size: str) -> None:
    verdict = verdict_of(SizedMachine.of_size(tmp_path, size), size)
    assert verdict == Comparison((), ())


def test_a_missing_gpu_is_a_mismatch(tree: SizedMachine) -> None:
    tree.without("000b:00:00.0")
    assert findings(verdict_of(tree)) == [("GPU 000b:00:00.0", "missing", "on NUMA node 3", "no such device")]


def test_a_missing_adapter_is_a_mismatch(tree: SizedMachine) -> None:
    tree.without("0108:00:00.0")
    assert findings(verdict_of(tree)) == [("HCA 0108:00:00.0", "missing", "on NUMA node 2", "no such device")]


def test_an_unexpected_gpu_is_a_mismatch(tree: SizedMachine) -> None:
    tree.device("000f:00:00.0", GPU_CLASS, NVIDIA, 3)
    assert findings(verdict_of(tree)) == [("GPU 000f:00:00.0", "unexpected", "not in the topology", "on this machine")]


def test_an_unexpected_adapter_is_a_mismatch(tmp_path: Path) -> None:
    tree = SizedMachine.of_size(tmp_path, "nd96is_h100_v5")
    tree.device("0101:00:00.0", INFINIBAND_CLASS, MELLANOX, 0)
    assert [one.kind for one in verdict_of(tree, "nd96is_h100_v5").mismatches] == ["unexpected"]


def test_other_devices_are_ignored(tree: SizedMachine) -> None:
    tree.device("0000:00:08.0", DISPLAY_CLASS, MICROSOFT, 0)
    tree.device("a1b2:00:02.0", 0x020000, MELLANOX, 0)
    tree.device("c000:00:00.0", 0x010802, MICROSOFT, 0)
    assert verdict_of(tree).mismatches == ()


def test_swapped_numa_nodes_of_gpu_and_adapter_are_mismatches(tree: SizedMachine) -> None:
    tree.on_numa_node("0001:00:00.0", 0)
    tree.on_numa_node("0103:00:00.0", 1)
    assert findings(verdict_of(tree)) == [
        ("GPU 0001:00:00.0", "numa_node", "NUMA node 1", "NUMA node 0"),
        ("HCA 0103:00:00.0", "numa_node", "NUMA node 0", "NUMA node 1"),
    ]


@pytest.mark.parametrize("busid", ["0001:00:00.0", "0101:00:00.0"])
def test_a_device_without_numa_node_is_unknown_and_no_mismatch(tree: SizedMachine, busid: str) -> None:
    tree.on_numa_node(busid, -1)
    verdict = verdict_of(tree)
    assert verdict.mismatches == ()
    assert len(verdict.unknown) == 1
    assert busid in verdict.unknown[0]


def test_other_cpus_in_a_numa_node_are_mismatches(tree: SizedMachine) -> None:
    tree.numa_node(0, "0-22")
    tree.numa_node(1, "23-47")
    assert findings(verdict_of(tree)) == [
        ("NUMA node 0", "affinity", "CPUs 0-23", "CPUs 0-22"),
        ("NUMA node 1", "affinity", "CPUs 24-47", "CPUs 23-47"),
    ]


def test_one_numa_node_instead_of_four_is_a_mismatch(tree: SizedMachine) -> None:
    for node in (1, 2, 3):
        tree.without_numa_node(node)
    tree.numa_node(0, "0-95")
    assert findings(verdict_of(tree)) == [
        ("NUMA nodes with CPUs", "count", "4", "1"),
        ("NUMA node 0", "affinity", "CPUs 0-23", "CPUs 0-95"),
        ("NUMA node 1", "missing", "CPUs 24-47", "no such node"),
        ("NUMA node 2", "missing", "CPUs 48-71", "no such node"),
        ("NUMA node 3", "missing", "CPUs 72-95", "no such node"),
    ]


def test_an_additional_numa_node_with_cpus_is_a_mismatch(tree: SizedMachine) -> None:
    tree.write("sys/devices/system/cpu/online", "0-99")
    tree.numa_node(4, "96-99")
    assert findings(verdict_of(tree)) == [("NUMA nodes with CPUs", "count", "4", "5")]


def test_a_numa_node_without_cpus_is_ignored(tree: SizedMachine) -> None:
    tree.numa_node(4, "")
    assert verdict_of(tree).mismatches == ()


def test_cpus_taken_offline_are_no_mismatch(tree: SizedMachine) -> None:
    tree.write("sys/devices/system/cpu/online", "0-22,24-95")
    tree.numa_node(0, "0-22")
    assert verdict_of(tree).mismatches == ()


def test_cpus_that_do_not_exist_are_a_mismatch(tree: SizedMachine) -> None:
    for which in ("online", "present"):
        tree.write(f"sys/devices/system/cpu/{which}", "0-94")
    tree.numa_node(3, "72-94")
    assert findings(verdict_of(tree)) == [("NUMA node 3", "affinity", "CPUs 72-95", "CPUs 72-94")]


def test_a_machine_without_devices_is_reported_in_one_line_per_kind(tree: SizedMachine) -> None:
    tree.without_devices()
    assert findings(verdict_of(tree)) == [
        ("GPUs", "missing", "8", "none on this machine"),
        ("HCAs", "missing", "8", "none on this machine"),
    ]


def test_an_empty_tree_matches_nothing(tmp_path: Path) -> None:
    kinds = {one.kind for one in verdict_of(SizedMachine(tmp_path)).mismatches}
    assert kinds == {"count", "missing"}
