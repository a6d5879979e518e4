# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of Azure's published examples, per kind of resource.

published_fields.py makes ``published_fields.json`` from Azure/azure-rest-api-specs. A pruned answer contains only these
fields.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

FILE = Path(__file__).with_name("published_fields.json")
OPEN = frozenset({"tags", "userAssignedIdentities", "additionalProperties"})
"""Fields whose keys are the user's own."""

Tree = dict[str, Any]
"""Field names with the fields below them; lists add no level."""


@cache
def fields(kind: str) -> Tree:
    """The fields that the published examples of ``kind`` have."""
    kinds = json.loads(FILE.read_text(encoding="utf-8"))["kinds"]
    if kind not in kinds:
        raise KeyError(f"no published example for {kind!r}; known are {', '.join(sorted(kinds))}")
    return cast(Tree, kinds[kind]["fields"])


def prune(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """``payload`` without the fields that no published example of its kind has."""
    return cast(dict[str, Any], _prune(fields(kind), payload))


def unpublished(kind: str, payload: dict[str, Any]) -> set[str]:
    """The dotted paths of the fields that prune() would delete."""
    return _beyond(fields(kind), tree(payload), "")


def tree(payload: Any) -> Tree:
    """The fields of a payload."""
    found: Tree = {}
    for item in payload if isinstance(payload, list) else [payload]:
        if isinstance(item, dict):
            merge(found, {key: {} if key in OPEN else tree(value) for key, value in item.items()})
    return found


def merge(into: Tree, other: Tree) -> None:
    """Add the fields of one tree to another."""
    for key, below in other.items():
        merge(into.setdefault(key, {}), below)


def _prune(allowed: Tree, value: Any) -> Any:
    if isinstance(value, list):
        return [_prune(allowed, item) for item in value]
    if isinstance(value, dict):
        return {
            key: below if key in OPEN else _prune(allowed[key], below) for key, below in value.items() if key in allowed
        }
    return value


def _beyond(allowed: Tree, found: Tree, prefix: str) -> set[str]:
    beyond: set[str] = set()
    for key, below in found.items():
        beyond |= _beyond(allowed[key], below, f"{prefix}{key}.") if key in allowed else {prefix + key}
    return beyond
