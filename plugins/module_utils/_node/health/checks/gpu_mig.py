# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""MIG: no GPU is cut into instances unless that is wanted."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ..check import BOOT, OBSERVE, PERIODIC, PROLOG, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus


def _measure(context: Context) -> Answer:
    wanted = bool(context.settings.option(CHECK, "enabled"))

    def judge(gpu: GpuHealth) -> Iterator[Told]:
        if "mig" in gpu.errors:
            return
        yield Reading("gpu_mig", "none" if gpu.mig is None else "on" if gpu.mig else "off", device=gpu.device)
        if bool(gpu.mig) != wanted:
            if gpu.mig:
                words = f"MIG mode of {gpu.label} is on: programs see parts of it, and NCCL cannot use them together"
            else:
                words = f"MIG mode of {gpu.label} is off, and is wanted"
            hint = f"'nvidia-smi -i {gpu.index} -mig {int(wanted)}' on the drained node, or set the option enabled"
            yield Finding(WARN, words, gpu.device, hint)

    state = "on" if wanted else "off"
    return judge_each(context, "whether MIG mode is on", "mig", judge, f"MIG mode is {state}, as wanted", state)


CHECK = Check(
    name="gpu_mig",
    title="MIG mode of the GPUs",
    explain="MIG mode is off on each GPU, or on where the option enabled says so. Anything else is a warning.",
    tiers=(PROLOG, PERIODIC, BOOT),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
    options={"enabled": False},
)
