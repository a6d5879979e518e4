# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields Azure's published examples have, per kind of resource.

``published_fields.json`` is made from Azure/azure-rest-api-specs by published_fields.py. Pruned to it, an answer
holds nothing that only this simulator knows.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("published_fields.json")
OPEN = frozenset({"tags"})
"""Fields whose keys are the user's own."""


@cache
def fields(kind: str) -> frozenset[str]:
    """The dotted paths of all fields of ``kind``; lists add nothing to a path."""
    kinds = json.loads(FILE.read_text(encoding="utf-8"))["kinds"]
    if kind not in kinds:
        raise KeyError(f"no published example for {kind!r}; known are {', '.join(sorted(kinds))}")
    return frozenset(kinds[kind]["fields"])


def prune(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """``payload`` without the fields that no published example of its kind has."""
    pruned = _prune(fields(kind), "", payload)
    assert isinstance(pruned, dict)
    return pruned


def unpublished(kind: str, payload: dict[str, Any]) -> set[str]:
    """The dotted paths that prune() would delete."""
    return {path for path in paths(payload) if path not in fields(kind)}


def paths(payload: Any, prefix: str = "") -> set[str]:
    """The dotted paths of all fields in ``payload``."""
    found: set[str] = set()
    if isinstance(payload, list):
        for item in payload:
            found |= paths(item, prefix)
    elif isinstance(payload, dict):
        for key, value in payload.items():
            path = f"{prefix}.{key}" if prefix else key
            found.add(path)
            if path not in OPEN:
                found |= paths(value, path)
    return found


def _prune(allowed: frozenset[str], prefix: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_prune(allowed, prefix, item) for item in value]
    if isinstance(value, dict) and prefix not in OPEN:
        below = {key: f"{prefix}.{key}" if prefix else key for key in value}
        return {key: _prune(allowed, path, value[key]) for key, path in below.items() if path in allowed}
    return value
