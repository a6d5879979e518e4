# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors in the GPUs' memory, and the rows and pages that the GPUs remapped or retired."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...sku.types import Threshold, VmSize
from ..applies import with_nvidia_gpus
from ..check import FAIL, REPLACE, RESET_GPU, TIERS, WARN, Answer, CannotMeasure, Check, Context, Finding, Reading
from ..gpu_answers import Observation, judge_each, not_reported
from ..gpus import CHECK_LIMIT_S
from ..settings import in_words

# Errors in the GPUs' memory: DRAM, and the SRAM of caches and registers.

_ECC_REPLACE = "Redeploy or replace the VM: errors of this kind return on the same GPU"
_SINCE = {"volatile": "since the driver was loaded", "aggregate": "in its lifetime"}
_NO_SRAM_ERRORS = "no uncorrected error in SRAM (azurehpc-health-checks, check_gpu_ecc)"


def _measure_ecc(context: Context) -> Answer:
    dram, sram = (context.settings.threshold(context.size, name) for name in GPU_ECC.thresholds)

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        if gpu.ecc.enabled is None:
            return
        if not gpu.ecc.enabled:
            words = f"{gpu.label} does not detect memory errors: ECC is off"
            yield Finding(WARN, words, gpu.device, "Turn it on with 'nvidia-smi -e 1' and a reset of the GPU")
            return
        yield from _sram(gpu, sram)
        yield from _dram(gpu, dram)

    limits = [f"DRAM {in_words(dram)}"] if dram else []
    limits += [f"SRAM corrected {in_words(sram)}"] if sram else []
    good = "no memory errors beyond the limits"
    return judge_each(
        context, "the number of its memory errors", "ecc", judge, good, "; ".join([*limits, _NO_SRAM_ERRORS])
    )


def _sram(gpu: GpuHealth, most: Threshold | None) -> Iterator[Observation]:
    ecc = gpu.ecc
    if ecc.sram_threshold:
        words = f"{gpu.label} reports that its SRAM has too many errors"
        yield Finding(FAIL, words, gpu.device, _ECC_REPLACE)
    uncorrected = (ecc.sram_uncorrected_volatile, ecc.sram_uncorrected_aggregate)
    corrected = (ecc.sram_corrected_volatile, ecc.sram_corrected_aggregate)
    yield from _compare(gpu, "sram_uncorrected", "uncorrected errors in SRAM", uncorrected, 0)
    yield from _compare(gpu, "sram_corrected", "corrected errors in SRAM", corrected, _limit(most))


def _dram(gpu: GpuHealth, most: Threshold | None) -> Iterator[Observation]:
    ecc = gpu.ecc
    uncorrected = (ecc.dram_uncorrected_volatile, ecc.dram_uncorrected_aggregate)
    corrected = (ecc.dram_corrected_volatile, ecc.dram_corrected_aggregate)
    yield from _compare(gpu, "dram_uncorrected", "uncorrected errors in DRAM", uncorrected, _limit(most))
    yield from _compare(gpu, "dram_corrected", "corrected errors in DRAM", corrected, _limit(most))
    if (ecc.dram_uncorrected_volatile or 0) > 0:
        words = f"{gpu.label} had {ecc.dram_uncorrected_volatile} uncorrected errors in DRAM {_SINCE['volatile']}"
        hint = "See check gpu_row_remap for whether it needs a reset; a job that ran then may have wrong results"
        yield Finding(WARN, words, gpu.device, hint, RESET_GPU)


def _limit(most: Threshold | None) -> float | None:
    return most.limit if most else None


def _compare(
    gpu: GpuHealth, name: str, what: str, counts: tuple[int | None, int | None], most: float | None
) -> Iterator[Observation]:
    for (kind, since), count in zip(_SINCE.items(), counts):
        if count is None:
            yield not_reported(gpu, f"the {what} {since}", "ecc")
            continue
        yield Reading(f"gpu_ecc_{name}_{kind}", count, "errors", gpu.device, most, at_most=True)
        if most is not None and count > most:
            words = f"{gpu.label} had {count} {what} {since}, more than {most:g}"
            yield Finding(FAIL, words, gpu.device, _ECC_REPLACE)


def _applies_ecc(size: VmSize | None) -> str:
    if size is not None and "retired_pages" in size.thresholds and "ecc_dram_errors" not in size.thresholds:
        return f"GPUs of {size.name} retire pages, see check gpu_retired_pages"
    return with_nvidia_gpus(size)


GPU_ECC = Check(
    name="gpu_ecc",
    title="Memory errors of the GPUs",
    explain=(
        "Reads how many corrected and uncorrected errors each GPU's memory had, since the driver was loaded and in the "
        "GPU's lifetime. Each of these counters has a limit: 0 for uncorrected errors in SRAM, the limit "
        "ecc_sram_errors for corrected errors in SRAM, and the limit ecc_dram_errors for both kinds of errors in DRAM "
        "(azurehpc-health-checks, conf/<size>.conf). The check fails if a counter is above its limit, or if the GPU "
        "reports that its SRAM has too many errors. It warns if ECC is off, or if there was an uncorrected error in "
        "DRAM since the driver was loaded."
    ),
    tiers=TIERS,
    measure=_measure_ecc,
    applies=_applies_ecc,
    limit_s=CHECK_LIMIT_S,
    action=REPLACE,
    fault="NHC2019",
    thresholds=("ecc_dram_errors", "ecc_sram_errors"),
)


# Rows of the GPUs' memory that are replaced by spare rows: none waits for a reset, and spare rows are left.

_ROW_REMAP_RESET = "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine: that remaps them"
_ROW_REMAP_REPLACE = "Redeploy or replace the VM: the GPU's memory is worn out"


def _measure_row_remap(context: Context) -> Answer:
    most = context.settings.threshold(context.size, "remapped_rows")

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        if gpu.rows is None:
            return
        rows, limit = gpu.rows, most.limit if most else None
        yield Reading("gpu_rows_remapped_uncorrected", rows.uncorrected, "rows", gpu.device, limit, at_most=True)
        yield Reading("gpu_rows_remapped_corrected", rows.corrected, "rows", gpu.device)
        if rows.failure:
            yield Finding(
                FAIL, f"{gpu.label} could not remap a row of its memory", gpu.device, _ROW_REMAP_REPLACE, REPLACE
            )
        if limit is not None and rows.uncorrected > limit:
            words = f"{gpu.label} has remapped {rows.uncorrected} rows for uncorrected errors, more than {limit:g}"
            yield Finding(FAIL, words, gpu.device, _ROW_REMAP_REPLACE, REPLACE)
        if rows.pending:
            words = f"{gpu.label} waits for a reset to remap rows of its memory"
            yield Finding(FAIL, words, gpu.device, _ROW_REMAP_RESET, RESET_GPU)

    limit = f"none pending, none failed; {in_words(most)}" if most else "none pending, none failed"
    return judge_each(context, "its remapped rows", "rows", judge, "no row waits for a reset, none failed", limit)


def _applies_row_remap(size: VmSize | None) -> str:
    if size is not None and "retired_pages" in size.thresholds and "remapped_rows" not in size.thresholds:
        return f"GPUs of {size.name} retire pages, see check gpu_retired_pages"
    return with_nvidia_gpus(size)


GPU_ROW_REMAP = Check(
    name="gpu_row_remap",
    title="Remapped rows of the GPUs' memory",
    explain=(
        "No GPU needs a reset to remap a row of its memory, and no remapping has failed. The number of rows that "
        "were remapped because of uncorrected errors is at most the limit remapped_rows (azurehpc-health-checks, "
        "check_gpu_ecc)."
    ),
    tiers=TIERS,
    measure=_measure_row_remap,
    applies=_applies_row_remap,
    limit_s=CHECK_LIMIT_S,
    action=RESET_GPU,
    fault="NHC2007",
    thresholds=("remapped_rows",),
)


# Retired pages of the GPUs' memory (V100): the table is not full, and none waits for a reset.

_RETIRED_PAGES_RESET = (
    "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine: that retires them"
)
_RETIRED_PAGES_REPLACE = "Redeploy or replace the VM: the table of retired pages is full"


def _measure_retired_pages(context: Context) -> Answer:
    most = context.settings.threshold(context.size, "retired_pages")
    if most is None:
        raise CannotMeasure("the VM size of this machine is not known, so there is no limit for retired pages")
    limit = most.limit

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        if gpu.pages is None:
            return
        retired = gpu.pages.single + gpu.pages.double
        yield Reading("gpu_retired_pages", retired, "pages", gpu.device, limit, at_most=True)
        if retired > limit:
            words = f"{gpu.label} has retired {retired} pages of its memory, more than {limit:g}"
            yield Finding(FAIL, words, gpu.device, _RETIRED_PAGES_REPLACE, REPLACE)
        if gpu.pages.pending:
            words = f"{gpu.label} waits for a reset to retire pages of its memory"
            yield Finding(FAIL, words, gpu.device, _RETIRED_PAGES_RESET, RESET_GPU)

    good = "the retired pages are within the limit, and none waits for a reset"
    return judge_each(context, "its retired pages", "pages", judge, good, f"none pending; {in_words(most)}")


def _applies_retired_pages(size: VmSize | None) -> str:
    if size is None or "retired_pages" in size.thresholds:
        return ""
    return f"GPUs of {size.name} do not retire pages"


GPU_RETIRED_PAGES = Check(
    name="gpu_retired_pages",
    title="Retired pages of the GPUs' memory",
    explain=(
        "Only for VM sizes with V100, which retires pages of its memory instead of remapping rows. No GPU needs a "
        "reset to retire a page. The number of a GPU's retired pages, for single and double bit errors together, is at "
        "most the limit retired_pages (azurehpc-health-checks, check_gpu_ecc)."
    ),
    tiers=TIERS,
    measure=_measure_retired_pages,
    applies=_applies_retired_pages,
    limit_s=CHECK_LIMIT_S,
    action=RESET_GPU,
    fault="NHC2018",
    thresholds=("retired_pages",),
)
