# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records which requests the kernel has interrupted because the process that waits is being killed.

The real client checks for this before it retries, so a process that waits for a dead server can be killed.
"""

from __future__ import annotations

import struct
import threading

_UNIQUE = struct.Struct("=Q")


class Interrupts:
    """The requests in progress, one per thread, and which of them are interrupted."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._answered: set[int] = set()
        self._given_up: set[int] = set()
        self._lock = threading.Lock()

    def begin(self, unique: int) -> None:
        """This thread starts to answer a request."""
        self._own.unique = unique
        with self._lock:
            self._answered.add(unique)

    def end(self) -> None:
        """This thread has answered its request."""
        with self._lock:
            self._answered.discard(self._own.unique)
            self._given_up.discard(self._own.unique)

    def give_up(self, content: bytes | memoryview) -> None:
        """Record an INTERRUPT from the kernel; the request may already be answered."""
        (unique,) = _UNIQUE.unpack_from(content)
        with self._lock:
            self._given_up |= {unique} & self._answered

    def given_up(self) -> bool:
        """Return whether the request of this thread is interrupted."""
        return getattr(self._own, "unique", 0) in self._given_up
