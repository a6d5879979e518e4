# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Parses the output of NVIDIA's nccl-tests (``all_reduce_perf`` and the like), version 2.0 and later.

A row of results has size, count, type, operation and root (older versions: no root, or neither), and then time,
algorithm bandwidth, bus bandwidth and number of wrong elements (``N/A`` if not counted), first out of place, then in
place. All other relevant lines begin with ``#``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)", re.MULTILINE)
_OUT_OF_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)", re.MULTILINE)
_RANK = re.compile(r"^#\s+Rank\s+\d+ .*\bdevice\s+\d+\s+\[", re.MULTILINE)
_NUMBERS = 8


@dataclass(frozen=True)
class Row:
    """One message size.

    :ivar size: bytes.
    :ivar bus_bandwidths: GB/s out of place and in place.
    :ivar wrong: wrong elements of both; None if they were not counted.
    :ivar times: microseconds out of place and in place; None if they are not numbers.
    """

    size: int
    bus_bandwidths: tuple[float, float]
    wrong: int | None
    times: tuple[float | None, float | None] = (None, None)

    @property
    def bus_bandwidth(self) -> float:
        """The mean of both bus bandwidths, from which nccl-tests calculates its average."""
        return sum(self.bus_bandwidths) / 2


@dataclass(frozen=True)
class Outcome:
    """What a run printed.

    :ivar ranks: number of GPUs in the printed list; 0 without a list.
    :ivar average: the average bus bandwidth in GB/s over all rows, as printed; None if it was not printed.
    :ivar out_of_bounds: number of wrong values, as printed; None if it was not printed.
    """

    rows: tuple[Row, ...]
    ranks: int
    average: float | None
    out_of_bounds: int | None

    @property
    def bus_bandwidth(self) -> float | None:
        """The average bus bandwidth in GB/s; None unless the run finished and measured something."""
        if not self.rows or self.average is None or not math.isfinite(self.average) or self.average <= 0:
            return None
        return self.average

    @property
    def wrong(self) -> int:
        """Number of wrong elements."""
        return max(sum(row.wrong or 0 for row in self.rows), self.out_of_bounds or 0)

    @property
    def validated(self) -> bool:
        """Whether wrong elements were counted."""
        return bool(self.rows) and all(row.wrong is not None for row in self.rows)


def parse(text: str) -> Outcome:
    """Return what a run printed."""
    average, bounds = _AVERAGE.search(text), _OUT_OF_BOUNDS.search(text)
    return Outcome(
        rows=tuple(filter(None, map(_row, text.splitlines()))),
        ranks=len(_RANK.findall(text)),
        average=_number(average[1]) if average else None,
        out_of_bounds=int(bounds[1]) if bounds else None,
    )


def size_in_bytes(text: str) -> int:
    """Return the bytes of a size such as ``8G``, with the powers of 1024 that nccl-tests uses.

    :raises ValueError: the text is not a size.
    """
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip().upper())
    if not match:
        raise ValueError(f"{text!r} is not a message size: use a number with K, M or G, such as 8G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def _row(line: str) -> Row | None:
    words = line.split()
    if len(words) < 3 + _NUMBERS or not words[0].isdecimal() or not words[1].isdecimal():
        return None
    start = 3
    # The operation is a word, or blank if there is none; the root is an integer.
    if _number(words[start]) is None:
        start += 1
    if re.fullmatch(r"-?\d+", words[start]) and len(words) > start + _NUMBERS:
        start += 1
    values = [_number(word) for word in words[start : start + _NUMBERS]]
    if len(values) < _NUMBERS:
        return None
    rates = values[2], values[6]
    if rates[0] is None or rates[1] is None:
        return None
    counted = [int(value) for value in (values[3], values[7]) if value is not None and math.isfinite(value)]
    return Row(int(words[0]), (rates[0], rates[1]), sum(counted) if counted else None, (values[0], values[4]))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
