# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Recommends for each rank of a node its GPUs, its NUMA node and its CPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..machine.cpuset import CpuSet
from .layout import Device, Layout

DISJOINT, WHOLE_DOMAIN = MASKS = ("disjoint", "whole_domain")
"""disjoint: each rank has its own CPUs; whole_domain: the ranks of a NUMA node share all its CPUs."""


class AdviceError(ValueError):
    """The requested ranks or threads do not fit on the machine; the message says what would fit."""


@dataclass(frozen=True)
class Placement:
    """Where one rank runs.

    :ivar rank: its number within the node.
    :ivar gpus: indices of its GPUs; empty on a machine without GPUs.
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

    :ivar layout: of the machine.
    :ivar masks: one of ``MASKS``.
    :ivar threads_per_rank: threads that each rank will have; None if the user gave no number.
    :ivar placements: by rank; if there are as many ranks as GPUs, rank i uses GPU i.
    :ivar notes: for the user, one sentence each.
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

    A rank is placed on the NUMA node of its GPU. Without GPUs, or if the firmware does not report their NUMA nodes,
    ranks are placed on the nodes with the most CPUs per rank. With disjoint masks, each rank of a NUMA node gets an
    equal number of whole, consecutive cores; remaining cores are left to the system.

    :param ranks_per_node: by default one for each GPU, or one for each NUMA node if there is no GPU.
    :param threads_per_rank: with disjoint masks, a rank gets this many cores instead of its whole share, or this many
        hardware threads if its share has fewer cores.
    :raises AdviceError: the ranks or threads do not fit.
    """
    usable = layout.usable_nodes
    if not usable and layout.usable:
        raise AdviceError(f"The usable CPUs, {layout.usable.as_list()}, are on no NUMA node.")
    if not usable:
        raise AdviceError("None of the online CPUs is usable: check the control group's cpuset.")
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
    """Check the user's numbers.

    :raises AdviceError: a number is less than 1.
    """
    for name, number in (("ranks_per_node", ranks_per_node), ("threads_per_rank", threads_per_rank)):
        if number is not None and number < 1:
            raise AdviceError(f"{name} must be at least 1, not {number}.")


def _share_gpus(gpus: Sequence[Device], ranks: int) -> list[tuple[Device, ...]]:
    """Return consecutive GPUs for each rank; if there are fewer GPUs than ranks, consecutive ranks share a GPU."""
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
        # The node with most of its GPUs; the first one if several have the same number.
        node = max(near, key=near.count) if near else None
        node = layout.nearest_usable(node) if node is not None else None
        chosen.append(node)
        if node is not None:
            load[node] += 1
    # Place the rest on nodes with the most CPUs per rank, then sort, so that consecutive ranks are close.
    loose = chosen.count(None)
    dealt = []
    for _turn in range(loose):
        node = min(usable, key=lambda node: ((load[node] + 1) / len(usable[node]), node))
        load[node] += 1
        dealt.append(node)
    rest = iter(sorted(dealt))
    return [next(rest) if node is None else node for node in chosen]


def _split(layout: Layout, node: int, ranks: int) -> list[CpuSet]:
    """Divide the cores of a NUMA node into equal runs of consecutive cores."""
    cores = layout.cores_of(layout.usable_nodes[node])
    if ranks > len(cores):
        total = sum(len(layout.cores_of(cpus)) for cpus in layout.usable_nodes.values())
        raise AdviceError(
            f"{ranks} ranks on NUMA node {node} cannot have one core each: it has {len(cores)} usable cores "
            f"(the machine {total}). Use fewer ranks_per_node, or masks=whole_domain, with which ranks share CPUs."
        )
    each = len(cores) // ranks if ranks else 0
    return [_union(cores[index * each : (index + 1) * each]) for index in range(ranks)]


def _limit(layout: Layout, node: int, mask: CpuSet, threads: int) -> CpuSet:
    """Return as many cores as threads; if the share has fewer cores, all of them, whose hardware threads suffice."""
    cores = layout.cores_of(mask)
    if threads > len(mask):
        raise AdviceError(
            f"{threads} threads per rank do not fit: each rank has {len(mask)} CPUs of NUMA node {node}. "
            f"Use at most {len(mask)} threads_per_rank, fewer ranks_per_node, or masks=whole_domain."
        )
    return _union(cores[:threads])


def _union(sets: Sequence[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)


def _notes(layout: Layout, placements: Sequence[Placement], masks: str, threads: int | None) -> tuple[str, ...]:
    notes, count, gpus = [], len(placements), len(layout.gpus)
    if gpus and count % gpus and gpus % count:
        notes.append(f"{count} ranks and {gpus} GPUs do not divide evenly: some ranks or GPUs have a higher load.")
    if gpus and count > gpus:
        notes.append(f"There are {count} ranks for {gpus} GPUs: ranks share GPUs, which needs MPS or MIG to run well.")
    for placement in placements:
        nodes = {layout.gpus[index].node for index in placement.gpus}
        if len(nodes) > 1:
            notes.append(f"Rank {placement.rank} has GPUs on several NUMA nodes; it runs near most of them.")
        away = sorted(node for node in nodes if node is not None and node not in layout.usable_nodes)
        if away:
            names = ", ".join(map(str, away))
            notes.append(f"Rank {placement.rank}: its GPU's NUMA node {names} has no usable CPU; the nearest is used.")
    if any(gpu.node is None for gpu in layout.gpus):
        notes.append("The firmware does not report the NUMA node of some GPUs: their ranks are spread over the nodes.")
    idle = [node for node in layout.usable_nodes if node not in {placement.node for placement in placements}]
    if idle:
        names = CpuSet(idle).as_list()
        notes.append(f"NUMA node {names} has no rank: this job does not use its memory and CPUs.")
    if masks == DISJOINT and threads is None:
        unused = sum(len(cpus) for cpus in layout.usable_nodes.values()) - len(_union([p.cpus for p in placements]))
        idle_cpus = sum(len(layout.usable_nodes[node]) for node in idle)
        if unused > idle_cpus:
            notes.append(f"{unused - idle_cpus} CPUs do not divide evenly and are left to the system.")
    if masks == WHOLE_DOMAIN and math.ceil(count * (threads or 1)) > len(layout.usable):
        notes.append(f"{count} ranks with {threads or 1} threads need more than the {len(layout.usable)} usable CPUs.")
    return tuple(notes)


def _odd_cpus(layout: Layout) -> Iterator[str]:
    if layout.doubled:
        doubled = layout.doubled.as_list()
        yield f"The firmware lists CPUs {doubled} on several NUMA nodes: each counts for the first of them."
    without_node = layout.without_node & layout.usable
    if without_node:
        yield f"CPUs {without_node.as_list()} are on no NUMA node, so they get no rank."
