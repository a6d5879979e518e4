# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The launch line that puts ranks where they should be, for srun and for Open MPI (HPC-X is one)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..machine.cpuset import CpuSet
from .advise import WHOLE_DOMAIN, Advice, Placement
from .layout import Layout

SRUN, OPENMPI = LAUNCHERS = ("srun", "openmpi")

_FOR_ONE_NODE = "-np is for one node: multiply it by the number of nodes."


@dataclass(frozen=True)
class Launch:
    """How to start the ranks.

    :ivar launcher: one of ``LAUNCHERS``.
    :ivar placements: where each rank will be; Open MPI may number them otherwise than the advice does.
    :ivar arguments: the launcher and its arguments; the program follows.
    :ivar environment: variables to set for it.
    :ivar notes: what the user should know, one sentence each.
    """

    launcher: str
    placements: tuple[Placement, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The whole line for a shell, to be followed by the program."""
        return shlex.join(self.arguments)


def launch(advice: Advice, launcher: str) -> Launch:
    """Return the line for one of ``LAUNCHERS``."""
    return _srun(advice) if launcher == SRUN else _openmpi(advice)


def _srun(advice: Advice) -> Launch:
    # The i-th mask is for the i-th task of each node, in hexadecimal without "0x". The published line for
    # Standard_ND96asr_v4 lost a digit of its last mask: ffffff and 11 zeros are CPUs 44-67, the end of NUMA node 1 and
    # most of node 2. All of node 2 (48-71) is ffffff and 12 zeros, as it comes out here.
    masks = ",".join(placement.cpus.as_mask() for placement in advice.placements)
    arguments = ["srun", f"--ntasks-per-node={len(advice.placements)}"]
    if advice.layout.gpus:
        arguments.append(f"--gpus-per-node={len(advice.layout.gpus)}")
    arguments += [f"--cpu-bind=mask_cpu:{masks}", "--mpi=pmix"]
    notes = [
        "Slurm takes masks only where the job has all CPUs of its nodes (sbatch or salloc --exclusive), with "
        "TaskPlugin=task/affinity.",
        # It implies --exact, also of a job that srun makes itself, and with --exact there is no --whole (22.05).
        "No --exclusive for srun itself: it gives the step one CPU for each rank only, and masks outside them fail.",
        "No --cpus-per-task beside the masks: the step would get that many CPUs only, and masks outside them fail.",
    ]
    return Launch(
        SRUN,
        advice.placements,
        tuple(arguments),
        {**_threads(advice), **({"OMPI_MCA_coll_hcoll_enable": "0"} if advice.layout.gpus else {})},
        (*notes, *_gpu_choice(advice.layout, advice.placements)),
    )


def _openmpi(advice: Advice) -> Launch:
    """The shortest line that makes exactly the advised masks.

    ``--map-by ppr:N:numa`` numbers ranks by NUMA node, N on each, and ``pe=K`` gives each the next K cores; both were
    tried with Open MPI 4.1.4 and 5.0.11 on the topology of Standard_ND96asr_v4. It needs the same N on every node and
    ranks that are packed from the node's first core on; all else goes through taskset, whatever the version.
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
            ["Each rank takes the visible GPU of its local rank."]
            if one_each and layout.gpus
            else _gpu_choice(layout, by_node)
        )
        arguments = ("mpirun", "-np", str(count), *mapping, *common)
        return Launch(OPENMPI, by_node, arguments, environment, (_FOR_ONE_NODE, *notes))
    masks = " ".join(placement.cpus.as_mask() for placement in advice.placements)
    script = f'masks=({masks}); exec taskset "0x${{masks[$OMPI_COMM_WORLD_LOCAL_RANK]}}" "$@"'
    arguments = ("mpirun", "-np", str(count), "--map-by", f"ppr:{count}:node", "--bind-to", "none", *common)
    note = (
        "Open MPI cannot map this by itself (NUMA nodes differ, or a part of the CPUs is used): taskset pins the ranks."
    )
    return Launch(
        OPENMPI,
        advice.placements,
        (*arguments, "bash", "-c", script, "bash"),
        {},
        (_FOR_ONE_NODE, note, *_gpu_choice(layout, advice.placements)),
    )


def _in_node_order(advice: Advice) -> tuple[Placement, ...]:
    """The placements as Open MPI numbers them: by NUMA node, on each in the order of their CPUs."""
    # hwloc, by which it maps, orders NUMA nodes by their CPUs, not by Linux's numbers of them.
    first = {node: min(cpus) for node, cpus in advice.layout.nodes.items()}
    ordered = sorted(
        advice.placements, key=lambda placement: (first[placement.node], min(placement.cpus), placement.rank)
    )
    return tuple(replace(placement, rank=rank) for rank, placement in enumerate(ordered))


def _mapping(advice: Advice, placements: Sequence[Placement]) -> list[str] | None:
    """Arguments of mpirun by which it makes these placements itself; None if there are none."""
    layout = advice.layout
    per_node = {node: [p for p in placements if p.node == node] for node in layout.nodes}
    counts = {len(on_node) for on_node in per_node.values()}
    # Memory-only nodes count as NUMA nodes there too, and a rank cannot run on one.
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
    """Which GPU a rank has to take, where that is not the one of its own number."""
    if not layout.gpus:
        return []
    if len(placements) == len(layout.gpus):
        return ["Each rank takes the GPU of its local rank."]
    gpus_by_rank = "; ".join(f"{p.rank}: {CpuSet(p.gpus).as_list()}" for p in placements)
    return [f"Ranks have to take these GPUs (CUDA_VISIBLE_DEVICES in a wrapper): {gpus_by_rank}."]
