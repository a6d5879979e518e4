# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parallel requests with one common timeout.

A limited number of threads send requests, and one thread handles the results. A result may add more requests. Results
are handled one after the other in the thread that calls :meth:`WorkQueue.drain`, so this code needs no lock.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import Asking, DeadlineExceeded


class Deadline:
    """The time at which all waiting ends.

    :param seconds: seconds until then.
    :param clock: a monotonic clock.
    :param sleep: the function that waits.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds, never below zero."""
        return max(0.0, self._end - self._clock())

    def allows(self, seconds: float) -> bool:
        """Say whether time remains after a wait of ``seconds``."""
        return seconds < self.remaining()

    def wait(self, seconds: float) -> None:
        """Wait ``seconds``, but not beyond the deadline."""
        self._sleep(min(seconds, self.remaining()))


# Each request also has the deadline and fails with a more exact error, so the queue waits slightly longer for it.
_GRACE_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One request.

    :ivar asking: description of the request, for errors.
    :ivar work: sends the request and returns the answer. It runs in a worker thread.
    :ivar done: handles the answer.
    :ivar failed: handles the error.
    """

    asking: Asking
    work: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]


class WorkQueue:
    """Runs jobs in at most ``size`` threads until the deadline."""

    def __init__(self, size: int, deadline: Deadline) -> None:
        self._size = size
        self._deadline = deadline
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Job, Any, Exception | None]] = queue.SimpleQueue()
        self._open: list[Job] = []
        self._threads: list[threading.Thread] = []

    def add(self, job: Job) -> None:
        """Add a job. Call this from the thread that drains the queue."""
        self._open.append(job)
        self._jobs.put(job)
        if len(self._threads) < min(self._size, len(self._open)):
            # A daemon thread, because a thread that hangs in a socket must not keep Ansible from exiting.
            thread = threading.Thread(target=self._work, name=f"azure-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def drain(self) -> None:
        """Handle answers until no job is left, including jobs that are added meanwhile.

        Jobs without an answer at the deadline fail with :class:`DeadlineExceeded`.
        """
        while self._open:
            try:
                job, answer, error = self._answers.get(timeout=self._deadline.remaining() + _GRACE_SECONDS)
            except queue.Empty:
                self._give_up()
                return
            self._open.remove(job)
            if error is None:
                job.done(answer)
            else:
                job.failed(error)

    def close(self) -> None:
        """End the threads. A thread that still waits ends when its request ends."""
        for _thread in self._threads:
            self._jobs.put(None)
        end = time.monotonic() + _GRACE_SECONDS
        for thread in self._threads:
            # Ansible forks its workers later, and then no thread should be running.
            thread.join(timeout=max(0.0, end - time.monotonic()) if self._open else None)

    def _give_up(self) -> None:
        unanswered = list(self._open)
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        for job in unanswered:
            job.failed(DeadlineExceeded(f"no answer within the {self._deadline.seconds:g} seconds of `timeout`."))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                answer = job.work()
            except Exception as error:  # any error is passed on, so that none is lost silently
                self._answers.put((job, None, error))
            else:
                self._answers.put((job, answer, None))
