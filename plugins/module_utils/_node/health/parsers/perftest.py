# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The output of perftest (``ib_write_bw``, ``ib_write_lat``): a heading that begins with ``#bytes``, and rows below."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

_AVERAGE = re.compile(r"BW average\[(Gb|MiB|MB)/sec\]")
_GBPS = {"Gb": 1.0, "MiB": 8 * 1048576 / 1e9, "MB": 8 * 1e6 / 1e9}
_BYTES, _ITERATIONS, _PEAK, _BANDWIDTH = range(4)
_TYPICAL = 4


def bandwidth_gbps(text: str, size: int) -> float | None:
    """Return the average bandwidth in Gb/s of messages of this size; None where none was printed."""
    unit = _AVERAGE.search(text)
    if not unit:
        return None
    for words in _rows(text[unit.end() :]):
        if len(words) > _BANDWIDTH and words[_BYTES] == size:
            value = words[_BANDWIDTH] * _GBPS[unit[1]]
            return value if math.isfinite(value) and value > 0 else None
    return None


def latency_us(text: str) -> float | None:
    """Return the typical latency in microseconds; None where none was printed."""
    heading = text.find("t_typical[usec]")
    if heading < 0:
        return None
    for words in _rows(text[heading:]):
        if len(words) > _TYPICAL:
            value = words[_TYPICAL]
            return value if math.isfinite(value) and value > 0 else None
    return None


def _rows(text: str) -> Iterator[list[float]]:
    for line in text.splitlines():
        try:
            words = [float(word) for word in line.split()]
        except ValueError:
            continue
        if words:
            yield words
