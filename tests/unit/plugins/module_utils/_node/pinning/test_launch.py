# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch lines for srun and Open MPI."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning import rank
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.advise import WHOLE_DOMAIN, advise
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.launch import (
    CPU_BIND,
    INTELMPI,
    MVAPICH2,
    OPENMPI,
    SRUN,
    TORCHRUN,
    launch,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import (
    Layout,
    layout_of_size,
    read_layout,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

ND_A100 = layout_of_size(find_size("Standard_ND96asr_v4"))


def read(tree: MachineTree) -> Layout:
    """Return the layout of a tree."""
    return read_layout(Root(str(tree.path)))


def test_the_srun_line_of_an_nd_a100_v4_with_whole_domains() -> None:
    start = launch(advise(ND_A100, 8, masks=WHOLE_DOMAIN), SRUN)
    # The last mask of the published line, "ffffff00000000000", lacks a zero.
    assert (
        "--cpu-bind=mask_cpu:ffffff000000,ffffff000000,ffffff,ffffff,ffffff000000000000000000,"
        "ffffff000000000000000000,ffffff000000000000,ffffff000000000000"
    ) in start.arguments
    assert start.line.startswith("srun --ntasks-per-node=8 --gpus-per-node=8 --cpu-bind=")
    assert start.line.endswith(" --mpi=pmix")
    assert start.environment == {"OMPI_MCA_coll_hcoll_enable": "0"}


def test_the_masks_of_srun_are_those_of_the_ranks_in_order() -> None:
    advice = advise(ND_A100, threads_per_rank=4)
    start = launch(advice, SRUN)
    (bind,) = [word for word in start.arguments if word.startswith("--cpu-bind=mask_cpu:")]
    masks = [CpuSet.parse_mask(mask) for mask in bind.partition(":")[2].split(",")]
    assert masks == [placement.cpus for placement in start.placements]
    assert start.environment["OMP_NUM_THREADS"] == "4"
    assert len(masks[0]) == 4


def test_without_gpus_the_lines_and_notes_mention_none(tmp_path: Path) -> None:
    layout = read(MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7"))
    srun, openmpi = launch(advise(layout), SRUN), launch(advise(layout), OPENMPI)
    assert srun.line == "srun --ntasks-per-node=2 --cpu-bind=mask_cpu:f,f0 --mpi=pmix"
    assert openmpi.line == "mpirun -np 2 --map-by ppr:1:numa:pe=4 --bind-to core"
    assert (srun.environment, openmpi.environment) == ({}, {})
    assert not [note for note in (*srun.notes, *openmpi.notes) if "GPU" in note]


def test_open_mpi_numbers_ranks_and_gpus_by_numa_node() -> None:
    start = launch(advise(ND_A100), OPENMPI)
    assert start.line == (
        "mpirun -np 8 --map-by ppr:2:numa:pe=12 --bind-to core --mca coll_hcoll_enable 0 "
        "-x CUDA_VISIBLE_DEVICES=2,3,0,1,6,7,4,5"
    )
    assert [placement.rank for placement in start.placements] == list(range(8))
    assert [placement.cpus.as_list() for placement in start.placements] == [
        f"{12 * rank}-{12 * rank + 11}" for rank in range(8)
    ]
    assert [placement.gpus for placement in start.placements] == [(2,), (3,), (0,), (1,), (6,), (7,), (4,), (5,)]


def test_open_mpi_binds_to_whole_numa_nodes() -> None:
    start = launch(advise(ND_A100, masks=WHOLE_DOMAIN), OPENMPI)
    assert start.arguments[:7] == ("mpirun", "-np", "8", "--map-by", "ppr:2:numa", "--bind-to", "numa")


def test_gpus_in_numa_order_need_no_variable() -> None:
    start = launch(advise(layout_of_size(find_size("ND96isr_H100_v5"))), OPENMPI)
    assert "ppr:4:numa:pe=12" in start.arguments
    assert "CUDA_VISIBLE_DEVICES" not in start.line


def test_open_mpi_counts_cores_not_hardware_threads(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-15", smt_siblings(8)).node(0, "0-3,8-11").node(1, "4-7,12-15")
    assert "ppr:2:numa:pe=2" in launch(advise(read(tree), 4), OPENMPI).arguments


def test_open_mpi_orders_numa_nodes_by_their_cpus_as_hwloc_does(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").node(0, "2-3").node(1, "0-1")
    start = launch(advise(read(tree)), OPENMPI)
    assert [(placement.node, placement.cpus.as_list()) for placement in start.placements] == [(1, "0-1"), (0, "2-3")]


def masks_by_taskset(layout: Layout, ranks: int | None, threads: int | None = None) -> list[str]:
    """Return the masks of a line that pins with taskset; assert that they are the advised ones."""
    advice = advise(layout, ranks, threads)
    start = launch(advice, OPENMPI)
    assert start.arguments[5:7] == ("--bind-to", "none")
    assert start.placements == advice.placements
    assert "CUDA_VISIBLE_DEVICES" not in start.line
    script = start.arguments[-2]
    masks = script[script.index("(") + 1 : script.index(")")].split()
    assert masks == [placement.cpus.as_mask() for placement in advice.placements]
    return masks


def test_taskset_pins_what_open_mpi_cannot_map(tmp_path: Path, nd: MachineTree) -> None:
    asymmetric = MachineTree(tmp_path / "a").cpus("0-11").node(0, "0-7").node(1, "8-11")
    assert masks_by_taskset(read(asymmetric), 3) == ["f", "f0", "f00"]
    # Each rank uses four of its twelve cores: Open MPI would place the ranks side by side.
    assert masks_by_taskset(ND_A100, 8, 4)[:2] == ["f000000", "f000000000"]
    restricted = read(nd).restricted_to(CpuSet.parse_list("12-95"))
    assert len(masks_by_taskset(restricted, 8)) == 8
    # Also with equal parts of all nodes: whether Open MPI knows the restriction depends on where it is started.
    even = read(nd).restricted_to(CpuSet.parse_list("0-11,24-35,48-59,72-83"))
    assert masks_by_taskset(even, 8)[2:4] == ["3f", "fc0"]
    memory = MachineTree(tmp_path / "m").cpus("0-3").node(0, "0-1").node(1, "2-3").node(2, "")
    assert masks_by_taskset(read(memory), 2) == ["3", "c"]
    single = MachineTree(tmp_path / "s").cpus("0-3").node(0, "0-1").node(1, "2-3")
    assert masks_by_taskset(read(single), 1) == ["3"]


@pytest.mark.skipif(not shutil.which("taskset"), reason="there is no taskset")
def test_the_line_with_taskset_pins_real_processes(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-1").node(0, "0").node(1, "1").node(2, "")
    start = launch(advise(read(tree)), OPENMPI)
    program = list(start.arguments[start.arguments.index("bash") :])
    for placement in start.placements:
        if not placement.cpus <= set(range(len(CpuSet.parse_list(Path("/sys/devices/system/cpu/online").read_text())))):
            pytest.skip("this machine has one CPU only")
        shown = subprocess.run(
            [*program, "grep", "Cpus_allowed_list", "/proc/self/status"],
            env={"OMPI_COMM_WORLD_LOCAL_RANK": str(placement.rank), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.split()[1] == placement.cpus.as_list()


def test_if_ranks_do_not_match_the_gpus_a_note_lists_each_ranks_gpus() -> None:
    four = advise(ND_A100, 4)
    assert "wrapper): 0: 0-1; 1: 2-3; 2: 4-5; 3: 6-7." in launch(four, SRUN).notes[-1]
    # Open MPI numbers them by NUMA node.
    assert "wrapper): 0: 2-3; 1: 0-1; 2: 6-7; 3: 4-5." in launch(four, OPENMPI).notes[-1]


def test_the_option_alone_is_the_one_of_the_srun_line() -> None:
    advice = advise(ND_A100, 8, masks=WHOLE_DOMAIN)
    option = launch(advice, CPU_BIND)
    assert option.line.startswith("--cpu-bind=mask_cpu:ffffff000000,ffffff000000,ffffff,")
    assert option.arguments[0] in launch(advice, SRUN).arguments
    assert "8 tasks per node" in option.notes[0]


OTHERS = {
    INTELMPI: ("MPI_LOCALRANKID", "mpirun -n 8 -ppn 8 -genv I_MPI_PIN 0 -genv OMP_NUM_THREADS 4 bash -c "),
    MVAPICH2: ("MV2_COMM_WORLD_LOCAL_RANK", "mpirun -n 8 -ppn 8 -genv MV2_ENABLE_AFFINITY 0 -genv OMP_NUM_THREADS 4 "),
    TORCHRUN: ("LOCAL_RANK", "env OMP_NUM_THREADS=4 torchrun --nproc-per-node=8 --no-python bash -c "),
}


@pytest.mark.parametrize("launcher", OTHERS)
def test_launchers_that_pin_by_taskset_use_their_own_local_rank(launcher: str) -> None:
    variable, beginning = OTHERS[launcher]
    advice = advise(ND_A100, 8, 4)
    start = launch(advice, launcher)
    assert start.line.startswith(beginning)
    script = start.arguments[-2]
    assert f"masks[${variable}]" in script
    masks = script[script.index("(") + 1 : script.index(")")].split()
    assert masks == [placement.cpus.as_mask() for placement in advice.placements]
    assert start.placements == advice.placements
    # Each launcher's variable is one by which the check finds the rank.
    assert variable in rank._LOCAL_RANK


@pytest.mark.skipif(not shutil.which("taskset"), reason="there is no taskset")
@pytest.mark.parametrize("launcher", OTHERS)
def test_these_lines_pin_real_processes(launcher: str, tmp_path: Path) -> None:
    start = launch(advise(read(MachineTree(tmp_path).cpus("0").node(0, "0"))), launcher)
    program = list(start.arguments[start.arguments.index("bash") :])
    shown = subprocess.run(
        [*program, "grep", "Cpus_allowed_list", "/proc/self/status"],
        env={OTHERS[launcher][0]: "0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split()[1] == "0"


def test_without_threads_no_launcher_sets_their_number() -> None:
    for launcher in OTHERS:
        assert "OMP_NUM_THREADS" not in launch(advise(ND_A100), launcher).line
