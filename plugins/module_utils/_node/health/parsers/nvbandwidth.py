# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The text that NVIDIA's nvbandwidth prints, which is the same in all versions: a title and a matrix for each test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_RUNNING = re.compile(r"^Running (\S+?)\.?\s*$")
_DEVICE = re.compile(
    r"^(?:Process\s+\d+.*: device|Device) (\d+): .*\(([0-9a-fA-F]{8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\)"
)

Matrix = Mapping[tuple[int, int], float]
"""GB/s by row and column; what is not available is not in it."""


def matrices(text: str) -> dict[str, Matrix]:
    """Return the matrix of each test that printed one."""
    found: dict[str, Matrix] = {}
    test, columns, values = "", list[int](), dict[tuple[int, int], float]()
    for line in text.splitlines():
        words = line.split()
        running = _RUNNING.match(line)
        if running:
            test, columns, values = running[1], [], {}
        elif not test or not words:
            columns = []
        elif not columns:
            if all(word.isdecimal() for word in words):
                columns = [int(word) for word in words]
        elif words[0].isdecimal() and len(words) == len(columns) + 1:
            row = int(words[0])
            values.update(
                {(row, column): value for column, value in zip(columns, _numbers(words[1:])) if value is not None}
            )
            if values:
                found[test] = values
    return found


def devices(text: str) -> dict[int, str]:
    """Return the PCI address of each device, in Linux's spelling; of versions that print it."""
    matches = filter(None, map(_DEVICE.match, text.splitlines()))
    return {int(match[1]): f"{int(match[2], 16):04x}:{match[3]}:{match[4]}.0".lower() for match in matches}


def _numbers(words: list[str]) -> list[float | None]:
    return [_number(word) for word in words]


def _number(word: str) -> float | None:
    """Return a bandwidth; None for ``N/A`` and for the zero that stands for a device with itself."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
