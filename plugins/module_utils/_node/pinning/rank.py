# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Groups processes into ranks, and finds the CPUs on which their threads may run, and the devices that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..machine.cpuset import EMPTY, CpuSet
from ..machine.proc import (
    MemoryFacts,
    Process,
    ThreadFacts,
    read_environment,
    read_memory,
    read_memory_nodes,
    read_open_files,
    read_threads,
)
from ..machine.root import Root
from .layout import Layout

GpuUse = Mapping[int, tuple[str, ...]]
"""The PCI addresses of the GPUs that each compute process uses, by process id, as the driver reports them."""

# Variables with the rank within the node. The innermost launcher comes first: torchrun and mpirun may run below srun.
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
_SLURM_LOCAL_RANK, _SLURM_STEP = "SLURM_LOCALID", ("SLURM_STEP_ID", "SLURM_STEPID")
_VISIBLE_GPUS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# With these, OpenMP binds each thread to its own place, including the main thread.
_THREAD_BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_NAMES = frozenset((*_LOCAL_RANK, _SLURM_LOCAL_RANK, *_SLURM_STEP, *_VISIBLE_GPUS, *_THREAD_BINDING))
_INFINIBAND, _VERBS = "/dev/infiniband", "/sys/class/infiniband_verbs"


@dataclass(frozen=True)
class Member:
    """A process with its threads: of a rank, or a launcher or shell.

    :ivar threads: its threads, the main thread first.
    :ivar local_rank: its rank within the node; None if its environment has none.
    :ivar visible_gpus: ``CUDA_VISIBLE_DEVICES`` of its environment, or AMD's equivalent; None if it is not set.
    :ivar binds_threads: whether its environment tells OpenMP to bind each thread.
    :ivar hcas: names of the InfiniBand adapters that it has open; None if that cannot be read.
    """

    process: Process
    threads: tuple[ThreadFacts, ...]
    local_rank: int | None = None
    visible_gpus: str | None = None
    binds_threads: bool = False
    hcas: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Rank:
    """The processes of a rank: a program, the shell that started it, and its workers.

    :ivar label: its number within the node, else the process id.
    :ivar number: its number within the node; None if no launcher set one.
    :ivar members: its processes, the topmost first.
    :ivar cpus: online CPUs in its mask.
    :ivar offline: offline CPUs in its mask.
    :ivar stray: threads that may run on other CPUs.
    :ivar gpus: indices of its GPUs; None if unknown.
    :ivar gpus_assumed: whether the GPUs are from the environment, because the driver did not report them.
    :ivar hcas: names of the InfiniBand adapters that it has open; None if unknown.
    :ivar memory_nodes: NUMA nodes on which it may allocate memory; None if unknown.
    :ivar memory: the NUMA nodes of its memory; None if they were not read.
    """

    label: str
    number: int | None
    members: tuple[Member, ...]
    cpus: CpuSet
    offline: CpuSet = EMPTY
    stray: tuple[ThreadFacts, ...] = ()
    gpus: tuple[int, ...] | None = None
    gpus_assumed: bool = False
    hcas: tuple[str, ...] | None = None
    memory_nodes: CpuSet | None = None
    memory: MemoryFacts | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes."""
        return tuple(member.process.pid for member in self.members)

    @property
    def threads(self) -> tuple[ThreadFacts, ...]:
        """All threads of all its processes."""
        return tuple(thread for member in self.members for thread in member.threads)


def read_members(root: Root, processes: Sequence[Process], layout: Layout) -> tuple[Member, ...]:
    """Read the threads and the environment of processes; those that have ended are left out."""
    verbs = _adapters_by_file(root) if layout.hcas else {}
    members = []
    for process in processes:
        threads = read_threads(root, process.pid)
        if not threads:
            continue
        environment = read_environment(root, process.pid, _NAMES) or {}
        opened = read_open_files(root, process.pid, _INFINIBAND) if verbs else None
        members.append(
            Member(
                process,
                threads,
                local_rank=_local_rank(environment),
                visible_gpus=next((environment[name] for name in _VISIBLE_GPUS if name in environment), None),
                binds_threads=any(environment.get(name, "false").lower() != "false" for name in _THREAD_BINDING),
                hcas=None if opened is None else tuple(sorted({verbs[name] for name in opened if name in verbs})),
            )
        )
    return tuple(members)


def split_ranks(members: Sequence[Member], all_are_ranks: bool = False) -> tuple[list[list[Member]], list[Member]]:
    """Return the processes of each rank, and the other processes, such as ``mpirun`` and the batch script.

    Processes with the same rank number belong together if one descends from the other. If no process has a number, or
    the user gave the process ids (``all_are_ranks``), each process without a number is a rank.
    """
    by_pid = {member.process.pid: member for member in members}
    numbered = any(member.local_rank is not None for member in members)
    groups: dict[int, list[Member]] = {}
    others = []
    for member in members:
        if member.local_rank is None and numbered and not all_are_ranks:
            others.append(member)
            continue
        top = member
        while top.local_rank is not None:
            above = by_pid.get(top.process.parent)
            if above is None or above.local_rank != member.local_rank:
                break
            top = above
        groups.setdefault(top.process.pid, []).append(member)
    for pid, group in groups.items():
        group.sort(key=lambda member: (member.process.pid != pid, member.process.pid))
    return list(groups.values()), others


def make_rank(
    root: Root, members: Sequence[Member], layout: Layout, gpu_use: GpuUse | None, with_memory: bool = False
) -> Rank:
    """Build a rank.

    :param gpu_use: which process uses which GPUs; None if the driver does not report it.
    :param with_memory: read the NUMA nodes of its memory, which slows down the process briefly.
    """
    number, pid = members[0].local_rank, members[0].process.pid
    given, stray = _given_cpus(members, layout)
    gpus, assumed = _gpus_of(members, layout, gpu_use)
    opened = [member.hcas for member in members if member.hcas is not None]
    memories = [memory for member in members if with_memory and (memory := read_memory(root, member.process.pid))]
    return Rank(
        label=f"pid {pid}" if number is None else str(number),
        number=number,
        members=tuple(members),
        cpus=given & layout.online,
        # An unpinned process has all possible CPUs in its mask, including offline ones, which nobody requested.
        offline=CpuSet() if given >= layout.usable else given - layout.online,
        stray=stray,
        gpus=gpus,
        gpus_assumed=assumed,
        hcas=tuple(sorted({name for names in opened for name in names})) if opened else None,
        memory_nodes=read_memory_nodes(root, pid),
        memory=_sum(memories) if memories else None,
    )


def _given_cpus(members: Sequence[Member], layout: Layout) -> tuple[CpuSet, tuple[ThreadFacts, ...]]:
    """Return a rank's CPUs, and its threads that may run on other CPUs.

    The main thread has the process's mask. If OpenMP bound the main thread too, the rank's CPUs are the union of its
    threads' masks, without threads that may run on all CPUs, which OpenMP did not create.
    """
    threads = [thread for member in members for thread in member.threads]
    main = threads[0].cpus
    if not any(member.binds_threads for member in members) or main >= layout.usable:
        return main, tuple(thread for thread in threads if not thread.cpus <= main)
    bound = {thread.cpus for thread in threads if not thread.cpus >= layout.usable}
    cpus = CpuSet(cpu for mask in bound for cpu in mask)
    return cpus, tuple(thread for thread in threads if not thread.cpus <= cpus)


def _gpus_of(members: Sequence[Member], layout: Layout, gpu_use: GpuUse | None) -> tuple[tuple[int, ...] | None, bool]:
    """Return the indices of a rank's GPUs, None if unknown, and whether they are assumed from the environment."""
    if not layout.gpus:
        return (), False
    if gpu_use is not None:
        index = {gpu.busid: int(gpu.name) for gpu in layout.gpus}
        used = {index[busid] for member in members for busid in gpu_use.get(member.process.pid, ()) if busid in index}
        return tuple(sorted(used)), False
    text = next((member.visible_gpus for member in members if member.visible_gpus is not None), None)
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) < len(layout.gpus) for word in words):
        return None, False
    number = members[0].local_rank
    if len(words) == 1:
        return (int(words[0]),), True
    # By convention, a rank uses the visible device with its own number.
    return ((int(words[number]),), True) if number is not None and number < len(words) else (None, False)


def _local_rank(environment: Mapping[str, str]) -> int | None:
    for name in _LOCAL_RANK:
        if environment.get(name, "").isdecimal():
            return int(environment[name])
    # A batch script also has the number 0, but no step.
    in_step = any(environment.get(name, "").isdecimal() for name in _SLURM_STEP)
    number = environment.get(_SLURM_LOCAL_RANK, "")
    return int(number) if in_step and number.isdecimal() else None


def _adapters_by_file(root: Root) -> dict[str, str]:
    """Return the adapter's name for each ``/dev/infiniband/uverbs<N>``."""
    found = {}
    for number, path in root.numbered(_VERBS, "uverbs"):
        name = root.text(f"{path}/ibdev")
        if name:
            found[f"uverbs{number}"] = name
    return found


def _sum(memories: Sequence[MemoryFacts]) -> MemoryFacts:
    nodes: dict[int, float] = {}
    for memory in memories:
        for node, mib in memory.mib_by_node.items():
            nodes[node] = nodes.get(node, 0) + mib
    return MemoryFacts(nodes, tuple(sorted({policy for memory in memories for policy in memory.policies})))
