# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Models with published shapes, and the rates that others measured with them: what a plan expects, with its source.

A rate of another GPU, another kind of layout, or a model of another order of magnitude says little, so a plan without a
similar measurement has no expected rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..sku.types import VmSize
from .layout import Job
from .model import FULL, NONE, Model

# Seeds and papers give all of these with a vocabulary of 51,200 and 2,048 tokens, unless said otherwise.
MODELS = {
    # (layers, hidden, heads)
    "1.7B": Model(24, 2304, 24, 2048),
    "3.6B": Model(30, 3072, 32, 2048),
    "7.5B": Model(36, 4096, 32, 2048),
    "18B": Model(40, 6144, 48, 2048),
    "39B": Model(48, 8192, 64, 2048),
    "76B": Model(60, 10240, 80, 2048),
    "145B": Model(80, 12288, 96, 2048),
    "175B": Model(96, 12288, 96, 2048),
    "310B": Model(96, 16384, 128, 2048),
    "530B": Model(105, 20480, 128, 2048),
    "1T": Model(128, 25600, 160, 2048),
    "2T": Model(160, 32768, 128, 1024),
    "llama-8B": Model(32, 4096, 32, 8192, 128256, kv_heads=8, ffn=14336, gated=True, flash=True),
    "llama-70B": Model(80, 8192, 64, 8192, 128256, kv_heads=8, ffn=28672, gated=True, flash=True),
    # BERT-Large, of arXiv 1810.04805: an encoder of the same layers.
    "bert-large": Model(24, 1024, 16, 512, 30522),
}
"""Shapes by name: SC21's table 1, seed 003's table 2, the configurations of Llama 3.1."""

ZERO, ZERO_OFFLOAD, ZERO_NVME, THREE_D = KINDS = (
    "ZeRO-3 or FSDP",
    "ZeRO-3 with offload",
    "ZeRO-3 with offload to NVMe",
    "Megatron",
)
"""Kinds of layouts; rates of different kinds are not compared. Megatron's replicas hold complete states. Nobody
published rates with the optimizer on NVMe."""
_SIMILAR_PARAMETERS, _SIMILAR_GPUS = 2.0, 8.0
"""Up to these factors, a measurement counts as similar."""

_AZURE = "Microsoft's DeepSpeed team on ND96amsr_A100_v4 (Azure blog, 2022)"
_SC21_1 = "arXiv 2104.04473, table 1 (rates not verified)"
_SC21_2 = "arXiv 2104.04473, table 2"
_MT_NLG = "arXiv 2201.11990, from the seconds per step"
_TITAN = "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md (H100 with 96 GB and 500 W)"


@dataclass(frozen=True)
class Measured:
    """A published rate.

    :ivar model: a key of ``MODELS``.
    :ivar gpu: the GPU, as the beginning of ``gpu_model``.
    :ivar kind: one of ``KINDS``.
    :ivar gpus: number of GPUs.
    :ivar micro_batch: samples of a GPU's micro-batch; 0 if the source does not say.
    :ivar tflops: rate of each GPU in TFLOP/s.
    :ivar counted: the recomputation that the rate counts: ``full`` as the papers do, ``none`` for the model's own.
    :ivar source: where it was published.
    """

    model: str
    gpu: str
    kind: str
    gpus: int
    micro_batch: int
    tflops: float
    counted: str
    source: str

    def words(self) -> str:
        """Return what was measured, in a few words."""
        return f"{self.model}, {self.kind}, {self.gpus} GPUs: {self.source}"


def _rates(kind: str, source: str, *rows: tuple[str, int, int, float]) -> tuple[Measured, ...]:
    return tuple(Measured(model, "A100-SXM4", kind, gpus, b, rate, FULL, source) for model, gpus, b, rate in rows)


def _from_tokens(model: str, gpus: int, micro_batch: int, tokens: float) -> Measured:
    """Return a rate from tokens per second and GPU."""
    shape = MODELS[model]
    rate = shape.flops(tokens / shape.sequence, NONE) / 1e12
    return Measured(model, "H100-SXM5", ZERO, gpus, micro_batch, rate, NONE, _TITAN)


MEASURED = (
    *_rates(
        ZERO_OFFLOAD,
        _AZURE,
        ("175B", 256, 32, 204.49),
        ("530B", 1024, 8, 171.37),
        ("1T", 1024, 8, 165.36),
        ("2T", 1024, 8, 157.0),
    ),
    *_rates(
        THREE_D,
        _SC21_1,
        ("1.7B", 32, 0, 137),
        ("3.6B", 64, 0, 138),
        ("7.5B", 128, 0, 142),
        ("18B", 256, 0, 135),
        ("39B", 512, 0, 138),
        ("76B", 1024, 0, 140),
        ("145B", 1536, 0, 148),
        ("310B", 1920, 0, 155),
        ("530B", 2520, 0, 163),
        ("1T", 3072, 0, 163),
    ),
    *_rates(
        THREE_D,
        _SC21_2,
        *(("175B", gpus, 0, rate) for gpus, rate in ((384, 153), (768, 149), (1536, 141))),
        *(("530B", gpus, 0, rate) for gpus, rate in ((560, 171), (1120, 167), (2240, 159))),
    ),
    *_rates(
        ZERO,
        _SC21_2,
        *(("175B", gpus, 0, rate) for gpus, rate in ((384, 144), (768, 88), (1536, 44))),
        *(("530B", gpus, 0, rate) for gpus, rate in ((640, 138), (1120, 98), (2240, 48))),
    ),
    *_rates(THREE_D, _MT_NLG, ("530B", 2240, 0, 126), ("530B", 2800, 0, 121), ("530B", 3360, 0, 113)),
    *(_from_tokens("llama-8B", gpus, 2, tokens) for gpus, tokens in ((8, 5762), (128, 5605))),
)


def kind_of(job: Job) -> str:
    """Return the kind of a layout."""
    layout = job.layout
    if layout.model_gpus > 1 or layout.zero == 0:
        return THREE_D
    if layout.offload_nvme:
        return ZERO_NVME
    return ZERO_OFFLOAD if layout.offload_optimizer or layout.offload_activations else ZERO


def expected(model: Model, job: Job, size: VmSize) -> Measured | None:
    """Return the most similar published rate; None if none is similar."""
    kind, parameters = kind_of(job), model.parameters

    def distance(one: Measured) -> float:
        shape = abs(math.log(MODELS[one.model].parameters / parameters))
        # A model of the same size and another number of GPUs is nearer than the reverse.
        return 2 * shape + abs(math.log(one.gpus / job.gpus))

    return min(_similar(parameters, job.gpus, kind, size), key=distance, default=None)


def _similar(parameters: int, gpus: int, kind: str, size: VmSize) -> Iterator[Measured]:
    for one in MEASURED:
        if one.kind != kind or not (size.gpu_model or "").startswith(one.gpu):
            continue
        near = abs(math.log(MODELS[one.model].parameters / parameters)) <= math.log(_SIMILAR_PARAMETERS)
        if near and abs(math.log(one.gpus / gpus)) <= math.log(_SIMILAR_GPUS):
            yield one
