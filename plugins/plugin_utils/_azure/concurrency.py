# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests in parallel, within one time limit.

A bounded number of threads send requests, and one thread handles the results: what is asked next depends on what was
answered, so a result may add more work. Results are handled in the thread that calls :meth:`WorkQueue.drain`, one after
the other: nothing there needs a lock.
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
    """A point in time after which nothing more is waited for.

    :param seconds: how far away it is.
    :param clock: a clock that is never set back.
    :param sleep: how to wait.
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
        """Seconds that are left, never below zero."""
        return max(0.0, self._end - self._clock())

    def allows(self, seconds: float) -> bool:
        """Say whether there is time to wait ``seconds`` and do something afterwards."""
        return seconds < self.remaining()

    def wait(self, seconds: float) -> None:
        """Wait ``seconds``, or what is left."""
        self._sleep(min(seconds, self.remaining()))


# Requests know the deadline themselves and end with an error that says more; this waits a moment longer for it.
_GRACE_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One thing to ask.

    :ivar asking: what it is, for errors.
    :ivar work: asks and returns the answer; runs in a thread of its own.
    :ivar done: takes the answer.
    :ivar failed: takes the error instead.
    """

    asking: Asking
    work: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]


class WorkQueue:
    """Jobs that are worked on by at most ``size`` threads until the deadline."""

    def __init__(self, size: int, deadline: Deadline) -> None:
        self._size = size
        self._deadline = deadline
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Job, Any, Exception | None]] = queue.SimpleQueue()
        self._open: list[Job] = []
        self._threads: list[threading.Thread] = []

    def add(self, job: Job) -> None:
        """Have a job done; call it from the thread that drains."""
        self._open.append(job)
        self._jobs.put(job)
        if len(self._threads) < min(self._size, len(self._open)):
            # Daemons: a thread that hangs in a socket must not keep Ansible from ending.
            thread = threading.Thread(target=self._work, name=f"azure-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def drain(self) -> None:
        """Handle answers until no job is left, those included that the answers add.

        Jobs that have not answered when the time is over fail with :class:`DeadlineExceeded`.
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
        """End the threads; those that still hang end by themselves when their request does."""
        for _thread in self._threads:
            self._jobs.put(None)
        end = time.monotonic() + _GRACE_SECONDS
        for thread in self._threads:
            # Ansible forks its workers later: no thread should be around by then.
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
            except Exception as error:  # handed on, whatever it is: an unexpected one must not end in silence
                self._answers.put((job, None, error))
            else:
                self._answers.put((job, answer, None))
