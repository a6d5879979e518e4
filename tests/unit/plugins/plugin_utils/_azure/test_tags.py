# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.tags import effective_tags, matches, roles_of


@pytest.mark.parametrize(
    ("own", "scale_set", "tags"),
    [
        (None, None, {}),
        (None, {"a": "set"}, {"a": "set"}),
        ({"a": "own"}, {"a": "set", "b": "set"}, {"a": "own", "b": "set"}),
        ({"A": "own"}, {"a": "set"}, {"A": "own"}),
        ({"a": ""}, {"a": "set"}, {"a": ""}),
        ({"a": None}, {}, {"a": ""}),
    ],
)
def test_tags_of_the_set_count_where_the_instance_has_none(own: Any, scale_set: Any, tags: dict[str, str]) -> None:
    assert effective_tags(own, scale_set) == tags


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({"cluster": ("a",)}, True),
        ({"CLUSTER": ("a",)}, True),
        ({"cluster": ("A",)}, False),
        ({"cluster": ("b", "a")}, True),
        ({"cluster": ()}, False),
        ({"cluster": None}, True),
        ({"other": None}, False),
        ({"cluster": ("a",), "role": ("x",)}, False),
        ({"empty": ("",)}, True),
    ],
)
def test_matching(wanted: Any, found: bool) -> None:
    assert matches({"cluster": "a", "role": "compute", "empty": ""}, wanted) is found


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        ("compute", ["compute"]),
        ("controller,login", ["controller", "login"]),
        (" Controller , LOGIN,login ", ["controller", "login"]),
        ("", []),
        (",,", []),
    ],
)
def test_roles(value: str, roles: list[str]) -> None:
    assert roles_of({"HPCAI_role": value}, "hpcai_role") == roles


def test_no_tag_is_no_role() -> None:
    assert roles_of({}, "hpcai_role") == []
