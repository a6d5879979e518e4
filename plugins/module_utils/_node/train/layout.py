# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How a model is divided among GPUs: the rules of a layout, and which GPU of which node has which part.

t is the degree of tensor parallelism, p of pipeline parallelism, d of data parallelism; t·p·d is the number of GPUs.
Ranks are numbered as Megatron does: the parts of a tensor are on neighbouring GPUs of one node, then the replicas,
then the stages of the pipeline. So what communicates most uses NVLink, and each GPU reaches its replicas over its own
rail, the InfiniBand adapter beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..sku.types import VmSize
from .model import FULL, Model


@dataclass(frozen=True)
class Layout:
    """How a model is divided.

    :ivar tensor: degree of tensor parallelism, t.
    :ivar pipeline: degree of pipeline parallelism, p.
    :ivar interleave: parts of the model on each stage of the pipeline, v.
    :ivar zero: stage of ZeRO, 0 to 3. FSDP with full sharding is stage 3.
    :ivar distributed_optimizer: Megatron's distributed optimizer; without ZeRO only.
    :ivar sequence_parallel: whether norms and dropout are divided along the sequence as well.
    :ivar recomputation: one of ``RECOMPUTATIONS``.
    :ivar offload_optimizer: whether the optimizer and its states are in the host's memory.
    :ivar offload_activations: whether the layers' inputs wait for the backward pass in the host's memory.
    :ivar offload_nvme: whether the optimizer's states are on the node's NVMe disks, in place of its memory.
    :ivar fp32_gradients: whether gradients are kept in fp32, which adds two bytes per parameter.
    """

    tensor: int = 1
    pipeline: int = 1
    interleave: int = 1
    zero: int = 0
    distributed_optimizer: bool = False
    sequence_parallel: bool = False
    recomputation: str = FULL
    offload_optimizer: bool = False
    offload_activations: bool = False
    offload_nvme: bool = False
    fp32_gradients: bool = False

    @property
    def model_gpus(self) -> int:
        """The GPUs of one replica, t·p."""
        return self.tensor * self.pipeline

    def words(self) -> str:
        """Return the layout in a few words."""
        parts = [f"ZeRO-{self.zero}"] if self.zero or self.model_gpus == 1 else []
        parts += [f"TP {self.tensor}"] if self.tensor > 1 else []
        parts += [f"PP {self.pipeline}"] if self.pipeline > 1 else []
        parts += ["SP"] if self.sequence_parallel else []
        parts += ["distributed optimizer"] if self.distributed_optimizer else []
        parts += ["optimizer in host memory"] if self.offload_optimizer else []
        parts += ["optimizer on NVMe"] if self.offload_nvme else []
        parts += ["activations in host memory"] if self.offload_activations else []
        return ", ".join([*parts, f"recomputation {self.recomputation}"])


@dataclass(frozen=True)
class Job:
    """A layout on a number of GPUs, with its batch.

    :ivar nodes: number of nodes.
    :ivar gpus_per_node: GPUs of a node.
    :ivar micro_batch: samples that a replica computes at once, b.
    :ivar batch: samples of a step, B; None for one micro-batch per replica, or with a pipeline for four per stage,
        from which on it is busy most of the time (arXiv 2104.04473, section 2.2).
    """

    nodes: int
    gpus_per_node: int
    layout: Layout
    micro_batch: int = 1
    batch: int | None = None

    @property
    def gpus(self) -> int:
        """The number of GPUs, n."""
        return self.nodes * self.gpus_per_node

    @property
    def replicas(self) -> int:
        """The number of replicas, d."""
        return max(self.gpus // self.layout.model_gpus, 1)

    @property
    def global_batch(self) -> int:
        """The samples of a step, B."""
        stages = self.layout.pipeline
        return self.batch or self.micro_batch * self.replicas * (4 * stages if stages > 1 else 1)

    @property
    def micro_batches(self) -> int:
        """The micro-batches of a step on each replica, m."""
        return max(self.global_batch // (self.micro_batch * self.replicas), 1)

    @property
    def checkpoint_copies(self) -> int:
        """How many nodes write the same part of a checkpoint, each to its own disks.

        ZeRO, FSDP and the distributed optimizer divide the states, so each part exists once. Without them, each replica
        has all states of its part, and the nodes of a stage of the pipeline write them once each.
        """
        if self.layout.zero or self.layout.distributed_optimizer:
            return 1
        return max(self.nodes // self.layout.pipeline, 1)

    @property
    def bubble(self) -> float:
        """The idle part of a step because the pipeline fills and drains, (p-1)/m/v, as a part of the useful time."""
        return (self.layout.pipeline - 1) / self.micro_batches / self.layout.interleave


def problems(model: Model, job: Job, size: VmSize) -> list[str]:
    """Return why this layout cannot run on these GPUs, whatever their memory, one sentence each."""
    rules = (*_divisions(model, job), *_schedule(job), *_combinations(job.layout, size))
    return [words for broken, words in rules if broken]


_Rule = tuple[bool, str]
"""Whether the rule is broken, and what to say then."""


def _divisions(model: Model, job: Job) -> Iterator[_Rule]:
    layout, gpus = job.layout, job.gpus_per_node
    t, p, v = layout.tensor, layout.pipeline, layout.interleave
    keys = model.kv_heads or t
    parts = f" with {v} parts per stage" if v > 1 else ""
    yield t > gpus or gpus % t > 0, f"TP {t} does not divide the {gpus} GPUs of a node, which NVLink connects."
    yield model.heads % t > 0, f"TP {t} does not divide {model.heads} heads."
    yield keys % t > 0 and t % keys > 0, f"TP {t} and {keys} heads of keys do not divide each other."
    yield model.hidden % t > 0, f"TP {t} does not divide the hidden size {model.hidden}."
    yield model.hidden % model.heads > 0, f"{model.heads} heads do not divide the hidden size {model.hidden}."
    yield model.layers % (p * v) > 0, f"PP {p}{parts} does not divide {model.layers} layers."
    yield (
        layout.sequence_parallel and model.sequence % t > 0,
        f"TP {t} does not divide the sequence of {model.sequence} tokens.",
    )


def _schedule(job: Job) -> Iterator[_Rule]:
    layout = job.layout
    t, p, v = layout.tensor, layout.pipeline, layout.interleave
    divides = job.gpus % layout.model_gpus == 0
    fits = job.global_batch % (job.micro_batch * job.replicas) == 0
    yield not divides, f"TP {t} times PP {p} needs a multiple of {layout.model_gpus} GPUs, not {job.gpus}."
    yield (
        divides and not fits,
        f"A batch of {job.global_batch} is no multiple of {job.micro_batch} samples times {job.replicas} replicas.",
    )
    yield (
        divides and fits and v > 1 and job.micro_batches % p > 0,
        f"Several parts per stage need a multiple of {p} micro-batches per step, not {job.micro_batches}.",
    )
    yield v > 1 and p == 1, "Several parts per stage need PP of 2 or more."
    yield layout.sequence_parallel and t == 1, "Sequence parallelism needs TP of 2 or more."


def _combinations(layout: Layout, size: VmSize) -> Iterator[_Rule]:
    offload = layout.offload_optimizer or layout.offload_nvme
    yield (
        layout.zero > 1 and layout.pipeline > 1,
        f"ZeRO-{layout.zero} cannot be combined with PP: each micro-batch would gather all gradients again.",
    )
    yield (
        layout.distributed_optimizer and layout.zero > 0,
        "Megatron's distributed optimizer and ZeRO exclude each other.",
    )
    yield offload and layout.zero < 1, "Optimizer offload needs ZeRO-1 or higher."
    yield layout.offload_nvme and layout.zero != 3, "Offload to NVMe needs ZeRO-3."
    yield layout.offload_nvme and layout.offload_optimizer, "The optimizer is either in host memory or on NVMe."
    yield layout.offload_nvme and size.nvme_count == 0, f"{size.name} has no local NVMe disks for the optimizer."
    yield (
        layout.offload_activations and layout.recomputation != FULL,
        "Activation offload moves the inputs of recomputed layers: it needs full recomputation.",
    )


@dataclass(frozen=True)
class GpuPosition:
    """A GPU slot of each node.

    :ivar gpu: its index.
    :ivar busid: its PCI address; empty if unknown.
    :ivar numa_node: its NUMA node; None if unknown.
    :ivar rail: the InfiniBand adapter beside it; empty if the size has none.
    :ivar tensor_rank: which part of a tensor it has.
    """

    gpu: int
    busid: str
    numa_node: int | None
    rail: str
    tensor_rank: int


def gpu_positions(job: Job, size: VmSize) -> tuple[GpuPosition, ...]:
    """Return what each GPU of a node has; all nodes are alike."""
    slots = size.gpus or ()
    paired = size.hca_count == job.gpus_per_node
    return tuple(
        GpuPosition(
            gpu,
            slots[gpu].busid if gpu < len(slots) else "",
            slots[gpu].numa_node if gpu < len(slots) else None,
            f"mlx5_ib{gpu}" if paired else "",
            gpu % job.layout.tensor,
        )
        for gpu in range(job.gpus_per_node)
    )


def stage_nodes(job: Job) -> tuple[tuple[int, int], ...]:
    """Return the first and the last node of each stage of the pipeline, by stage. Nodes are numbered from 0."""
    each = job.gpus // job.layout.pipeline
    return tuple(
        (stage * each // job.gpus_per_node, ((stage + 1) * each - 1) // job.gpus_per_node)
        for stage in range(job.layout.pipeline)
    )
