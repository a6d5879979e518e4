# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The memory that a training needs: of each GPU, and of each node for what is offloaded. In bytes.

Sources: states by stage of ZeRO arXiv 1910.02054; activations arXiv 2205.05198; Megatron's
``training/theoretical_memory_usage.py``. With mixed precision and Adam a parameter has 2 bytes of weights, 2 of
gradients, and 12 of the optimizer: a copy of the weights and two moments, each in fp32.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..sku.types import VmSize
from .layout import Job
from .model import FULL, NONE, Model

RESERVE = 2 * 2**30
"""For the CUDA context, NCCL's buffers and fragmentation: 1 to 2 GiB (stas00/ml-engineering, training/performance)."""
HOST_SHARE = 0.9
"""The part of a node's memory that offloaded states may fill. The rest is for the system, the programs and their
loaders; an assumption, which keeps 177 GiB of an ND96amsr_A100_v4."""
OPTIMIZER = 12
WEIGHTS, GRADIENTS = 2, 2
LOGIT = 10.0
"""For each logit: the output in bf16, its copy in fp32, and the softmax's result; in the backward pass that result and
both gradients. Measured with PyTorch 2.11.0 on an H200 (docs/evidence.md): other factors miss the peak by 2 GiB."""


@dataclass(frozen=True)
class MemoryNeed:
    """What a training needs, in bytes.

    :ivar states: weights, gradients and optimizer of the GPU that needs most.
    :ivar gathered: weights and gradients of a layer that ZeRO-3 gathers while it computes.
    :ivar activations: what the forward pass keeps for the backward pass.
    :ivar working: activations of the layer that is being computed or recomputed.
    :ivar logits: the output, with what the loss keeps of it.
    :ivar host: optimizer and activations in the memory of a node.
    :ivar nvme: the optimizer on the disks of a node.
    """

    states: float
    gathered: float
    activations: float
    working: float
    logits: float
    host: float
    nvme: float

    @property
    def gpu(self) -> float:
        """The memory of the GPU that needs most, with the reserve."""
        return self.states + self.gathered + self.activations + self.working + self.logits + RESERVE


@dataclass(frozen=True)
class NodeMemory:
    """What a node of a VM size has, in bytes.

    :ivar gpu: the memory of a GPU that programs can allocate.
    :ivar host: the memory that offloaded states may fill; None if unknown.
    :ivar is_marketed: whether only the marketed figure of the GPU is known.
    """

    gpu: float
    host: float | None
    is_marketed: bool


def room(size: VmSize) -> NodeMemory | None:
    """Return what a node of a VM size has; None if the memory of its GPUs is unknown."""
    host = None if size.memory_mib is None else size.memory_mib * 2**20 * HOST_SHARE
    if size.gpu_usable_memory_mib is not None:
        return NodeMemory(size.gpu_usable_memory_mib * 2**20, host, False)
    # Where both figures are known, GPUs have at least as many usable bytes as marketed, counted in powers of ten.
    return None if size.gpu_memory_gb is None else NodeMemory(size.gpu_memory_gb * 1e9, host, True)


def state_bytes(job: Job) -> float:
    """Return the bytes of states per parameter that are on a GPU."""
    layout, replicas = job.layout, job.replicas
    gradients = GRADIENTS + (2 if layout.fp32_gradients else 0)
    optimizer = 0 if layout.offload_optimizer or layout.offload_nvme else OPTIMIZER
    if layout.distributed_optimizer:
        # Megatron keeps gradients in fp32: 2 + 4 on each GPU, and the optimizer divided among replicas.
        return WEIGHTS + 4 + OPTIMIZER / replicas
    return (
        WEIGHTS / (replicas if layout.zero >= 3 else 1)
        + gradients / (replicas if layout.zero >= 2 else 1)
        + optimizer / (replicas if layout.zero >= 1 else 1)
    )


def layer_activations(model: Model, job: Job, recomputation: str) -> float:
    """Return the activations that a layer keeps for one micro-batch on one GPU."""
    layout = job.layout
    unit = model.sequence * job.micro_batch * model.hidden
    t = layout.tensor
    if recomputation == FULL:
        return 2 * unit / (t if layout.sequence_parallel else 1)
    # Models like GPT: 10 for the norms' inputs and dropout masks, 24 for the matrices' inputs.
    ratio = model.inner / model.hidden
    divided = 24.0
    if model.gated:
        # Queries, keys, values and their product 2 each; the feed-forward layer's four inner tensors.
        divided = 2 * (2 + 2 * model.kv_width / model.hidden) + 8 * ratio
    elif model.ffn:
        divided = 8 + 4 * ratio
    pairs = 5 * model.heads * model.sequence / model.hidden if recomputation == NONE and not model.flash else 0.0
    if layout.sequence_parallel:
        return unit * (10 + divided + pairs) / t
    return unit * (10 + (divided + pairs) / t)


def need(model: Model, job: Job) -> MemoryNeed:
    """Return what a training needs. The layout must have no problems."""
    layout = job.layout
    t, p = layout.tensor, layout.pipeline
    layers = model.layers / p
    kept = layer_activations(model, job, layout.recomputation)
    held: float = min(p, job.micro_batches)
    if layout.interleave > 1 and held > 1:
        # The interleaved schedule keeps more micro-batches (arXiv 2205.05198, section 4.2.3).
        held = held * (1 + (p - 1) / (p * layout.interleave))
    first = layers * model.layer_parameters + model.embedding
    last = layers * model.layer_parameters + (model.output or model.vocabulary * model.hidden)
    if p == 1:
        first = last = model.parameters
    states = state_bytes(job)
    # With recomputation, one layer has all its activations at a time.
    working = 0.0 if layout.recomputation == NONE else layer_activations(model, job, NONE)
    logits = LOGIT * model.sequence * job.micro_batch * model.vocabulary / t
    gathered = (WEIGHTS + GRADIENTS) * model.layer_parameters / t if layout.zero >= 3 and job.replicas > 1 else 0.0
    activations = layers * kept
    on_gpu = 0.0 if layout.offload_activations else activations
    stages = [(first / t, on_gpu * held, 0.0 if p > 1 else logits)]
    if p > 1:
        stages.append((last / t, on_gpu, logits))
    parameters, most_activations, most_logits = max(stages, key=lambda one: one[0] * states + one[1] + one[2])
    per_node = OPTIMIZER * model.parameters / (t * p) / job.replicas * job.gpus_per_node
    return MemoryNeed(
        states=parameters * states,
        gathered=gathered,
        activations=most_activations,
        working=working,
        logits=most_logits,
        host=(per_node if layout.offload_optimizer else 0.0)
        + (activations * held * job.gpus_per_node if layout.offload_activations else 0.0),
        nvme=per_node if layout.offload_nvme else 0.0,
    )


def lacks(needed: MemoryNeed, available: NodeMemory) -> list[str]:
    """Return what does not fit, one sentence each; empty if everything does."""
    found = []
    if needed.gpu > available.gpu:
        found.append(
            f"A GPU needs {gib(needed.gpu)} ({gib(needed.states)} states, {gib(needed.gathered)} gathered layer, "
            f"{gib(needed.activations)} activations, {gib(needed.working)} working layer, {gib(needed.logits)} output, "
            f"{gib(RESERVE)} reserve), and has {gib(available.gpu)}."
        )
    if needed.host and available.host is not None and needed.host > available.host:
        found.append(f"A node needs {gib(needed.host)} of host memory, and has {gib(available.host)} for it.")
    return found


def gib(amount: float) -> str:
    """Return a number of bytes in GiB."""
    return f"{amount / 2**30:,.1f} GiB"
