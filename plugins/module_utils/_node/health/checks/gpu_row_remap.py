# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Rows of the GPUs' memory that spare ones stand for: none waits for a reset, and there are spare ones left."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...sku.types import VmSize
from ..check import FAIL, REPLACE, RESET_GPU, TIERS, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each
from ..gpus import PATIENCE_S
from ..limits import in_words
from ..nvidia_sizes import with_nvidia_gpus

_RESET = "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine: that remaps them"
_REPLACE = "Redeploy or replace the VM: the GPU's memory is worn out"


def _measure(context: Context) -> Answer:
    most = context.settings.threshold(context.size, "remapped_rows")

    def judge(gpu: GpuHealth) -> Iterator[Told]:
        if gpu.rows is None:
            return
        rows, limit = gpu.rows, most.limit if most else None
        yield Reading("gpu_rows_remapped_uncorrected", rows.uncorrected, "rows", gpu.device, limit, at_most=True)
        yield Reading("gpu_rows_remapped_corrected", rows.corrected, "rows", gpu.device)
        if rows.failure:
            yield Finding(FAIL, f"{gpu.label} could not remap a row of its memory", gpu.device, _REPLACE, REPLACE)
        if limit is not None and rows.uncorrected > limit:
            words = f"{gpu.label} has remapped {rows.uncorrected} rows for uncorrected errors, more than {limit:g}"
            yield Finding(FAIL, words, gpu.device, _REPLACE, REPLACE)
        if rows.pending:
            words = f"{gpu.label} waits for a reset to remap rows of its memory"
            yield Finding(FAIL, words, gpu.device, _RESET, RESET_GPU)

    limit = f"none pending, none failed; {in_words(most)}" if most else "none pending, none failed"
    return judge_each(context, "its remapped rows", "rows", judge, "no row waits for a reset, none failed", limit)


def _applies(size: VmSize | None) -> str:
    if size is not None and "retired_pages" in size.thresholds and "remapped_rows" not in size.thresholds:
        return f"GPUs of {size.name} retire pages: check gpu_retired_pages looks at them"
    return with_nvidia_gpus(size)


CHECK = Check(
    name="gpu_row_remap",
    title="Remapped rows of the GPUs' memory",
    explain=(
        "No row of a GPU's memory waits for a reset to be remapped, none could not be remapped, and no more were "
        "remapped for uncorrected errors than the limit (azurehpc-health-checks, check_gpu_ecc)."
    ),
    tiers=TIERS,
    measure=_measure,
    applies=_applies,
    limit_s=PATIENCE_S,
    action=RESET_GPU,
    fault="NHC2007",
    thresholds=("remapped_rows",),
)
