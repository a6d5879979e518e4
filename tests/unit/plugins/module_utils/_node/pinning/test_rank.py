# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes make up a rank, where it may run, and what it uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.rank import Rank
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

from .conftest import Look

STEP = {"SLURM_STEP_ID": "0"}


def ranks_of(look: Look, tree: MachineTree) -> dict[str, Rank]:
    """Return the ranks by label."""
    return {rank.label: rank for rank in look(tree).ranks}


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({"LOCAL_RANK": "3", "SLURM_LOCALID": "0", **STEP}, 3),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "2"}, 2),
        ({"MPI_LOCALRANKID": "1"}, 1),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1"}, 1),
        ({"SLURM_LOCALID": "5", **STEP}, 5),
        ({"SLURM_LOCALID": "5", "SLURM_STEPID": "0"}, 5),
        # A batch script, or an srun that it started.
        ({"SLURM_LOCALID": "0"}, None),
        ({"LOCAL_RANK": "none"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_environment_contains_the_rank(
    nd: MachineTree, look: Look, environment: dict[str, str] | None, number: int | None
) -> None:
    nd.process(50, "0-11", environment=environment)
    (rank,) = look(nd).ranks
    assert rank.number == number
    assert rank.label == ("pid 50" if number is None else str(number))


def test_a_shell_its_program_and_workers_are_one_rank(nd: MachineTree, look: Look) -> None:
    rank = {"LOCAL_RANK": "0"}
    nd.process(50, "0-11", "bash", environment=rank, command="bash -c ./xhpl")
    nd.process(51, "0-11", parent=50, environment=rank).process(52, "0-11", parent=51, environment=rank)
    nd.process(60, "12-23", environment={"LOCAL_RANK": "1"})
    assert {label: rank.pids for label, rank in ranks_of(look, nd).items()} == {"0": (50, 51, 52), "1": (60,)}


def test_the_same_number_in_two_jobs_is_two_ranks(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", environment={"LOCAL_RANK": "0"}).process(60, "24-35", environment={"LOCAL_RANK": "0"})
    assert [rank.pids for rank in look(nd).ranks] == [(50,), (60,)]


def test_a_launcher_is_no_rank_and_is_not_judged(nd: MachineTree, look: Look) -> None:
    nd.process(40, "0-95", "mpirun", command="mpirun -np 1 xhpl")
    nd.process(50, "24-35", parent=40, environment={"OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    found = look(nd)
    assert [rank.pids for rank in found.ranks] == [(50,)]
    assert [other.process.name for other in found.others] == ["mpirun"]
    assert "unpinned" not in {finding.code for finding in found.findings}


def test_each_process_selected_by_its_id_is_judged(nd: MachineTree, look: Look) -> None:
    nd.process(40, "0-95", "mpirun").process(50, "24-35", environment={"LOCAL_RANK": "0"})
    found = look(nd, selection=Selection(pids=(40, 50)))
    assert {rank.label for rank in found.ranks} == {"0", "pid 40"}
    assert found.others == ()


def test_a_process_that_ends_while_it_is_read_is_left_out(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11").process(51, "12-23")
    for file in (nd.path / "proc/51/task/51").iterdir():
        file.unlink()
    assert [rank.pids for rank in look(nd).ranks] == [(50,)]


@pytest.mark.parametrize("variable", [{"OMP_PROC_BIND": "close"}, {"OMP_PLACES": "cores"}, {"KMP_AFFINITY": "compact"}])
def test_threads_bound_by_openmp_count_with_all_their_cores(
    nd: MachineTree, look: Look, variable: dict[str, str]
) -> None:
    # OpenMP binds the main thread, too; the last one is the progress thread of a library.
    threads = [(50, "0", 0, "R"), (51, "1", 1, "R"), (52, "2", 2, "R"), (53, "0-95", 70, "S")]
    nd.process(50, "0", threads=threads, environment=variable)
    (rank,) = look(nd).ranks
    assert rank.cpus.as_list() == "0-2"
    assert [thread.tid for thread in rank.stray] == [53]


@pytest.mark.parametrize("environment", [{}, {"OMP_PROC_BIND": "false"}, None])
def test_a_thread_outside_the_single_cpu_of_its_process_is_stray(
    nd: MachineTree, look: Look, environment: dict[str, str] | None
) -> None:
    nd.process(50, "0", threads=[(50, "0", 0, "S"), (51, "72", 72, "S")], environment=environment)
    (rank,) = look(nd).ranks
    assert rank.cpus.as_list() == "0"
    assert [thread.tid for thread in rank.stray] == [51]


def test_threads_outside_the_mask_of_their_process_are_stray(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", threads=[(50, "0-11", 0, "S"), (51, "3", 3, "S"), (52, "12", 12, "S")])
    (rank,) = look(nd).ranks
    assert rank.cpus.as_list() == "0-11"
    assert [thread.tid for thread in rank.stray] == [52]


def test_the_driver_reports_which_gpus_are_used(nd: MachineTree, look: Look) -> None:
    nd.process(50, "24-35", environment={"CUDA_VISIBLE_DEVICES": "7"}).process(51, "0-11")
    use = {50: ("0002:00:00.0", "0001:00:00.0"), 99: ("0003:00:00.0",)}
    first, second = look(nd, use).ranks
    assert (first.gpus, first.gpus_assumed, second.gpus) == ((0, 1), False, ())


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"CUDA_VISIBLE_DEVICES": "3"}, (3,)),
        ({"HIP_VISIBLE_DEVICES": "4"}, (4,)),
        ({"ROCR_VISIBLE_DEVICES": "5"}, (5,)),
        ({"CUDA_VISIBLE_DEVICES": "2,3,0,1", "LOCAL_RANK": "2"}, (0,)),
        ({"CUDA_VISIBLE_DEVICES": "2,3,0,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "2,3", "LOCAL_RANK": "2"}, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f1c"}, None),
        ({"CUDA_VISIBLE_DEVICES": "8"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({}, None),
    ],
)
def test_without_the_driver_gpus_are_assumed_from_the_environment(
    nd: MachineTree, look: Look, environment: dict[str, str], gpus: tuple[int, ...] | None
) -> None:
    nd.process(50, "0-11", environment=environment)
    (rank,) = look(nd).ranks
    assert rank.gpus == gpus
    assert rank.gpus_assumed == (gpus is not None)


def test_open_device_files_show_which_adapters_are_used(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11", files=["/dev/infiniband/uverbs2", "/dev/infiniband/uverbs77", "/dev/infiniband/rdma_cm"])
    (rank,) = look(nd).ranks
    assert rank.hcas == ("mlx5_ib2",)


def test_if_open_files_cannot_be_read_the_adapters_are_unknown(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11")
    (nd.path / "proc/50/fd").rmdir()
    (rank,) = look(nd).ranks
    assert rank.hcas is None


def test_on_a_machine_without_gpus_a_rank_uses_none(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-1").node(0, "0-1").process(50, "0", environment={"CUDA_VISIBLE_DEVICES": "0"})
    (rank,) = look(tree).ranks
    assert rank.gpus == ()
