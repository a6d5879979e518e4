# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPUs and NUMA nodes, read from the sysfs of many kinds of machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.numa import read_cpus
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


def test_reads_the_nodes_of_an_nd_a100_v4(tmp_path: Path) -> None:
    nd_a100_v4(tmp_path)
    facts = read_cpus(Root(str(tmp_path)))
    assert facts.online.as_list() == "0-95"
    assert {node.id: node.cpus.as_list() for node in facts.nodes} == {0: "0-23", 1: "24-47", 2: "48-71", 3: "72-95"}
    assert facts.nodes[2].memory_mib == 232186
    assert facts.nodes[2].distances == {0: 21, 1: 21, 2: 10, 3: 21}
    assert facts.cores[5] == CpuSet({5})
    assert (facts.node_of(47), facts.node_of(48), facts.node_of(96)) == (1, 2, None)
    assert facts.nodes_of(CpuSet({23, 24, 95})).as_list() == "0-1,3"


def test_offline_cpus_belong_to_no_node_and_no_core(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("0-2,4-7", smt_siblings(4)).node(0, "0-7")
    facts = read_cpus(Root(str(tmp_path)))
    assert facts.nodes[0].cpus.as_list() == "0-2,4-7"
    assert 3 not in facts.cores
    assert facts.cores[7] == CpuSet({7})
    assert facts.cores[6] == CpuSet({2, 6})


def test_nodes_without_cpus_and_gaps_in_their_numbers_are_read(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-3")
    tree.node(0, "0-3", 4096, [10, 80, 80]).node(2, "", 98304, [80, 10, 80]).node(10, "", 98304, [80, 80, 10])
    facts = read_cpus(Root(str(tmp_path)))
    assert [node.id for node in facts.nodes] == [0, 2, 10]
    assert facts.nodes[2].cpus == CpuSet()
    assert facts.nodes[2].distances == {0: 80, 2: 80, 10: 10}


def test_a_kernel_without_numa_has_one_node_of_all_cpus(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("0-3")
    facts = read_cpus(Root(str(tmp_path)))
    assert [(node.id, node.cpus.as_list(), node.memory_mib) for node in facts.nodes] == [(0, "0-3", None)]


def test_cpus_are_counted_if_no_list_of_online_cpus_exists(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path)
    for cpu in range(3):
        tree.write(f"/sys/devices/system/cpu/cpu{cpu}/uevent", "")
    tree.write("/sys/devices/system/cpu/cpufreq/policy0", "")
    assert read_cpus(Root(str(tmp_path))).online.as_list() == "0-2"


def test_the_siblings_file_of_old_kernels_is_read(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-1").node(0, "0-1")
    for cpu in range(2):
        tree.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "0-1\n")
    assert read_cpus(Root(str(tmp_path))).cores[1] == CpuSet({0, 1})


def test_a_machine_with_2048_cpus_is_read(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-2047", smt_siblings(1024))
    for node in range(32):
        tree.node(node, f"{node * 32}-{node * 32 + 31},{1024 + node * 32}-{1024 + node * 32 + 31}")
    facts = read_cpus(Root(str(tmp_path)))
    assert len(facts.online) == 2048
    assert facts.nodes[31].cpus.as_list() == "992-1023,2016-2047"
    assert facts.cores[1023] == CpuSet({1023, 2047})


def test_distances_that_do_not_match_the_nodes_are_ignored(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("0-3").node(0, "0-1", distances=[10]).node(1, "2-3", distances=[21, 10])
    facts = read_cpus(Root(str(tmp_path)))
    assert facts.nodes[0].distances == {}
    assert facts.nodes[1].distances == {0: 21, 1: 10}


def test_an_invalid_list_of_cpus_is_an_error(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("zero")
    with pytest.raises(ValueError, match="zero"):
        read_cpus(Root(str(tmp_path)))


def test_this_machine_has_the_cpus_that_python_counts() -> None:
    facts = read_cpus(Root())
    assert os.sched_getaffinity(0) <= facts.online
    assert len(facts.online) == os.cpu_count()
    assert CpuSet(cpu for node in facts.nodes for cpu in node.cpus) == facts.online


def test_lists_that_end_in_a_nul_are_read(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("0-3\0").node(0, "0-1\0").node(1, "2-3\n\0")
    facts = read_cpus(Root(str(tmp_path)))
    assert [node.cpus.as_list() for node in facts.nodes] == ["0-1", "2-3"]


def test_a_mask_replaces_a_missing_list(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-35").node(0, "0-3").node(1, "4-35")
    for node, mask in ((0, "0,0000000f"), (1, "f,fffffff0\0")):
        (tmp_path / f"sys/devices/system/node/node{node}/cpulist").unlink()
        tree.write(f"/sys/devices/system/node/node{node}/cpumap", mask)
    assert [node.cpus.as_list() for node in read_cpus(Root(str(tmp_path))).nodes] == ["0-3", "4-35"]


def test_a_node_without_list_and_mask_is_an_error_and_named(tmp_path: Path) -> None:
    MachineTree(tmp_path).cpus("0-3").node(0, "0-3")
    (tmp_path / "sys/devices/system/node/node0/cpulist").unlink()
    with pytest.raises(ValueError, match="node/node0 has neither cpulist nor cpumap"):
        read_cpus(Root(str(tmp_path)))
