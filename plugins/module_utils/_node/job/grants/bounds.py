# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How much of the service each user may take, so that nobody keeps it from the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CONNECTIONS_EACH = 4
CONNECTIONS_TOTAL = 128
QUESTIONS_A_MINUTE = 120


@dataclass
class _Share:
    left: float
    counted_at: float
    open: int = 0


@dataclass
class Bounds:
    """Counts connections and questions by user id.

    :ivar each: connections that one user may have at a time.
    :ivar total: connections of all users.
    :ivar a_minute: questions of one user, on average and at once.
    """

    each: int = CONNECTIONS_EACH
    total: int = CONNECTIONS_TOTAL
    a_minute: int = QUESTIONS_A_MINUTE
    clock: Callable[[], float] = time.monotonic
    _shares: dict[int, _Share] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, uid: int) -> str:
        """Count a connection; return why it must be refused, or nothing. Only one that was let in leaves again."""
        with self._lock:
            now = self.clock()
            share = self._shares.setdefault(uid, _Share(self.a_minute, now))
            share.left = min(self.a_minute, share.left + (now - share.counted_at) * self.a_minute / 60)
            share.counted_at = now
            if share.open >= self.each:
                return f"you have {self.each} requests open already"
            if share.left < 1:
                return f"you sent more than {self.a_minute} requests a minute"
            if self.open >= self.total:
                return f"all {self.total} connections are taken"
            share.open += 1
            share.left -= 1
            return ""

    def leave(self, uid: int) -> None:
        """A connection that was let in has ended."""
        with self._lock:
            self._shares[uid].open -= 1
            now = self.clock()
            # A user who asked nothing for a minute has a full share again, which needs no record.
            for idle in [key for key, one in self._shares.items() if not one.open and now - one.counted_at > 60]:
                del self._shares[idle]

    @property
    def open(self) -> int:
        """How many connections there are."""
        return sum(share.open for share in self._shares.values())
