# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Measured values against a limit, and where there is none, against those of the node's other devices."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ...sku.types import Threshold
from ..check import FAIL, WARN, Finding, Reading

MARGIN = 1.05
"""Below the limit times this, a GPU's bandwidth is worth a warning: azurehpc-health-checks warns there too."""

_SCORE = 3.5
"""A modified z-score beyond which a value is an outlier (Iglewicz and Hoaglin, 1993)."""
_TO_SIGMA = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""
_LEAST_FOR_OUTLIERS = 4


def compared(readings: Sequence[Reading], threshold: Threshold | None, what: str, hint: str) -> list[Finding]:
    """Return a finding for each reading that misses its limit or is near it.

    :param readings: the values, whose ``limit`` is the threshold's.
    :param threshold: the limit; with ``warn`` None there is nothing near it.
    :param what: what was measured, for people.
    """
    found = []
    for reading in readings:
        value = float(reading.value)
        if threshold is None:
            continue
        figure = f"{what}{' of ' + reading.device if reading.device else ''} is {value:.4g} {reading.unit}"
        bound = "most" if threshold.at_most else "least"
        if _misses(value, threshold.limit, threshold.at_most):
            words = f"{figure}, and should be at {bound} {threshold.limit:g}"
            found.append(Finding(FAIL, words, reading.device, hint))
        elif threshold.warn is not None and _misses(value, threshold.warn, threshold.at_most):
            words = f"{figure}, near the limit of {threshold.limit:g}"
            found.append(Finding(WARN, words, reading.device, "Watch it: good machines have a margin"))
    return found


def outliers(readings: Sequence[Reading], what: str) -> list[Finding]:
    """Return a warning for each device whose value is far worse than the median of the node's devices.

    Far is a modified z-score beyond 3.5 and 5 percent. Fewer than four devices have no outliers.
    """
    values = [float(reading.value) for reading in readings]
    if len(values) < _LEAST_FOR_OUTLIERS:
        return []
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    found = []
    for reading, value in zip(readings, values):
        behind = value - median if reading.at_most else median - value
        if behind > median * (MARGIN - 1) and _TO_SIGMA * behind > _SCORE * deviation:
            words = (
                f"{what} of {reading.device} is {value:.4g} {reading.unit}, the median of this node's is {median:.4g}"
            )
            found.append(Finding(WARN, words, reading.device, "Compare it with other nodes, and watch it"))
    return found


def _misses(value: float, limit: float, at_most: bool) -> bool:
    # Not a number misses every limit.
    return not value <= limit if at_most else not value >= limit
