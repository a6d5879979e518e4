# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wrong between ranks, and between the ranks and the machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..machine.cpuset import EMPTY, CpuSet
from .finding import Finding
from .judge_rank import is_unpinned
from .layout import Layout
from .rank import GpuUse, Rank


def judge_together(ranks: Sequence[Rank], layout: Layout, gpu_use: GpuUse | None) -> Iterator[Finding]:
    """Yield what is wrong with ranks as a whole.

    :param gpu_use: which process of the machine uses which GPUs; None where the driver cannot tell.
    """
    # A rank that was never pinned shares everything with everybody: that is said of it once, by itself.
    pinned = [rank for rank in ranks if not is_unpinned(rank, layout)]
    yield from _judge_sharing(pinned, layout)
    if len(pinned) == len(ranks):
        yield from _judge_spread(ranks, layout)
    yield from _judge_gpus(ranks, layout, gpu_use)


def judge_layout(layout: Layout) -> Iterator[Finding]:
    """Yield what is to be known of the machine before pinning to it."""
    if len(layout.nodes) > 1:
        for kind, devices in (("GPU", layout.gpus), ("adapter", layout.hcas)):
            lost = [device for device in devices if device.node is None]
            if lost:
                names = ", ".join(f"{device.name} ({device.busid})" for device in lost)
                yield Finding(
                    "locality_unknown",
                    f"The firmware does not say on which NUMA node {kind} {names} is.",
                    "Compare with the table of the VM size (vm_size); ranks on it are spread over the nodes.",
                    gpus=CpuSet(int(device.name) for device in lost if kind == "GPU"),
                )
    if layout.doubled:
        yield Finding(
            "cpus_on_several_nodes",
            f"The firmware puts CPUs {layout.doubled.as_list()} on several NUMA nodes.",
            "Each is taken for one of the first of these nodes: compare with the table of the VM size (vm_size).",
            cpus=layout.doubled,
        )
    if layout.without_node:
        yield Finding(
            "cpus_without_node",
            f"CPUs {layout.without_node.as_list()} are on no NUMA node.",
            "Leave them out of masks: where their memory is, is not known. Is a NUMA node offline?",
            cpus=layout.without_node,
        )
    missing = layout.online - layout.usable
    if missing:
        yield Finding(
            "cpus_restricted",
            f"The control group allows CPUs {layout.usable.as_list() or 'none'} of {layout.online.as_list()}.",
            "Ask for whole nodes (sbatch --exclusive) where ranks need all of a NUMA node.",
            cpus=missing,
            nodes=layout.nodes_of(missing),
        )


def _judge_sharing(ranks: Sequence[Rank], layout: Layout) -> Iterator[Finding]:
    domains = set(layout.usable_nodes.values())
    for group in _groups([(rank, set(rank.cpus)) for rank in ranks]):
        masks = {rank.cpus for rank in group}
        (shared, *_more) = masks
        union = CpuSet(cpu for mask in masks for cpu in mask)
        if len(masks) == 1 and shared in domains:
            text = f"{_who(group)} share all of NUMA node {layout.nodes_of(union).as_list()}."
            action = "This is what whole_domain masks do; disjoint masks keep the ranks from moving onto each other."
            yield _of_group("shared_domain", group, layout, union, text, action)
        else:
            counts = Counter(cpu for rank in group for cpu in rank.cpus)
            common = CpuSet(cpu for cpu, count in counts.items() if count > 1)
            text = f"{_who(group)} share CPUs {common.as_list()}."
            yield _of_group("overlap", group, layout, common, text, "Start them with one of the lines advised.")
    by_cpu = [(rank, set(rank.cpus)) for rank in ranks]
    together = {_ids(group) for group in _groups(by_cpu)}
    by_core = [(rank, {min(layout.siblings.get(cpu, {cpu})) for cpu in cpus}) for rank, cpus in by_cpu]
    for group in _groups(by_core):
        ids = _ids(group)
        if ids in together:
            continue
        owners = Counter(core for rank, cores in by_core if rank.pids[0] in ids for core in cores)
        cores = CpuSet(core for core, count in owners.items() if count > 1)
        text = f"{_who(group)} have hardware threads of the same cores (of CPUs {cores.as_list()})."
        yield _of_group("shared_core", group, layout, cores, text, "Give each rank whole cores.")


def _judge_spread(ranks: Sequence[Rank], layout: Layout) -> Iterator[Finding]:
    usable = layout.usable_nodes
    if len(usable) < 2 or len(ranks) < len(usable):
        return
    counts = Counter(node for rank in ranks for node in layout.nodes_of(rank.cpus))
    gpus = Counter(gpu.node for gpu in layout.gpus if gpu.node is not None)
    for node in usable:
        if not counts[node]:
            with_gpus = CpuSet(int(gpu.name) for gpu in layout.gpus if gpu.node == node)
            has = f", which has GPUs {with_gpus.as_list()}" if with_gpus else ""
            yield Finding(
                "idle_node",
                f"NUMA node {node} has no rank{has}.",
                "Spread the ranks over all NUMA nodes.",
                cpus=usable[node],
                nodes=CpuSet({node}),
                gpus=with_gpus,
            )
    # A rank for each GPU goes where the GPUs are; otherwise CPUs are what ranks compete for.
    by_gpus = len(ranks) == len(layout.gpus) and sum(gpus.values()) == len(layout.gpus)
    shares: Mapping[int, int] = gpus if by_gpus else {node: len(cpus) for node, cpus in usable.items()}
    with_ranks = [node for node in usable if counts[node]]
    whole = sum(shares.get(node, 0) for node in with_ranks) or 1
    total = sum(counts[node] for node in with_ranks)
    wanted = {node: total * shares.get(node, 0) / whole for node in with_ranks}
    if any(not math.floor(wanted[node]) <= counts[node] <= math.ceil(wanted[node]) for node in with_ranks):
        have = ", ".join(f"{counts[node]} on node {node}" for node in with_ranks)
        yield Finding(
            "uneven_spread",
            f"The ranks are spread unevenly over the NUMA nodes: {have}.",
            f"Put them there in proportion to the {'GPUs' if by_gpus else 'CPUs'}.",
            nodes=CpuSet(with_ranks),
        )


def _judge_gpus(ranks: Sequence[Rank], layout: Layout, gpu_use: GpuUse | None) -> Iterator[Finding]:
    users: dict[int, list[Rank]] = {}
    for rank in ranks:
        for index in rank.gpus or ():
            users.setdefault(index, []).append(rank)
    for index, group in sorted(users.items()):
        if len(group) > 1:
            assumed = " (as their environment says)" if any(rank.gpus_assumed for rank in group) else ""
            text = f"{_who(group)} use GPU {index}{assumed}."
            action = "Give each rank a GPU of its own, unless they share it on purpose through MPS or MIG."
            yield _of_group("gpu_shared", group, layout, EMPTY, text, action, CpuSet({index}))
    blind = [rank for rank in ranks if rank.gpus is None and layout.gpus]
    if blind:
        text = f"{_who(blind)} may use GPUs: which, the driver (NVML) does not say."
        action = "Run this on the node itself, as root, with nvidia-ml-py."
        yield _of_group("use_unknown", blind, layout, EMPTY, text, action)
    if gpu_use is None or not users:
        # Without the driver's word nothing can be said of a GPU that nobody is seen on.
        return
    busy = {busid for busids in gpu_use.values() for busid in busids}
    idle = [gpu for gpu in layout.gpus if gpu.busid not in busy]
    if idle:
        numbers = CpuSet(int(gpu.name) for gpu in idle)
        yield Finding(
            "gpu_idle",
            f"No process uses GPUs {numbers.as_list()}.",
            "Start a rank for each GPU of the node.",
            nodes=CpuSet(gpu.node for gpu in idle if gpu.node is not None),
            gpus=numbers,
        )
    without = [rank for rank in ranks if rank.gpus == ()]
    if without:
        text = f"{_who(without)} have no GPU, though others have."
        yield _of_group("rank_without_gpu", without, layout, EMPTY, text, "Check CUDA_VISIBLE_DEVICES of these ranks.")


def _groups(owned: Sequence[tuple[Rank, set[int]]]) -> list[list[Rank]]:
    """Ranks that have something in common, directly or through others; those that have nothing are left out."""
    # One pass over what is owned, not over pairs of ranks: there may be a hundred of them.
    leader = list(range(len(owned)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    first_owner: dict[int, int] = {}
    for index, (_rank, things) in enumerate(owned):
        for thing in things:
            leader[find(index)] = find(first_owner.setdefault(thing, index))
    groups: dict[int, list[Rank]] = {}
    for index, (rank, _things) in enumerate(owned):
        groups.setdefault(find(index), []).append(rank)
    return [group for group in groups.values() if len(group) > 1]


def _ids(ranks: Sequence[Rank]) -> frozenset[int]:
    return frozenset(rank.pids[0] for rank in ranks)


def _of_group(
    code: str,
    group: Sequence[Rank],
    layout: Layout,
    cpus: CpuSet,
    text: str,
    action: str,
    gpus: CpuSet = EMPTY,
) -> Finding:
    return Finding(
        code,
        text,
        action,
        ranks=tuple(rank.label for rank in group),
        pids=tuple(pid for rank in group for pid in rank.pids),
        cpus=cpus,
        nodes=layout.nodes_of(cpus),
        gpus=gpus,
    )


def _who(ranks: Sequence[Rank]) -> str:
    numbers = CpuSet(rank.number for rank in ranks if rank.number is not None)
    # Two jobs on one machine have the same numbers: then these do not tell who is meant.
    if len(numbers) == len(ranks):
        return f"Ranks {numbers.as_list()}" if len(ranks) > 1 else f"Rank {numbers.as_list()}"
    return f"Processes {', '.join(str(rank.pids[0]) for rank in ranks)}"
