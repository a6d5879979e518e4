# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts per Azure VM size: names, numbers, and sizes described by hand."""

from __future__ import annotations

from .lookup import (
    MalformedVmSize,
    UnknownVmSize,
    all_sizes,
    canonical_size,
    facts_of,
    find_size,
    known_scalars,
    nearest_sizes,
)
from .table import SIZES, SOURCES
from .types import VmSize

__all__ = [
    "SIZES",
    "SOURCES",
    "MalformedVmSize",
    "UnknownVmSize",
    "VmSize",
    "all_sizes",
    "canonical_size",
    "facts_of",
    "find_size",
    "known_scalars",
    "nearest_sizes",
]
