# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of STREAM: the rate of its triad, and whether its results were wrong."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.parsers.stream import is_wrong, triad_gbps

from ..deep_playing import recorded


def test_the_triad_in_gigabytes() -> None:
    assert triad_gbps(recorded("stream.txt")) == pytest.approx(328.4417)


@pytest.mark.parametrize("line", ["", "Triad:  nan", "Triad:  0.0", "Triad:  1e999", "Triad:  1.2.3"])
def test_no_rate_is_none(line: str) -> None:
    assert triad_gbps(f"Function    Best Rate MB/s\n{line}  0.1  0.1\n") is None


def test_wrong_results_are_told() -> None:
    assert is_wrong("Failed Validation on array a[], AvgRelAbsErr > epsilon")
    assert not is_wrong(recorded("stream.txt"))
