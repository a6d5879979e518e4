# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Work beside the loop that watches: one upload at a time, in a thread, which can be told to stop."""

from __future__ import annotations

import threading
import time
from typing import Callable, Generic, TypeVar

Result = TypeVar("Result")


class Stopped(BaseException):
    """The work was told to stop. What is uploaded stays, and another run goes on from there."""


class Worker(Generic[Result]):
    """One piece of work.

    :ivar done_bytes: what it has told last.
    :param work: is given what to tell bytes to; that raises ``Stopped`` when the work is to stop.
    """

    def __init__(self, work: Callable[[Callable[[int], None]], Result]) -> None:
        self.done_bytes = 0
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._result: list[Result] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """Since when it runs."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Tell it to stop at the next word it hears of what it does."""
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        self._thread.join(seconds)
        return self.ended

    def result(self) -> Result:
        """Return what came of it, or raise what it raised."""
        if self._error:
            raise self._error[0]
        return self._result[0]

    def _run(self, work: Callable[[Callable[[int], None]], Result]) -> None:
        try:
            self._hear(0)
            self._result.append(work(self._hear))
        except BaseException as error:
            self._error.append(error)

    def _hear(self, done: int) -> None:
        self.done_bytes = done
        if self._stop.is_set():
            raise Stopped
