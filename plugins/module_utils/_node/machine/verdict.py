# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The verdicts of everything that measures, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable

PASS, WARN, FAIL, UNKNOWN, SKIP = VERDICTS = ("pass", "warn", "fail", "unknown", "skip")
"""PASS: good. WARN: not good, but jobs may run. FAIL: faulty. UNKNOWN: not measured. SKIP: nothing to measure."""
WORST_FIRST = (FAIL, UNKNOWN, WARN, PASS, SKIP)


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of verdicts: fail, unknown, warn, pass; skip only if there is nothing else.

    :raises ValueError: there are no verdicts: that must not look like a good result.
    """
    return min(verdicts, key=WORST_FIRST.index)
