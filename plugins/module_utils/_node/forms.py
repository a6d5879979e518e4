# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Checked input: forms of values, which can be combined.

A form takes a value's place, for messages, and the value, and returns the checked value. The place of a complete file
or of a module's options is empty; ``checked`` puts the file's name before the message.

Ansible's templates turn numbers into strings, so ``integer`` and ``above_zero``, which are for descriptions that people
write, accept digits in quotes. Everything else is strict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Callable, TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_K = TypeVar("_K")
Form = Callable[[str, Any], _T]

_AS_ARGUMENT: MutableMapping[Any, dict[str, Any]] = WeakKeyDictionary()
"""The argument_spec of module options with these forms; options of other forms are strings."""
_TEXT = {"type": "str"}

LONGEST_S = 86400
"""A day. Python's waits fail on infinity and on much larger numbers, and nothing here needs a longer wait."""
GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
"""The form of Azure's ids of clients, tenants and subscriptions."""
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_SHOWN_KEY = re.compile(r"[A-Za-z0-9._/-]{1,64}")
_BUSID = re.compile(r"([0-9a-f]{4,8})(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


class ConfigError(ValueError):
    """Invalid settings; the message is one line with the place, and what to do."""


class Malformed(ConfigError):
    """A value of the wrong form; the message is one line with the place, the expected form, and the value."""


def wrong(path: str, expected: str, value: Any) -> Malformed:
    """Return the error for a value that has not the expected form."""
    return Malformed(f"{path} must be {expected}, not {value!r}.".lstrip())


def checked(form: Form[_T], value: Any, where: str) -> _T:
    """Return the checked value.

    :param where: start of messages, such as a file's name.
    :raises Malformed: the value has another form.
    """
    try:
        return form("", value)
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from None


def as_argument(form: Form[_T], **spec: Any) -> Form[_T]:
    """Register the argument_spec of module options with this form, see ``arguments_of``; return the form."""
    _AS_ARGUMENT[form] = spec
    return form


def arguments_of(
    keys: Mapping[str, Form[Any]], defaults: Mapping[str, Any], required: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return an ``argument_spec`` for these forms, so that a module and its settings file have the same options."""
    made = {name: dict(_AS_ARGUMENT.get(form, _TEXT)) for name, form in keys.items()}
    for name in required:
        made[name]["required"] = True
    for name, default in defaults.items():
        if name in made and default is not None:
            made[name]["default"] = list(default) if isinstance(default, tuple) else default
    return made


def defaults_of(made: Any) -> dict[str, Any]:
    """Return the defaults of those fields of a dataclass that have one."""
    given = {one.name: one.default for one in fields(made) if one.default is not MISSING}
    return {**given, **{one.name: one.default_factory() for one in fields(made) if one.default_factory is not MISSING}}


def record(
    keys: Mapping[str, Form[Any]],
    required: Sequence[str] = (),
    null_is_absent: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Form[dict[str, Any]]:
    """Return the form of a mapping with known keys, each with its own form.

    :param null_is_absent: a key with the value null counts as missing, as in Ansible's module options.
    :param defaults: values for missing keys, in the form in which they would be given.
    """

    def check(path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong(path, f"a mapping with keys of {', '.join(keys)}", value)
        unknown = sorted(str(key) for key in value if key not in keys)
        if unknown:
            raise Malformed(f"{path} has unknown keys {', '.join(unknown)}; known are {', '.join(keys)}.".lstrip())
        given = {key: item for key, item in value.items() if not (null_is_absent and item is None)}
        given = {**(defaults or {}), **given}
        lacking = [key for key in required if key not in given]
        if lacking:
            raise Malformed(f"{path} lacks {', '.join(lacking)}; known keys are {', '.join(keys)}.".lstrip())
        return {str(key): keys[key](f"{path}.{key}" if path else str(key), item) for key, item in given.items()}

    return as_argument(check, type="dict")


def instance_of(made: Callable[..., _T], keys: Mapping[str, Form[Any]], null_is_absent: bool = False) -> Form[_T]:
    """Return the form of a mapping with a dataclass's fields. Those in ``keys`` without a default are required."""
    required = [
        one.name
        for one in fields(made)  # type: ignore[arg-type]
        if one.name in keys and one.default is MISSING and one.default_factory is MISSING
    ]
    form = record(keys, required, null_is_absent)
    return lambda path, value: made(**form(path, value))


def optional(form: Form[Any], absent: Any = None) -> Form[Any]:
    """Return the form of a value that may be null, which becomes ``absent``."""
    return as_argument(
        lambda path, value: absent if value is None else form(path, value), **_AS_ARGUMENT.get(form, _TEXT)
    )


def or_empty(form: Form[str]) -> Form[str]:
    """Return the form of a string that may also be empty."""
    return as_argument(
        lambda path, value: "" if value == "" else form(path, value),
        **_AS_ARGUMENT.get(form, _TEXT),
    )


def list_of(form: Form[_T], least: int = 0, key: str = "") -> Form[tuple[_T, ...]]:
    """Return the form of a list of values of one form.

    :param least: the minimum number of items.
    :param key: a key of each item. Messages show its value, such as ``users[alice].uid``, instead of the position.
    """

    def place(path: str, position: int, item: Any) -> str:
        name = item.get(key) if key and isinstance(item, Mapping) else None
        shown = name if isinstance(name, str) and _SHOWN_KEY.fullmatch(name) else position
        return f"{path}[{shown}]"

    def check(path: str, value: Any) -> tuple[_T, ...]:
        if not isinstance(value, (list, tuple)) or len(value) < least:
            raise wrong(path, f"a list of {least} or more" if least else "a list", value)
        return tuple(form(place(path, position, item), item) for position, item in enumerate(value))

    of_one = dict(_AS_ARGUMENT.get(form, _TEXT))
    return as_argument(check, elements=of_one.pop("type"), **of_one, type="list")


def mapping_of(name: Form[_K], form: Form[_T]) -> Form[dict[_K, _T]]:
    """Return the form of a mapping with keys of one form and values of another."""

    def check(path: str, value: Any) -> dict[_K, _T]:
        if not isinstance(value, Mapping):
            raise wrong(path, "a mapping", value)
        return {name(f"a key of {path}", key): form(f"{path}.{key}", item) for key, item in value.items()}

    return as_argument(check, type="dict")


def number(minimum: float = 0, maximum: float = math.inf, integral: bool = False, above: bool = False) -> Form[Any]:
    """Return the form of a number, which is returned unchanged.

    :param integral: whether it must have no fraction.
    :param above: whether it must be more than ``minimum``.
    """
    kind = "a whole number" if integral else "a number"
    expected = f"{kind} above {minimum:g}" if above else f"{kind} of {minimum:g} or more"
    if maximum < math.inf:
        expected = f"{expected}, at most {maximum:g}" if above else f"{kind} from {minimum:g} to {maximum:g}"

    def check(path: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int if integral else (int, float)):
            raise wrong(path, expected, value)
        # Comparisons with NaN are always false, so it is refused here too.
        if not (minimum <= value <= maximum) or value == math.inf or (above and value == minimum):
            raise wrong(path, expected, value)
        return value

    return as_argument(check, type="int" if integral else "float")


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


def matching(pattern: str | re.Pattern[str], expected: str) -> Form[str]:
    """Return the form of a string that matches a regular expression.

    :param expected: the same in words, for messages.
    """
    compiled = re.compile(pattern)

    def check(path: str, value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise wrong(path, expected, value)
        return str(value)

    return check


def choice(*options: str) -> Form[str]:
    """Return the form of one of several strings."""

    def check(path: str, value: Any) -> str:
        if value not in options:
            raise wrong(path, " or ".join(filter(None, (", ".join(options[:-1]), options[-1]))), value)
        return str(value)

    return as_argument(check, type="str", choices=list(options))


def above_zero(path: str, value: Any) -> float:
    """A number above 0, which may be a string."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", str(value)) or float(value) <= 0:
        raise wrong(path, "a number above 0", value)
    return float(value)


def boolean(path: str, value: Any) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise wrong(path, "true or false", value)
    return value


def anything(_path: str, value: Any) -> Any:
    """A value that is checked elsewhere."""
    return value


def mapping(path: str, value: Any) -> Mapping[Any, Any]:
    """A mapping whose content is checked elsewhere."""
    if not isinstance(value, Mapping):
        raise wrong(path, "a mapping", value)
    return value


def string(path: str, value: Any) -> str:
    """A string, which may be empty."""
    if not isinstance(value, str):
        raise wrong(path, "a string", value)
    return value


def any_path(path: str, value: Any) -> str:
    """A path, which may be relative."""
    return string(path, value)


def absolute_path(path: str, value: Any) -> str:
    """An absolute path."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise wrong(path, "an absolute path", value)
    return value


not_empty = matching(r"(?s).+", "a string that is not empty")
unquoted_path = as_argument(
    matching(r"/[A-Za-z0-9._/@+-]+", "an absolute path of letters, digits and ._/@+- only"), type="path"
)
"""A path without characters that would need quotes in a mount table, an environment file, or a program's own file."""
guid = matching(GUID, "a GUID")


def text(path: str, value: Any) -> str:
    """A non-empty string on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise wrong(path, "a string on one line", value)
    return str(value).strip()


def text_or_number(path: str, value: Any) -> str:
    """A string on one line, which may be empty, or a whole number, as values of environment variables."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).isprintable():
        raise wrong(path, "a string on one line or a number", value)
    return str(value)


def check_seconds(name: str, value: object, zero: bool = False) -> float:
    """Return a number of seconds to wait.

    :param name: the option's name.
    :param zero: whether 0 is allowed, which means not to wait.
    :raises Malformed: it is not a number, infinite, or out of range.
    """
    number = -1.0 if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    # Comparisons with NaN are always false, so it is refused here too.
    if not ((number >= 0 if zero else number > 0) and number <= LONGEST_S):
        least = "from 0" if zero else "above 0"
        raise Malformed(f"{name} must be seconds {least}, at most {LONGEST_S}, not {value!r}.")
    return number


def busid(path: str, value: Any) -> str:
    """A PCI address; nvidia-smi's domain of eight digits is shortened to Linux's four."""
    match = _BUSID.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if not match:
        raise wrong(path, "a PCI address such as 0001:00:00.0", value)
    return f"{int(match[1], 16):04x}{match[2]}"


def cpu_list(path: str, value: Any) -> str:
    """CPUs as Linux lists them. A single number is a list of one CPU."""
    content = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(content, str) or not cpus_of(content):
        raise wrong(path, "a list of CPUs such as 0-23 or 0-3,8", value)
    return content.strip()


def cpus_of(content: str) -> frozenset[int]:
    """Return the CPUs of a list; empty if it is not a valid list."""
    cpus: set[int] = set()
    for item in content.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            return frozenset()
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


as_argument(any_path, type="path")
as_argument(boolean, type="bool")
as_argument(mapping, type="dict")
as_argument(check_seconds, type="float")
