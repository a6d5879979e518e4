# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Temperatures on both sides of the GPU's own limits, and GPUs that do not tell one or the other."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_temperature import CHECK

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look


@pytest.mark.parametrize("degrees", [20, 85])
def test_passes_up_to_the_highest_to_be_used_at(degrees: int) -> None:
    result = look(CHECK, gpu(0, temperature=degrees))
    (reading,) = result.answer.readings
    assert (result.verdict, reading.value, reading.limit, reading.at_most) == ("pass", degrees, 89, True)


@pytest.mark.parametrize("degrees", [86, 88])
def test_warns_above_it(degrees: int) -> None:
    result = look(CHECK, gpu(0, temperature=degrees))
    assert (result.verdict, result.summary) == (
        "warn",
        f"GPU 0 (0001:00:00.0) is at {degrees} C, above the 85 C that it is to be used at",
    )


@pytest.mark.parametrize("degrees", [89, 95])
def test_fails_from_where_it_is_slowed_down(degrees: int) -> None:
    result = look(CHECK, gpu(0), gpu(1, temperature=degrees))
    assert (result.verdict, result.fault) == ("fail", "NHC2017")
    assert result.summary == (f"GPU 1 (0002:00:00.0) is at {degrees} C: from 89 C on the hardware slows it down")


def test_each_gpu_has_limits_of_its_own() -> None:
    assert look(CHECK, gpu(0, temperature=80, slowdown_at=79)).verdict == "fail"
    assert look(CHECK, gpu(0, temperature=88, most=None)).verdict == "pass"


@pytest.mark.parametrize(
    ("untold", "words"),
    [
        ("temperature", "does not tell how hot it is"),
        ("slowdown_at", "does not tell at which temperature it is slowed"),
    ],
)
def test_cannot_measure_where_a_gpu_does_not_tell(untold: str, words: str) -> None:
    result = look(CHECK, gpu(0, **{untold: None}))
    assert result.verdict == "unknown"
    assert words in result.summary


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
