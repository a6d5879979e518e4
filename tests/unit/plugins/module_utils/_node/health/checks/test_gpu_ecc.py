# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory errors: none, of each kind one more than is allowed, counters that do not answer, ECC that is off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_ecc import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Ecc

from ..gpu_playing import CLEAN, assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

DRAM, SRAM = 20_000_000, 10_000


def counted(counter: str, count: int) -> Ecc:
    """One counter that is not 0."""
    changed: dict[str, Any] = {counter: count}
    return replace(CLEAN, **changed)


def test_passes_without_errors() -> None:
    result = look(CHECK, gpu(0), gpu(1))
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
def test_fails_above_the_limit_and_not_at_it(counter: str, most: int) -> None:
    assert look(CHECK, gpu(0), gpu(1, ecc=counted(counter, most))).verdict == "pass"
    result = look(CHECK, gpu(0), gpu(1, ecc=counted(counter, most + 1)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2019", "replace")
    (finding,) = result.answer.findings
    assert finding.device == "0002:00:00.0"
    assert f"had {most + 1} {'uncorrected' if 'uncorrected' in counter else 'corrected'} errors in" in finding.summary
    assert ("since the driver was loaded" if "volatile" in counter else "in its life") in finding.summary
    reading = next(one for one in result.answer.readings if one.name == f"gpu_ecc_{counter}" and one.value)
    assert (reading.value, reading.limit, reading.at_most) == (most + 1, most, True)


def test_uncorrected_errors_in_dram_since_the_driver_was_loaded_are_a_warning_up_to_the_limit() -> None:
    result = look(CHECK, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=1)))
    assert (result.verdict, result.action) == ("warn", "reset_gpu")
    assert look(CHECK, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=DRAM))).verdict == "warn"
    assert look(CHECK, gpu(0, ecc=replace(CLEAN, dram_uncorrected_volatile=DRAM + 1))).verdict == "fail"


def test_fails_where_the_gpu_itself_says_that_its_sram_is_worn() -> None:
    result = look(CHECK, gpu(0, ecc=replace(CLEAN, sram_threshold=True)))
    assert (result.verdict, result.action) == ("fail", "replace")


def test_warns_where_ecc_is_off() -> None:
    assert look(CHECK, gpu(0, ecc=Ecc(enabled=False))).verdict == "warn"


@pytest.mark.parametrize(
    "counter",
    [
        f"{where}_{kind}"
        for where in ("sram_uncorrected", "sram_corrected", "dram_uncorrected", "dram_corrected")
        for kind in ("volatile", "aggregate")
    ],
)
def test_cannot_measure_a_counter_that_does_not_answer(counter: str) -> None:
    result = look(CHECK, gpu(0, ecc=replace(CLEAN, **{counter: None})))
    assert result.verdict == "unknown"
    assert result.summary.startswith("GPU 0 (0001:00:00.0) does not tell the ")


def test_cannot_measure_without_any_answer() -> None:
    result = look(CHECK, gpu(0, ecc=Ecc(), errors={"ecc": "Unknown Error"}))
    assert result.verdict == "unknown"
    assert result.summary == "GPU 0 (0001:00:00.0) does not tell how many memory errors it had: Unknown Error"


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)


def test_a_size_without_limits_is_judged_by_what_needs_none() -> None:
    size = "Standard_ND128isr_NDR_GB200_v6"
    assert look(CHECK, gpu(0, ecc=replace(CLEAN, dram_corrected_aggregate=DRAM + 1)), size=size).verdict == "pass"
    assert look(CHECK, gpu(0, ecc=replace(CLEAN, sram_uncorrected_volatile=1)), size=size).verdict == "fail"


def test_the_site_may_set_other_limits() -> None:
    ecc = replace(CLEAN, sram_corrected_volatile=6)
    assert look(CHECK, gpu(0, ecc=ecc), limits={"ecc_sram_errors": 5}).verdict == "fail"
    assert look(CHECK, gpu(0, ecc=ecc), limits={"ecc_sram_errors": 6}).verdict == "pass"


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("Standard_ND96asr_v4", ""),
        ("Standard_ND40rs_v2", "GPUs of Standard_ND40rs_v2 retire pages: check gpu_retired_pages looks at them"),
        ("Standard_ND96isr_MI300X_v5", "Standard_ND96isr_MI300X_v5 has GPUs of AMD's"),
    ],
)
def test_applies(size: str, reason: str) -> None:
    assert CHECK.applies(context(size=size).size) == reason
