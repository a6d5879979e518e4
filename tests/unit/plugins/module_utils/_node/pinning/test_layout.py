# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPUs, NUMA nodes and devices of many kinds of machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import ND_A100_GPUS, MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import (
    Layout,
    UnknownLayout,
    layout_of_size,
    read_layout,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import NumaNode, VmSize


def read(tree: MachineTree) -> Layout:
    """Return the layout of a tree."""
    return read_layout(Root(str(tree.path)))


def test_the_layout_has_the_numa_node_of_each_device(nd: MachineTree) -> None:
    layout = read(nd)
    assert tuple(gpu.node for gpu in layout.gpus) == ND_A100_GPUS
    assert [gpu.name for gpu in layout.gpus] == list("01234567")
    assert [(hca.name, hca.node) for hca in layout.hcas][:3] == [("mlx5_ib0", 1), ("mlx5_ib1", 1), ("mlx5_ib2", 0)]


def test_the_layouts_of_a_size_and_of_its_machine_are_equal(nd: MachineTree) -> None:
    of_machine, of_size = read(nd), layout_of_size(find_size("nd96asr_v4"))
    assert of_size.nodes == of_machine.nodes
    assert [gpu.node for gpu in of_size.gpus] == [gpu.node for gpu in of_machine.gpus]
    assert [gpu.busid for gpu in of_size.gpus] == [gpu.busid for gpu in of_machine.gpus]
    assert of_size.hcas == of_machine.hcas


def test_a_size_with_unknown_numa_nodes_is_an_error() -> None:
    with pytest.raises(UnknownLayout, match=r"Standard_X .*hpcai_vm_sizes"):
        layout_of_size(VmSize("Standard_X", vcpus=4))


def test_hardware_threads_of_a_size_are_neighbours() -> None:
    size = VmSize("Standard_X", threads_per_core=2, numa_nodes=(NumaNode(0, "0-3"), NumaNode(1, "4-7")))
    assert layout_of_size(size).cores_of(CpuSet({1, 4, 5})) == (CpuSet({1}), CpuSet({4, 5}))


def test_a_folder_without_sysfs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownLayout, match="lists no CPU"):
        read_layout(Root(str(tmp_path)))


def test_devices_without_a_numa_node_stay_unknown_with_several_nodes(tmp_path: Path) -> None:
    several = MachineTree(tmp_path / "a").cpus("0-3").node(0, "0-1").node(1, "2-3").gpu("0001:00:00.0", -1)
    assert read(several).gpus[0].node is None
    single = MachineTree(tmp_path / "b").cpus("0-3").node(0, "0-3").gpu("0001:00:00.0", -1)
    assert read(single).gpus[0].node == 0


def test_a_device_at_a_memory_only_node_belongs_to_the_nearest_with_cpus(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").gpu("0008:00:00.0", 4).gpu("0009:00:00.0", 5)
    tree.node(0, "0-1", 4096, [10, 40, 80, 120]).node(1, "2-3", 4096, [40, 10, 120, 80])
    tree.node(4, "", 98304, [80, 120, 10, 160]).node(5, "", 98304, [120, 80, 160, 10])
    layout = read(tree)
    assert layout.nodes.keys() == {0, 1}
    assert layout.memory_only == CpuSet({4, 5})
    assert [gpu.node for gpu in layout.gpus] == [0, 1]


def test_a_control_group_restricts_cpus_and_numa_nodes(nd: MachineTree) -> None:
    layout = read(nd).restricted_to(CpuSet.parse_list("20-30,200"))
    assert layout.usable.as_list() == "20-30"
    assert {node: cpus.as_list() for node, cpus in layout.usable_nodes.items()} == {0: "20-23", 1: "24-30"}
    assert layout.nearest_usable(1) == 1
    assert layout.nearest_usable(3) == 0


def test_the_nearest_usable_node_has_the_smallest_distance(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-5")
    for node, distances in enumerate(([10, 32, 12], [32, 10, 32], [12, 32, 10])):
        tree.node(node, f"{2 * node}-{2 * node + 1}", 1024, distances)
    layout = read(tree).restricted_to(CpuSet.parse_list("2-5"))
    assert layout.nearest_usable(0) == 2


def test_cores_contain_only_hardware_threads_of_the_set(tmp_path: Path) -> None:
    layout = read(MachineTree(tmp_path).cpus("0-7", smt_siblings(4)).node(0, "0-7"))
    assert layout.cores_of(CpuSet({0, 1, 5})) == (CpuSet({0}), CpuSet({1, 5}))
