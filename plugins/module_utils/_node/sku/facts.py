# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The facts of a VM size as plain values, for templates and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from .types import VmSize


def facts_of(size: VmSize) -> dict[str, Any]:
    """Return all fields of a size as mappings, lists, texts and numbers.

    Every field is there; what is unknown is None. So a template can tell an unknown fact from a misspelt one.
    """
    return {field.name: _plain(getattr(size, field.name)) for field in fields(size)}


def known_scalars(size: VmSize) -> dict[str, str | int]:
    """Return the known facts that are one text or number, without the name: what is small enough to be repeated."""
    facts = {field.name: getattr(size, field.name) for field in fields(size) if field.name != "name"}
    return {key: value for key, value in facts.items() if isinstance(value, (str, int))}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
