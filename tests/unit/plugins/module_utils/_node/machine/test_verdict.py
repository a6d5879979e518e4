# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of several verdicts counts."""

from __future__ import annotations

from itertools import permutations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import (
    FAIL,
    PASS,
    SKIP,
    UNKNOWN,
    WARN,
    worst,
)


@pytest.mark.parametrize("order", list(permutations([FAIL, UNKNOWN, WARN, PASS, SKIP])))
def test_the_order_of_verdicts(order: tuple[str, ...]) -> None:
    assert worst(order) == FAIL
    assert worst([one for one in order if one != FAIL]) == UNKNOWN
    assert worst([one for one in order if one not in (FAIL, UNKNOWN)]) == WARN
    assert worst([one for one in order if one in (PASS, SKIP)]) == PASS
    assert worst([SKIP, SKIP]) == SKIP


def test_the_worst_of_no_verdict_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        worst([])
