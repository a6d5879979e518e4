# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the GPUs draw, and whether somebody has lowered what they may draw."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ..check import BOOT, DEEP, OBSERVE, PERIODIC, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each, untold
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus


def _measure(context: Context) -> Answer:
    good = "each GPU may draw what its model may"
    return judge_each(context, "what power it may draw", "power_limit", _judge, good, "the GPU's own default limit")


def _judge(gpu: GpuHealth) -> Iterator[Told]:
    if gpu.power is not None:
        yield Reading("gpu_power", gpu.power, "W", gpu.device)
    if gpu.power_limit is None or gpu.power_default is None:
        yield untold(gpu, "what power it may draw", "power_limit" if gpu.power_limit is None else "power_default")
        return
    yield Reading("gpu_power_limit", gpu.power_limit, "W", gpu.device, gpu.power_default)
    if gpu.power_limit < gpu.power_default:
        words = f"{gpu.label} may draw {gpu.power_limit:g} W only, and its model {gpu.power_default:g} W"
        hint = f"'nvidia-smi -i {gpu.index} -pl {gpu.power_default:g}' sets it back, if nobody wants it so"
        yield Finding(WARN, words, gpu.device, hint)


CHECK = Check(
    name="gpu_power",
    title="Power of the GPUs",
    explain=(
        "What each GPU draws, and that the limit in force is not below the default of its model, which the driver "
        "tells. A lower one is a warning."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
)
