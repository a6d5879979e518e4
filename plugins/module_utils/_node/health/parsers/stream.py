# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The output of STREAM, McCalpin's benchmark of memory bandwidth."""

from __future__ import annotations

import math
import re

_TRIAD = re.compile(r"^Triad:\s+([0-9.eE+]+)", re.MULTILINE)
_WRONG = re.compile(r"^Failed Validation", re.MULTILINE)


def triad_gbps(text: str) -> float | None:
    """Return the rate of the triad in GB/s; None where none was printed. STREAM prints MB/s, of 10^6 bytes."""
    match = _TRIAD.search(text)
    try:
        value = float(match[1]) / 1000 if match else 0.0
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def is_wrong(text: str) -> bool:
    """Whether the results were wrong."""
    return bool(_WRONG.search(text))
