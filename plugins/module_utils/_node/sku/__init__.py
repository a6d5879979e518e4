# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts per Azure VM size: names, numbers, and sizes described by hand."""

from __future__ import annotations

from .lookup import find_size
from .names import UnknownVmSize, canonical_size, nearest_sizes
from .sources import SOURCES
from .table import SIZES
from .types import VmSize

__all__ = ["SIZES", "SOURCES", "UnknownVmSize", "VmSize", "canonical_size", "find_size", "nearest_sizes"]
