# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A limit in words, with where it comes from."""

from __future__ import annotations

from ..sku.table import SOURCES
from ..sku.types import Threshold
from .settings import FILE, SITE


def in_words(threshold: Threshold) -> str:
    """Return a limit for people, e.g. ``at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)``."""
    bound = "at most" if threshold.at_most else "at least"
    unit = f" {threshold.unit}" if threshold.unit else ""
    at = f" at {threshold.at}" if threshold.at else ""
    return f"{bound} {threshold.limit:g}{unit}{at} ({source_in_words(threshold.source)})"


def source_in_words(letters: str) -> str:
    """Return the name of the first of the sources that letters of ``SOURCES`` stand for."""
    if letters == SITE:
        return FILE
    words = SOURCES[letters.split(", ", maxsplit=1)[0]]
    return words.split(": ", maxsplit=1)[0]
