# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remapped rows: few, too many, one pending, one that could not be remapped, GPUs that do not tell."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_row_remap import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Rows

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

MOST = 512


def test_passes_without_remapped_rows_and_up_to_the_limit() -> None:
    assert look(CHECK, gpu(0), gpu(1)).verdict == "pass"
    result = look(CHECK, gpu(0, rows=Rows(10_000, MOST, False, False)))
    assert (result.verdict, result.answer.readings[0].value, result.answer.readings[0].limit) == ("pass", MOST, MOST)
    assert result.answer.limit.startswith("none pending, none failed; at most 512 rows (")
    unlimited = look(CHECK, gpu(0, rows=Rows(0, MOST + 1, False, False)), size=None)
    assert (unlimited.verdict, unlimited.answer.limit) == ("pass", "none pending, none failed")


def test_fails_above_the_limit_of_uncorrected_rows() -> None:
    """A health check that reads the fourth of three columns never sees this one."""
    result = look(CHECK, gpu(0), gpu(1, rows=Rows(0, MOST + 1, False, False)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "replace")
    assert result.summary == ("GPU 1 (0002:00:00.0) has remapped 513 rows for uncorrected errors, more than 512")


def test_fails_where_a_row_waits_for_a_reset() -> None:
    result = look(CHECK, gpu(0, rows=Rows(0, 1, True, False)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "reset_gpu")


def test_fails_where_a_row_could_not_be_remapped_and_that_outweighs_a_reset() -> None:
    result = look(CHECK, gpu(0, rows=Rows(0, 1, True, True)))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2007", "replace")
    assert result.summary == "GPU 0 (0001:00:00.0) could not remap a row of its memory (and 1 more)"


def test_cannot_measure_where_a_gpu_does_not_tell() -> None:
    result = look(CHECK, gpu(0), gpu(1, rows=None))
    assert (result.verdict, result.summary) == ("unknown", "GPU 1 (0002:00:00.0) does not tell its remapped rows")


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)


@pytest.mark.parametrize(("size", "applies"), [("Standard_ND96isr_H100_v5", True), ("Standard_ND40rs_v2", False)])
def test_applies_where_gpus_remap_rows(size: str, applies: bool) -> None:
    assert (CHECK.applies(context(size=size).size) == "") is applies
