# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The plan of a training: whether it fits, how it is divided, how long it takes, what it costs. Pure.

What does not fit is refused, with the smallest number of nodes that fits, and with a layout that fits on these nodes.
What is unknown stays unknown: without a known peak there is no MFU, without a similar measurement no expected rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..sku.types import VmSize
from . import catalog, estimate
from .layout import GpuPosition, Job, Layout, gpu_positions, problems, stage_nodes
from .memory import MemoryNeed, NodeMemory, lacks, need, room
from .model import FULL, Model

MOST_NODES = 4096
"""The largest number of nodes that a search for the smallest one tries."""


@dataclass(frozen=True)
class Options:
    """What a plan assumes; None where it is unknown.

    :ivar tokens: tokens of the complete training.
    :ivar rate: rate of each GPU in TFLOP/s, which replaces the expected one. It counts what this layout computes.
    :ivar rate_source: what this rate rests on.
    :ivar peak: the precision whose peak the MFU is a part of, a key of ``gpu_tflops``; empty for that of the trainers.
    :ivar hourly: price of a node per hour.
    :ivar currency: of the price.
    :ivar node_gbps: rate of a node to the storage account, in Gb/s; None for the VM size's.
    :ivar account_gbps: the account's limit, in Gb/s.
    :ivar node_hours: node hours between failures.
    :ivar data_bytes: size of the data set that is staged, divided among the nodes.
    """

    tokens: float | None = None
    rate: float | None = None
    rate_source: str = "given"
    peak: str = ""
    hourly: float | None = None
    currency: str = ""
    node_gbps: float | None = None
    account_gbps: float | None = None
    node_hours: float = estimate.NODE_HOURS_TO_FAILURE
    data_bytes: float | None = None


@dataclass(frozen=True)
class Speed:
    """What is expected of a step.

    :ivar rate: TFLOP/s of each GPU.
    :ivar source: what the rate rests on.
    :ivar step: seconds of a step.
    :ivar tokens_per_day: tokens trained in a day.
    :ivar mfu: MFU as a part of the peak; None if the peak is unknown.
    :ivar hfu: HFU, the same.
    :ivar days: days of the training; None if its tokens are unknown.
    :ivar cost: its price; None if the days or the price are unknown.
    :ivar currency: of the price.
    """

    rate: float
    source: str
    step: float
    tokens_per_day: float
    mfu: float | None
    hfu: float | None
    days: float | None
    cost: float | None
    currency: str


@dataclass(frozen=True)
class Storage:
    """Checkpoints and data; seconds are None if a rate is unknown.

    :ivar checkpoint_bytes: size of a checkpoint, with the copies of all nodes.
    :ivar copies: how many nodes write the same part of it.
    :ivar save_seconds: how long the training stops for it: the time to write it to the nodes' scratch.
    :ivar upload_seconds: time to upload it, while the training continues.
    :ivar interval: the best interval between checkpoints, in seconds; never shorter than an upload.
    :ivar lost: the part of the time that checkpoints and repeated steps take.
    :ivar staging_seconds: time to stage the data; None also without data.
    """

    checkpoint_bytes: float
    copies: int
    save_seconds: float | None
    upload_seconds: float | None
    interval: float | None
    lost: float | None
    staging_seconds: float | None


@dataclass(frozen=True)
class Plan:
    """A plan.

    :ivar problems: why it cannot run, one sentence each; empty if it can.
    :ivar needed: the memory that it needs; None if the layout itself is impossible.
    :ivar room: the memory of a node; None if unknown.
    :ivar places: what each GPU of a node has.
    :ivar stages: the first and the last node of each stage of the pipeline.
    :ivar speed: None if no rate is known, or it cannot run.
    :ivar storage: None if it cannot run.
    :ivar fewest: the same layout on the fewest nodes that fit; only for a plan that does not.
    :ivar other: another layout that fits on the same nodes; the same.
    :ivar notes: what the plan does not know, one sentence each.
    """

    model: Model
    job: Job
    size: VmSize
    problems: tuple[str, ...]
    needed: MemoryNeed | None
    room: NodeMemory | None
    gpu_positions: tuple[GpuPosition, ...] = ()
    stages: tuple[tuple[int, int], ...] = ()
    speed: Speed | None = None
    storage: Storage | None = None
    fewest: Job | None = None
    other: Job | None = None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it can run."""
        return not self.problems


def plan(model: Model, job: Job, size: VmSize, options: Options | None = None) -> Plan:
    """Return the plan of a training on nodes of a VM size."""
    options = options or Options()
    available = room(size)
    impossible = problems(model, job, size)
    needed = None if impossible else need(model, job)
    found = impossible or (lacks(needed, available) if needed and available else [])
    if found:
        return Plan(
            model,
            job,
            size,
            tuple(found),
            needed,
            available,
            fewest=_fewest(model, job, size),
            other=_other(model, job, size),
        )
    return Plan(
        model,
        job,
        size,
        (),
        needed,
        available,
        gpu_positions=gpu_positions(job, size),
        stages=stage_nodes(job),
        speed=_speed(model, job, size, options),
        storage=_storage(model, job, size, options),
        notes=tuple(_notes(model, job, size, available)),
    )


def fits(model: Model, job: Job, size: VmSize) -> bool:
    """Return whether a layout is possible and its memory is enough."""
    available = room(size)
    if problems(model, job, size) or available is None:
        return False
    return not lacks(need(model, job), available)


def _fewest(model: Model, job: Job, size: VmSize) -> Job | None:
    # A batch of so many samples may divide no number of nodes, so a search without it follows.
    for batch in dict.fromkeys((job.batch, None)):
        for nodes in range(1, MOST_NODES + 1):
            tried = replace(job, nodes=nodes, batch=batch)
            if fits(model, tried, size):
                return tried
    return None


def _other(model: Model, job: Job, size: VmSize) -> Job | None:
    """Return the first layout that fits on the same nodes, from the fastest kinds to the slowest."""
    for layout in _layouts(model, job):
        for micro_batch in dict.fromkeys((job.micro_batch, 1)):
            for batch in dict.fromkeys((job.batch, None)):
                tried = replace(job, layout=layout, micro_batch=micro_batch, batch=batch)
                if fits(model, tried, size):
                    return tried
    return None


def _layouts(model: Model, job: Job) -> Iterator[Layout]:
    for zero in (1, 2, 3):
        yield Layout(zero=zero, recomputation=FULL)
    tensors = [t for t in (2, 4, 8) if t <= job.gpus_per_node]
    for pipeline in [p for p in range(1, model.layers + 1) if model.layers % p == 0]:
        for tensor in tensors:
            yield Layout(tensor, pipeline, distributed_optimizer=True, sequence_parallel=True, recomputation=FULL)
    for activations in (False, True):
        yield Layout(zero=3, recomputation=FULL, offload_optimizer=True, offload_activations=activations)
    for activations in (False, True):
        yield Layout(zero=3, recomputation=FULL, offload_nvme=True, offload_activations=activations)


def _speed(model: Model, job: Job, size: VmSize, options: Options) -> Speed | None:
    if options.rate:
        rate, counted, source = options.rate, job.layout.recomputation, options.rate_source
    else:
        measured = catalog.expected(model, job, size)
        if measured is None:
            return None
        rate, counted, source = measured.tflops, measured.counted, measured.words()
    step = estimate.step_seconds(model, job, rate, counted)
    per_day = estimate.tokens_per_day(model, job, step)
    mfu, hfu = estimate.utilization(model, job, step, estimate.peak_of(size, options.peak))
    needed_days = None if options.tokens is None else options.tokens / per_day
    price = None
    if needed_days is not None and options.hourly is not None:
        price = estimate.cost(options.hourly, job.nodes, needed_days * 24)
    return Speed(rate, source, step, per_day, mfu, hfu, needed_days, price, options.currency)


def _storage(model: Model, job: Job, size: VmSize, options: Options) -> Storage:
    copies = job.checkpoint_copies
    amount = estimate.checkpoint_bytes(model) * copies
    rate = options.node_gbps or size.ethernet_gbps
    save = estimate.save_seconds(amount, job.nodes, size.nvme_count) if size.nvme_count else None
    upload = estimate.transfer_seconds(amount, job.nodes, rate, options.account_gbps) if rate else None
    staging = None
    if rate and options.data_bytes is not None:
        staging = estimate.transfer_seconds(options.data_bytes, job.nodes, rate, options.account_gbps)
    stops = save if save is not None else upload
    if stops is None:
        return Storage(amount, copies, save, upload, None, None, staging)
    interval = max(estimate.checkpoint_interval(stops, job.nodes, options.node_hours), upload or 0)
    lost = estimate.lost_part(interval, stops, job.nodes, options.node_hours)
    return Storage(amount, copies, save, upload, interval, lost, staging)


def _notes(model: Model, job: Job, size: VmSize, available: NodeMemory | None) -> Iterator[str]:
    if available is None:
        yield f"The memory of the GPUs of {size.name} is unknown, so it was not checked."
    elif available.is_marketed:
        yield "Only the marketed memory of this GPU is known; programs may get a little less."
    offloads = job.layout.offload_optimizer or job.layout.offload_activations
    if offloads and available is not None and available.host is None:
        yield f"The memory of {size.name} is unknown, so the offloaded states were not checked."
    if job.layout.offload_nvme:
        yield "The capacity of the local disks is not known here: compare it with the size on NVMe."
    if job.nodes > 1 and size.hca_count == 0:
        yield f"{size.name} has no InfiniBand: replicas communicate over Ethernet, and rates of others do not apply."
    if job.nodes > 1 and size.hca_count:
        yield "All nodes must be in one scale set: InfiniBand does not connect two."
    if job.layout.tensor > 1 and size.gpu_link_gbs is None:
        yield "The links between the GPUs are unknown or connect only pairs: TP may be slow."
    if job.bubble > 0.1:
        yield f"The pipeline idles for {job.bubble:.0%} of the useful time: use more micro-batches per step."
