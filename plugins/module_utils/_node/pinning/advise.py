# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where each rank of a node should run: its GPUs, its NUMA node, its CPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..machine.cpuset import CpuSet
from .layout import Device, Layout

DISJOINT, WHOLE_DOMAIN = MASKS = ("disjoint", "whole_domain")
"""Each rank has CPUs of its own; ranks of a NUMA node share all of it."""


class AdviceError(ValueError):
    """What was asked for does not fit on the machine; the message says what would."""


@dataclass(frozen=True)
class Placement:
    """Where one rank runs.

    :ivar rank: its number within the node.
    :ivar gpus: indices of its GPUs; empty on a machine without.
    :ivar node: its NUMA node.
    :ivar cpus: its CPUs.
    """

    rank: int
    gpus: tuple[int, ...]
    node: int
    cpus: CpuSet


@dataclass(frozen=True)
class Advice:
    """Where the ranks of a node run.

    :ivar layout: the machine it is for.
    :ivar masks: one of ``MASKS``.
    :ivar threads_per_rank: threads that each rank will have; None where the user did not say.
    :ivar placements: by rank; rank number i uses GPU number i where there are as many of both.
    :ivar notes: what the user should know, one sentence each.
    """

    layout: Layout
    masks: str
    threads_per_rank: int | None
    placements: tuple[Placement, ...]
    notes: tuple[str, ...] = ()


def advise(
    layout: Layout, ranks_per_node: int | None = None, threads_per_rank: int | None = None, masks: str = DISJOINT
) -> Advice:
    """Place the ranks of a node.

    A rank goes to the NUMA node of its GPU. Without GPUs, or where the firmware does not say where they are, ranks go
    where most CPUs are left for each. With disjoint masks each rank of a node gets an equal number of whole cores, one
    run of neighbours; cores that do not divide evenly are left to the system.

    :param ranks_per_node: by default one for each GPU, or for each NUMA node where there is no GPU.
    :param threads_per_rank: with disjoint masks a rank gets that many cores instead of its whole share, or so many
        hardware threads where its share has fewer cores.
    :raises AdviceError: the ranks or threads do not fit.
    """
    usable = layout.usable_nodes
    if not usable and layout.usable:
        raise AdviceError(f"The CPUs that may be used, {layout.usable.as_list()}, are on no NUMA node.")
    if not usable:
        raise AdviceError("None of the CPUs online may be used: look at the control group's cpuset.")
    check_counts(ranks_per_node, threads_per_rank)
    count = ranks_per_node or len(layout.gpus) or len(usable)
    gpus = _share_gpus(layout.gpus, count)
    nodes = _choose_nodes(layout, gpus)
    by_node = {node: [rank for rank in range(count) if nodes[rank] == node] for node in usable}
    cpus: dict[int, CpuSet] = {}
    for node, ranks in by_node.items():
        shares_node = masks == WHOLE_DOMAIN
        for rank, mask in zip(ranks, [usable[node]] * len(ranks) if shares_node else _split(layout, node, len(ranks))):
            cpus[rank] = (
                mask if shares_node or threads_per_rank is None else _limit(layout, node, mask, threads_per_rank)
            )
    placements = tuple(
        Placement(rank, tuple(int(gpu.name) for gpu in gpus[rank]), nodes[rank], cpus[rank]) for rank in range(count)
    )
    notes = (*_notes(layout, placements, masks, threads_per_rank), *_odd_cpus(layout))
    return Advice(layout, masks, threads_per_rank, placements, notes)


def check_counts(ranks_per_node: int | None, threads_per_rank: int | None) -> None:
    """Check numbers that a user gave.

    :raises AdviceError: one is less than 1.
    """
    for name, number in (("ranks_per_node", ranks_per_node), ("threads_per_rank", threads_per_rank)):
        if number is not None and number < 1:
            raise AdviceError(f"{name} must be at least 1, not {number}.")


def _share_gpus(gpus: Sequence[Device], ranks: int) -> list[tuple[Device, ...]]:
    """Neighbouring GPUs for each rank; a GPU shared by neighbouring ranks where there are fewer GPUs than ranks."""
    count = len(gpus)
    if ranks <= count:
        return [tuple(gpus[rank * count // ranks : (rank + 1) * count // ranks]) for rank in range(ranks)]
    return [tuple(gpus[rank * count // ranks : rank * count // ranks + 1]) for rank in range(ranks)]


def _choose_nodes(layout: Layout, gpus: Sequence[tuple[Device, ...]]) -> list[int]:
    usable = layout.usable_nodes
    load = dict.fromkeys(usable, 0)
    chosen: list[int | None] = []
    for rank_gpus in gpus:
        near = [gpu.node for gpu in rank_gpus if gpu.node is not None]
        # The node of most of its GPUs, the first of several.
        node = max(near, key=near.count) if near else None
        node = layout.nearest_usable(node) if node is not None else None
        chosen.append(node)
        if node is not None:
            load[node] += 1
    # The rest is dealt out where each rank has most CPUs, then put in order, so that neighbours are near.
    loose = chosen.count(None)
    dealt = []
    for _turn in range(loose):
        node = min(usable, key=lambda node: ((load[node] + 1) / len(usable[node]), node))
        load[node] += 1
        dealt.append(node)
    rest = iter(sorted(dealt))
    return [next(rest) if node is None else node for node in chosen]


def _split(layout: Layout, node: int, ranks: int) -> list[CpuSet]:
    """Equal runs of whole cores of a NUMA node."""
    cores = layout.cores_of(layout.usable_nodes[node])
    if ranks > len(cores):
        total = sum(len(layout.cores_of(cpus)) for cpus in layout.usable_nodes.values())
        raise AdviceError(
            f"{ranks} ranks on NUMA node {node} cannot have a core each, it has {len(cores)} usable cores "
            f"(the machine {total}): use fewer ranks_per_node, or masks=whole_domain, where ranks share CPUs."
        )
    each = len(cores) // ranks if ranks else 0
    return [_union(cores[index * each : (index + 1) * each]) for index in range(ranks)]


def _limit(layout: Layout, node: int, mask: CpuSet, threads: int) -> CpuSet:
    """As many cores as there are threads, or as few cores as hold them where there are not so many."""
    cores = layout.cores_of(mask)
    if threads > len(mask):
        raise AdviceError(
            f"{threads} threads per rank do not fit: with so many ranks each has {len(mask)} CPUs of NUMA node {node}. "
            f"Use at most {len(mask)} threads_per_rank, fewer ranks_per_node, or masks=whole_domain."
        )
    return _union(cores[:threads])


def _union(sets: Sequence[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)


def _notes(layout: Layout, placements: Sequence[Placement], masks: str, threads: int | None) -> tuple[str, ...]:
    notes, count, gpus = [], len(placements), len(layout.gpus)
    if gpus and count % gpus and gpus % count:
        notes.append(f"{count} ranks do not divide over {gpus} GPUs: some ranks or GPUs have more to do than others.")
    if gpus and count > gpus:
        notes.append(f"There are {count} ranks for {gpus} GPUs: ranks share GPUs, which needs MPS or MIG to run well.")
    for placement in placements:
        nodes = {layout.gpus[index].node for index in placement.gpus}
        if len(nodes) > 1:
            notes.append(f"Rank {placement.rank} has GPUs of several NUMA nodes; it runs near most of them.")
        away = sorted(node for node in nodes if node is not None and node not in layout.usable_nodes)
        if away:
            names = ", ".join(map(str, away))
            notes.append(f"Rank {placement.rank}: no CPU of its GPU's NUMA node {names} may be used, the nearest is.")
    if any(gpu.node is None for gpu in layout.gpus):
        notes.append("The firmware does not say where some GPUs are: their ranks are spread over the NUMA nodes.")
    idle = [node for node in layout.usable_nodes if node not in {placement.node for placement in placements}]
    if idle:
        names = CpuSet(idle).as_list()
        notes.append(f"NUMA node {names} gets no rank: memory and CPUs there stay unused by this job.")
    if masks == DISJOINT and threads is None:
        unused = sum(len(cpus) for cpus in layout.usable_nodes.values()) - len(_union([p.cpus for p in placements]))
        idle_cpus = sum(len(layout.usable_nodes[node]) for node in idle)
        if unused > idle_cpus:
            notes.append(f"{unused - idle_cpus} CPUs do not divide evenly and are left to the system.")
    if masks == WHOLE_DOMAIN and math.ceil(count * (threads or 1)) > len(layout.usable):
        notes.append(f"{count} ranks of {threads or 1} threads are more than the {len(layout.usable)} usable CPUs.")
    return tuple(notes)


def _odd_cpus(layout: Layout) -> Iterator[str]:
    if layout.doubled:
        doubled = layout.doubled.as_list()
        yield f"The firmware puts CPUs {doubled} on several NUMA nodes: each counts for the first of them."
    without_node = layout.without_node & layout.usable
    if without_node:
        yield f"CPUs {without_node.as_list()} are on no NUMA node, and get no rank."
