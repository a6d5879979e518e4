# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wrong with a rank by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..machine.cpuset import CpuSet, CpuSetError
from .finding import Finding
from .layout import Layout
from .rank import Rank

_FAR_SHARE = 0.1
"""Memory on other nodes below this share of the whole is the usual dust of libraries and buffers."""
_FAR_MIB = 256
"""And below this amount it does not matter whatever the share."""


def is_unpinned(rank: Rank, layout: Layout) -> bool:
    """Whether a rank may run everywhere on a machine where that makes a difference."""
    return len(layout.usable_nodes) > 1 and rank.cpus >= layout.usable


def judge_rank(rank: Rank, layout: Layout, rank_count: int) -> Iterator[Finding]:
    """Yield what is wrong with a rank by itself, out of ``rank_count`` on the machine."""
    nodes = layout.nodes_of(rank.cpus)
    yield from _judge_mask(rank, layout, rank_count, nodes)
    # Of CPUs that are on no NUMA node, nothing is known to be far: judge_layout names these CPUs.
    if nodes and not is_unpinned(rank, layout):
        yield from _judge_gpu(rank, layout, nodes)
        yield from _judge_hcas(rank, layout, nodes)
    yield from _judge_threads(rank)
    if nodes:
        yield from _judge_memory(rank, layout, nodes)


def name_of(rank: Rank) -> str:
    """Return what a sentence calls a rank."""
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
        yield _finding("unpinned", rank, text, "Start it with one of the lines advised.")
    elif len(nodes) > 1:
        few = rank_count < len(layout.usable_nodes)
        yield _finding(
            "spans_nodes_few_ranks" if few else "spans_nodes",
            rank,
            f"may run on NUMA nodes {nodes.as_list()} (CPUs {rank.cpus.as_list()}).",
            "Give each NUMA node at least one rank." if few else "Give it CPUs of one NUMA node.",
        )
    if rank.offline:
        text = f"was given CPUs that are offline: {rank.offline.as_list()}."
        yield _finding("offline_cpu", rank, text, "Write masks of online CPUs only.", rank.offline)
    if rank.stray:
        cpus = CpuSet(cpu for thread in rank.stray for cpu in thread.cpus & layout.online)
        text = f"has {len(rank.stray)} threads that may run outside its CPUs {rank.cpus.as_list()}."
        action = "Look for a library that sets its threads' affinity; NCCL does with NCCL_IGNORE_CPU_AFFINITY=1."
        yield _finding("thread_outside_mask", rank, text, action, cpus - rank.cpus)


def _judge_gpu(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    gpus = [layout.gpus[index] for index in rank.gpus or ()]
    near = CpuSet(gpu.node for gpu in gpus if gpu.node is not None)
    # Near one of several is as near as a rank on one NUMA node can be.
    if near and not near & nodes:
        names, which = ", ".join(gpu.name for gpu in gpus), "GPUs" if len(gpus) > 1 else "GPU"
        assumed = " (as its environment says)" if rank.gpus_assumed else ""
        yield _finding(
            "far_from_assumed_gpu" if rank.gpus_assumed else "far_from_gpu",
            rank,
            f"runs on NUMA node {nodes.as_list()}, its {which} {names}{assumed} on {near.as_list()}.",
            f"Give it CPUs of NUMA node {near.as_list()}, or another GPU.",
            gpus=rank.gpus or (),
        )


def _judge_hcas(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    opened = [hca for hca in layout.hcas if hca.name in (rank.hcas or ())]
    near = CpuSet(hca.node for hca in opened if hca.node is not None)
    if near and not near & nodes:
        names = ", ".join(hca.name for hca in opened)
        text = f"runs on NUMA node {nodes.as_list()}, the adapters it has open ({names}) are on {near.as_list()}."
        action = "Let UCX and NCCL choose the adapter, or name one of the rank's own NUMA node."
        yield _finding("far_from_hca", rank, text, action)


def _judge_threads(rank: Rank) -> Iterator[Finding]:
    threads, cpus = len(rank.threads), len(rank.cpus)
    busy = sum(thread.state == "R" for thread in rank.threads)
    if busy > cpus:
        text = f"has {busy} threads that want to run, on {cpus} CPUs ({rank.cpus.as_list()})."
        action = "Set OMP_NUM_THREADS (and the number of data loader workers) to its CPUs, or give it more."
        yield _finding("busy_threads_exceed_cpus", rank, text, action)
    elif threads > cpus:
        text = f"has {threads} threads on {cpus} CPUs, of which {busy} want to run."
        yield _finding("threads_exceed_cpus", rank, text, "")


def _judge_memory(rank: Rank, layout: Layout, nodes: CpuSet) -> Iterator[Finding]:
    if rank.memory_nodes is not None and not rank.memory_nodes & nodes:
        text = f"runs on NUMA node {nodes.as_list()} and may take memory from {rank.memory_nodes.as_list()} only."
        yield _finding("memory_not_allowed", rank, text, "Let cpuset.mems hold the nodes of cpuset.cpus.")
    if rank.memory is None or is_unpinned(rank, layout):
        return
    # A node without CPUs (HBM, CXL, a GPU's memory) is nobody's far node: somebody chose it.
    far = {node: mib for node, mib in rank.memory.mib_by_node.items() if node in layout.nodes and node not in nodes}
    amount, whole = sum(far.values()), sum(rank.memory.mib_by_node.values())
    if amount >= _FAR_MIB and amount > whole * _FAR_SHARE:
        text = (
            f"has {amount:.0f} of {whole:.0f} MiB on NUMA node {CpuSet(far).as_list()}, and runs on {nodes.as_list()}."
        )
        yield _finding("memory_far", rank, text, "Pin it before it allocates: memory stays where it was touched first.")
    foreign = [policy for policy in rank.memory.policies if _leads_away(policy, nodes, layout.nodes)]
    if foreign:
        text = f"runs on NUMA node {nodes.as_list()} with memory policy {', '.join(foreign)}."
        yield _finding("memory_policy", rank, text, "Leave the policy at its default (numactl --localalloc).")


def _leads_away(policy: str, nodes: CpuSet, with_cpus: Mapping[int, CpuSet]) -> bool:
    """Whether ``bind:0``, ``prefer:1``, ``interleave:0-3`` names a node with CPUs that is not one of ``nodes``."""
    try:
        named = CpuSet.parse_list(policy.rpartition(":")[2]) if ":" in policy else CpuSet()
    except CpuSetError:
        return False
    return any(node in with_cpus and node not in nodes for node in named)
