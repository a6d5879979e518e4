# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A piece of work in a thread, which the watcher can stop between two blocks of an upload."""

from __future__ import annotations

import threading
import time
from typing import Callable, Generic, TypeVar

Result = TypeVar("Result")


class Stopped(BaseException):
    """The work was stopped. The uploaded data stays, and another run continues from there."""


class Worker(Generic[Result]):
    """One piece of work in a thread.

    :ivar done_bytes: the last reported number of bytes.
    :param work: gets a function for reporting bytes, which raises ``Stopped`` when the work must stop.
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
        """Whether it has ended."""
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Stop it at its next report."""
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return self.ended

    def result(self) -> Result:
        """Return its result, or raise its exception."""
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
