# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""When checkpoints became complete: from their store, and from the ledger's own record of earlier looks.

A checkpoint's manifest has no time, so the time at which the job's manifest was written to the store counts. Pruning
removes it, so each time that was seen once is recorded. A checkpoint that was pruned before anybody looked has no time,
and then it is unknown what its run has kept.
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..job.checkpoint.names import COMPLETE, PRUNED, Id, id_in, id_of
from ..job.checkpoint.store import Store
from ..machine.atomic import write_file
from ..machine.config import ConfigError
from ..machine.root import Root

RECORD = "/var/lib/hpcai/ledger/checkpoints.json"
SCHEMA = 1
_LATE_S = 1.0
"""Blob storage rounds times to seconds."""
FORGOTTEN_S = 400 * 86400.0
"""Times older than this are removed from the record."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint.

    :ivar when: when it became complete, in seconds since the epoch; None if it was pruned before anybody looked.
    :ivar training: which training it belongs to; empty if unknown.
    """

    id: str
    when: float | None
    training: str = ""


@dataclass
class Index:
    """Checkpoints by the job that made them.

    :ivar jobs: the sorted times of each job's checkpoints.
    :ivar steps: the step of each of these.
    :ivar pruned: jobs with checkpoints that were pruned before anybody looked.
    :ivar trainings: trainings that make checkpoints: a run of theirs without one has lost its work.
    :ivar noted: jobs without a store, which noted their checkpoints in their comment (``recover.comment``).
    """

    jobs: dict[int, list[float]] = field(default_factory=dict)
    steps: dict[tuple[int, float], int] = field(default_factory=dict)
    pruned: set[int] = field(default_factory=set)
    trainings: set[str] = field(default_factory=set)
    noted: set[int] = field(default_factory=set)

    def add(self, name: str, when: float) -> None:
        """Add a checkpoint that a job noted in its comment. If a store has checkpoints of this job, only they count."""
        found = id_of(name)
        if found is None:
            return
        job = int(found.attempt.partition(".")[0])
        if job in self.jobs and job not in self.noted:
            return
        self.noted.add(job)
        if (job, when) not in self.steps:
            insort(self.jobs.setdefault(job, []), when)
            self.steps[job, when] = found.step

    def last_in(self, job: int, start: float, end: float) -> float | None:
        """Return when the last checkpoint of a run became complete; None if none did."""
        times = self.jobs.get(job, ())
        place = bisect_right(times, end + _LATE_S)
        return times[place - 1] if place and times[place - 1] >= start else None

    def step_at(self, job: int, when: float) -> int | None:
        """Return the step of a job's last checkpoint before a time, 0 if there is none; None without any checkpoint."""
        times = self.jobs.get(job)
        if not times:
            return None
        place = bisect_right(times, when + _LATE_S)
        return self.steps[job, times[place - 1]] if place else 0

    def knows(self, job: int, training: str, start: float, end: float) -> bool:
        """Whether it is known what a run has kept."""
        if job in self.pruned and self.last_in(job, start, end) is None:
            return False
        return job in self.jobs or (bool(training) and training in self.trainings)


def index_of(checkpoints: Iterable[Checkpoint]) -> Index:
    """Return the index. A checkpoint whose attempt is not named after its job, ``JOB.RESTART``, is ignored."""
    made = Index()
    for one in checkpoints:
        found = id_of(one.id)
        number = found.attempt.partition(".")[0] if found else ""
        if one.training:
            made.trainings.add(one.training)
        if not number.isdecimal():
            continue
        if one.when is None:
            made.pruned.add(int(number))
        else:
            made.jobs.setdefault(int(number), []).append(one.when)
            made.steps[int(number), one.when] = found.step if found else 0
    for times in made.jobs.values():
        times.sort()
    return made


def in_store(store: Store, training: str = "") -> list[Checkpoint]:
    """Return the checkpoints of a series in its store.

    :raises CommandFailed: the store cannot be read.
    """
    complete: dict[Id, float] = {}
    for blob in store.list(COMPLETE):
        found = id_in(blob.name)
        if found:
            complete[found] = blob.modified
    pruned = {found for blob in store.list(PRUNED) for found in [id_in(blob.name)] if found} - set(complete)
    known = [Checkpoint(one.text, when, training) for one, when in complete.items()]
    return [*known, *(Checkpoint(one.text, None, training) for one in pruned)]


def read_record(root: Root, path: str = RECORD) -> list[Checkpoint]:
    """Return what earlier looks have found.

    :raises ConfigError: the record is damaged; the message says what to do.
    """
    text = root.text(path)
    if text is None:
        return []
    try:
        held = json.loads(text)
        if held["schema"] != SCHEMA:
            raise ValueError(f"its schema is {held['schema']}, and this hpcnode reads {SCHEMA}")
        return [
            Checkpoint(str(name), None if when is None else float(when), str(training))
            for name, (when, training) in held["checkpoints"].items()
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{root.at(path)} is damaged ({error}): move it away. Times of pruned checkpoints are then unknown."
        ) from None


def merged(old: Sequence[Checkpoint], new: Sequence[Checkpoint], now: float) -> list[Checkpoint]:
    """Return both; a time that is known stays, because a pruned checkpoint has none any more."""
    found = {one.id: one for one in old if one.when is None or now - one.when < FORGOTTEN_S}
    for one in new:
        before = found.get(one.id)
        if before is None or before.when is None or one.when is not None:
            found[one.id] = one
    return list(found.values())


def write_record(root: Root, checkpoints: Iterable[Checkpoint], path: str = RECORD) -> None:
    """Write the record.

    :raises OSError: it cannot be written.
    """
    held = {one.id: [one.when, one.training] for one in checkpoints}
    text = json.dumps({"schema": SCHEMA, "checkpoints": held}, sort_keys=True) + "\n"
    if root.text(path) != text.strip():
        write_file(root.at(path), text, mode=0o640)
