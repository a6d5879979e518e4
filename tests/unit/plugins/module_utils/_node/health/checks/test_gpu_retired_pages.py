# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Retired pages of V100: few, too many by both kinds together, one pending, GPUs that do not tell."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotTell
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_retired_pages import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Pages

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

V100 = "Standard_ND40rs_v2"


def retired(single: int, double: int, pending: bool = False) -> Pages:
    """Pages by kind."""
    return Pages(single, double, pending)


def test_passes_up_to_the_limit() -> None:
    result = look(CHECK, gpu(0, pages=retired(0, 0)), gpu(1, pages=retired(30, 31)), size=V100)
    assert result.verdict == "pass"
    assert [(one.value, one.limit) for one in result.answer.readings] == [(0, 61), (61, 61)]


@pytest.mark.parametrize("pages", [retired(62, 0), retired(0, 62), retired(31, 31)])
def test_fails_above_the_limit_of_both_kinds_together(pages: Pages) -> None:
    result = look(CHECK, gpu(0, pages=pages), size=V100)
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2018", "replace")
    assert result.summary == "GPU 0 (0001:00:00.0) has retired 62 pages of its memory, more than 61"


def test_fails_where_a_page_waits_for_a_reset() -> None:
    result = look(CHECK, gpu(0, pages=retired(1, 0, pending=True)), size=V100)
    assert (result.verdict, result.action) == ("fail", "reset_gpu")


def test_cannot_measure_where_a_gpu_does_not_tell() -> None:
    result = look(CHECK, gpu(0, pages=None), size=V100)
    assert (result.verdict, result.summary) == ("unknown", "GPU 0 (0001:00:00.0) does not tell its retired pages")


def test_cannot_measure_without_a_limit() -> None:
    with pytest.raises(CannotTell, match="nothing says how many pages may be retired"):
        look(CHECK, gpu(0, pages=retired(0, 0)), size=None)


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK, gpu(0, pages=retired(0, 0)), size=V100)


@pytest.mark.parametrize(("size", "applies"), [("Standard_ND96isr_H100_v5", False), (V100, True)])
def test_applies_where_gpus_retire_pages(size: str, applies: bool) -> None:
    assert (CHECK.applies(context(size=size).size) == "") is applies
