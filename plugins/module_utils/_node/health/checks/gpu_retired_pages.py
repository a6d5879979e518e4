# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Pages of the GPUs' memory that are not used any more (V100): the table is not full, and none waits for a reset."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...sku.types import VmSize
from ..check import FAIL, REPLACE, RESET_GPU, TIERS, Answer, CannotTell, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each
from ..gpus import PATIENCE_S
from ..limits import in_words

_RESET = "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine: that retires them"
_REPLACE = "Redeploy or replace the VM: the table of retired pages is full"


def _measure(context: Context) -> Answer:
    most = context.settings.threshold(context.size, "retired_pages")
    if most is None:
        raise CannotTell("the VM size of this machine is not known, so nothing says how many pages may be retired")
    limit = most.limit

    def judge(gpu: GpuHealth) -> Iterator[Told]:
        if gpu.pages is None:
            return
        retired = gpu.pages.single + gpu.pages.double
        yield Reading("gpu_retired_pages", retired, "pages", gpu.device, limit, at_most=True)
        if retired > limit:
            words = f"{gpu.label} has retired {retired} pages of its memory, more than {limit:g}"
            yield Finding(FAIL, words, gpu.device, _REPLACE, REPLACE)
        if gpu.pages.pending:
            words = f"{gpu.label} waits for a reset to retire pages of its memory"
            yield Finding(FAIL, words, gpu.device, _RESET, RESET_GPU)

    good = "few pages are retired, and none waits for a reset"
    return judge_each(context, "its retired pages", "pages", judge, good, f"none pending; {in_words(most)}")


def _applies(size: VmSize | None) -> str:
    if size is None or "retired_pages" in size.thresholds:
        return ""
    return f"GPUs of {size.name} remap rows, if any, and retire no pages"


CHECK = Check(
    name="gpu_retired_pages",
    title="Retired pages of the GPUs' memory",
    explain=(
        "On V100: no more pages of a GPU's memory are retired than the limit, because of single and double bit errors "
        "together, and none waits for a reset (azurehpc-health-checks, check_gpu_ecc)."
    ),
    tiers=TIERS,
    measure=_measure,
    applies=_applies,
    limit_s=PATIENCE_S,
    action=RESET_GPU,
    fault="NHC2018",
    thresholds=("retired_pages",),
)
