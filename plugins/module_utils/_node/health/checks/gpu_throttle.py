# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Why the GPUs' clocks are not higher: heat, the hardware, the power."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...machine.gpu.health import HARDWARE, HARDWARE_THERMAL, POWER_BRAKE, POWER_CAP, THERMAL
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, PROLOG, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus

_HEAT = "NHC2017"
_HARD = (
    (HARDWARE_THERMAL, "it is too hot (HW thermal slowdown)", _HEAT),
    (POWER_BRAKE, "its power supply demands it (HW power brake)", "NHC2010"),
    (HARDWARE, "of heat or power (HW slowdown)", "NHC2010"),
)
_HINT = "'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' tells more; redeploy the VM if it stays so"


def _measure(context: Context) -> Answer:
    good = "nothing slows the GPUs down"
    return judge_each(context, "why its clocks are not higher", "reasons", _judge, good)


def _judge(gpu: GpuHealth) -> Iterator[Told]:
    if gpu.reasons is None:
        return
    yield Reading("gpu_clock_reasons", gpu.reasons, device=gpu.device)
    # Several at once are usual, and the general bit of the hardware comes with the particular ones.
    hard = next(((words, fault) for bit, words, fault in _HARD if gpu.reasons & bit), None)
    if hard:
        words = f"the hardware slows {gpu.label} down because {hard[0]}"
        yield Finding(FAIL, words, gpu.device, _HINT, fault=hard[1])
    elif gpu.reasons & THERMAL:
        words = f"the driver slows {gpu.label} down because it is too hot (SW thermal slowdown)"
        yield Finding(WARN, words, gpu.device, _HINT)
    if gpu.reasons & POWER_CAP and _is_lowered(gpu):
        words = f"{gpu.label} is held back by a power limit of {gpu.power_limit:g} W, below its {gpu.power_default:g} W"
        yield Finding(WARN, words, gpu.device, "'nvidia-smi -pl' sets it")


def _is_lowered(gpu: GpuHealth) -> bool:
    return gpu.power_limit is not None and gpu.power_default is not None and gpu.power_limit < gpu.power_default


CHECK = Check(
    name="gpu_throttle",
    title="What slows the GPUs down",
    explain=(
        "The driver's reasons why clocks are not higher, bit by bit. The hardware's own slowdown, for heat or power, "
        "fails; the driver's for heat is a warning, and so is the power limit where somebody has lowered it. Being "
        "idle, clocks that were set, and a GPU under load at its own power limit are as they should be (NVIDIA, "
        "nvml.h)."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
    fault=_HEAT,
)
