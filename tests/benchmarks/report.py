# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results as a Markdown table, and their comparison with the targets."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import contenders
from benchmarks.measure import Sample

MOST_REQUESTS = 25
"""At 1,000 instances: one request per page (120 virtual machines, 100 interfaces), and for scale sets."""
MOST_OF_FLOOR = 1.3
MOST_OF_STATIC = 2.0


@dataclass
class Result:
    """One contender at one number of instances."""

    instances: int
    contender: str
    hosts: int
    requests: int
    """Requests to Resource Manager, including each part of a batch."""
    batches: int
    late: int
    """Answers of all runs that took the simulator longer than the latency."""
    samples: list[Sample] = field(default_factory=list)

    def median(self, of: Callable[[Sample], float]) -> float:
        """The median of a measurement over all runs."""
        return statistics.median(of(sample) for sample in self.samples)

    @property
    def wall(self) -> float:
        """Median wall time."""
        return self.median(lambda sample: sample.wall)

    @property
    def cpu(self) -> float:
        """Median CPU time."""
        return self.median(lambda sample: sample.cpu)

    def document(self) -> dict[str, Any]:
        """The complete result, for JSON."""
        return asdict(self)


def table(results: Sequence[Result]) -> str:
    """A Markdown table with a row for each contender and number of instances."""
    rows = ["| instances | | requests | wall s: median (min-max) | CPU s | peak MiB |", "|--:|:--|--:|--:|--:|--:|"]
    rows.extend(_row(result) for result in results)
    return "\n".join(rows)


def verdicts(results: Sequence[Result]) -> list[str]:
    """A line for each target that these results can be compared with."""
    by_key = {(result.instances, result.contender): result for result in results}
    sizes = sorted({result.instances for result in results})
    lines: list[str] = []
    if live := by_key.get((1000, contenders.LIVE)):
        lines.append(_verdict(live.requests, MOST_REQUESTS, "requests at 1,000 instances", ""))
    lines.extend(_ratios(by_key, sizes, contenders.LIVE, contenders.FLOOR, MOST_OF_FLOOR))
    lines.extend(_ratios(by_key, sizes, contenders.LIVE, contenders.CONCURRENT, None))
    lines.extend(_ratios(by_key, sizes, contenders.CACHED, contenders.STATIC_JSON, MOST_OF_STATIC))
    lines.extend(_ratios(by_key, sizes, contenders.CACHED, contenders.STATIC_YAML, None))
    lines.extend(_ratios(by_key, sizes, contenders.AZURE_RM, contenders.LIVE, None))
    for one, other in itertools.pairwise(sizes):
        lines.extend(_growth(by_key, one, other))
    return lines


def _row(result: Result) -> str:
    walls = [sample.wall for sample in result.samples]
    requests = f"{result.requests:,}" if result.requests or result.batches else "none"
    if result.batches:
        requests += f" in {result.batches} batches"
    cells = (
        f"{result.instances:,}",
        result.contender,
        requests,
        f"{result.wall:.2f} ({min(walls):.2f}-{max(walls):.2f})",
        f"{result.cpu:.2f}",
        f"{result.median(lambda sample: sample.peak_mib):.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _ratios(
    by_key: dict[tuple[int, str], Result], sizes: Sequence[int], one: str, other: str, most: float | None
) -> list[str]:
    lines = []
    for size in sizes:
        first, second = by_key.get((size, one)), by_key.get((size, other))
        if first and second:
            lines.append(_verdict(first.wall / second.wall, most, f"{size:,} instances: {one} / {other}", " times"))
    return lines


def _growth(by_key: dict[tuple[int, str], Result], one: int, other: int) -> list[str]:
    lines = []
    for name in (contenders.LIVE, contenders.READING, contenders.FLOOR, contenders.CACHED, contenders.STATIC_JSON):
        small, large = by_key.get((one, name)), by_key.get((other, name))
        if small and large:
            most = other / one if name == contenders.LIVE else None
            what = f"{one:,} to {other:,} instances: wall of {name}"
            lines.append(_verdict(large.wall / small.wall, most, what, " times"))
            # The numbers of instances are measured one after the other, and the load of the machine may have changed.
            lines[-1] += f" (CPU {large.cpu / small.cpu:.2f})"
    return lines


def _verdict(value: float, most: float | None, what: str, unit: str) -> str:
    shown = f"{value}" if isinstance(value, int) else f"{value:.2f}"
    if most is None:
        return f"* {what}: {shown}{unit}"
    return f"* {what}: {shown}{unit}, target at most {most:g}: **{'met' if value <= most else 'missed'}**"
