# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors in the GPUs' memory: DRAM, and the SRAM of caches and registers."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...sku.types import Threshold, VmSize
from ..check import FAIL, REPLACE, RESET_GPU, TIERS, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each, untold
from ..gpus import PATIENCE_S
from ..limits import in_words
from ..nvidia_sizes import with_nvidia_gpus

_REPLACE = "Redeploy or replace the VM: errors of this kind come back on the same GPU"
_SINCE = {"volatile": "since the driver was loaded", "aggregate": "in its life"}
_NO_SRAM_ERRORS = "no uncorrected error in SRAM (azurehpc-health-checks, check_gpu_ecc)"


def _measure(context: Context) -> Answer:
    dram, sram = (context.settings.threshold(context.size, name) for name in CHECK.thresholds)

    def judge(gpu: GpuHealth) -> Iterator[Told]:
        if gpu.ecc.enabled is None:
            return
        if not gpu.ecc.enabled:
            words = f"{gpu.label} looks for no memory errors: ECC is off"
            yield Finding(WARN, words, gpu.device, "'nvidia-smi -e 1' and a reset of the GPU switch it on")
            return
        yield from _sram(gpu, sram)
        yield from _dram(gpu, dram)

    limits = [f"DRAM {in_words(dram)}"] if dram else []
    limits += [f"SRAM corrected {in_words(sram)}"] if sram else []
    good = "no memory errors beyond the limits"
    return judge_each(
        context, "how many memory errors it had", "ecc", judge, good, "; ".join([*limits, _NO_SRAM_ERRORS])
    )


def _sram(gpu: GpuHealth, most: Threshold | None) -> Iterator[Told]:
    ecc = gpu.ecc
    if ecc.sram_threshold:
        words = f"{gpu.label} says that the errors in its SRAM are too many"
        yield Finding(FAIL, words, gpu.device, _REPLACE)
    uncorrected = (ecc.sram_uncorrected_volatile, ecc.sram_uncorrected_aggregate)
    corrected = (ecc.sram_corrected_volatile, ecc.sram_corrected_aggregate)
    yield from _compare(gpu, "sram_uncorrected", "uncorrected errors in SRAM", uncorrected, 0)
    yield from _compare(gpu, "sram_corrected", "corrected errors in SRAM", corrected, _limit(most))


def _dram(gpu: GpuHealth, most: Threshold | None) -> Iterator[Told]:
    ecc = gpu.ecc
    uncorrected = (ecc.dram_uncorrected_volatile, ecc.dram_uncorrected_aggregate)
    corrected = (ecc.dram_corrected_volatile, ecc.dram_corrected_aggregate)
    yield from _compare(gpu, "dram_uncorrected", "uncorrected errors in DRAM", uncorrected, _limit(most))
    yield from _compare(gpu, "dram_corrected", "corrected errors in DRAM", corrected, _limit(most))
    if (ecc.dram_uncorrected_volatile or 0) > 0:
        words = f"{gpu.label} had {ecc.dram_uncorrected_volatile} uncorrected errors in DRAM {_SINCE['volatile']}"
        hint = "Check gpu_row_remap says whether it needs a reset; a job that ran then may have wrong results"
        yield Finding(WARN, words, gpu.device, hint, RESET_GPU)


def _limit(most: Threshold | None) -> float | None:
    return most.limit if most else None


def _compare(
    gpu: GpuHealth, name: str, what: str, counts: tuple[int | None, int | None], most: float | None
) -> Iterator[Told]:
    for (kind, since), count in zip(_SINCE.items(), counts):
        if count is None:
            yield untold(gpu, f"the {what} {since}", "ecc")
            continue
        yield Reading(f"gpu_ecc_{name}_{kind}", count, "errors", gpu.device, most, at_most=True)
        if most is not None and count > most:
            words = f"{gpu.label} had {count} {what} {since}, more than {most:g}"
            yield Finding(FAIL, words, gpu.device, _REPLACE)


def _applies(size: VmSize | None) -> str:
    if size is not None and "retired_pages" in size.thresholds and "ecc_dram_errors" not in size.thresholds:
        return f"GPUs of {size.name} retire pages: check gpu_retired_pages looks at them"
    return with_nvidia_gpus(size)


CHECK = Check(
    name="gpu_ecc",
    title="Memory errors of the GPUs",
    explain=(
        "The counters of each GPU's memory errors, since the driver was loaded and in its life. Any uncorrected error "
        "in SRAM fails, and so do more errors than the limits (azurehpc-health-checks, conf/<size>.conf: corrected "
        "ones in SRAM, any in DRAM), and a GPU that says itself that its SRAM is worn out. ECC that is off, and "
        "uncorrected errors in DRAM since the driver was loaded, are warnings."
    ),
    tiers=TIERS,
    measure=_measure,
    applies=_applies,
    limit_s=PATIENCE_S,
    action=REPLACE,
    fault="NHC2019",
    thresholds=("ecc_dram_errors", "ecc_sram_errors"),
)
