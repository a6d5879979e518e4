# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How hot the GPUs are, against the limits that each of them has in itself."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, PROLOG, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each, untold
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus

_HINT = "Compare it with the other nodes; redeploy the VM if it stays so: its host is not cooled well"


def _measure(context: Context) -> Answer:
    limit = "below the GPU's own temperature of slowdown; above its highest to be used at it warns (NVML)"
    return judge_each(context, "how hot it is", "temperature", _judge, "the GPUs are cool enough", limit)


def _judge(gpu: GpuHealth) -> Iterator[Told]:
    if gpu.temperature is None:
        return
    yield Reading("gpu_temperature", gpu.temperature, "C", gpu.device, gpu.slowdown_at, at_most=True)
    if gpu.slowdown_at is None:
        yield untold(gpu, "at which temperature it is slowed down", "slowdown_at")
    elif gpu.temperature >= gpu.slowdown_at:
        words = f"{gpu.label} is at {gpu.temperature} C: from {gpu.slowdown_at} C on the hardware slows it down"
        yield Finding(FAIL, words, gpu.device, _HINT)
    elif gpu.most is not None and gpu.temperature > gpu.most:
        words = f"{gpu.label} is at {gpu.temperature} C, above the {gpu.most} C that it is to be used at"
        yield Finding(WARN, words, gpu.device, _HINT)


CHECK = Check(
    name="gpu_temperature",
    title="Temperature of the GPUs",
    explain=(
        "Each GPU is cooler than the temperature from which its hardware slows it down; above the highest temperature "
        "that it is to be used at it warns. Both limits are the GPU's own, as NVML tells them."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
    fault="NHC2017",
)
