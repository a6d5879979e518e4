# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times that users give."""

from __future__ import annotations

import math

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.seconds import check_seconds


@pytest.mark.parametrize("value", [0.1, 30, 86400])
def test_takes_numbers_of_seconds(value: float) -> None:
    assert check_seconds("timeout", value) == value


def test_zero_only_where_not_to_wait_is_meant() -> None:
    assert check_seconds("wait", 0, zero=True) == 0
    with pytest.raises(ValueError, match="timeout is 0: give seconds above 0, at most 86400"):
        check_seconds("timeout", 0)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf, 86401, 1e300, "30", True, None])
def test_refuses_what_cannot_be_waited_for(value: object) -> None:
    with pytest.raises(ValueError, match=r"wait is .*: give seconds from 0, at most 86400"):
        check_seconds("wait", value, zero=True)
