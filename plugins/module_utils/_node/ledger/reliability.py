# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How often nodes fail and how long that lasts, with honest bounds for few failures. Pure.

A failure is an outage that the node caused: drained by a check, or down. Drains by people, planned replacements and
time without a machine do not count. Outages that touch each other are one failure.

The time between failures is assumed to be exponential, so that the number of failures in a time has a Poisson
distribution. The bounds are the exact ones (Garwood, 1936) at 90 %. With zero failures there is a lower bound only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Callable

from .accounting import Event
from .buckets import BY_CHECK, DOWN, bucket_of_event, fault_class
from .presence import TOUCH_S

CONFIDENCE = 0.9
_MANY, _NORMAL = 1000, 1.645
"""From this number on, the normal distribution is used; 1.645 is its quantile for 90 %."""


@dataclass(frozen=True)
class Failure:
    """A failure of a node, from its first to its last outage.

    :ivar end: None while it lasts.
    """

    node: str
    start: float
    end: float | None
    fault: str


@dataclass(frozen=True)
class Reliability:
    """How reliable a node, or a group of nodes, was.

    :ivar failures: that began in the window.
    :ivar service_s: seconds in which the nodes could have taken jobs.
    :ivar mtbf_s: mean time between failures in node-seconds; None without a failure.
    :ivar mtbf_low_s: lower bound.
    :ivar mtbf_high_s: upper bound; None without a failure.
    :ivar mttr_s: mean length of the failures that have ended; None if none has.
    :ivar open: failures that have not ended.
    """

    failures: int
    service_s: float
    mtbf_s: float | None
    mtbf_low_s: float
    mtbf_high_s: float | None
    mttr_s: float | None
    open: int


def failures_of(events: Sequence[Event]) -> list[Failure]:
    """Return the failures of one node.

    :param events: its outages, sorted by their start.
    """
    found: list[Failure] = []
    for event in events:
        if bucket_of_event(event) not in (BY_CHECK, DOWN):
            continue
        last = found[-1] if found else None
        if last is not None and (last.end is None or event.start <= last.end + TOUCH_S):
            end = None if last.end is None or event.end is None else max(last.end, event.end)
            # The later reason is the better one: "Not responding" becomes the failed check.
            fault = fault_class(event) if last.fault in ("not_responding", "down") else last.fault
            found[-1] = Failure(last.node, last.start, end, fault)
            continue
        found.append(Failure(event.node, event.start, event.end, fault_class(event)))
    return found


def reliability(failures: Iterable[Failure], service_s: float, since: float, until: float) -> Reliability:
    """Return the figures for failures that began in a window."""
    counted = [one for one in failures if since <= one.start < until]
    lengths = [one.end - one.start for one in counted if one.end is not None]
    number = len(counted)
    low, high = bounds(number)
    return Reliability(
        number,
        service_s,
        service_s / number if number else None,
        service_s / high,
        service_s / low if low else None,
        sum(lengths) / len(lengths) if lengths else None,
        number - len(lengths),
    )


def bounds(number: int) -> tuple[float, float]:
    """Return the exact bounds of the mean of a Poisson distribution, of which ``number`` was observed.

    With zero, the whole error probability belongs to the upper bound: 2.30 at 90 %.
    """
    if number == 0:
        return 0.0, -math.log(1 - CONFIDENCE)
    if number > _MANY:
        width = _NORMAL * math.sqrt(number)
        return number - width, number + width
    tail = (1 - CONFIDENCE) / 2
    # P(X >= n | low) = tail, P(X <= n | high) = tail.
    low = _solve(lambda mean: 1 - _at_most(number - 1, mean), tail, number)
    high = _solve(lambda mean: 1 - _at_most(number, mean), 1 - tail, number)
    return low, high


def _at_most(number: int, mean: float) -> float:
    """Return the probability of at most ``number`` events. The terms are summed as logarithms: a mean may be large."""
    if mean <= 0:
        return 1.0
    total = 0.0
    for count in range(number + 1):
        total += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    return min(total, 1.0)


def _solve(function: Callable[[float], float], value: float, number: int) -> float:
    """Return where a growing function has a value, by bisection."""
    low, high = 0.0, number + 10 * math.sqrt(number + 1) + 10
    for _round in range(80):
        middle = (low + high) / 2
        if function(middle) < value:
            low = middle
        else:
            high = middle
    return (low + high) / 2
