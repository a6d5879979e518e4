# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where ranks should run, on sizes of the table and on unusual machines."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.advise import (
    MASKS,
    WHOLE_DOMAIN,
    Advice,
    AdviceError,
    advise,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import (
    Layout,
    layout_of_size,
    read_layout,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, find_size


def read(tree: MachineTree) -> Layout:
    """Return the layout of a tree."""
    return read_layout(Root(str(tree.path)))


def cpus(advice: Advice) -> list[str]:
    """Return the CPUs of each rank."""
    return [placement.cpus.as_list() for placement in advice.placements]


def nodes(advice: Advice) -> list[int]:
    """Return the NUMA node of each rank."""
    return [placement.node for placement in advice.placements]


def gpus(advice: Advice) -> list[tuple[int, ...]]:
    """Return the GPUs of each rank."""
    return [placement.gpus for placement in advice.placements]


def test_a_rank_for_each_gpu_of_an_nd_a100_v4() -> None:
    advice = advise(layout_of_size(find_size("nd96asr_v4")))
    # The same CPUs as in the article's HPL line for eight ranks of twelve cores.
    assert cpus(advice) == ["24-35", "36-47", "0-11", "12-23", "72-83", "84-95", "48-59", "60-71"]
    assert nodes(advice) == [1, 1, 0, 0, 3, 3, 2, 2]
    assert gpus(advice) == [(index,) for index in range(8)]
    assert advice.notes == ()


def test_whole_domains_of_an_nd_a100_v4() -> None:
    advice = advise(layout_of_size(find_size("nd96asr_v4")), masks=WHOLE_DOMAIN)
    assert cpus(advice) == ["24-47"] * 2 + ["0-23"] * 2 + ["72-95"] * 2 + ["48-71"] * 2


@pytest.mark.parametrize("name", [size.name for size in SIZES.values() if size.numa_nodes])
@pytest.mark.parametrize("masks", MASKS)
def test_every_size_of_the_table_gets_valid_advice(name: str, masks: str) -> None:
    layout = layout_of_size(find_size(name))
    advice = advise(layout, masks=masks)
    assert len(advice.placements) == (len(layout.gpus) or len(layout.nodes))
    for placement in advice.placements:
        assert placement.cpus
        assert placement.cpus <= layout.nodes[placement.node]
        assert all(layout.gpus[index].node == placement.node for index in placement.gpus)
    if masks == "disjoint":
        assert_disjoint(advice)


def assert_disjoint(advice: Advice) -> None:
    """Check that no two ranks share a CPU or a core."""
    for one, other in itertools.combinations(advice.placements, 2):
        touched = CpuSet(sibling for cpu in one.cpus for sibling in advice.layout.siblings.get(cpu, {cpu}))
        assert not touched & other.cpus


def test_threads_limit_the_cores_of_a_rank() -> None:
    advice = advise(layout_of_size(find_size("nd96asr_v4")), threads_per_rank=8)
    assert cpus(advice)[:3] == ["24-31", "36-43", "0-7"]


def test_asymmetric_nodes_get_ranks_in_proportion(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-11").node(0, "0-7").node(1, "8-11")
    advice = advise(read(tree), 3)
    assert cpus(advice) == ["0-3", "4-7", "8-11"]
    assert cpus(advise(read(tree), 6)) == ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11"]


def test_no_rank_gets_offline_cpus(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-4,6-11").node(0, "0-7").node(1, "8-11")
    advice = advise(read(tree), 2)
    assert cpus(advice) == ["0-4,6-7", "8-11"]
    assert cpus(advise(read(tree), 4)) == ["0-1", "2-3", "4,6", "8-11"]


def test_cores_that_do_not_divide_evenly_stay_unused(tmp_path: Path) -> None:
    advice = advise(read(MachineTree(tmp_path).cpus("0-10").node(0, "0-10")), 4)
    assert cpus(advice) == ["0-1", "2-3", "4-5", "6-7"]
    assert advice.notes == ("3 CPUs do not divide evenly and are left to the system.",)


def test_nodes_of_memory_only_and_of_gpus_get_no_rank(tmp_path: Path) -> None:
    # As on Grace Blackwell: two NUMA nodes with CPUs, and one with only memory for each GPU.
    tree = MachineTree(tmp_path).cpus("0-127").node(0, "0-63").node(1, "64-127")
    for gpu in range(4):
        tree.node(2 + gpu, "").gpu(f"000{gpu + 8}:01:00.0", gpu // 2)
    advice = advise(read(tree))
    assert nodes(advice) == [0, 0, 1, 1]
    assert cpus(advice) == ["0-31", "32-63", "64-95", "96-127"]


def test_ranks_get_whole_cores_with_smt(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-15", smt_siblings(8)).node(0, "0-3,8-11").node(1, "4-7,12-15")
    advice = advise(read(tree), 4)
    assert cpus(advice) == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert_disjoint(advice)
    # Each rank has two cores: two threads get a core each, three threads use the hardware threads of both.
    assert cpus(advise(read(tree), 4, 1)) == ["0,8", "2,10", "4,12", "6,14"]
    assert cpus(advise(read(tree), 4, 2)) == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert cpus(advise(read(tree), 4, 3)) == cpus(advice)
    with pytest.raises(AdviceError, match="at most 4 threads_per_rank"):
        advise(read(tree), 4, 5)


def test_ranks_get_only_cpus_of_the_control_group(nd: MachineTree) -> None:
    layout = read(nd).restricted_to(CpuSet.parse_list("24-31,48-51"))
    by_gpus = advise(layout)
    # The GPUs of nodes 0 and 3 have no usable CPU on their node: the nearest node is used, with a note.
    assert nodes(by_gpus) == [1, 1, 1, 1, 1, 1, 2, 2]
    assert any("its GPU's NUMA node 3 has no usable CPU" in note for note in by_gpus.notes)
    assert_disjoint(by_gpus)


def test_a_control_group_without_cpus_of_the_machine_is_an_error(nd: MachineTree) -> None:
    with pytest.raises(AdviceError, match="cpuset"):
        advise(read(nd).restricted_to(CpuSet({500})))


@pytest.mark.parametrize(("count", "per_node"), [(128, 32), (2048, 64)])
def test_many_cpus(tmp_path: Path, count: int, per_node: int) -> None:
    tree = MachineTree(tmp_path).cpus(f"0-{count - 1}")
    for node in range(count // per_node):
        tree.node(node, f"{node * per_node}-{(node + 1) * per_node - 1}")
    advice = advise(read(tree))
    assert len(advice.placements) == count // per_node
    assert advice.placements[-1].cpus.as_mask() == "f" * (per_node // 4) + "0" * ((count - per_node) // 4)


def test_gpus_of_unknown_numa_node_are_spread_with_a_note(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    for index, node in enumerate((1, -1, -1, -1)):
        tree.gpu(f"000{index + 1}:00:00.0", node)
    advice = advise(read(tree))
    assert nodes(advice) == [1, 0, 0, 1]
    assert cpus(advice) == ["4-5", "0-1", "2-3", "6-7"]
    assert any("does not report the NUMA node of some GPUs" in note for note in advice.notes)


def test_without_gpus_there_is_a_rank_for_each_numa_node(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    advice = advise(read(tree))
    assert (cpus(advice), gpus(advice)) == (["0-3", "4-7"], [(), ()])


def test_fewer_ranks_than_gpus_have_several_each(nd: MachineTree) -> None:
    advice = advise(read(nd), 4)
    assert gpus(advice) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert cpus(advice) == ["24-47", "0-23", "72-95", "48-71"]
    two = advise(read(nd), 2)
    assert gpus(two) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert nodes(two) == [1, 3]
    assert "Rank 0 has GPUs on several NUMA nodes; it runs near most of them." in two.notes
    assert any(note.startswith("NUMA node 0,2 has no rank") for note in two.notes)


def test_more_ranks_than_gpus_share_them(nd: MachineTree) -> None:
    advice = advise(read(nd), 16)
    assert gpus(advice)[:4] == [(0,), (0,), (1,), (1,)]
    assert cpus(advice)[:5] == ["24-29", "30-35", "36-41", "42-47", "0-5"]
    assert any("MPS" in note for note in advice.notes)


@pytest.mark.parametrize("ranks", [3, 12])
def test_ranks_that_do_not_divide_over_gpus_get_a_note(nd: MachineTree, ranks: int) -> None:
    advice = advise(read(nd), ranks)
    assert len(advice.placements) == ranks
    assert {index for indices in gpus(advice) for index in indices} == set(range(8))
    assert any(f"{ranks} ranks and 8 GPUs do not divide evenly" in note for note in advice.notes)
    assert_disjoint(advice)


def test_numa_nodes_without_a_rank_are_noted(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    advice = advise(read(tree), 1)
    assert cpus(advice) == ["0-3"]
    assert any("NUMA node 1 has no rank" in note for note in advice.notes)


def test_more_ranks_than_cores_are_an_error_for_disjoint_masks_only(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-3", smt_siblings(2)).node(0, "0-3")
    with pytest.raises(AdviceError, match=r"3 ranks .* 2 usable cores .*whole_domain"):
        advise(read(tree), 3)
    shared = advise(read(tree), 3, 2, WHOLE_DOMAIN)
    assert cpus(shared) == ["0-3"] * 3
    assert any("more than the 4 usable CPUs" in note for note in shared.notes)


def test_too_many_threads_are_an_error_that_names_the_maximum(nd: MachineTree) -> None:
    with pytest.raises(AdviceError, match=r"24 threads per rank do not fit.*12 CPUs.*at most 12"):
        advise(read(nd), 8, 24)


@pytest.mark.parametrize("ranks", [0, -1])
def test_numbers_below_one_are_refused(nd: MachineTree, ranks: int) -> None:
    with pytest.raises(AdviceError, match=f"ranks_per_node must be at least 1, not {ranks}"):
        advise(read(nd), ranks)
    with pytest.raises(AdviceError, match="threads_per_rank"):
        advise(read(nd), 8, ranks)
