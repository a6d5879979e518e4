# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checked input: what each form takes, and what its message says."""

from __future__ import annotations

import math

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import (
    Malformed,
    check_seconds,
    choice,
    integer,
    list_of,
    record,
    text,
)


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


def test_forms_are_made_of_forms_and_name_the_place() -> None:
    form = record({"ports": list_of(integer(1, 65535)), "name": text}, required=("ports",))
    assert form("x", {"ports": ["80", 443], "name": " web "}) == {"ports": (80, 443), "name": "web"}
    for value, words in (
        ({"ports": [80, 0]}, r"x\.ports\[1\] must be a whole number from 1 to 65535, not 0\."),
        ({"ports": [True]}, r"x\.ports\[0\] must be a whole number from 1 to 65535, not True\."),
        ({"ports": 80}, r"x\.ports must be a list, not 80\."),
        ({"name": "a"}, r"x lacks ports; known keys are ports, name\."),
        ({"ports": [], "port": 1}, r"x has unknown keys port; known are ports, name\."),
        ([], r"x must be a mapping with keys of ports, name, not \[\]\."),
    ):
        with pytest.raises(Malformed, match=f"^{words}$"):
            form("x", value)
    with pytest.raises(Malformed, match=r"^x must be push or pull, not 'pus'\.$"):
        choice("push", "pull")("x", "pus")
