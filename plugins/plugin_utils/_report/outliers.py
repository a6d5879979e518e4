# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outliers among the nodes: values that differ much from those of the others, independent of the fixed limits.

The measure is the modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): 0.6745 times the
distance from the median, divided by the median of all these distances. Values beyond 3.5 are outliers. Unlike a mean, a
median does not change much because of a few bad nodes. If more than half of the values are equal, the median of the
distances is zero. Then the mean of the distances is used, with the factor that makes both equal for a normal
distribution (1.253314).

Values of the same name and unit are compared among nodes of the same VM size, for all devices together. At least four
nodes are required, because among three it is not clear which one is the outlier.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

FEWEST_NODES = 4
BEYOND = 3.5
"""The modified z-score beyond which a value is an outlier (Iglewicz and Hoaglin)."""
_TO_SIGMA = 0.6745
_MEAN_TO_SIGMA = 1.253314
MARGIN = 0.05
"""A measured value (a value with a unit) is an outlier only if it differs from the median by at least this share. It is
the margin in which azurehpc-health-checks regards a bandwidth as nearly too low (1.05 times the limit). Without it,
tiny differences between nearly equal values would be reported. Counts have no margin."""
_LISTED_WORDS = 12


@dataclass(frozen=True)
class Value:
    """A reading with its node."""

    node: str
    device: str
    value: float | str
    limit: float | None
    at_most: bool


@dataclass(frozen=True)
class Outlier:
    """An outlier.

    :ivar usual: the median, or the word that most nodes have.
    :ivar score: its modified z-score, or None for a word.
    :ivar why: one sentence with the value, the node, and the value of the others.
    """

    reading: str
    unit: str
    vm_size: str
    node: str
    device: str
    value: float | str
    usual: float | str
    score: float | None
    why: str


@dataclass(frozen=True)
class Measure:
    """Common properties of the values of one name, unit and VM size.

    :ivar kind: ``number`` or ``word``.
    :ivar limits: the different limits of the check for these values.
    :ivar at_most: whether these limits are maxima.
    :ivar middle: the median, or None for words.
    :ivar low: values below it are outliers. None if low values are no outliers, or if too few nodes have a value.
    :ivar high: the same for high values.
    :ivar words: number of values per word, the most frequent first. Empty for numbers.
    """

    reading: str
    unit: str
    vm_size: str
    kind: str
    nodes: int
    values: int
    limits: tuple[float, ...]
    at_most: bool
    middle: float | None = None
    low: float | None = None
    high: float | None = None
    words: tuple[tuple[str, int], ...] = ()


Group = tuple[str, str, str]
"""Name of the reading, unit, VM size."""


def compare(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report with ``measures`` and ``outliers``. Pure. The outliers are in the order of their nodes."""
    measures: list[Measure] = []
    outliers: list[Outlier] = []
    for group, values in _groups(report).items():
        numbers = [value for value in values if not isinstance(value.value, str)]
        words = [value for value in values if isinstance(value.value, str)]
        for kind, alike in (_numbers, numbers), (_words, words):
            if alike:
                measure, odd = kind(group, alike)
                measures.append(measure)
                outliers.extend(odd)
    order = {node["host_name"]: place for place, node in enumerate(report["nodes"])}
    outliers.sort(key=lambda odd: (order[odd.node], odd.reading, odd.device))
    return {**report, "measures": [asdict(each) for each in measures], "outliers": [asdict(each) for each in outliers]}


def _groups(report: Mapping[str, Any]) -> dict[Group, list[Value]]:
    groups: dict[Group, list[Value]] = defaultdict(list)
    for node in report["nodes"]:
        for check in node["checks"]:
            for reading in check["readings"]:
                value = Value(
                    node["host_name"], reading["device"], reading["value"], reading["limit"], reading["at_most"]
                )
                groups[reading["name"], reading["unit"], node["vm_size"]].append(value)
    return groups


def _numbers(group: Group, values: Sequence[Value]) -> tuple[Measure, list[Outlier]]:
    name, unit, size = group
    numbers = [float(value.value) for value in values]
    middle = median(numbers)
    limits = tuple(sorted({value.limit for value in values if value.limit is not None}))
    at_most = any(value.at_most for value in values)
    nodes = len({value.node for value in values})
    low = high = None
    if nodes >= FEWEST_NODES:
        tolerance = _tolerance(numbers, middle, unit)
        # If there is a limit, only its side is bad. A node that is faster than the others is no problem.
        low = None if limits and at_most else middle - tolerance
        high = None if limits and not at_most else middle + tolerance
    measure = Measure(name, unit, size, "number", nodes, len(values), limits, at_most, middle, low, high)
    return measure, list(_odd_numbers(measure, middle, values, _spread(numbers, middle)))


def _odd_numbers(measure: Measure, middle: float, values: Sequence[Value], spread: float) -> Iterator[Outlier]:
    size, unit = measure.vm_size, measure.unit
    others = f"the median of {measure.nodes} nodes{_of(size)} is {show(middle)}{_with(unit)}"
    for value in values:
        number = float(value.value)
        if (measure.low is not None and number < measure.low) or (measure.high is not None and number > measure.high):
            score = (number - middle) / spread
            odd = f"{_place(value)}: {measure.reading} is {show(number)}{_with(unit)}"
            why = f"{odd}; {others} (modified z-score {score:.1f}, an outlier is beyond {BEYOND:g})"
            yield Outlier(measure.reading, unit, size, value.node, value.device, number, middle, score, why)


def _spread(numbers: Sequence[float], middle: float) -> float:
    """Return the estimated standard deviation of these values without outliers, infinite if all are equal."""
    distances = [abs(number - middle) for number in numbers]
    return median(distances) / _TO_SIGMA or fmean(distances) * _MEAN_TO_SIGMA or math.inf


def _tolerance(numbers: Sequence[float], middle: float, unit: str) -> float:
    """Return the largest distance from the median that is no outlier."""
    tolerance = BEYOND * _spread(numbers, middle)
    if math.isinf(tolerance):
        # All values are equal, so there are no outliers.
        tolerance = 0.0
    return max(tolerance, MARGIN * abs(middle) if unit else 0.0)


def _words(group: Group, values: Sequence[Value]) -> tuple[Measure, list[Outlier]]:
    """A word is an outlier if it differs from the word that more than half of the nodes have on all their devices."""
    name, unit, size = group
    counts = Counter(str(value.value) for value in values)
    by_node: dict[str, set[str]] = defaultdict(set)
    for value in values:
        by_node[value.node].add(str(value.value))
    uniform = Counter(next(iter(words)) for words in by_node.values() if len(words) == 1)
    usual, nodes_with_it = uniform.most_common(1)[0] if uniform else ("", 0)
    listed = tuple(counts.most_common(_LISTED_WORDS))
    measure = Measure(name, unit, size, "word", len(by_node), len(values), (), False, words=listed)
    if len(by_node) < FEWEST_NODES or nodes_with_it <= len(by_node) / 2:
        return measure, []
    others = f"{nodes_with_it} of {len(by_node)} nodes{_of(size)} have {usual}"
    odd = [(value, f"{_place(value)}: {name} is {value.value}; {others}") for value in values if value.value != usual]
    return measure, [Outlier(name, unit, size, v.node, v.device, v.value, usual, None, why) for v, why in odd]


def show(number: float) -> str:
    """Return a number as readable text: four significant digits, no exponent, no trailing zeros."""
    if number == int(number) or abs(number) >= 1000:
        return f"{number:.0f}"
    return f"{number:.4g}"


def _place(value: Value) -> str:
    return f"{value.node}, {value.device}" if value.device else value.node


def _with(unit: str) -> str:
    return f" {unit}" if unit else ""


def _of(vm_size: str) -> str:
    return f" of size {vm_size}" if vm_size else ""
