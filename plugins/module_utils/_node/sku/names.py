# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Names of Azure VM sizes: one spelling for each."""

from __future__ import annotations

import difflib

from .table import SIZES

_PREFIXES = ("standard_", "basic_")
_KNOWN = {name.lower(): name for name in SIZES}


class UnknownVmSize(ValueError):
    """A VM size that is neither in the table nor described by hand."""


def canonical_size(name: str) -> str:
    """Return the one spelling of a VM size: ``nd96asr_v4`` becomes ``Standard_ND96asr_v4``.

    Azure compares size names without case and accepts them with or without the tier, so the same size arrives in
    several spellings. A size of the table gets the table's spelling. Any other keeps its letters, gets the tier when it
    has none, and a tier in Azure's own case.
    """
    text = name.strip()
    lowered = text.lower()
    prefix = next((p for p in _PREFIXES if lowered.startswith(p)), "")
    tier = prefix or _PREFIXES[0]
    known = _KNOWN.get(tier + lowered[len(prefix) :])
    return known or tier.capitalize() + text[len(prefix) :]


def nearest_sizes(name: str, known: list[str], count: int = 3) -> list[str]:
    """Return up to ``count`` names out of ``known`` that look most like ``name``, best first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(canonical_size(name).lower(), list(by_lower), n=count, cutoff=0.4)
    return [by_lower[candidate] for candidate in found]
