# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How long a training takes, what it costs, and what its checkpoints and data need. Pure arithmetic.

Rates are per GPU in TFLOP/s, sizes in bytes, times in seconds unless the name says otherwise.
"""

from __future__ import annotations

import math

from ..sku.types import VmSize
from .layout import Job
from .model import FULL, NONE, Model

DAY_S = 86400
CHECKPOINT_BYTES = 14
"""Per parameter: weights in bf16 and the optimizer's three fp32 tensors (Megatron-DeepSpeed, megatron/utils.py)."""
DISK_GBS = 1.0
"""Rate of one local NVMe disk for large writes, in GB/s: arrays of eight reach about 8 GB/s on ND A100 v4. An
assumption for other families, whose disks are not slower."""
NODE_HOURS_TO_FAILURE = 6300.0
"""419 unexpected interruptions in 54 days on 2,048 nodes of eight H100 (arXiv 2407.21783): 6,335 node hours each."""


def step_seconds(model: Model, job: Job, rate: float, counted: str) -> float:
    """Return the seconds of a step at a rate that counts the operations of this recomputation."""
    return model.flops(job.global_batch, counted) / (job.gpus * rate * 1e12)


def rate_of(model: Model, job: Job, seconds: float, counted: str) -> float:
    """Return the rate of each GPU for a step of these seconds."""
    return model.flops(job.global_batch, counted) / (job.gpus * seconds * 1e12)


def utilization(model: Model, job: Job, seconds: float, peak: float | None) -> tuple[float | None, float | None]:
    """Return MFU and HFU as parts of the peak; None if the peak is unknown.

    MFU counts the model's own operations, HFU also what this layout computes again.
    """
    if not peak:
        return None, None
    own, all_of_them = (rate_of(model, job, seconds, counted) / peak for counted in (NONE, job.layout.recomputation))
    return own, all_of_them


def peak_of(size: VmSize, precision: str = "") -> float | None:
    """Return the peak of a GPU in TFLOP/s; None if it is unknown.

    :param precision: a key of ``gpu_tflops``; empty for what the trainers use: bf16, or fp16 on GPUs without bf16.
    """
    peaks = size.gpu_tflops or {}
    return peaks.get(precision) if precision else peaks.get("bf16", peaks.get("fp16"))


def tokens_per_day(model: Model, job: Job, seconds: float) -> float:
    """Return the tokens that are trained in a day."""
    return job.global_batch * model.sequence / seconds * DAY_S


def days(model: Model, tokens: float, gpus: int, rate: float, counted: str = FULL) -> float:
    """Return the days for a number of tokens at a rate that counts this recomputation."""
    return model.flops(tokens / model.sequence, counted) / (gpus * rate * 1e12) / DAY_S


def cost(hourly: float, nodes: int, hours: float) -> float:
    """Return the price of nodes for some hours, in the currency of the price."""
    return hourly * nodes * hours


def checkpoint_bytes(model: Model) -> float:
    """Return the size of a checkpoint."""
    return CHECKPOINT_BYTES * model.parameters


def transfer_seconds(amount: float, nodes: int, node_gbps: float, account_gbps: float | None = None) -> float:
    """Return the seconds in which nodes transfer an amount that is divided evenly among them.

    :param node_gbps: rate of a node's network, in Gb/s.
    :param account_gbps: the storage account's limit, which the nodes share.
    """
    total = nodes * node_gbps
    if account_gbps:
        total = min(total, account_gbps)
    return amount * 8 / (total * 1e9)


def save_seconds(amount: float, nodes: int, disks: int) -> float:
    """Return the seconds in which nodes write their equal parts of an amount to their local disks."""
    return amount / nodes / (disks * DISK_GBS * 1e9)


def checkpoint_interval(save_seconds: float, nodes: int, node_hours: float = NODE_HOURS_TO_FAILURE) -> float:
    """Return the interval between checkpoints that loses least time, in seconds: Young's formula, sqrt(2·δ·M).

    :param save_seconds: how long a checkpoint interrupts the training, δ.
    :param node_hours: node hours between failures; the job's MTBF M is this divided by its nodes.
    """
    return math.sqrt(2 * save_seconds * node_hours * 3600 / nodes)


def lost_part(interval: float, save_seconds: float, nodes: int, node_hours: float = NODE_HOURS_TO_FAILURE) -> float:
    """Return the part of the time that checkpoints and repeated steps take: δ/τ + τ/2M."""
    return save_seconds / interval + interval / (2 * node_hours * 3600 / nodes)
