# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validation forms: the values that each form accepts, and its error messages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import (
    ConfigError,
    Form,
    Malformed,
    absolute_path,
    arguments_of,
    as_argument,
    boolean,
    check_seconds,
    checked,
    choice,
    defaults_of,
    guid,
    instance_of,
    integer,
    list_of,
    mapping,
    mapping_of,
    not_empty,
    number,
    optional,
    or_empty,
    record,
    string,
    text,
    unquoted_path,
)


@pytest.mark.parametrize("value", [0.1, 30, 86400])
def test_check_seconds_accepts_valid_durations(value: float) -> None:
    assert check_seconds("timeout", value) == value


def test_check_seconds_accepts_zero_only_if_allowed() -> None:
    assert check_seconds("wait", 0, zero=True) == 0
    with pytest.raises(ValueError, match="timeout must be seconds above 0, at most 86400, not 0"):
        check_seconds("timeout", 0)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf, 86401, 1e300, "30", True, None])
def test_check_seconds_refuses_invalid_durations(value: object) -> None:
    with pytest.raises(ValueError, match=r"wait must be seconds from 0, at most 86400, not"):
        check_seconds("wait", value, zero=True)


def test_errors_in_nested_forms_name_the_path() -> None:
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


@dataclass(frozen=True)
class Door:
    """An example of a dataclass that a form creates."""

    width: int
    colour: str = "red"
    keys: tuple[str, ...] = ()


DOOR = instance_of(
    Door,
    {"width": number(1, 9, integral=True), "colour": string, "keys": list_of(not_empty, least=1)},
    null_is_absent=True,
)


def test_a_dataclass_form_uses_defaults_and_requires_the_other_fields() -> None:
    assert DOOR("", {"width": 2, "colour": None}) == Door(2)
    assert DOOR("", {"width": 2, "keys": ["a"]}) == Door(2, keys=("a",))
    for value, words in (
        ({"width": None}, "lacks width; known keys are width, colour, keys."),
        ({"widht": 3}, "has unknown keys widht; known are width, colour, keys."),
        ({"width": 10}, "width must be a whole number from 1 to 9, not 10."),
        ({"width": 1, "keys": []}, "keys must be a list of 1 or more, not []."),
        ({"width": 1, "keys": [""]}, "keys[0] must be a string that is not empty, not ''."),
        ("wide", "must be a mapping with keys of width, colour, keys, not 'wide'."),
    ):
        with pytest.raises(ConfigError) as refused:
            DOOR("", value)
        assert str(refused.value) == words
        with pytest.raises(ConfigError) as refused:
            checked(DOOR, value, "door.json")
        assert str(refused.value) == f"door.json: {words}"


def test_record_defaults_are_converted_like_user_input() -> None:
    form = record({"ports": list_of(integer()), "name": text}, null_is_absent=True, defaults={"ports": ["80"]})
    assert form("", {"ports": None}) == {"ports": (80,)}
    assert form("", {"ports": [1], "name": "a"}) == {"ports": (1,), "name": "a"}


@pytest.mark.parametrize(
    ("form", "good", "bad", "words"),
    [
        (number(), [0, 0.5, 7], [-1, True, "1", None, math.nan, math.inf], "a number of 0 or more"),
        (number(0, 9, above=True), [0.1, 9], [0, 9.1, math.nan], "a number above 0, at most 9"),
        (number(integral=True), [0, 7], [1.0, -1, True, "7"], "a whole number of 0 or more"),
        (optional(boolean), [None, True], [0, "yes"], "true or false"),
        (or_empty(guid), ["", "0a1b2c3d-0000-0000-0000-00000000000F"], ["me", None, 0], "a GUID"),
        (absolute_path, ["/", "/a b"], ["a", "", None], "an absolute path"),
        (unquoted_path, ["/a/b.c@d+e-f_0"], ["/a b", "/", "a", "/a\n", None], "an absolute path of letters"),
        (mapping, [{}, {1: 2}], [[], None], "a mapping"),
        (mapping_of(string, boolean), [{"a": True}], [{1: True}, {"a": 1}, []], "must be"),
    ],
)
def test_each_form_accepts_valid_and_refuses_invalid_values(
    form: Form[Any], good: list[Any], bad: list[Any], words: str
) -> None:
    assert [form("x", value) for value in good] == good
    for value in bad:
        with pytest.raises(Malformed, match=words):
            form("x", value)


def test_optional_returns_the_given_value_for_null() -> None:
    assert optional(boolean, "none")("x", None) == "none"


@dataclass(frozen=True)
class ModuleOptions:
    """Options of a module."""

    path: str
    size: int = 3
    words: tuple[str, ...] = ("a",)
    limits: dict[str, Any] = field(default_factory=dict)
    mode: str | None = None


def test_forms_give_a_modules_argument_spec() -> None:
    forms: dict[str, Form[Any]] = {
        "path": unquoted_path,
        "size": optional(number(integral=True)),
        "words": list_of(choice("a", "b")),
        "limits": mapping_of(string, number()),
        "mode": as_argument(text, type="raw"),
    }
    assert arguments_of(forms, defaults_of(ModuleOptions), required=("path",)) == {
        "path": {"type": "path", "required": True},
        "size": {"type": "int", "default": 3},
        "words": {"type": "list", "elements": "str", "choices": ["a", "b"], "default": ["a"]},
        "limits": {"type": "dict", "default": {}},
        "mode": {"type": "raw"},
    }
