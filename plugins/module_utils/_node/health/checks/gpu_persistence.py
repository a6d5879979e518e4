# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Persistence mode: the driver keeps the GPUs running when nobody uses them."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ..check import BOOT, OBSERVE, PERIODIC, PROLOG, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus


def _measure(context: Context) -> Answer:
    return judge_each(context, "whether persistence mode is on", "persistence", _judge, "persistence mode is on")


def _judge(gpu: GpuHealth) -> Iterator[Told]:
    if gpu.persistence is None:
        return
    yield Reading("gpu_persistence", int(gpu.persistence), device=gpu.device, limit=1)
    if not gpu.persistence:
        words = f"persistence mode of {gpu.label} is off: the driver forgets its clocks, and each job starts slowly"
        hint = "'systemctl enable --now nvidia-persistenced', or gpu_clocks with persistence: true"
        yield Finding(WARN, words, gpu.device, hint)


CHECK = Check(
    name="gpu_persistence",
    title="Persistence mode of the GPUs",
    explain="Persistence mode is on, by nvidia-persistenced or by itself, as NVML tells. Where it is off, it warns.",
    tiers=(PROLOG, PERIODIC, BOOT),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
)
