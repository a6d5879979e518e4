# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines that Ansible shows while a task still runs: how far it is, and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ansible.utils.display import Display

EVERY_S = 60.0
"""Time after which a line is shown again although nothing has changed but the time left."""


class Progress:
    """Shows lines about a task on one host: at once if something has changed, otherwise once a minute.

    :param host: the host's name in the inventory, which begins each line.
    :param show: prints a line.
    :param clock: a monotonic clock.
    """

    def __init__(
        self,
        host: str,
        show: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._show, self._clock = host, show or Display().display, clock
        self._last, self._shown_at = "", 0.0

    def say(self, state: str, time_left: str = "") -> None:
        """Show how far it is.

        :param state: shown at once if it differs from the last call's.
        :param time_left: what else the line says, which changes with each call.
        """
        now = self._clock()
        if state == self._last and now - self._shown_at < EVERY_S:
            return
        self._last, self._shown_at = state, now
        self._show(f"{self._host}: {', '.join(filter(None, (state, time_left)))}")


def show(lines: Iterable[str]) -> None:
    """Show lines as they are. Ansible would fold or quote the long lines of a table in the result of a task."""
    for line in lines:
        Display().display(line)


def in_words(seconds: float) -> str:
    """Return a time left, in minutes if it is more than one."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(-(-whole // 60), 60)
    return " ".join(([f"{hours} h"] if hours else []) + ([f"{minutes} min"] if minutes else []))


def count(number: int, what: str) -> str:
    """Return a number with its noun, such as ``2 jobs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
