# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One limit of time for everything that a source asks of Azure."""

from __future__ import annotations

import time
from collections.abc import Callable


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
