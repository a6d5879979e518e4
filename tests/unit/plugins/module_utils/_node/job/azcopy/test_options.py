# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Caps, blocks and connections of one azcopy."""

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
def test_all_shares_together_stay_under_the_account_and_use_most_of_it(gbps: float, processes: int) -> None:
    together = share_of_account(gbps, processes) * processes
    assert gbps * 1000 * 0.75 <= together <= gbps * 1000 * 0.92 + 1e-6


@pytest.mark.parametrize(("gbps", "processes"), [(0, 1), (-1, 1), (20, 0), (0.001, 8)])
def test_a_share_that_is_none_is_refused(gbps: float, processes: int) -> None:
    with pytest.raises(ValueError, match="process"):
        share_of_account(gbps, processes)


@pytest.mark.parametrize(
    ("asked", "gbps", "cap"), [(None, 20, 2300), (500.0, 20, 500), (0.0, 20, 0), (None, 0, 0), (0.0, 0, 0)]
)
def test_a_cap_of_the_callers_own_counts_also_where_it_is_none(asked: float | None, gbps: float, cap: float) -> None:
    assert cap_of(asked, gbps, 8) == cap


@pytest.mark.parametrize(
    ("asked", "gbps"), [(-1.0, 0), (0.5, 0), (float("nan"), 20), (float("inf"), 20), (None, -1), (None, float("nan"))]
)
def test_a_cap_that_makes_no_sense_is_refused(asked: float | None, gbps: float) -> None:
    with pytest.raises(ValueError, match=r"is invalid|too small"):
        cap_of(asked, gbps, 8)


@pytest.mark.parametrize("cap", [1, 2, 8, 16, 33, 40, 60, 67, 68, 80, 2300])
def test_a_block_is_less_than_a_second_of_the_cap(cap: float) -> None:
    # Measured: a capped download fails where min(file, block) is more than cap * 125000 bytes.
    assert 0 < block_mib(cap) * 1048576 <= cap * 125_000


def test_blocks_of_what_is_not_capped_are_left_to_azcopy() -> None:
    assert Limits().block_mib == 0
    with pytest.raises(ValueError, match="too small"):
        block_mib(0.5)
