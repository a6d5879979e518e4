# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Finds problems of a single rank, between the ranks of a job, and between the ranks and the machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..machine.cpuset import EMPTY, CpuSet, CpuSetError
from .finding import Finding
from .layout import Layout
from .rank import GpuUse, Rank

_FAR_SHARE = 0.1
"""A smaller share of memory on other nodes is normal: it is from libraries and buffers."""
_FAR_MIB = 256
"""A smaller amount on other nodes does not matter, whatever the share is."""


def is_unpinned(rank: Rank, layout: Layout) -> bool:
    """Whether a rank may run on all CPUs of a machine with several NUMA nodes."""
    return len(layout.usable_nodes) > 1 and rank.cpus >= layout.usable


def judge_rank(rank: Rank, layout: Layout, rank_count: int) -> Iterator[Finding]:
    """Yield the problems of one of ``rank_count`` ranks on the machine."""
    nodes = layout.nodes_of(rank.cpus)
    yield from _judge_mask(rank, layout, rank_count, nodes)
    # For CPUs on no NUMA node, distances are unknown: judge_layout reports these CPUs.
    if nodes and not is_unpinned(rank, layout):
        yield from _judge_gpu(rank, layout, nodes)
        yield from _judge_hcas(rank, layout, nodes)
    yield from _judge_threads(rank)
    if nodes:
        yield from _judge_memory(rank, layout, nodes)


def name_of(rank: Rank) -> str:
    """Return a rank's name in sentences."""
    return f"rank {rank.label}" if rank.number is not None else rank.label


def _finding(
    code: str, rank: Rank, text: str, action: str, cpus: CpuSet | None = None, gpus: tuple[int, ...] = ()
) -> Finding:
    sentence = f"{name_of(rank)} {text}"
    return Finding(
        code,
        sentence[0].upper() + sentence[1:],
        action,
        ranks=(rank.label,),
        pids=rank.pids,
        cpus=rank.cpus if cpus is None else cpus,
        gpus=CpuSet(gpus),
    )


def _judge_mask(rank: Rank, layout: Layout, rank_count: int, nodes: CpuSet) -> Iterator[Finding]:
    if is_unpinned(rank, layout):
        last = layout.nodes_of(CpuSet(thread.last_cpu for thread in rank.threads))
        text = f"may run on all CPUs ({rank.cpus.as_list()}); its threads last ran on NUMA nodes {last.as_list()}."
        yield _finding("unpinned", rank, text, "Start it with the recommended launch line.")
    elif len(nodes) > 1:
        few = rank_count < len(layout.usable_nodes)
        yield _finding(
            "spans_nodes_few_ranks" if few else "spans_nodes",
            rank,
            f"may run on NUMA nodes {nodes.as_list()} (CPUs {rank.cpus.as_list()}).",
            "Start at least one rank per NUMA node." if few else "Give it CPUs of one NUMA node.",
        )
    if rank.offline:
        text = f"has offline CPUs in its mask: {rank.offline.as_list()}."
        yield _finding("offline_cpu", rank, text, "Use only online CPUs in masks.", rank.offline)
    if rank.stray:
        cpus = CpuSet(cpu for thread in rank.stray for cpu in thread.cpus & layout.online)
        text = f"has {len(rank.stray)} threads that may run outside its CPUs {rank.cpus.as_list()}."
        action = "Find the library that sets its threads' affinity; NCCL does with NCCL_IGNORE_CPU_AFFINITY=1."
        yield _finding("thread_outside_mask", rank, text, action, cpus - rank.cpus)


def _judge_gpu(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    gpus = [layout.gpus[index] for index in rank.gpus or ()]
    near = CpuSet(gpu.node for gpu in gpus if gpu.node is not None)
    # It is enough to be near one of its GPUs, because a rank on one NUMA node cannot be near all.
    if near and not near & nodes:
        names, which = ", ".join(gpu.name for gpu in gpus), "GPUs" if len(gpus) > 1 else "GPU"
        assumed = " (according to its environment)" if rank.gpus_assumed else ""
        yield _finding(
            "far_from_assumed_gpu" if rank.gpus_assumed else "far_from_gpu",
            rank,
            f"runs on NUMA node {nodes.as_list()}, far from its {which} {names}{assumed} on {near.as_list()}.",
            f"Give it CPUs of NUMA node {near.as_list()}, or another GPU.",
            gpus=rank.gpus or (),
        )


def _judge_hcas(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    opened = [hca for hca in layout.hcas if hca.name in (rank.hcas or ())]
    near = CpuSet(hca.node for hca in opened if hca.node is not None)
    if near and not near & nodes:
        names = ", ".join(hca.name for hca in opened)
        text = f"runs on NUMA node {nodes.as_list()}, but the adapters it has open ({names}) are on {near.as_list()}."
        action = "Let UCX and NCCL choose the adapter, or select one on the rank's own NUMA node."
        yield _finding("far_from_hca", rank, text, action)


def _judge_threads(rank: Rank) -> Iterator[Finding]:
    threads, cpus = len(rank.threads), len(rank.cpus)
    busy = sum(thread.state == "R" for thread in rank.threads)
    if busy > cpus:
        text = f"has {busy} runnable threads on {cpus} CPUs ({rank.cpus.as_list()})."
        action = "Set OMP_NUM_THREADS (and the number of data loader workers) to its number of CPUs, or add CPUs."
        yield _finding("busy_threads_exceed_cpus", rank, text, action)
    elif threads > cpus:
        text = f"has {threads} threads on {cpus} CPUs; {busy} of them are runnable."
        yield _finding("threads_exceed_cpus", rank, text, "")


def _judge_memory(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    if rank.memory_nodes is not None and not rank.memory_nodes & nodes:
        text = f"runs on NUMA node {nodes.as_list()}, but may allocate memory only on {rank.memory_nodes.as_list()}."
        yield _finding("memory_not_allowed", rank, text, "Set cpuset.mems to the nodes of cpuset.cpus.")
    if rank.memory is None or is_unpinned(rank, layout):
        return
    # Ignore nodes without CPUs (HBM, CXL, a GPU's memory): memory there was requested explicitly.
    far = {node: mib for node, mib in rank.memory.mib_by_node.items() if node in layout.nodes and node not in nodes}
    amount, total = sum(far.values()), sum(rank.memory.mib_by_node.values())
    if amount >= _FAR_MIB and amount > total * _FAR_SHARE:
        text = (
            f"has {amount:.0f} of {total:.0f} MiB on NUMA node {CpuSet(far).as_list()}, but runs on {nodes.as_list()}."
        )
        yield _finding(
            "memory_far", rank, text, "Pin it before it allocates: pages stay where they are first accessed."
        )
    foreign = [policy for policy in rank.memory.policies if _leads_away(policy, nodes, layout.nodes)]
    if foreign:
        text = f"runs on NUMA node {nodes.as_list()} with memory policy {', '.join(foreign)}."
        yield _finding("memory_policy", rank, text, "Leave the policy at its default (numactl --localalloc).")


def _leads_away(policy: str, nodes: CpuSet, with_cpus: Mapping[int, CpuSet]) -> bool:
    """Whether a policy such as ``bind:0``, ``prefer:1``, ``interleave:0-3`` names a node with CPUs not in ``nodes``."""
    try:
        named = CpuSet.parse_list(policy.rpartition(":")[2]) if ":" in policy else CpuSet()
    except CpuSetError:
        return False
    return any(node in with_cpus and node not in nodes for node in named)


def judge_job(ranks: Sequence[Rank], layout: Layout, gpu_use: GpuUse | None) -> Iterator[Finding]:
    """Yield the problems between the ranks of a job.

    :param gpu_use: which process of the machine uses which GPUs; None if the driver does not report it.
    """
    # An unpinned rank shares CPUs with all others: it has its own finding, so leave it out here.
    pinned = [rank for rank in ranks if not is_unpinned(rank, layout)]
    yield from _judge_sharing(pinned, layout)
    if len(pinned) == len(ranks):
        yield from _judge_spread(ranks, layout)
    yield from _judge_gpus(ranks, layout, gpu_use)


def judge_layout(layout: Layout) -> Iterator[Finding]:
    """Yield findings about the machine itself."""
    if len(layout.nodes) > 1:
        for kind, devices in (("GPU", layout.gpus), ("adapter", layout.hcas)):
            lost = [device for device in devices if device.node is None]
            if lost:
                names = ", ".join(f"{device.name} ({device.busid})" for device in lost)
                yield Finding(
                    "locality_unknown",
                    f"The firmware does not report the NUMA node of {kind} {names}.",
                    "Compare with the table of the VM size (vm_size); its ranks are spread over the nodes.",
                    gpus=CpuSet(int(device.name) for device in lost if kind == "GPU"),
                )
    if layout.doubled:
        yield Finding(
            "cpus_on_several_nodes",
            f"The firmware lists CPUs {layout.doubled.as_list()} on several NUMA nodes.",
            "Each counts for the first of these nodes: compare with the table of the VM size (vm_size).",
            cpus=layout.doubled,
        )
    if layout.without_node:
        yield Finding(
            "cpus_without_node",
            f"CPUs {layout.without_node.as_list()} are on no NUMA node.",
            "Do not use them in masks: their nearest memory is unknown. Check whether a NUMA node is offline.",
            cpus=layout.without_node,
        )
    missing = layout.online - layout.usable
    if missing:
        yield Finding(
            "cpus_restricted",
            f"The control group allows CPUs {layout.usable.as_list() or 'none'} of {layout.online.as_list()}.",
            "Request whole nodes (sbatch --exclusive) if ranks need a complete NUMA node.",
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
            action = "This is normal with whole_domain masks; with disjoint masks the ranks do not share CPUs."
            yield _of_group("shared_domain", group, layout, union, text, action)
        else:
            counts = Counter(cpu for rank in group for cpu in rank.cpus)
            common = CpuSet(cpu for cpu, count in counts.items() if count > 1)
            text = f"{_who(group)} share CPUs {common.as_list()}."
            yield _of_group("overlap", group, layout, common, text, "Start them with the recommended launch line.")
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
    # With one rank per GPU, ranks should be distributed like the GPUs, otherwise like the CPUs.
    by_gpus = len(ranks) == len(layout.gpus) and sum(gpus.values()) == len(layout.gpus)
    shares: Mapping[int, int] = gpus if by_gpus else {node: len(cpus) for node, cpus in usable.items()}
    with_ranks = [node for node in usable if counts[node]]
    total_share = sum(shares.get(node, 0) for node in with_ranks) or 1
    total = sum(counts[node] for node in with_ranks)
    expected = {node: total * shares.get(node, 0) / total_share for node in with_ranks}
    if any(not math.floor(expected[node]) <= counts[node] <= math.ceil(expected[node]) for node in with_ranks):
        have = ", ".join(f"{counts[node]} on node {node}" for node in with_ranks)
        yield Finding(
            "uneven_spread",
            f"The ranks are spread unevenly over the NUMA nodes: {have}.",
            f"Spread them in proportion to the {'GPUs' if by_gpus else 'CPUs'}.",
            nodes=CpuSet(with_ranks),
        )


def _judge_gpus(ranks: Sequence[Rank], layout: Layout, gpu_use: GpuUse | None) -> Iterator[Finding]:
    users: dict[int, list[Rank]] = {}
    for rank in ranks:
        for index in rank.gpus or ():
            users.setdefault(index, []).append(rank)
    for index, group in sorted(users.items()):
        if len(group) > 1:
            assumed = " (according to their environment)" if any(rank.gpus_assumed for rank in group) else ""
            text = f"{_who(group)} use GPU {index}{assumed}."
            action = "Give each rank its own GPU, unless they share it intentionally with MPS or MIG."
            yield _of_group("gpu_shared", group, layout, EMPTY, text, action, CpuSet({index}))
    blind = [rank for rank in ranks if rank.gpus is None and layout.gpus]
    if blind:
        text = f"{_who(blind)} may use GPUs, but the driver (NVML) does not report which."
        action = "Run this on the node itself, as root."
        yield _of_group("use_unknown", blind, layout, EMPTY, text, action)
    if gpu_use is None or not users:
        # Without the driver's report it is unknown whether a GPU is idle.
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
        text = f"{_who(without)}: no GPU in use, though other ranks use one."
        yield _of_group("rank_without_gpu", without, layout, EMPTY, text, "Check CUDA_VISIBLE_DEVICES of these ranks.")


def _groups(owned: Sequence[tuple[Rank, set[int]]]) -> list[list[Rank]]:
    """Return groups of ranks that share something, directly or through others, without ranks that share nothing."""
    # One pass over the shared things instead of all pairs of ranks, of which there may be thousands.
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
    # Ranks of two jobs on one machine may have the same numbers: then use process ids.
    if len(numbers) == len(ranks):
        return f"Ranks {numbers.as_list()}" if len(ranks) > 1 else f"Rank {numbers.as_list()}"
    return f"Processes {', '.join(str(rank.pids[0]) for rank in ranks)}"
