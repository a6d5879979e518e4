# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Checked input: forms that values have, made of each other.

A form takes the value's place, for messages, and the value, and returns it clean. Ansible's templates make texts of
numbers, so digits in quotes are a number here. Everything else is strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar

_T = TypeVar("_T")
_K = TypeVar("_K")
Form = Callable[[str, Any], _T]

LONGEST_S = 86400
"""A day. Python's waits fail on infinity and on numbers that are much larger, and nobody waits so long."""
GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
"""As Azure writes the ids of clients, tenants and subscriptions."""
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_BUSID = re.compile(r"([0-9a-f]{4,8})(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


class Malformed(ValueError):
    """A value that has not the form of its place; the message is one line with the place, the form, and the value."""


def wrong(path: str, expected: str, value: Any) -> Malformed:
    """Return the error of a value that is not what is expected."""
    return Malformed(f"{path} must be {expected}, not {value!r}.")


def record(keys: Mapping[str, Form[Any]], required: Sequence[str] = ()) -> Form[dict[str, Any]]:
    """Return the form of a mapping with known keys, each with a form of its own."""

    def check(path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong(path, f"a mapping with keys of {', '.join(keys)}", value)
        unknown = sorted(str(key) for key in value if key not in keys)
        if unknown:
            raise Malformed(f"{path} has unknown keys {', '.join(unknown)}; known are {', '.join(keys)}.")
        lacking = [key for key in required if key not in value]
        if lacking:
            raise Malformed(f"{path} lacks {', '.join(lacking)}; known keys are {', '.join(keys)}.")
        return {str(key): keys[key](f"{path}.{key}", item) for key, item in value.items()}

    return check


def list_of(form: Form[_T]) -> Form[tuple[_T, ...]]:
    """Return the form of a list of values of one form."""

    def check(path: str, value: Any) -> tuple[_T, ...]:
        if not isinstance(value, (list, tuple)):
            raise wrong(path, "a list", value)
        return tuple(form(f"{path}[{position}]", item) for position, item in enumerate(value))

    return check


def mapping_of(name: Form[_K], form: Form[_T]) -> Form[dict[_K, _T]]:
    """Return the form of a mapping with keys of one form and values of another."""

    def check(path: str, value: Any) -> dict[_K, _T]:
        if not isinstance(value, Mapping):
            raise wrong(path, "a mapping", value)
        return {name(f"a key of {path}", key): form(f"{path}.{key}", item) for key, item in value.items()}

    return check


def integer(minimum: int = 0, maximum: int | None = None) -> Form[int]:
    """Return the form of a whole number, 0 or more, of up to 15 digits."""
    expected = "a whole number" if minimum == 0 else f"a whole number above {minimum - 1}"
    if maximum is not None:
        expected = f"a whole number from {minimum} to {maximum}"

    def check(path: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(r"[0-9]{1,15}", str(value)):
            raise wrong(path, expected, value)
        if int(value) < minimum or (maximum is not None and int(value) > maximum):
            raise wrong(path, expected, value)
        return int(value)

    return check


def matching(pattern: str, expected: str) -> Form[str]:
    """Return the form of a text that a regular expression describes.

    :param expected: the same in words, for messages.
    """
    compiled = re.compile(pattern)

    def check(path: str, value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise wrong(path, expected, value)
        return str(value)

    return check


def choice(*options: str) -> Form[str]:
    """Return the form of one of several texts."""

    def check(path: str, value: Any) -> str:
        if value not in options:
            raise wrong(path, " or ".join(options), value)
        return str(value)

    return check


def above_zero(path: str, value: Any) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", str(value)) or float(value) <= 0:
        raise wrong(path, "a number above 0", value)
    return float(value)


def boolean(path: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise wrong(path, "true or false", value)
    return value


def text(path: str, value: Any) -> str:
    """A text on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise wrong(path, "a text on one line", value)
    return str(value).strip()


def text_or_number(path: str, value: Any) -> str:
    """A text on one line, perhaps an empty one, or a whole number, as variables of an environment have."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).isprintable():
        raise wrong(path, "a text on one line or a number", value)
    return str(value)


def check_seconds(name: str, value: object, zero: bool = False) -> float:
    """Return a number of seconds that a program can wait.

    :param name: what the option is called.
    :param zero: whether 0 is one: not to wait.
    :raises Malformed: it is no number, infinite, or out of range.
    """
    number = -1.0 if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    # Not a number compares as false with everything.
    if not ((number >= 0 if zero else number > 0) and number <= LONGEST_S):
        least = "from 0" if zero else "above 0"
        raise Malformed(f"{name} is {value!r}: give seconds {least}, at most {LONGEST_S}")
    return number


def busid(path: str, value: Any) -> str:
    """A PCI address; nvidia-smi's domain of eight digits becomes Linux's of four."""
    match = _BUSID.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if not match:
        raise wrong(path, "a PCI address such as 0001:00:00.0", value)
    return f"{int(match[1], 16):04x}{match[2]}"


def cpu_list(path: str, value: Any) -> str:
    """CPUs as Linux lists them. A number alone is a list, of one."""
    content = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(content, str) or not cpus_of(content):
        raise wrong(path, "a list of CPUs such as 0-23 or 0-3,8", value)
    return content.strip()


def cpus_of(content: str) -> frozenset[int]:
    """Return the CPUs of a list; none at all if it is no such list."""
    cpus: set[int] = set()
    for part in content.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            return frozenset()
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)
