# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Into which bucket each second of a node falls: exactly one. Pure.

=================  =====================================================================================================
``kept``           a job with checkpoints worked, and the result is in a complete one, or this run completed the job
``lost``           a job worked after its last complete checkpoint, and this run ended without completing it
``starting``       a job had the node, and its prologs were running
``unknown``        a job worked, and it is not known whether the result was kept: it has no checkpoints, they were
                   pruned, or the run has not ended
``drained_check``  drained by a health check, a failed prolog or epilog, or the boot phase
``drained_people`` drained by a person, or for a planned replacement or upgrade
``down``           down or not responding
``hold``           idle, while a job that was requeued and had this node waited for its next start
``idle``           none of these
=================  =====================================================================================================

Where several apply at a time, the first one in this order counts: ``kept``, ``starting``, ``lost``, ``unknown``,
``absent``, ``drained_check``, ``drained_people``, ``down``, ``hold``. A job that still runs on a drained node works.
``absent`` is time in which the node had no machine; it belongs to no bucket and not to the node-seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..slurm.nodes import HARDWARE, NO_INSTANCE, OUR_PREFIX, SLURMD_WAITS
from .accounting import Event, JobRun

KEPT, STARTING, LOST, UNKNOWN, ABSENT, BY_CHECK, BY_PEOPLE, DOWN, HOLD, IDLE = ORDER = (
    "kept",
    "starting",
    "lost",
    "unknown",
    "absent",
    "drained_check",
    "drained_people",
    "down",
    "hold",
    "idle",
)
BUCKETS = ("kept", "lost", "unknown", "starting", "hold", "idle", "drained_check", "drained_people", "down")
"""The nine buckets, in the order in which they are shown."""
_RANK = {name: place for place, name in enumerate(ORDER)}

_CHECKS = tuple(f"{OUR_PREFIX} {kind}:" for kind in ("health", "prolog", "epilog", "boot"))
_SLURMS = ("Prolog error", "Epilog error", "Kill task failed", "Low ", "gres/", "batch job complete failure")
"""Beginnings of reasons that slurmctld and slurmd give when a node is at fault."""

Interval = tuple[float, float, int]
"""Start, end, and the place of its bucket in ORDER."""


def bucket_of_event(event: Event) -> str:
    """Return the bucket of an outage: ABSENT, BY_CHECK, BY_PEOPLE or DOWN."""
    reason = event.reason
    # "~" means powered down. Slurm 22.05 records that of a CLOUD node from its first registration on.
    if reason.startswith(NO_INSTANCE) or "~" in event.state:
        return ABSENT
    if reason.startswith((*_CHECKS, HARDWARE, SLURMD_WAITS, *_SLURMS)):
        return BY_CHECK
    if "DRAIN" in event.state or "MAINT" in event.state:
        return BY_PEOPLE
    return DOWN


def fault_class(event: Event) -> str:
    """Return the class of a node's own fault, such as the name of the failed check."""
    reason = event.reason
    for prefix in _CHECKS:
        if reason.startswith(prefix):
            rest = reason[len(prefix) :].strip()
            for word in ("replace: ", "reboot: "):
                rest = rest[len(word) :] if rest.startswith(word) else rest
            return rest.partition(":")[0].strip() or prefix.rstrip(":").rpartition(" ")[2]
    for beginning in (HARDWARE, SLURMD_WAITS):
        if reason.startswith(beginning):
            return beginning.partition(" ")[2].rstrip(":")
    if bucket_of_event(event) == DOWN:
        return "not_responding" if "not responding" in reason.lower() or not reason else "down"
    return reason.partition(":")[0].lower().replace(" ", "_")[:40] or "unknown"


def of_run(run: JobRun, last_kept: float | None, known: bool, now: float) -> list[tuple[float, float, str]]:
    """Return the parts of a run with their buckets; together they are exactly the run.

    :param last_kept: when the last checkpoint of this run became complete; None if none did.
    :param known: whether it is known which checkpoints the job has made. Without that, nothing is kept or lost.
    :param now: the end of a run that still runs.
    """
    end = now if run.end is None else run.end
    work = min(max(run.start if run.work is None else run.work, run.start), end)
    parts = [(run.start, work, STARTING)] if work > run.start else []
    if not known:
        return [*parts, (work, end, UNKNOWN)]
    if run.end is not None and run.state == "COMPLETED":
        return [*parts, (work, end, KEPT)]
    kept = min(max(last_kept, work), end) if last_kept is not None else work
    if kept > work:
        parts.append((work, kept, KEPT))
    # A run that still runs may publish another checkpoint.
    parts.append((kept, end, LOST if run.end is not None else UNKNOWN))
    return parts


def sweep(intervals: Sequence[Interval], since: float, until: float, totals: list[float]) -> None:
    """Add the seconds of one node to the totals, which are in the order of ORDER; the rest of the window is idle.

    :param intervals: of any order; they may overlap each other and the window.
    """
    if not intervals:
        totals[_RANK[IDLE]] += until - since
        return
    changes: list[tuple[float, int, int]] = []
    for start, end, rank in intervals:
        begin, stop = max(start, since), min(end, until)
        if stop > begin:
            changes.append((begin, rank, 1))
            changes.append((stop, rank, -1))
    changes.sort()
    active = [0] * len(ORDER)
    last, current = since, _RANK[IDLE]
    for when, rank, change in changes:
        if when > last:
            totals[current] += when - last
            last = when
        active[rank] += change
        if change > 0:
            current = min(current, rank)
        elif rank == current and not active[rank]:
            current = next((place for place in range(rank, len(ORDER)) if active[place]), _RANK[IDLE])
    totals[current] += until - last


def rank_of(bucket: str) -> int:
    """Return the place of a bucket in ORDER."""
    return _RANK[bucket]


def as_intervals(events: Iterable[Event], now: float) -> list[Interval]:
    """Return the outages of a node as intervals."""
    return [(event.start, now if event.end is None else event.end, _RANK[bucket_of_event(event)]) for event in events]
