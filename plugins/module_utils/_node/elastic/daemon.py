# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The daemon: takes requests, makes a pass every 15 s or when it is woken, and writes what it did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Callable

from ..machine.root import Root
from ..machine.run import Run
from . import book as books
from . import cost, host_names, spool, status
from .book import Book
from .reconcile import Azure, Pass, Reconciler, Slurm
from .scale_sets import connect
from .settings import Budget, Settings
from .slurmctld import Slurmctld
from .spool import Listener, Request
from .views import SlurmView

LOCK = "/run/hpcai/elastic.lock"
"""Held by the only daemon that may run."""
PAUSE, RESUME, KEEP, RETIRE, READ = CONTROLS = ("pause", "resume-set", "keep", "retire", spool.READ)
"""What an administrator asks for."""
ERROR, INFO = "<3>", "<6>"
"""Priority prefixes of lines for the journal (sd-daemon(3))."""
LEAST_S = 1.0
"""Time between two passes, however often the daemon is woken."""
_SAVE_COST_S = 300.0


def apply_request(book: Book, request: Request, settings: Settings) -> str:
    """Do what an administrator asks for in the book, and return it in words."""
    if request.kind == KEEP:
        for name in request.names:
            if request.until > request.time:
                book.keep[name] = request.until
            else:
                book.keep.pop(name, None)
        return f"keeps {', '.join(request.names)} for {max(0.0, request.until - request.time):.0f} s"
    if request.kind == RETIRE:
        # By vmId: the slot may have got another machine since the administrator looked.
        going = [lease for lease in book.leases.values() if lease.vm_id in request.names]
        for lease in going:
            lease.retire = request.words or "by an administrator"
        return f"retires {', '.join(lease.slot for lease in going) or 'no node'}: {request.words}"
    chosen = [name for name in request.names or settings.sets if name in settings.sets]
    for name in chosen:
        record = book.of(name)
        record.paused = request.kind == PAUSE
        if request.kind == RESUME:
            record.closed, record.boots, record.level, record.refused = None, 0, 0, 0.0
            for slot in settings.sets[name].slots(name):
                book.failures.pop(slot, None)
    words = "paused" if request.kind == PAUSE else "opened again"
    return f"{', '.join(chosen)}: {words} by an administrator"


class Daemon:
    """The daemon on one controller.

    :param slurm, azure: by default, slurmctld on this machine and Resource Manager.
    """

    def __init__(
        self, root: Root, run: Run, settings: Settings, slurm: Slurm | None = None, azure: Azure | None = None
    ) -> None:
        self._root, self._settings = root, settings
        book, problem = books.read(root, settings.state)
        self.problems = [words for words in (problem, cost.set_aside(root)) if words]
        self._ledger = cost.read(root)
        self._prices = cost.read_prices(root, settings)
        self._reconciler = Reconciler(
            settings, slurm or Slurmctld(run, settings.lease_field), azure or connect(settings), book, self._save
        )
        self._counted = 0.0
        self._saved_cost = 0.0
        self._known: frozenset[str] = frozenset()

    def _save(self, book: Book) -> None:
        books.write(self._root, self._settings.state, book)

    def one_pass(self, now: float, monotonic: float) -> tuple[Pass, list[str]]:
        """Make a pass, and return it with the lines for the journal.

        :raises OSError: the book or the status cannot be written.
        """
        lines = self._take_requests()
        stopped = cost.why_stopped(self._ledger, self._settings, self._prices, now)
        done = self._reconciler.run(now, monotonic, stopped)
        lines += [f"{INFO}{line}" for line in done.lines]
        unnamed = host_names.write(self._root, self._reconciler.book.leases)
        if unnamed:
            done.problems.append(unnamed)
        problems = frozenset(done.problems)
        lines += [f"{ERROR}{problem}" for problem in sorted(problems - self._known)]
        self._known = problems
        self._count(done.slurm, monotonic, now)
        found = status.document(self._reconciler.book, done.slurm, self._settings, list(done.problems), stopped, now)
        status.write_status(self._root, found, self._settings)
        spool.beat(self._root, now)
        return done, lines

    def _take_requests(self) -> list[str]:
        lines = []
        for request in spool.take(self._root, spool.SPOOL, spool.PROGRAMS):
            lines.append(f"{INFO}Slurm asks: {request.kind} {', '.join(request.names[:20])}")
        for request in spool.take(self._root, spool.CONTROL, CONTROLS):
            if request.kind == READ:
                self._reconciler.read_again(request.names)
                continue
            lines.append(f"{INFO}{apply_request(self._reconciler.book, request, self._settings)}")
            self._save(self._reconciler.book)
        return lines

    def _count(self, slurm: SlurmView | None, monotonic: float, now: float) -> None:
        if self._counted:
            cost.add(self._ledger, self._reconciler.book, slurm, self._settings, now, monotonic - self._counted)
        self._counted = monotonic
        if monotonic - self._saved_cost >= _SAVE_COST_S:
            cost.write(self._root, self._ledger)
            self._saved_cost = monotonic

    def serve(self, ended: Callable[[], bool]) -> Iterator[str]:
        """Make passes until ``ended`` returns true, and yield lines for the journal."""
        _make_folders(self._root, (spool.SPOOL, spool.CONTROL))
        with spool.listening(self._root) as listener:
            yield f"{INFO}elastic sets: {', '.join(self._settings.sets)}"
            unknown = [name for name in self._settings.sets if name not in self._prices.of_set]
            if unknown and self._settings.budget != Budget():
                words = self._prices.problem or "give them a price, or name the price file"
                yield f"{ERROR}the budget cannot count {', '.join(unknown)}, whose price is not known: {words}"
            for problem in self.problems:
                yield f"{ERROR}{problem}"
            while not ended():
                began, seconds = time.monotonic(), self._settings.interval_s
                try:
                    done, lines = self.one_pass(time.time(), began)
                    yield from lines
                    seconds = LEAST_S if done.again else min(seconds, done.next_s)
                except OSError as error:
                    yield f"{ERROR}nothing was done: {error}"
                except Exception as error:
                    yield f"{ERROR}the pass failed: {error!r}. systemd starts the daemon again"
                    raise
                self._rest(listener, began, seconds)
        cost.write(self._root, self._ledger)

    def _rest(self, listener: Listener, began: float, seconds: float) -> None:
        """Wait for the next pass: until it is time, or until somebody wakes the daemon, but never less than 1 s."""
        listener.wait(began + seconds - time.monotonic())
        time.sleep(max(0.0, began + LEAST_S - time.monotonic()))


def _make_folders(root: Root, folders: Sequence[str]) -> None:
    """Create folders that the role elastic has created with their owners; only for a daemon without it."""
    for folder in folders:
        os.makedirs(root.at(folder), mode=0o700, exist_ok=True)
