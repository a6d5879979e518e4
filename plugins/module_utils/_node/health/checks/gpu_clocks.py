# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' clocks are what the settings of gpu_clocks want."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuError, GpuFacts, read_load
from ...machine.gpu.errors import DIED, NO_ANSWER
from ...setup.clocks import ClockOptions, Lock, chosen, plan, read_options, read_record
from ..check import BOOT, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, CannotTell, Check, Context, Finding, Reading
from ..gpu_answers import Told, gather
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus


def _measure(context: Context) -> Answer:
    wanted = read_options(context.root)
    if wanted is None:
        return Answer(skipped="no clocks are wanted: there is no /etc/hpcai/clocks.json")
    try:
        gpus = chosen(context.gpus.facts(), wanted.gpus)
    except ValueError as error:
        raise CannotTell(f"/etc/hpcai/clocks.json: {error}") from None
    except GpuError as error:
        if error.kind in (NO_ANSWER, DIED):
            raise
        raise CannotTell(f"the GPUs' driver cannot be asked: {error}") from None
    if not gpus:
        raise CannotTell("the driver knows no GPU")
    record = read_record(context.root, read_load(context.root))
    told = [one for gpu in gpus for one in _judge(gpu, record.get(gpu.uuid or ""), wanted)]
    limit = f"{wanted.state} (/etc/hpcai/clocks.json)"
    return gather(told, f"the clocks of {len(gpus)} GPUs are as wanted ({wanted.state})", limit)


def _judge(gpu: GpuFacts, recorded: Lock | None, wanted: ClockOptions) -> Iterator[Told]:
    device = gpu.busid or f"GPU {gpu.index}"
    planned = plan(gpu, recorded, wanted)
    if planned.problem:
        yield Finding(UNKNOWN, f"{gpu.label} does not tell its clocks: {planned.problem}", device)
        return
    if gpu.current.graphics is not None:
        yield Reading("gpu_graphics_clock", gpu.current.graphics, "MHz", device)
    if gpu.current.memory is not None:
        yield Reading("gpu_memory_clock", gpu.current.memory, "MHz", device)
    if planned.unsupported and wanted.on_unsupported == "fail":
        words = f"{gpu.label} cannot have the clocks that are wanted: {planned.unsupported}"
        yield Finding(WARN, words, device, "Choose another method for gpu_clocks, or on_unsupported: warn")
    elif planned.actions:
        why = "; ".join(planned.reasons) or "something was changed"
        yield Finding(WARN, f"{gpu.label} has other clocks than wanted: {why}", device, "Run 'hpcnode clocks apply'")
    elif gpu.current.graphics is None and gpu.current.memory is None:
        yield Finding(UNKNOWN, f"{gpu.label} does not tell its clocks", device)


CHECK = Check(
    name="gpu_clocks",
    title="Clocks of the GPUs",
    explain=(
        "The clocks of each GPU are what /etc/hpcai/clocks.json (gpu_clocks) wants: application clocks as the driver "
        "tells them, locked ones as the record of this load of the driver has them. It warns: 'hpcnode clocks apply' "
        "mends it."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=OBSERVE,
)
