# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The expressions of templates that this simulator evaluates: ``parameters``, and ``reference`` with id and version,
also as the last argument of ``base64(replace(...))``.

Azure evaluates a reference when it makes the resource, so its validation does not know the value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from simulator.arm.errors import ArmError

_PARAMETER = re.compile(r"\[parameters\('(\w+)'\)\]")
_VALUE = r"reference\('(?P<id>/[^']+)', '(?P<version>[^']+)'\)\.(?P<property>\w+)"
_REFERENCE = re.compile(rf"\[{_VALUE}\]")
# A quote in a text is written twice.
_REPLACED = re.compile(rf"\[base64\(replace\('(?P<text>(?:[^']|'')*)', '(?P<old>[^']+)', {_VALUE}\)\)\]")


def _reference(text: str) -> re.Match[str] | None:
    return _REFERENCE.fullmatch(text) or _REPLACED.fullmatch(text)


def invalid(message: str) -> ArmError:
    """A template that cannot be read."""
    return ArmError(400, "InvalidTemplate", f"Deployment template validation failed: '{message}'.")


def with_parameters(value: Any, values: dict[str, Any]) -> Any:
    """A value of a template with the values of its parameters."""

    def of(text: str) -> Any:
        found = _PARAMETER.fullmatch(text)
        if found is None:
            return text
        if found[1] not in values:
            raise invalid(f"The template parameter '{found[1]}' is not found")
        return values[found[1]]

    return _mapped(value, of)


def literal(value: Any, where: str, key: str) -> Any:
    """A value of a resource without expressions. Two brackets at the start stand for one.

    Only the properties of a resource may contain references, which stay.
    """

    def of(text: str) -> str:
        if text.startswith("[["):
            return text[1:]
        if _reference(text):
            if key != "properties":
                raise invalid(f"The template function 'reference' is not expected at this location: '{key}' of {where}")
        elif text.startswith("[") and text.endswith("]"):
            raise invalid(f"this simulator evaluates no expressions but parameters and references: {text!r} in {where}")
        return text

    return _mapped(value, of)


def has_references(value: Any) -> bool:
    """Whether a value contains a reference."""
    found: list[str] = []

    def of(text: str) -> str:
        found.extend([text] if _reference(text) else [])
        return text

    _mapped(value, of)
    return bool(found)


def with_references(value: Any, where: str, read: Callable[[str, str], dict[str, Any]]) -> Any:
    """A value with what its references are now.

    :param where: the resource's name.
    :param read: returns the properties of a resource, by id and version.
    """

    def of(text: str) -> Any:
        found = _reference(text)
        if found is None:
            return text
        properties = read(found["id"], found["version"])
        if found["property"] not in properties:
            raise ArmError(
                400,
                "InvalidTemplate",
                f"Unable to process template language expressions for resource '{where}': 'The language expression "
                f"property '{found['property']}' doesn't exist, available properties are "
                f"'{', '.join(sorted(properties))}'.'",
            )
        value = properties[found["property"]]
        if found.re is _REFERENCE:
            return value
        replaced = found["text"].replace("''", "'").replace(found["old"], value)
        return base64.b64encode(replaced.encode()).decode()

    return _mapped(value, of)


def _mapped(value: Any, change: Callable[[str], Any]) -> Any:
    """A value with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value
