# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of the kernel's requests nobody waits for any more: who asked is being killed.

The real client looks at this before it asks a server again, so that what hangs on a dead server can be killed.
"""

from __future__ import annotations

import struct
import threading

_UNIQUE = struct.Struct("=Q")


class Interrupts:
    """The requests that are being answered, a thread each, and those of them that were given up."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._answered: set[int] = set()
        self._given_up: set[int] = set()
        self._lock = threading.Lock()

    def begin(self, unique: int) -> None:
        """This thread answers a request."""
        self._own.unique = unique
        with self._lock:
            self._answered.add(unique)

    def end(self) -> None:
        """It has."""
        with self._lock:
            self._answered.discard(self._own.unique)
            self._given_up.discard(self._own.unique)

    def give_up(self, content: bytes | memoryview) -> None:
        """The kernel says so of a request; it may have been answered meanwhile."""
        (unique,) = _UNIQUE.unpack_from(content)
        with self._lock:
            self._given_up |= {unique} & self._answered

    def given_up(self) -> bool:
        """Whether that is so of what this thread answers."""
        return getattr(self._own, "unique", 0) in self._given_up
