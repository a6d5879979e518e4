# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The launch line for the recommended placement. Open MPI includes HPC-X."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Callable

from ..machine.cpuset import CpuSet
from .advise import WHOLE_DOMAIN, Advice, Placement
from .layout import Layout

SRUN, OPENMPI, INTELMPI, MVAPICH2, TORCHRUN, CPU_BIND = LAUNCHERS = (
    *("srun", "openmpi", "intelmpi", "mvapich2", "torchrun"),
    # Only srun's option, for scripts that have a line of their own.
    "cpu-bind",
)

_FOR_ONE_NODE = "-np is for one node: for a larger job, multiply it by the number of nodes."


@dataclass(frozen=True)
class Launch:
    """How to start the ranks.

    :ivar launcher: one of ``LAUNCHERS``.
    :ivar placements: where each rank will run; Open MPI may number ranks in another order than the advice.
    :ivar arguments: the launcher and its arguments; the program follows.
    :ivar environment: variables to set.
    :ivar notes: for the user, one sentence each.
    """

    launcher: str
    placements: tuple[Placement, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The complete line for a shell; the program follows."""
        return shlex.join(self.arguments)


def launch(advice: Advice, launcher: str) -> Launch:
    """Return the launch line for one of ``LAUNCHERS``."""
    return _BY_LAUNCHER[launcher](advice)


def _cpu_bind_option(advice: Advice) -> str:
    # The i-th mask is for the i-th task of each node, in hexadecimal without "0x". The published line for
    # Standard_ND96asr_v4 lacks a digit in its last mask: ffffff and 11 zeros are CPUs 44-67, the end of NUMA node 1 and
    # most of node 2. The whole node 2 (48-71) is ffffff and 12 zeros, as computed here.
    return f"--cpu-bind=mask_cpu:{','.join(placement.cpus.as_mask() for placement in advice.placements)}"


_ABOUT_MASKS = (
    "Slurm accepts masks only if the job has all CPUs of its nodes (sbatch or salloc --exclusive), with "
    "TaskPlugin=task/affinity.",
    # It implies --exact, also for a job that srun creates itself, and --exact excludes --whole (22.05).
    "Do not use srun --exclusive: the step then gets only one CPU per rank, and masks with other CPUs fail.",
    "Do not use --cpus-per-task with masks: the step gets only that many CPUs, and masks with other CPUs fail.",
)


def _cpu_bind(advice: Advice) -> Launch:
    note = f"The masks are for {len(advice.placements)} tasks per node (--ntasks-per-node)."
    notes = (note, *_ABOUT_MASKS, *_gpu_choice(advice.layout, advice.placements))
    return Launch(CPU_BIND, advice.placements, (_cpu_bind_option(advice),), {}, notes)


def _srun(advice: Advice) -> Launch:
    arguments = ["srun", f"--ntasks-per-node={len(advice.placements)}"]
    if advice.layout.gpus:
        arguments.append(f"--gpus-per-node={len(advice.layout.gpus)}")
    arguments += [_cpu_bind_option(advice), "--mpi=pmix"]
    return Launch(
        SRUN,
        advice.placements,
        tuple(arguments),
        {**_threads(advice), **({"OMPI_MCA_coll_hcoll_enable": "0"} if advice.layout.gpus else {})},
        (*_ABOUT_MASKS, *_gpu_choice(advice.layout, advice.placements)),
    )


def _openmpi(advice: Advice) -> Launch:
    """Return the shortest line that creates exactly the recommended masks.

    ``--map-by ppr:N:numa`` numbers ranks by NUMA node, N on each, and ``pe=K`` gives each the next K cores; both were
    tested with Open MPI 4.1.4 and 5.0.11 on the topology of Standard_ND96asr_v4. This requires the same N on every NUMA
    node, and ranks on consecutive cores from the node's first core on. Otherwise the line uses taskset, which works
    with any version.
    """
    count, layout = len(advice.placements), advice.layout
    common = ["--mca", "coll_hcoll_enable", "0"] if layout.gpus else []
    by_node = _in_node_order(advice)
    mapping = _mapping(advice, by_node)
    for name, value in _threads(advice).items():
        common += ["-x", f"{name}={value}"]
    if mapping:
        order = [index for placement in by_node for index in placement.gpus]
        one_each = count == len(layout.gpus)
        environment = {}
        if one_each and order != sorted(order):
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, order))
            common += ["-x", f"CUDA_VISIBLE_DEVICES={environment['CUDA_VISIBLE_DEVICES']}"]
        notes = (
            ["Each rank uses the visible GPU with the number of its local rank."]
            if one_each and layout.gpus
            else _gpu_choice(layout, by_node)
        )
        arguments = ("mpirun", "-np", str(count), *mapping, *common)
        return Launch(OPENMPI, by_node, arguments, environment, (_FOR_ONE_NODE, *notes))
    arguments = ("mpirun", "-np", str(count), "--map-by", f"ppr:{count}:node", "--bind-to", "none", *common)
    note = "Open MPI cannot map this itself (NUMA nodes differ, or only some CPUs are used), so taskset pins the ranks."
    return Launch(
        OPENMPI,
        advice.placements,
        (*arguments, *_by_taskset(advice, "OMPI_COMM_WORLD_LOCAL_RANK")),
        {},
        (_FOR_ONE_NODE, note, *_gpu_choice(layout, advice.placements)),
    )


def _by_taskset(advice: Advice, local_rank: str) -> tuple[str, ...]:
    """Return a wrapper of the program that pins each rank by its number in the variable ``local_rank``."""
    masks = " ".join(placement.cpus.as_mask() for placement in advice.placements)
    return ("bash", "-c", f'masks=({masks}); exec taskset "0x${{masks[${local_rank}]}}" "$@"', "bash")


def _with_taskset(
    launcher: str, advice: Advice, start: Sequence[str], local_rank: str, notes: Sequence[str] = ()
) -> Launch:
    """Return a line whose launcher pins nothing, because taskset pins each rank: this does not depend on the
    launcher's own rules for the order of ranks."""
    gpus = _gpu_choice(advice.layout, advice.placements)
    arguments = (*start, *_by_taskset(advice, local_rank))
    return Launch(launcher, advice.placements, arguments, {}, (*notes, *gpus))


def _intelmpi(advice: Advice) -> Launch:
    count = str(len(advice.placements))
    start = ["mpirun", "-n", count, "-ppn", count, "-genv", "I_MPI_PIN", "0"]
    for name, value in _threads(advice).items():
        start += ["-genv", name, value]
    return _with_taskset(INTELMPI, advice, start, "MPI_LOCALRANKID", [_FOR_ONE_NODE.replace("-np", "-n")])


def _mvapich2(advice: Advice) -> Launch:
    # mpirun of MVAPICH2 is Hydra's, as that of Intel MPI.
    count = str(len(advice.placements))
    start = ["mpirun", "-n", count, "-ppn", count, "-genv", "MV2_ENABLE_AFFINITY", "0"]
    for name, value in _threads(advice).items():
        start += ["-genv", name, value]
    return _with_taskset(MVAPICH2, advice, start, "MV2_COMM_WORLD_LOCAL_RANK", [_FOR_ONE_NODE.replace("-np", "-n")])


def _torchrun(advice: Advice) -> Launch:
    start = ["torchrun", f"--nproc-per-node={len(advice.placements)}", "--no-python"]
    if advice.threads_per_rank:
        # torchrun sets OMP_NUM_THREADS=1 unless it is set.
        start = ["env", *(f"{name}={value}" for name, value in _threads(advice).items()), *start]
    notes = (
        "The program is an executable or 'python train.py'.",
        "Start one torchrun on each node: srun --ntasks-per-node=1 --cpu-bind=none. Without --cpu-bind=none, all ranks "
        "share the CPUs that srun gives to one task.",
        "For several nodes add --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --master-addr=ADDRESS. The rendezvous "
        "c10d finds no node of itself if its own name is a loopback address in /etc/hosts.",
    )
    return _with_taskset(TORCHRUN, advice, start, "LOCAL_RANK", notes)


_BY_LAUNCHER: Mapping[str, Callable[[Advice], Launch]] = {
    SRUN: _srun,
    OPENMPI: _openmpi,
    INTELMPI: _intelmpi,
    MVAPICH2: _mvapich2,
    TORCHRUN: _torchrun,
    CPU_BIND: _cpu_bind,
}


def _in_node_order(advice: Advice) -> tuple[Placement, ...]:
    """Return the placements as Open MPI numbers them: by NUMA node, and on each node in the order of their CPUs."""
    # Open MPI maps with hwloc, which orders NUMA nodes by their CPUs, not by their numbers in Linux.
    first = {node: min(cpus) for node, cpus in advice.layout.nodes.items()}
    ordered = sorted(
        advice.placements, key=lambda placement: (first[placement.node], min(placement.cpus), placement.rank)
    )
    return tuple(replace(placement, rank=rank) for rank, placement in enumerate(ordered))


def _mapping(advice: Advice, placements: Sequence[Placement]) -> list[str] | None:
    """Return arguments with which mpirun itself creates these placements; None if there are none."""
    layout = advice.layout
    per_node = {node: [p for p in placements if p.node == node] for node in layout.nodes}
    counts = {len(on_node) for on_node in per_node.values()}
    # hwloc counts memory-only nodes as NUMA nodes too, but a rank cannot run on one.
    if len(counts) != 1 or layout.usable != layout.online or layout.memory_only:
        return None
    (count,) = counts
    if advice.masks == WHOLE_DOMAIN:
        return ["--map-by", f"ppr:{count}:numa", "--bind-to", "numa"]
    sizes = {len(layout.cores_of(placement.cpus)) for placement in placements}
    if len(sizes) != 1:
        return None
    (each,) = sizes
    packed = all(_is_packed(layout, node, on_node, each) for node, on_node in per_node.items())
    return ["--map-by", f"ppr:{count}:numa:pe={each}", "--bind-to", "core"] if packed else None


def _is_packed(layout: Layout, node: int, placements: Sequence[Placement], each: int) -> bool:
    cores = layout.cores_of(layout.nodes[node])
    return all(
        placement.cpus == CpuSet(cpu for core in cores[index * each : (index + 1) * each] for cpu in core)
        for index, placement in enumerate(placements)
    )


def _threads(advice: Advice) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(advice.threads_per_rank)} if advice.threads_per_rank else {}


def _gpu_choice(layout: Layout, placements: Sequence[Placement]) -> list[str]:
    """Return a note about which GPU each rank has to use."""
    if not layout.gpus:
        return []
    if len(placements) == len(layout.gpus):
        return ["Each rank uses the GPU with the number of its local rank."]
    gpus_by_rank = "; ".join(f"{p.rank}: {CpuSet(p.gpus).as_list()}" for p in placements)
    return [f"Ranks must use these GPUs (set CUDA_VISIBLE_DEVICES in a wrapper): {gpus_by_rank}."]
