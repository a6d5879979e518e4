# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measured values against a limit, and against those of the other devices."""

from __future__ import annotations

import math

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, WARN, Reading
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep.compare import compared, outliers
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import Threshold

LEAST = Threshold(100.0, "GB/s", "site", warn=105.0)
MOST = Threshold(100.0, "us", "site", at_most=True, warn=95.0)


def readings(*values: float, at_most: bool = False) -> list[Reading]:
    """One of each device."""
    return [Reading("rate", value, "GB/s", f"gpu{number}", at_most=at_most) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("threshold", "value", "verdicts"),
    [
        (LEAST, 99.9, [FAIL]),
        (LEAST, 100.0, [WARN]),
        (LEAST, 104.9, [WARN]),
        (LEAST, 105.0, []),
        (LEAST, math.nan, [FAIL]),
        (MOST, 100.1, [FAIL]),
        (MOST, 100.0, [WARN]),
        (MOST, 95.1, [WARN]),
        (MOST, 95.0, []),
        (MOST, math.nan, [FAIL]),
        (None, 1.0, []),
    ],
)
def test_a_value_at_its_limit_does_not_miss_it(threshold: Threshold | None, value: float, verdicts: list[str]) -> None:
    assert [one.verdict for one in compared(readings(value), threshold, "the rate", "pray")] == verdicts


def test_without_a_margin_nothing_is_near() -> None:
    assert compared(readings(100.0), Threshold(100.0, "GB/s", "site"), "the rate", "pray") == []


def test_the_words_tell_device_value_and_limit() -> None:
    (finding,) = compared(readings(99.0), LEAST, "the rate", "pray")
    assert (finding.summary, finding.hint) == ("the rate of gpu0 is 99 GB/s, and should be at least 100", "pray")
    (finding,) = compared([Reading("wait", 101.0, "us")], MOST, "the wait", "pray")
    assert finding.summary == "the wait is 101 us, and should be at most 100"
    (finding,) = compared(readings(101.0), LEAST, "the rate", "pray")
    assert finding.summary == "the rate of gpu0 is 101 GB/s, near the limit of 100"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((100, 100, 100, 94), ["gpu3"]),
        # It is just 5 percent.
        ((100, 100, 100, 95), []),
        # Better than the others is no matter.
        ((100, 100, 100, 150), []),
        # The others lie as far apart.
        ((100, 90, 80, 70), []),
        # Of three nobody knows which is odd.
        ((100, 100, 50), []),
    ],
)
def test_one_far_behind_the_others_is_told(values: tuple[float, ...], found: list[str]) -> None:
    assert [one.device for one in outliers(readings(*values), "the rate")] == found
    mirrored = [200 - value for value in values]
    assert len(outliers(readings(*mirrored, at_most=True), "the wait")) == len(found)


def test_far_is_three_and_a_half_deviations() -> None:
    # The median is 100, and the values lie 2 from it in the median: 3.5 of these are 10.4.
    near, far = (98.0, 102.0, 98.0, 102.0, 100.0, 89.7), (98.0, 102.0, 98.0, 102.0, 100.0, 89.5)
    assert outliers(readings(*near, 102.0), "the rate") == []
    assert [one.device for one in outliers(readings(*far, 102.0), "the rate")] == ["gpu5"]
