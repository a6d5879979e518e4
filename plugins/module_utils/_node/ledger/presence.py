# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""When a node had a machine. Pure.

A spare node is declared before its machine exists, and a slot of an elastic set has no machine most of the time. What
slurmdbd records about that was observed with Slurm 22.05.8 and 24.11.5:

- Each registration of the cluster has the names of all nodes (``ClusterNodes``). It lasts until nodes are added or
  removed, or their hardware changes. A node has no machine before the first registration that names it, and none
  after it was removed. A machine that is declared and never answers has a machine: it is paid for.
- A node that is powered down has an outage with ``~`` in its state, from the first registration on. When a power-up is
  ordered or its machine registers, the outage ends.
- ``scontrol update State=DOWN`` of a spare node makes an outage with the reason ``hpcai: no such instance``. A new
  registration ends all outages, and slurmctld reports those that last again, some with another reason. So the reason
  and its time that slurmctld has now are used too.
- Before these, slurmctld may report an outage with its own reason for a second, such as ``First Registration``. An
  outage between two times without a machine has no machine either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..slurm.hostlist import HostlistError, expand
from .accounting import Event, Registration
from .buckets import ABSENT, DOWN, bucket_of_event

TOUCH_S = 2.0
"""Outages with at most this gap are one: Slurm ends an event and begins the next when a node's state changes."""

Span = tuple[float, float]
"""Start and end of a time, in seconds since the epoch."""


def declared(registrations: Iterable[Registration], until: float) -> dict[str, list[Span]]:
    """Return when each node was declared in Slurm's configuration; empty if slurmdbd has no registration."""
    found: dict[str, list[Span]] = {}
    for one in sorted(registrations, key=lambda each: each.start):
        try:
            names = expand(one.nodes)
        except HostlistError:
            continue
        end = until if one.end is None else one.end
        for name in names:
            spans = found.setdefault(name, [])
            if spans and one.start <= spans[-1][1] + TOUCH_S:
                spans[-1] = (spans[-1][0], max(spans[-1][1], end))
            else:
                spans.append((one.start, end))
    return found


def without_machine(
    events: Sequence[Event], spans: Sequence[Span] | None, gone: float | None, since: float, until: float
) -> tuple[list[Event], list[Span]]:
    """Return the outages of a node while it had a machine, and the times without one.

    :param events: all outages of the node, sorted by their start.
    :param spans: when the node was declared; None if that is not known.
    :param gone: since when slurmctld knows that it has no machine; None if it has one.
    """
    absent = [(one.start, _end(one, until)) for one in events if bucket_of_event(one) == ABSENT]
    if gone is not None and gone < until:
        absent.append((gone, until))
    if spans is not None:
        absent += _rest(spans, since, until)
    kept: list[Event] = []
    for group in _groups([one for one in events if bucket_of_event(one) != ABSENT]):
        start, end = group[0].start, max(_end(one, until) for one in group)
        down = all(bucket_of_event(one) == DOWN for one in group)
        after = any(begin <= start <= stop + TOUCH_S for begin, stop in absent)
        before = any(begin <= end + TOUCH_S and end <= stop for begin, stop in absent)
        if down and after and before:
            absent.append((start, end))
        else:
            kept += group
    return kept, absent


def _end(event: Event, until: float) -> float:
    return until if event.end is None else event.end


def _rest(spans: Sequence[Span], since: float, until: float) -> list[Span]:
    """Return the parts of the window outside the spans, which are sorted and do not overlap."""
    found = []
    last = since
    for start, end in spans:
        if start > last:
            found.append((last, start))
        last = max(last, end)
    if last < until:
        found.append((last, until))
    return found


def _groups(events: Iterable[Event]) -> list[list[Event]]:
    """Return outages that touch each other together."""
    found: list[list[Event]] = []
    for event in events:
        last = found[-1][-1] if found else None
        if last is not None and last.end is not None and event.start <= last.end + TOUCH_S:
            found[-1].append(event)
        else:
            found.append([event])
    return found
