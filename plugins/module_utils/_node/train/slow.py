# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which node is slow, although all ranks of a training have the same step time. Pure.

All ranks wait for each other in collectives, so only what a rank does alone is compared: waiting for its data, and its
own work up to the next collective. One training's data never drain a node: they justify a deep check after the job.

The measure is the modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993), as in the health
report: 0.6745 times the distance from the median, divided by the median of all these distances, beyond 3.5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

BEYOND = 3.5
_TO_SIGMA = 0.6745
FEWEST_NODES = 4
"""Below this number a score says nothing; a node must then be this much slower than the others: """
FACTOR = 1.5
MARGIN_OF_STEP = 0.05
"""What a node loses must be at least this part of a step: less is not worth a check."""
STORAGE_OF_STEP = 0.2
"""If half of the nodes wait at least this part of a step for data, the storage is slow and not a node."""

FEWEST_SAMPLES = 3
"""With fewer samples of a rank, its median does not ignore a single hiccup."""

DATA, OWN = SECTIONS = ("data", "own")
_WORDS = {DATA: "waits for its data", OWN: "works"}


@dataclass(frozen=True)
class Sample:
    """Times of a rank, in seconds per step, averaged over some steps.

    :ivar node: its node.
    :ivar step: the complete step.
    :ivar data: waiting for its data.
    :ivar own: its own work between two collectives.
    :ivar rank: its number.
    """

    node: str
    step: float
    data: float
    own: float
    rank: int = 0


@dataclass(frozen=True)
class Slow:
    """What is slow.

    :ivar subject: a node, or ``storage``.
    :ivar section: one of ``SECTIONS``.
    :ivar seconds: of the node, or the median of all nodes.
    :ivar usual: the median of the other nodes; 0 for the storage.
    :ivar why: one sentence with the numbers and what to do.
    """

    subject: str
    section: str
    seconds: float
    usual: float
    why: str


STORAGE = "storage"


def find_slow(samples: Iterable[Sample]) -> list[Slow]:
    """Return what is slow, the largest loss first; empty if nothing is."""
    by_node: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_node[sample.node].append(sample)
    if not by_node:
        return []
    step = median(sample.step for listed in by_node.values() for sample in listed)
    times = {section: {node: _time(listed, section) for node, listed in by_node.items()} for section in SECTIONS}
    found = []
    waits = median(times[DATA].values())
    if step > 0 and waits >= STORAGE_OF_STEP * step:
        found.append(
            Slow(
                STORAGE,
                DATA,
                waits,
                0.0,
                f"The storage is slow: the median node waits {waits:.3g} s of each step of {step:.3g} s for its data. "
                "Stage the data to the nodes' scratch, or compare the staging report.",
            )
        )
    for section in SECTIONS:
        found += _slow_nodes(times[section], section, step)
    return sorted(found, key=lambda finding: finding.seconds - finding.usual, reverse=True)


def _time(samples: Sequence[Sample], section: str) -> float:
    """Return the time of a node's slowest rank, for which the others wait: one slow GPU makes a node slow."""
    by_rank: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        by_rank[sample.rank].append(float(getattr(sample, section)))
    if min(map(len, by_rank.values())) < FEWEST_SAMPLES:
        return median(value for values in by_rank.values() for value in values)
    return max(map(median, by_rank.values()))


def _slow_nodes(times: Mapping[str, float], section: str, step: float) -> list[Slow]:
    if len(times) < 2:
        return []
    middle = median(times.values())
    spread = median(abs(value - middle) for value in times.values())
    found = []
    for node, value in times.items():
        usual = median(other for name, other in times.items() if name != node)
        if value - usual < MARGIN_OF_STEP * step or value <= usual:
            continue
        if len(times) < FEWEST_NODES or not spread:
            is_slow = value >= FACTOR * usual
        else:
            is_slow = _TO_SIGMA * (value - middle) / spread > BEYOND
        if is_slow:
            found.append(
                Slow(
                    node,
                    section,
                    value,
                    usual,
                    f"{node} is slow: it {_WORDS[section]} for {value:.3g} s of each step, the others for "
                    f"{usual:.3g} s. After the job, run 'hpcnode health run deep' on it.",
                )
            )
    return found
