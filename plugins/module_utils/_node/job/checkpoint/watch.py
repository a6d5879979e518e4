# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Watching a directory: what is finished is uploaded beside, and a notice that the machine goes changes the order."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Callable

from ...machine.atomic import remove_file, write_file
from ...machine.imds import ScheduledEvent
from ...machine.run import CommandFailed
from ..events.exchange import EventsUnknown
from . import record as records
from . import status as statuses
from .files import Refused, scan
from .manifest import BadManifest
from .member import Member
from .names import SHARDS, Id, id_in, id_of
from .notice import Candidate, decide
from .prune import Keep, prune
from .publish import Local, Published, publish
from .record import PENDING, PUBLISHED, REFUSED, RESTORED, Seen
from .signals import Signal, find
from .status import Status
from .store import Store
from .whole import complete
from .worker import Stopped, Worker

_AGAIN_S, _LAST_S = 15.0, 10.0
"""How soon what failed is tried again and what waits for other nodes is looked at, and how long an end may take."""


@dataclass(frozen=True)
class Options:
    """What is wanted.

    :ivar shared: see ``Local``.
    :ivar keep: what stays, for node 0, which prunes; None removes nothing.
    :ivar every_s: how often is looked, at the directory and for events.
    :ivar acknowledge: whether this machine's own events are started once what fits is published.
    """

    directory: str
    signal: Signal
    member: Member
    host: str
    shared: bool = False
    keep: Keep | None = None
    every_s: float = 2.0
    acknowledge: bool = False


@dataclass
class Done:
    """What a piece of work came to.

    :ivar published: None where it only looked whether something is whole.
    :ivar whole: what is whole now.
    :ivar pruned: what was removed by the retention.
    :ivar branches: see ``prune.Plan``.
    :ivar problem: what went wrong beside it, such as pruning.
    """

    seen: Seen | None = None
    published: Published | None = None
    whole: list[Id] = field(default_factory=list)
    pruned: tuple[Id, ...] = ()
    branches: tuple[Id, ...] | None = None
    problem: str = ""


Events = Callable[[], Sequence[ScheduledEvent]]
"""Returns the events that meet this machine; raises ``EventsUnknown``."""


class Watcher:
    """One node's watcher. ``turn`` looks and does what is next; it never waits for an upload.

    While the machine has a notice, a file ``notice-HOST`` lies in the watched directory's ``.hpcai-checkpoint``: a
    program that sees it may save at once.

    :param events: asks for scheduled events at each turn.
    :param start_event: says that an event need not wait.
    """

    def __init__(
        self,
        options: Options,
        store: Store,
        events: Events,
        start_event: Callable[[str], None] = lambda _id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options, self.store = options, store
        self._events, self._start_event, self._clock = events, start_event, clock
        self._path = records.path_of(options.directory, options.host)
        self.record = records.read(self._path).with_restored(records.restored(options.directory))
        member = options.member
        self.status = Status(options.host, os.getpid(), member.attempt, member.rank, member.world)
        self._worker: Worker[Done] | None = None
        self._current: Seen | None = None
        self._not_before = 0.0
        self._unsure: set[Id] = set()
        self._notice: ScheduledEvent | None = None
        self._wanted = ""
        self._started: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether all that is finished is published, and known to be whole."""
        return self._worker is None and not self.record.pending() and not self._unsure

    def turn(self) -> None:
        """Look once, and do what is next."""
        self._look_for_events()
        self._look_at_directory()
        self._collect()
        if self._notice:
            self._hurry(self._notice)
        if self._worker is None and self._clock() >= self._not_before:
            self._begin()
        self._tell()

    def end(self) -> bool:
        """Stop what runs, and return whether all that is finished is published."""
        if self._worker:
            self._worker.stop()
            self._worker.wait(_LAST_S)
            self._collect()
        self.status.running = False
        self._tell()
        return not self.record.pending() and not self.status.refused

    def _look_at_directory(self) -> None:
        options = self.options
        found = find(options.directory, options.signal)
        merged = records.merge(self.record, found, options.directory, options.member)
        if merged != self.record and (merged.seen or self.record.seen):
            records.write(self._path, merged)
        self.record = merged

    def _begin(self) -> None:
        pending = self.record.pending()
        if pending:
            wanted = next((one for one in pending if one.id == self._wanted), None)
            self._worker = Worker(lambda hear: self._publish(pending, wanted, hear))
        elif self._unsure:
            unsure = sorted(self._unsure, key=self._order, reverse=True)
            self._worker = Worker(lambda _hear: self._is_whole(unsure))

    def _publish(self, pending: Sequence[Seen], wanted: Seen | None, hear: Callable[[int], None]) -> Done:
        """What other nodes wait for first, else the newest: so all nodes come to the same, whoever falls behind."""
        one = wanted or _awaited(self.store, pending) or pending[0]
        self._current = one
        id_ = one.known
        if id_ is None:
            raise CommandFailed(f"{self._path} names no checkpoint for {one.folder}: remove it.")
        options = self.options
        local = Local(id_, options.directory, one.folder, one.rank, options.shared, one.latest)
        done = Done(one, publish(self.store, local, hear))
        self._finish(done, [id_])
        return done

    def _is_whole(self, ids: Sequence[Id]) -> Done:
        done = Done()
        self._finish(done, ids)
        return done

    def _finish(self, done: Done, ids: Sequence[Id]) -> None:
        for id_ in ids:
            try:
                done.whole += [id_] if complete(self.store, id_) else []
            except BadManifest as error:
                done.problem = str(error)
        keep = self.options.keep
        if done.whole and keep and self.options.member.rank == 0:
            try:
                resumed = [one.known.step for one in self.record.seen.values() if one.known and one.state == RESTORED]
                attempt = self.options.member.attempt
                plan = prune(self.store, replace(keep, attempt=attempt, resumed=max(resumed, default=None)))
                done.pruned, done.branches = plan.whole, plan.branches
            except CommandFailed as error:
                done.problem = f"pruning failed: {error}"

    def _collect(self) -> None:
        if self._worker is None or not self._worker.ended:
            return
        worker, self._worker = self._worker, None
        one, self._current = self._current, None
        self._not_before = 0.0
        try:
            done = worker.result()
        except Stopped:
            return
        except Refused as error:
            self._note(one, REFUSED, str(error))
        except (CommandFailed, OSError) as error:
            if one and isinstance(error, FileNotFoundError):
                self._note(one, REFUSED, f"it was removed before it was uploaded: {error.filename}")
                return
            self.status.problem = " ".join(str(error).split())
            self._not_before = self._clock() + _AGAIN_S
        else:
            self.status.problem = done.problem
            self._take(done)

    def _take(self, done: Done) -> None:
        if done.seen and done.published:
            self._note(done.seen, PUBLISHED)
            id_ = done.published.shard.id
            self._unsure.add(id_)
            self.status.published = self._newer(self.status.published, id_)
            if done.published.carried and done.published.seconds > 0:
                self.status.rate = done.published.carried / done.published.seconds
        self._unsure -= {*done.whole, *done.pruned}
        for id_ in done.whole:
            if id_ not in done.pruned:
                self.status.whole = self._newer(self.status.whole, id_)
            # What is older need not become whole any more.
            self._unsure = {one for one in self._unsure if self._order(one) > self._order(id_)}
        if done.branches is not None:
            self.status.branches = [id_.text for id_ in done.branches]
        if not done.published and self._unsure:
            self._not_before = self._clock() + _AGAIN_S

    def _order(self, id_: Id) -> tuple[object, ...]:
        return id_.order_in(self.options.member.attempt)

    def _newer(self, known: str, id_: Id) -> str:
        before = id_of(known)
        return known if before and self._order(before) > self._order(id_) else id_.text

    def _note(self, one: Seen | None, state: str, words: str = "") -> None:
        known = self.record.seen.get(one.folder) if one else None
        # Saved again meanwhile: what came of the one before says nothing about it.
        if one is None or known is None or known.stamp != one.stamp:
            return
        self.record = self.record.put(replace(known, state=state, words=words))
        records.write(self._path, self.record)

    def _look_for_events(self) -> None:
        try:
            ending = [event for event in self._events() if event.is_ending]
        except EventsUnknown as error:
            self.status.events = str(error)
            return
        self.status.events = ""
        self._notice = ending[0] if ending else None
        if not ending:
            self.status.notice, self._wanted = {}, ""

    def _hurry(self, event: ScheduledEvent) -> None:
        pending = self.record.pending()
        running = self._current
        candidates = [self._candidate(one, running) for one in pending]
        left = None if event.not_before is None else event.not_before - self._clock()
        choice = decide(candidates, self._rate(), left)
        was, self._wanted = self._wanted, choice.id
        if choice.id and running and running.id != choice.id and self._worker and choice.id != was:
            # Stopped between two blocks; what it has carried stays for later.
            self._worker.stop()
        words = choice.words if candidates else f"{choice.words}; newest whole {self.status.whole or 'none'}"
        self.status.notice = {
            "event": event.id,
            "kind": event.kind,
            "status": event.status,
            "not_before": event.not_before,
            "fits": choice.fits,
            "words": words,
        }
        if self.options.acknowledge and not candidates and not self._unsure and self._worker is None:
            self._acknowledge(event)

    def _acknowledge(self, event: ScheduledEvent) -> None:
        """Only what meets this machine alone: who is ready must not say so for others."""
        if event.id in self._started or event.not_before is None or not event.is_for_one:
            return
        try:
            self._start_event(event.id)
            self._started.add(event.id)
        except EventsUnknown as error:
            self.status.events = str(error)

    def _candidate(self, one: Seen, running: Seen | None) -> Candidate:
        is_running = running is not None and running.id == one.id and self._worker is not None
        size = _size(self.options.directory, one)
        if self.options.shared:
            size //= self.options.member.world
        done = self._worker.done_bytes if is_running and self._worker else 0
        id_ = one.known
        own = id_ is not None and id_.attempt == self.options.member.attempt
        return Candidate(one.id, id_.step if id_ else 0, max(0, size - done), is_running, own)

    def _rate(self) -> float | None:
        """What was measured last, else what the running upload shows."""
        if self.status.rate is None and self._worker and self._worker.done_bytes:
            return self._worker.done_bytes / max(0.1, self._worker.seconds)
        return self.status.rate

    def _tell(self) -> None:
        one, worker, status = self._current, self._worker, self.status
        status.pending = [each.id for each in self.record.pending()]
        status.refused = {
            each.id or each.folder: each.words for each in self.record.seen.values() if each.state == REFUSED
        }
        status.uploading = {}
        if one and worker:
            status.uploading = {
                "id": one.id,
                "bytes": _size(self.options.directory, one),
                "bytes_done": worker.done_bytes,
            }
        notice = os.path.join(self.options.directory, records.FOLDER, f"notice-{self.options.host}")
        status.updated = round(self._clock(), 3)
        with contextlib.suppress(OSError):
            # A directory that is full or gone shows in the upload; the watcher goes on.
            statuses.write(statuses.path_of(self.options.directory, self.options.host), status)
            if status.notice:
                write_file(notice, f"{status.notice['kind']}\n")
            else:
                remove_file(notice)


def _awaited(store: Store, pending: Sequence[Seen]) -> Seen | None:
    published = {id_.text for id_ in (id_in(blob.name) for blob in store.list(SHARDS)) if id_}
    return next((one for one in pending if one.id in published and one.state == PENDING), None)


def _size(directory: str, one: Seen) -> int:
    try:
        return sum(entry.size for entry in scan(f"{directory}/{one.folder}"))
    except (OSError, CommandFailed):
        return 0
