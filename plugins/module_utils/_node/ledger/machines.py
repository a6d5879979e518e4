# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which machine a node was at which time. Azure reuses names: a replaced instance must not inherit failures.

The arbiter sees in each report which machine a node is. It appends a line when that changes.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..machine.root import Root
from ..slurm.arbiter.machine_log import LOG

__all__ = ["LOG", "Machines", "read_machines"]


@dataclass
class Machines:
    """The machines of each node, by time.

    :ivar changes: for each node the sorted times of changes, and the machine from each of them on.
    """

    changes: dict[str, tuple[list[float], list[str]]] = field(default_factory=dict)

    def parts(self, node: str, since: float, until: float) -> Iterator[tuple[str, float, float]]:
        """Yield the machines of a node in a window with their times; an empty name before the first known one."""
        times, names = self.changes.get(node, ([], []))
        place = bisect_right(times, since)
        start, name = since, names[place - 1] if place else ""
        while place < len(times) and times[place] < until:
            if times[place] > start:
                yield name, start, times[place]
            start, name = times[place], names[place]
            place += 1
        yield name, start, until

    def at(self, node: str, when: float) -> str:
        """Return the node's machine at a time; empty if unknown."""
        times, names = self.changes.get(node, ([], []))
        place = bisect_right(times, when)
        return names[place - 1] if place else ""


def machines_of(lines: Iterable[Mapping[str, object]]) -> Machines:
    """Return the machines in the lines of a log; repeated machines are joined."""
    made = Machines()
    entries = sorted((float(str(line["time"])), str(line["node"]), str(line["vm_id"])) for line in lines)
    for when, node, vm_id in entries:
        times, names = made.changes.setdefault(node, ([], []))
        if not names:
            # It may have been the same machine before the log began.
            when = 0.0
        if not names or names[-1] != vm_id:
            times.append(when)
            names.append(vm_id)
    return made


def read_machines(root: Root) -> Machines:
    """Return the machines in the arbiter's log; none without a log. A line that was cut by a full disk is skipped."""
    lines = []
    try:
        with open(root.at(LOG), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    found = json.loads(line)
                    lines.append({"time": float(found["time"]), "node": found["node"], "vm_id": found["vm_id"]})
                except (ValueError, LookupError, TypeError):
                    continue
    except OSError:
        return Machines()
    return machines_of(lines)
