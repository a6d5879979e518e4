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
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from ..job.checkpoint.names import COMPLETE, PRUNED, Id, id_in, id_of
from ..job.checkpoint.store import Store
from ..machine.atomic import write_file
from ..machine.config import ConfigError
from ..machine.root import Root

RECORD = "/var/lib/hpcai/ledger/checkpoints.json"
SCHEMA = 2
_WITHOUT_USERS = 1
"""The schema before ``users``, which is still read."""
_MOST_OF_SERIES = 20_000
"""Most checkpoints of one training and its users in the record: who may write to a store can write any number."""
_MOST_NOTED = 100
"""Most checkpoints that a job noted in its comment, one for each run: longer comments get no notes."""
_LATE_S = 1.0
"""Blob storage rounds times to seconds."""
FORGOTTEN_S = 400 * 86400.0
"""Times older than this are removed from the record."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint.

    :ivar when: when it became complete, in seconds since the epoch; None if it was pruned before anybody looked.
    :ivar training: which training it belongs to; empty if unknown.
    :ivar users: whose jobs it may belong to; empty if unknown.
    """

    id: str
    when: float | None
    training: str = ""
    users: tuple[str, ...] = ()

    def counts_for(self, training: str, user: str) -> bool:
        """Whether it may be of a run of this training and user.

        Who may write to a store can write a checkpoint there with the number of any job.
        """
        if not self.training and not self.users:
            return True
        return bool(training and training == self.training) or user in self.users


@dataclass
class Index:
    """Checkpoints by the job that made them.

    :ivar stored: the checkpoints of each job with their steps, sorted by time.
    :ivar pruned: those that were pruned before anybody looked.
    :ivar trainings: trainings that make checkpoints: a run of theirs without one has lost its work.
    :ivar noted: times and steps that jobs without a store noted in their comment (``recover.comment``), sorted.
    """

    stored: dict[int, list[tuple[float, int, Checkpoint]]] = field(default_factory=dict)
    pruned: dict[int, list[Checkpoint]] = field(default_factory=dict)
    trainings: set[str] = field(default_factory=set)
    noted: dict[int, list[tuple[float, int]]] = field(default_factory=dict)

    def add(self, name: str, when: float) -> None:
        """Add a checkpoint that a job noted in its comment. If a store has checkpoints of this job, only they count."""
        found = id_of(name)
        if found is None:
            return
        noted = self.noted.setdefault(int(found.attempt.partition(".")[0]), [])
        if (when, found.step) not in noted:
            insort(noted, (when, found.step))
            del noted[:-_MOST_NOTED]

    def keep_noted(self, jobs: Container[int]) -> None:
        """Forget what other jobs noted: each run has its job's comment, so later runs would bring it again."""
        self.noted = {job: noted for job, noted in self.noted.items() if job in jobs}

    def _known(self, job: int, training: str, user: str) -> list[tuple[float, int]]:
        found = [(when, step) for when, step, one in self.stored.get(job, ()) if one.counts_for(training, user)]
        return found or self.noted.get(job, [])

    def last_in(self, job: int, start: float, end: float, training: str = "", user: str = "") -> float | None:
        """Return when the last checkpoint of a run became complete; None if none did.

        :param training: of the run, as for the other methods.
        """
        times = [when for when, _step in self._known(job, training, user)]
        place = bisect_right(times, end + _LATE_S)
        return times[place - 1] if place and times[place - 1] >= start else None

    def step_at(self, job: int, when: float, training: str = "", user: str = "") -> int | None:
        """Return the step of a job's last checkpoint before a time, 0 if there is none; None without any checkpoint."""
        known = self._known(job, training, user)
        if not known:
            return None
        place = bisect_right([one[0] for one in known], when + _LATE_S)
        return known[place - 1][1] if place else 0

    def knows(self, job: int, training: str, start: float, end: float, user: str = "") -> bool:
        """Whether it is known what a run has kept."""
        pruned = any(one.counts_for(training, user) for one in self.pruned.get(job, ()))
        if pruned and self.last_in(job, start, end, training, user) is None:
            return False
        return bool(self._known(job, training, user)) or (bool(training) and training in self.trainings)


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
            made.pruned.setdefault(int(number), []).append(one)
        else:
            made.stored.setdefault(int(number), []).append((one.when, found.step if found else 0, one))
    for known in made.stored.values():
        known.sort(key=lambda one: one[:2])
    return made


def in_store(store: Store, training: str = "", users: tuple[str, ...] = ()) -> list[Checkpoint]:
    """Return the checkpoints of a series in its store.

    :raises CommandFailed: the store cannot be read.
    """
    complete: dict[Id, float] = {}
    for blob in store.list(COMPLETE):
        found = id_in(blob.name)
        if found:
            complete[found] = blob.modified
    pruned = {found for blob in store.list(PRUNED) for found in [id_in(blob.name)] if found} - set(complete)
    known = [Checkpoint(one.text, when, training, users) for one, when in complete.items()]
    return [*known, *(Checkpoint(one.text, None, training, users) for one in pruned)]


def read_record(root: Root, path: str = RECORD) -> list[Checkpoint]:
    """Return what earlier looks have found.

    :raises ConfigError: the record is damaged; the message says what to do.
    """
    text = root.text(path)
    if text is None:
        return []
    try:
        held = json.loads(text)
        if held["schema"] not in (_WITHOUT_USERS, SCHEMA):
            raise ValueError(f"its schema is {held['schema']}, and this hpcnode reads {SCHEMA}")
        rows = held["checkpoints"]
        if held["schema"] == _WITHOUT_USERS:
            rows = [(name, when, training, ()) for name, (when, training) in rows.items()]
        return [
            Checkpoint(str(name), None if when is None else float(when), str(training), tuple(map(str, users)))
            for name, when, training, users in rows
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{root.at(path)} is damaged ({error}): move it away. Times of pruned checkpoints are then unknown."
        ) from None


def merged(old: Sequence[Checkpoint], new: Sequence[Checkpoint], now: float) -> list[Checkpoint]:
    """Return both; a time that is known stays, because a pruned checkpoint has none any more."""

    def key(one: Checkpoint) -> tuple[str, str, tuple[str, ...]]:
        return (one.id, one.training, one.users)

    found = {key(one): one for one in old if one.when is None or now - one.when < FORGOTTEN_S}
    for one in new:
        before = found.get(key(one))
        if before is None or before.when is None or one.when is not None:
            found[key(one)] = one
    series: dict[tuple[str, tuple[str, ...]], list[Checkpoint]] = {}
    for one in found.values():
        series.setdefault((one.training, one.users), []).append(one)
    # Those without a time are forgotten first.
    return [
        one
        for members in series.values()
        for one in sorted(members, key=lambda one: one.when or 0.0)[-_MOST_OF_SERIES:]
    ]


def write_record(root: Root, checkpoints: Iterable[Checkpoint], path: str = RECORD) -> None:
    """Write the record.

    :raises OSError: it cannot be written.
    """
    held = sorted([one.id, one.when, one.training, [*one.users]] for one in checkpoints)
    text = json.dumps({"schema": SCHEMA, "checkpoints": held}, sort_keys=True) + "\n"
    if root.text(path) != text.strip():
        write_file(root.at(path), text, mode=0o640)
