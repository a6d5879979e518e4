# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Finds a VM size by any spelling of its name, in the table or among those described by hand; returns its facts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ..forms import Malformed
from .describe import from_description
from .table import SIZES
from .types import VmSize


def find_size(name: str, described: Mapping[str, Mapping[str, Any]] | None = None) -> VmSize:
    """Return the facts of VM size ``name``.

    :param name: a size in any spelling.
    :param described: sizes described by hand, by name: each a mapping of ``VmSize`` fields. A description replaces the
        table's entry completely: fields that it omits are unknown.
    :raises UnknownVmSize: the size is in neither; the message says what to do.
    :raises MalformedVmSize: a description is malformed.
    """
    by_hand = _descriptions(described)
    canonical = canonical_size(name)
    for key, description in by_hand.items():
        # For a size that is not in the table, the description's spelling is the canonical one.
        if key.lower() == canonical.lower():
            return _described(key, description)
    if canonical in SIZES:
        return SIZES[canonical]
    known = sorted(set(SIZES) | set(by_hand))
    raise UnknownVmSize(
        f"VM size {name!r} is not known; the nearest known sizes are {', '.join(nearest_sizes(name, known) or known)}. "
        "Describe it in hpcai_vm_sizes, with at least vcpus and memory_mib (the guide to VM sizes lists all keys)."
    )


def all_sizes(described: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, VmSize]:
    """Return all known sizes by name, in the table's order, then those described by hand.

    :raises MalformedVmSize: a description is malformed.
    """
    by_hand = {key: _described(key, value) for key, value in _descriptions(described).items()}
    return {**SIZES, **by_hand}


def _descriptions(described: Any) -> dict[str, Any]:
    if not isinstance(described or {}, Mapping):
        raise MalformedVmSize(f"hpcai_vm_sizes must be a mapping of sizes by name, not {described!r}.")
    return {canonical_size(str(key)): value for key, value in (described or {}).items()}


def _described(name: str, description: Any) -> VmSize:
    try:
        return from_description(name, description)
    except Malformed as error:
        raise MalformedVmSize(str(error)) from None


_PREFIXES = ("standard_", "basic_")
_KNOWN = {name.lower(): name for name in SIZES}


class UnknownVmSize(ValueError):
    """The VM size is neither in the table nor described by hand."""


class MalformedVmSize(UnknownVmSize):
    """A description is malformed. The size stays unknown, but unlike one without a description, this is a mistake."""


def canonical_size(name: str) -> str:
    """Return the canonical name of a VM size: ``nd96asr_v4`` becomes ``Standard_ND96asr_v4``.

    Azure's size names are case-insensitive and valid with or without the tier, so the same size has several spellings.
    A size in the table gets the table's spelling. For any other size, the letters are kept, a missing tier is added,
    and the tier is capitalized as in Azure.
    """
    text = name.strip()
    lowered = text.lower()
    prefix = next((p for p in _PREFIXES if lowered.startswith(p)), "")
    tier = prefix or _PREFIXES[0]
    known = _KNOWN.get(tier + lowered[len(prefix) :])
    return known or tier.capitalize() + text[len(prefix) :]


def nearest_sizes(name: str, known: list[str], count: int = 3) -> list[str]:
    """Return up to ``count`` names of ``known`` that are most similar to ``name``, best first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(canonical_size(name).lower(), list(by_lower), n=count, cutoff=0.4)
    return [by_lower[candidate] for candidate in found]


def facts_of(size: VmSize) -> dict[str, Any]:
    """Return all fields of a size as mappings, lists, texts and numbers.

    Every field is included; unknown ones are None. So a template can distinguish an unknown fact from a misspelt name.
    """
    return {field.name: _as_data(getattr(size, field.name)) for field in fields(size)}


def known_scalars(size: VmSize) -> dict[str, str | int]:
    """Return the known facts that are a text or a number, without the name: they are small enough for each host."""
    facts = {field.name: getattr(size, field.name) for field in fields(size) if field.name != "name"}
    return {key: value for key, value in facts.items() if isinstance(value, (str, int))}


def _as_data(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _as_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _as_data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_as_data(item) for item in value]
    return value
