# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth caps and block sizes of an azcopy process."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import (
    Limits,
    block_mib,
    cap_of,
    share_of_account,
)


def test_eight_processes_under_20_gbps_get_2300_mbps_each() -> None:
    # "we choose that each azcopy can transfer data at a maximum transfer speed of 2300 Mbps (2300 x 8 = 18400)"
    assert share_of_account(20, 8) == 2300


@pytest.mark.parametrize(("gbps", "processes"), [(20, 1), (50, 16), (60, 128), (1, 100), (0.05, 4), (25, 7)])
def test_all_shares_use_most_of_the_account_limit_and_stay_below_it(gbps: float, processes: int) -> None:
    together = share_of_account(gbps, processes) * processes
    assert gbps * 1000 * 0.75 <= together <= gbps * 1000 * 0.92 + 1e-6


@pytest.mark.parametrize(("gbps", "processes"), [(0, 1), (-1, 1), (20, 0), (0.001, 8)])
def test_a_share_that_cannot_be_computed_is_refused(gbps: float, processes: int) -> None:
    with pytest.raises(ValueError, match="process"):
        share_of_account(gbps, processes)


@pytest.mark.parametrize(
    ("asked", "gbps", "cap"), [(None, 20, 2300), (500.0, 20, 500), (0.0, 20, 0), (None, 0, 0), (0.0, 0, 0)]
)
def test_the_callers_cap_overrides_the_share_even_if_it_is_zero(asked: float | None, gbps: float, cap: float) -> None:
    assert cap_of(asked, gbps, 8) == cap


@pytest.mark.parametrize(
    ("asked", "gbps"), [(-1.0, 0), (0.5, 0), (float("nan"), 20), (float("inf"), 20), (None, -1), (None, float("nan"))]
)
def test_an_invalid_cap_is_refused(asked: float | None, gbps: float) -> None:
    with pytest.raises(ValueError, match=r"is invalid|too small"):
        cap_of(asked, gbps, 8)


@pytest.mark.parametrize("cap", [1, 2, 8, 16, 33, 40, 60, 67, 68, 80, 2300])
def test_a_block_takes_at_most_one_second_at_the_cap(cap: float) -> None:
    # Measured: a capped download fails if min(file, block) is more than cap * 125000 bytes.
    assert 0 < block_mib(cap) * 1048576 <= cap * 125_000


def test_without_a_cap_azcopy_chooses_the_block_size() -> None:
    assert Limits().block_mib == 0
    with pytest.raises(ValueError, match="too small"):
        block_mib(0.5)
