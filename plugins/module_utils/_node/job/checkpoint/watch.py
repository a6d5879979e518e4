# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Watches a directory and uploads finished checkpoints in the background; a notice of removal changes the order."""

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
from . import state
from .directory import Refused, Signal, find_finished, scan
from .manifest import BadManifest, JobManifest, complete
from .names import SHARDS, Id, Member, id_in, id_of
from .notice import Candidate, decide
from .prune import Retention, prune
from .publish import Local, Published, publish
from .state import PENDING, PUBLISHED, REFUSED, RESTORED, KnownCheckpoint, WatcherStatus
from .store import Store
from .worker import Stopped, Worker

_AGAIN_S, _LAST_S = 15.0, 10.0
"""Interval for retries and for checks whether other nodes have published, and timeout for stopping the worker."""


@dataclass(frozen=True)
class WatchOptions:
    """The options of a watcher.

    :ivar shared: see ``Local``.
    :ivar keep: the retention, for node 0, which prunes; None to remove nothing.
    :ivar every_s: interval of the checks of the directory and for events.
    :ivar acknowledge: whether to start this machine's own events early when everything is published.
    :ivar attest: called by node 0 for each complete checkpoint, to write its lineage and signature.
    """

    directory: str
    signal: Signal
    member: Member
    host: str
    shared: bool = False
    keep: Retention | None = None
    every_s: float = 2.0
    acknowledge: bool = False
    attest: Callable[[JobManifest], None] | None = None


@dataclass
class WorkerResult:
    """The result of a piece of work.

    :ivar published: None if it only checked whether checkpoints are complete.
    :ivar complete: the checkpoints that are complete now.
    :ivar pruned: what the retention removed.
    :ivar branches: see ``prune.Plan``.
    :ivar problem: a further error, such as a failed pruning.
    """

    checkpoint: KnownCheckpoint | None = None
    published: Published | None = None
    complete: list[Id] = field(default_factory=list)
    pruned: tuple[Id, ...] = ()
    branches: tuple[Id, ...] | None = None
    problem: str = ""


Events = Callable[[], Sequence[ScheduledEvent]]
"""Returns the events that affect this machine; raises ``EventsUnknown``."""


class Watcher:
    """One node's watcher. ``turn`` checks everything and starts the next work; it never waits for an upload.

    While there is a notice for the machine, the watched directory's ``.hpcai-checkpoint`` contains a file
    ``notice-HOST``: a program that sees it may save immediately.

    :param events: queries scheduled events at each turn.
    :param start_event: starts an event early.
    """

    def __init__(
        self,
        options: WatchOptions,
        store: Store,
        events: Events,
        start_event: Callable[[str], None] = lambda _id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options, self.store = options, store
        self._events, self._start_event, self._clock = events, start_event, clock
        self._path = state.record_path(options.directory, options.host)
        self.record = state.read_record(self._path).with_restored(state.read_restored(options.directory))
        member = options.member
        self.status = WatcherStatus(options.host, os.getpid(), member.attempt, member.rank, member.world)
        self._worker: Worker[WorkerResult] | None = None
        self._current: KnownCheckpoint | None = None
        self._not_before = 0.0
        self._unsure: set[Id] = set()
        self._notice: ScheduledEvent | None = None
        self._urgent = ""
        self._is_written = True
        self._trouble = ""

    @property
    def idle(self) -> bool:
        """Whether all finished checkpoints are published, and known to be complete."""
        return self._worker is None and not self.record.pending() and not self._unsure

    @property
    def is_uploading(self) -> bool:
        """Whether it uploads a checkpoint now, and does not only check whether other nodes have published."""
        return self._worker is not None and bool(self.record.pending())

    @property
    def carried(self) -> int:
        """The bytes of the running upload so far."""
        return self._worker.done_bytes if self._worker else 0

    def turn(self) -> None:
        """Check everything once, and start the next work."""
        trouble, self._trouble = self._trouble, ""
        self._look_for_events()
        try:
            self._look_at_directory()
        except OSError as error:
            self._trouble = str(error)
        self._collect()
        if self._trouble or self.status.problem == trouble:
            self.status.problem = self._trouble
        if self._notice:
            self._hurry(self._notice)
        if self._worker is None and self._clock() >= self._not_before:
            self._begin()
        self._update_status()

    def end(self) -> bool:
        """Stop the running work, and return whether all finished checkpoints are published."""
        if self._worker:
            self._worker.stop()
            self._worker.wait(_LAST_S)
            self._collect()
        self.status.running = False
        self._update_status()
        return not self.record.pending() and not self.status.refused

    def _look_at_directory(self) -> None:
        options = self.options
        found = find_finished(options.directory, options.signal)
        merged = state.merge(self.record, found, options.directory, options.member)
        self._keep(merged, merged != self.record and bool(merged.checkpoints or self.record.checkpoints))

    def _keep(self, record: state.Record, is_new: bool = True) -> None:
        """Use this record, and write it. If that fails, it is written at a later turn: the watcher continues."""
        self.record = record
        self._is_written = self._is_written and not is_new
        if self._is_written:
            return
        try:
            state.write_record(self._path, record)
            self._is_written = True
        except OSError as error:
            self._trouble = f"{self._path} cannot be written: {error.strerror}"

    def _begin(self) -> None:
        pending = self.record.pending()
        if pending:
            urgent = next((one for one in pending if one.id == self._urgent), None)
            self._worker = Worker(lambda on_uploaded: self._publish(pending, urgent, on_uploaded))
        elif self._unsure:
            unsure = sorted(self._unsure, key=self._order, reverse=True)
            self._worker = Worker(lambda _hear: self._check_complete(unsure))

    def _publish(
        self, pending: Sequence[KnownCheckpoint], urgent: KnownCheckpoint | None, on_uploaded: Callable[[int], None]
    ) -> WorkerResult:
        """Publish what other nodes have published already, else the newest, so that all nodes choose the same one."""
        one = urgent or _awaited(self.store, pending) or pending[0]
        self._current = one
        id_ = one.known
        if id_ is None:
            raise CommandFailed(f"{self._path} has an invalid id for {one.folder}: remove the file.")
        options = self.options
        local = Local(id_, options.directory, one.folder, one.rank, options.shared, one.latest)
        done = WorkerResult(one, publish(self.store, local, on_uploaded))
        self._finish(done, [id_])
        return done

    def _check_complete(self, ids: Sequence[Id]) -> WorkerResult:
        done = WorkerResult()
        self._finish(done, ids)
        return done

    def _finish(self, done: WorkerResult, ids: Sequence[Id]) -> None:
        for id_ in ids:
            try:
                manifest = complete(self.store, id_)
                done.problem = self._attest(manifest) if manifest else done.problem
                done.complete += [id_] if manifest and not done.problem else []
            except BadManifest as error:
                done.problem = str(error)
        keep = self.options.keep
        if done.complete and keep and self.options.member.rank == 0:
            try:
                resumed = [
                    one.known.step for one in self.record.checkpoints.values() if one.known and one.state == RESTORED
                ]
                attempt = self.options.member.attempt
                plan = prune(self.store, replace(keep, attempt=attempt, resumed=max(resumed, default=None)))
                done.pruned, done.branches = plan.complete, plan.branches
            except CommandFailed as error:
                done.problem = f"pruning failed: {error}"

    def _attest(self, manifest: JobManifest) -> str:
        """Return why it is not attested; then it is tried again."""
        try:
            if self.options.attest and self.options.member.rank == 0:
                self.options.attest(manifest)
        except CommandFailed as error:
            return str(error)
        return ""

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

    def _take(self, done: WorkerResult) -> None:
        if done.checkpoint and done.published:
            self._note(done.checkpoint, PUBLISHED)
            id_ = done.published.shard.id
            self._unsure.add(id_)
            self.status.published = self._newer(self.status.published, id_)
            if done.published.carried and done.published.seconds > 0:
                self.status.rate = done.published.carried / done.published.seconds
        self._unsure -= {*done.complete, *done.pruned}
        for id_ in done.complete:
            if id_ not in done.pruned:
                self.status.whole = self._newer(self.status.whole, id_)
            # Older checkpoints need not become complete any more.
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

    def _note(self, one: KnownCheckpoint | None, became: str, words: str = "") -> None:
        known = self.record.checkpoints.get(one.folder) if one else None
        # If it was saved again in the meantime, this result is about the earlier save only.
        if one is None or known is None or known.stamp != one.stamp:
            return
        self._keep(self.record.put(replace(known, state=became, words=words)))

    def _look_for_events(self) -> None:
        try:
            ending = [event for event in self._events() if event.is_ending]
        except EventsUnknown as error:
            self.status.events = str(error)
            return
        self.status.events = ""
        self._notice = ending[0] if ending else None
        if not ending:
            self.status.notice, self._urgent = {}, ""

    def _hurry(self, event: ScheduledEvent) -> None:
        pending = self.record.pending()
        running = self._current
        candidates = [self._candidate(one, running) for one in pending]
        seconds_left = None if event.not_before is None else event.not_before - self._clock()
        choice = decide(candidates, self._rate(), seconds_left)
        was, self._urgent = self._urgent, choice.id
        if choice.id and running and running.id != choice.id and self._worker and choice.id != was:
            # The worker stops between two blocks; the uploaded data stays for a later upload.
            self._worker.stop()
        words = choice.words if candidates else f"{choice.words}; newest complete: {self.status.whole or 'none'}"
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
        """Start an event early, only if it affects no other machine: others may not be ready.

        This is repeated until the event starts, because another user's job on the node may end in the meantime.
        """
        if event.not_before is None or not event.is_for_one:
            return
        try:
            self._start_event(event.id)
        except EventsUnknown as error:
            self.status.events = str(error)

    def _candidate(self, one: KnownCheckpoint, running: KnownCheckpoint | None) -> Candidate:
        is_running = running is not None and running.id == one.id and self._worker is not None
        size = _size(self.options.directory, one)
        if self.options.shared:
            size //= self.options.member.world
        done = self._worker.done_bytes if is_running and self._worker else 0
        id_ = one.known
        is_current = id_ is not None and id_.attempt == self.options.member.attempt
        return Candidate(one.id, id_.step if id_ else 0, max(0, size - done), is_running, is_current)

    def _rate(self) -> float | None:
        """Return the last measured rate, else the rate of the running upload."""
        if self.status.rate is None and self._worker and self._worker.done_bytes:
            return self._worker.done_bytes / max(0.1, self._worker.seconds)
        return self.status.rate

    def _update_status(self) -> None:
        one, worker, status = self._current, self._worker, self.status
        status.pending = [each.id for each in self.record.pending()]
        status.refused = {
            each.id or each.folder: each.words for each in self.record.checkpoints.values() if each.state == REFUSED
        }
        status.uploading = {}
        if one and worker:
            status.uploading = {
                "id": one.id,
                "bytes": _size(self.options.directory, one),
                "bytes_done": worker.done_bytes,
            }
        notice = os.path.join(self.options.directory, state.FOLDER, f"notice-{self.options.host}")
        status.updated = round(self._clock(), 3)
        with contextlib.suppress(OSError):
            # A full or missing directory is reported by the upload; the watcher continues.
            state.write_status(state.status_path(self.options.directory, self.options.host), status)
            if status.notice:
                write_file(notice, f"{status.notice['kind']}\n")
            else:
                remove_file(notice)


def _awaited(store: Store, pending: Sequence[KnownCheckpoint]) -> KnownCheckpoint | None:
    published = {id_.text for id_ in (id_in(blob.name) for blob in store.list(SHARDS)) if id_}
    return next((one for one in pending if one.id in published and one.state == PENDING), None)


def _size(directory: str, one: KnownCheckpoint) -> int:
    try:
        return sum(entry.size for entry in scan(f"{directory}/{one.folder}"))
    except (OSError, CommandFailed):
        return 0
