# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The forms that values of a description have. Each takes the value's place and the value, and returns it clean.

Ansible's templates make texts of numbers, so digits in quotes are a number here. Everything else is strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .names import UnknownVmSize

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_BUSID = re.compile(r"([0-9a-f]{4,8})(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_ARCHITECTURES = ("x86_64", "arm64")


class Malformed(UnknownVmSize):
    """A description that cannot be used: so the size stays unknown."""


def _wrong(path: str, expected: str, value: Any) -> Malformed:
    return Malformed(f"{path} must be {expected}, not {value!r}.")


def record(
    path: str, value: Any, forms: Mapping[str, Callable[[str, Any], Any]], required: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a mapping with values of the given forms; keys not in ``forms`` and lacking ones are errors."""
    if not isinstance(value, Mapping):
        raise _wrong(path, f"a mapping with keys of {', '.join(forms)}", value)
    unknown = sorted(str(key) for key in value if key not in forms)
    if unknown:
        raise Malformed(f"{path} has unknown keys {', '.join(unknown)}; known are {', '.join(forms)}.")
    lacking = [key for key in required if key not in value]
    if lacking:
        raise Malformed(f"{path} lacks {', '.join(lacking)}; known keys are {', '.join(forms)}.")
    return {str(key): forms[key](f"{path}.{key}", item) for key, item in value.items()}


def listed(form: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    """Return the form of a list of values of one form."""

    def check(path: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise _wrong(path, "a list", value)
        return tuple(form(f"{path}[{position}]", item) for position, item in enumerate(value))

    return check


def mapped(name: Callable[[str, Any], Any], form: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    """Return the form of a mapping with keys of one form and values of another."""

    def check(path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(path, "a mapping", value)
        return {name(f"a key of {path}", key): form(f"{path}.{key}", item) for key, item in value.items()}

    return check


def number(path: str, value: Any) -> int:
    """A whole number."""
    return _whole(path, value, 0, "a whole number")


def above_zero(path: str, value: Any) -> int:
    """A whole number above 0."""
    return _whole(path, value, 1, "a whole number above 0")


def _whole(path: str, value: Any, least: int, expected: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(r"[0-9]{1,15}", str(value)):
        raise _wrong(path, expected, value)
    if int(value) < least:
        raise _wrong(path, expected, value)
    return int(value)


def measure(path: str, value: Any) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", str(value)) or float(value) <= 0:
        raise _wrong(path, "a number above 0", value)
    return float(value)


def yes_or_no(path: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def text(path: str, value: Any) -> str:
    """A text on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise _wrong(path, "a text on one line", value)
    return str(value).strip()


def word(path: str, value: Any) -> str:
    """A name in lower case."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        raise _wrong(path, "a name such as nccl_allreduce", value)
    return str(value)


def variable(path: str, value: Any) -> str:
    """The name of an environment variable."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*", value):
        raise _wrong(path, "the name of a variable such as NCCL_SOCKET_IFNAME", value)
    return str(value)


def variable_value(path: str, value: Any) -> str:
    """The value of an environment variable."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).isprintable():
        raise _wrong(path, "a text on one line or a number", value)
    return str(value)


def architecture(path: str, value: Any) -> str:
    """The architecture of a processor."""
    if value not in _ARCHITECTURES:
        raise _wrong(path, " or ".join(_ARCHITECTURES), value)
    return str(value)


def link_speed(path: str, value: Any) -> str:
    """The speed of a PCI link, as the kernel and NCCL spell it."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,3}(\.[0-9])? GT/s( PCIe)?", value):
        raise _wrong(path, "a speed such as 16 GT/s or 32.0 GT/s PCIe", value)
    return str(value)


def busid(path: str, value: Any) -> str:
    """A PCI address; nvidia-smi's domain of eight digits becomes Linux's of four."""
    match = _BUSID.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if not match:
        raise _wrong(path, "a PCI address such as 0001:00:00.0", value)
    return f"{int(match[1], 16):04x}{match[2]}"


def cpu_list(path: str, value: Any) -> str:
    """CPUs as Linux lists them. A number alone is a list, of one."""
    content = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(content, str) or not cpus_of(content):
        raise _wrong(path, "a list of CPUs such as 0-23 or 0-3,8", value)
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
