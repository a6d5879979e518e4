# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors in the GPUs' memory, remapped rows and retired pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotMeasure
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_memory import (
    GPU_ECC,
    GPU_RETIRED_PAGES,
    GPU_ROW_REMAP,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Ecc, Pages, Rows

from ..gpu_playing import CLEAN, assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

DRAM, SRAM = 20_000_000, 10_000


def counters_with(counter: str, count: int) -> Ecc:
    """Return counters, of which only this one is not 0."""
    changed: dict[str, Any] = {counter: count}
    return replace(CLEAN, **changed)


def test_gpu_ecc_passes_without_errors() -> None:
    result = look(GPU_ECC, gpu(0), gpu(1))
    assert (result.verdict, len(result.answer.readings)) == ("pass", 16)
    assert "DRAM at most 2e+07 errors (azurehpc-health-checks, conf/<size>.conf)" in result.answer.limit
    assert "no uncorrected error in SRAM" in result.answer.limit


@pytest.mark.parametrize(
    ("counter", "most"),
    [
        ("sram_uncorrected_volatile", 0),
        ("sram_uncorrected_aggregate", 0),
        ("sram_corrected_volatile", SRAM),
        ("sram_corrected_aggregate", SRAM),
        ("dram_uncorrected_aggregate", DRAM),
        ("dram_corrected_volatile", DRAM),
        ("dram_corrected_aggregate", DRAM),
    ],
)
def test_gpu_ecc_fails_above_the_limit_and_not_at_it(counter: str, most: int) -> None:
    assert look(GPU_ECC, gpu(0), gpu(1, ecc=counters_with(counter, most))).verdict == "pass"
    result = look(GPU_ECC, gpu(0), gpu(1, ecc=counters_with(counter, most + 1)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2019", "replace")
    (finding,) = result.answer.findings
    assert finding.device == "0002:00:00.0"
    assert f"had {most + 1} {'uncorrected' if 'uncorrected' in counter else 'corrected'} errors in" in finding.summary
    assert ("since the driver was loaded" if "volatile" in counter else "in its lifetime") in finding.summary
    reading = next(one for one in result.answer.readings if one.name == f"gpu_ecc_{counter}" and one.value)
    assert (reading.value, reading.limit, reading.at_most) == (most + 1, most, True)


def test_gpu_ecc_warns_of_recent_uncorrected_dram_errors_up_to_the_limit() -> None:
    result = look(GPU_ECC, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=1)))
    assert (result.verdict, result.action) == ("warn", "reset_gpu")
    assert look(GPU_ECC, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=DRAM))).verdict == "warn"
    assert look(GPU_ECC, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=DRAM + 1))).verdict == "fail"


def test_gpu_ecc_fails_if_the_gpu_reports_too_many_sram_errors() -> None:
    result = look(GPU_ECC, gpu(0, ecc=replace(CLEAN, sram_threshold=True)))
    assert (result.verdict, result.action) == ("fail", "replace")


def test_gpu_ecc_warns_if_ecc_is_off() -> None:
    assert look(GPU_ECC, gpu(0, ecc=Ecc(enabled=False))).verdict == "warn"


@pytest.mark.parametrize(
    "counter",
    [
        f"{where}_{kind}"
        for where in ("sram_uncorrected", "sram_corrected", "dram_uncorrected", "dram_corrected")
        for kind in ("volatile", "aggregate")
    ],
)
def test_gpu_ecc_cannot_measure_without_one_of_the_counters(counter: str) -> None:
    result = look(GPU_ECC, gpu(0, ecc=replace(CLEAN, **{counter: None})))
    assert result.verdict == "unknown"
    assert result.summary.startswith("GPU 0 (0001:00:00.0) does not report the ")


def test_gpu_ecc_cannot_measure_without_any_counter() -> None:
    result = look(GPU_ECC, gpu(0, ecc=Ecc(), errors={"ecc": "Unknown Error"}))
    assert result.verdict == "unknown"
    assert result.summary == "GPU 0 (0001:00:00.0) does not report the number of its memory errors: Unknown Error"


def test_gpu_ecc_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_ECC)


def test_gpu_ecc_without_limits_only_uncorrected_sram_errors_fail() -> None:
    size = "Standard_ND128isr_NDR_GB200_v6"
    assert look(GPU_ECC, gpu(0, ecc=replace(CLEAN, dram_corrected_aggregate=DRAM + 1)), size=size).verdict == "pass"
    assert look(GPU_ECC, gpu(0, ecc=replace(CLEAN, sram_uncorrected_volatile=1)), size=size).verdict == "fail"


def test_gpu_ecc_the_site_can_set_other_limits() -> None:
    ecc = replace(CLEAN, sram_corrected_volatile=6)
    assert look(GPU_ECC, gpu(0, ecc=ecc), limits={"ecc_sram_errors": 5}).verdict == "fail"
    assert look(GPU_ECC, gpu(0, ecc=ecc), limits={"ecc_sram_errors": 6}).verdict == "pass"


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("Standard_ND96asr_v4", ""),
        ("Standard_ND40rs_v2", "GPUs of Standard_ND40rs_v2 retire pages, see check gpu_retired_pages"),
        ("Standard_ND96isr_MI300X_v5", "Standard_ND96isr_MI300X_v5 has AMD GPUs"),
    ],
)
def test_gpu_ecc_applies(size: str, reason: str) -> None:
    assert GPU_ECC.applies(context(size=size).size) == reason


MOST = 512


def test_gpu_row_remap_passes_without_remapped_rows_and_up_to_the_limit() -> None:
    assert look(GPU_ROW_REMAP, gpu(0), gpu(1)).verdict == "pass"
    result = look(GPU_ROW_REMAP, gpu(0, rows=Rows(10_000, MOST, False, False)))
    assert (result.verdict, result.answer.readings[0].value, result.answer.readings[0].limit) == ("pass", MOST, MOST)
    assert result.answer.limit.startswith("none pending, none failed; at most 512 rows (")
    unlimited = look(GPU_ROW_REMAP, gpu(0, rows=Rows(0, MOST + 1, False, False)), size=None)
    assert (unlimited.verdict, unlimited.answer.limit) == ("pass", "none pending, none failed")


def test_gpu_row_remap_fails_above_the_limit_of_uncorrected_rows() -> None:
    """A health check that reads a fourth column, where there are three, never finds this."""
    result = look(GPU_ROW_REMAP, gpu(0), gpu(1, rows=Rows(0, MOST + 1, False, False)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "replace")
    assert result.summary == ("GPU 1 (0002:00:00.0) has remapped 513 rows for uncorrected errors, more than 512")


def test_gpu_row_remap_fails_if_a_row_waits_for_a_reset() -> None:
    result = look(GPU_ROW_REMAP, gpu(0, rows=Rows(0, 1, True, False)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "reset_gpu")


def test_gpu_row_remap_a_failed_remap_wins_over_a_pending_reset() -> None:
    result = look(GPU_ROW_REMAP, gpu(0, rows=Rows(0, 1, True, True)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "replace")
    assert result.summary == "GPU 0 (0001:00:00.0) could not remap a row of its memory (and 1 more)"


def test_gpu_row_remap_cannot_measure_without_the_number_of_rows() -> None:
    result = look(GPU_ROW_REMAP, gpu(0), gpu(1, rows=None))
    assert (result.verdict, result.summary) == ("unknown", "GPU 1 (0002:00:00.0) does not report its remapped rows")


def test_gpu_row_remap_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_ROW_REMAP)


@pytest.mark.parametrize(("size", "applies"), [("Standard_ND96isr_H100_v5", True), ("Standard_ND40rs_v2", False)])
def test_gpu_row_remap_applies_if_gpus_remap_rows(size: str, applies: bool) -> None:
    assert (GPU_ROW_REMAP.applies(context(size=size).size) == "") is applies


V100 = "Standard_ND40rs_v2"


def retired(single: int, double: int, pending: bool = False) -> Pages:
    """Return retired pages by kind."""
    return Pages(single, double, pending)


def test_gpu_retired_pages_passes_up_to_the_limit() -> None:
    result = look(GPU_RETIRED_PAGES, gpu(0, pages=retired(0, 0)), gpu(1, pages=retired(30, 31)), size=V100)
    assert result.verdict == "pass"
    assert [(one.value, one.limit) for one in result.answer.readings] == [(0, 61), (61, 61)]


@pytest.mark.parametrize("pages", [retired(62, 0), retired(0, 62), retired(31, 31)])
def test_gpu_retired_pages_fails_above_the_limit_of_both_kinds_together(pages: Pages) -> None:
    result = look(GPU_RETIRED_PAGES, gpu(0, pages=pages), size=V100)
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2018", "replace")
    assert result.summary == "GPU 0 (0001:00:00.0) has retired 62 pages of its memory, more than 61"


def test_gpu_retired_pages_fails_if_a_page_waits_for_a_reset() -> None:
    result = look(GPU_RETIRED_PAGES, gpu(0, pages=retired(1, 0, pending=True)), size=V100)
    assert (result.verdict, result.action) == ("fail", "reset_gpu")


def test_gpu_retired_pages_cannot_measure_without_the_number_of_pages() -> None:
    result = look(GPU_RETIRED_PAGES, gpu(0, pages=None), size=V100)
    assert (result.verdict, result.summary) == ("unknown", "GPU 0 (0001:00:00.0) does not report its retired pages")


def test_gpu_retired_pages_cannot_measure_without_a_limit() -> None:
    with pytest.raises(CannotMeasure, match="there is no limit for retired pages"):
        look(GPU_RETIRED_PAGES, gpu(0, pages=retired(0, 0)), size=None)


def test_gpu_retired_pages_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_RETIRED_PAGES, gpu(0, pages=retired(0, 0)), size=V100)


@pytest.mark.parametrize(("size", "applies"), [("Standard_ND96isr_H100_v5", False), (V100, True)])
def test_gpu_retired_pages_applies_if_gpus_retire_pages(size: str, applies: bool) -> None:
    assert (GPU_RETIRED_PAGES.applies(context(size=size).size) == "") is applies
