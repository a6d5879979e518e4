# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of perftest: units, sizes, and nothing."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.parsers.perftest import (
    bandwidth_gbps,
    latency_us,
)

from ..deep_playing import recorded


def test_bandwidth_in_gigabits_and_in_mebibytes() -> None:
    text = recorded("ib_write_bw.txt")
    assert bandwidth_gbps(text, 8388608) == 196.57
    mebibytes = text.replace("Gb/sec", "MiB/sec").replace("196.57", "23433.21")
    assert bandwidth_gbps(mebibytes, 8388608) == pytest.approx(196.57, abs=0.01)


def test_the_typical_latency() -> None:
    assert latency_us(recorded("ib_write_lat.txt")) == 1.56


def test_another_size_no_row_and_no_heading_are_nothing() -> None:
    text = recorded("ib_write_bw.txt")
    assert bandwidth_gbps(text, 65536) is None
    assert bandwidth_gbps(text.split(" 8388608 ")[0], 8388608) is None
    assert bandwidth_gbps("", 8388608) is None
    assert bandwidth_gbps(text.replace("196.57", "0.00  "), 8388608) is None
    assert latency_us("") is None
    assert latency_us(recorded("ib_write_lat.txt").split(" 2  ")[0]) is None


def test_a_row_that_is_cut_off_is_none() -> None:
    text = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 8388608    5000    196.60"
    assert bandwidth_gbps(text, 8388608) is None
    assert bandwidth_gbps(f"{text}    196.57\n", 8388608) == 196.57
    assert latency_us("t_typical[usec]\n 2 1000 1.53 5.31") is None


@pytest.mark.parametrize(
    ("said", "value"), [("1.56", 1.56), ("0.00", None), ("nan", None), ("inf", None), ("-1", None)]
)
def test_a_latency_is_a_number_above_zero(said: str, value: float | None) -> None:
    assert latency_us(f"t_typical[usec]\n 2 1000 1.53 5.31 {said}\n") == value
    assert bandwidth_gbps(f"BW average[Gb/sec]\n 2 1000 1.6 {said}\n", 2) == value
