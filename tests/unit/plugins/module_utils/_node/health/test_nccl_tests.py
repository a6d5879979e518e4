# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of nccl-tests: old and new formats, complete, cut off, and with wrong results."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.nccl_tests import parse, size_in_bytes

from .deep_playing import recorded


def test_a_complete_run() -> None:
    outcome = parse(recorded("all_reduce_perf.txt"))
    assert outcome.bus_bandwidth == 232.824
    assert (outcome.ranks, outcome.wrong, outcome.validated) == (8, 0, True)
    assert [(row.size, row.bus_bandwidths, row.wrong) for row in outcome.rows] == [(8589934592, (232.84, 232.81), 0)]


def test_alltoall_without_an_operation_and_a_check_in_place() -> None:
    outcome = parse(recorded("alltoall_perf.txt"))
    assert outcome.bus_bandwidth == 234.519
    assert [(row.bus_bandwidths, row.wrong) for row in outcome.rows] == [((234.80, 234.24), 0)]


def test_the_format_before_2_11_without_a_root_and_with_an_error() -> None:
    line = (
        "   8388608       2097152     float     sum   119.73   70.06  122.61    0e+00   119.91   69.96  122.42    5e-07"
    )
    row = parse(f"{line}\n# Avg bus bandwidth    : 122.5\n").rows[0]
    assert (row.size, row.bus_bandwidths) == (8388608, (122.61, 122.42))


def test_a_time_stamp_after_a_row_is_ignored() -> None:
    line = "  1048576  262144  float  sum  -1  40.1  26.1  45.7  0  40.2  26.0  45.6  0  2026-11-22 16:40:00"
    assert parse(line).rows[0].bus_bandwidths == (45.7, 45.6)


@pytest.mark.parametrize("text", ["", "\n", "# Avg bus bandwidth    : \n", "# Avg bus bandwidth    : nan\n", "#\n# \n"])
def test_an_output_without_values_has_no_bandwidth(text: str) -> None:
    assert parse(text).bus_bandwidth is None


def test_an_incomplete_output_has_no_bandwidth() -> None:
    output = recorded("all_reduce_perf.txt")
    assert parse("# Avg bus bandwidth    : 228.1 \n").bus_bandwidth is None
    assert parse(output.split("# Out of bounds")[0]).bus_bandwidth is None
    assert parse(output.replace("232.824", "0")).bus_bandwidth is None


def test_wrong_values_are_counted_in_rows_and_in_the_summary() -> None:
    output = recorded("all_reduce_perf.txt")
    assert parse(output.replace("232.81      0", "232.81      7")).wrong == 7
    assert parse(output.replace("values : 0 OK", "values : 3 FAILED")).wrong == 3
    unchecked = parse(output.replace("232.84      0", "232.84    N/A").replace("232.81      0", "232.81    N/A"))
    assert (unchecked.wrong, unchecked.validated) == (0, False)


def test_sizes_in_bytes() -> None:
    assert [size_in_bytes(text) for text in ("8", "64K", "1m", "8G")] == [8, 65536, 1 << 20, 8 << 30]
    with pytest.raises(ValueError, match="8 Gigs"):
        size_in_bytes("8 Gigs")


def test_an_old_row_without_operation_and_root_is_read() -> None:
    (row,) = parse("  1024  256  float  30  1.1  2.2  0  31  1.3  2.4  1\n").rows
    assert (row.size, row.bus_bandwidths, row.wrong) == (1024, (2.2, 2.4), 1)


@pytest.mark.parametrize("rates", [("N/A", "2.4"), ("2.2", "N/A")])
def test_a_row_without_one_of_its_bandwidths_is_ignored(rates: tuple[str, str]) -> None:
    assert parse(f"  1024  256  float  30  1.1  {rates[0]}  0  31  1.3  {rates[1]}  0\n").rows == ()
