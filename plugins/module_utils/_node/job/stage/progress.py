# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How far a shard is, told from time to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sight:
    """How far it is.

    :ivar busy_percent: how many requests the account turned away lately.
    """

    files: int
    of_files: int
    bytes_done: int
    of_bytes: int
    seconds: float
    busy_percent: float

    def in_words(self) -> str:
        """Return it in one line."""
        rate = self.bytes_done / self.seconds if self.seconds else 0.0
        left = (self.of_bytes - self.bytes_done) / rate if rate else 0.0
        words = f"{self.files} of {self.of_files} files, {size(self.bytes_done)} of {size(self.of_bytes)}"
        words += f", {size(rate)}/s"
        words += f", about {left:.0f} s left" if self.bytes_done < self.of_bytes and rate else ""
        return words + (f", the account turns away {self.busy_percent:.0f} %" if self.busy_percent else "")


class Watch:
    """Counts what several azcopies have carried, and tells it no more often than every ``every_s`` seconds."""

    def __init__(self, of_files: int, of_bytes: int, tell: Callable[[Sight], None] | None, every_s: float) -> None:
        self._of_files, self._of_bytes, self._tell, self._every_s = of_files, of_bytes, tell, every_s
        self._carried: dict[int, tuple[int, int, float]] = {}
        self._began = self._told = time.monotonic()
        self._lock = threading.Lock()

    def note(self, process: int, files: int, carried: int, busy: float) -> None:
        """Note how far one azcopy is."""
        with self._lock:
            self._carried[process] = (files, carried, busy)
            now = time.monotonic()
            if self._tell and now - self._told >= self._every_s:
                self._told = now
                self._tell(self.sight)

    @property
    def sight(self) -> Sight:
        """How far all are."""
        files = sum(one[0] for one in self._carried.values())
        carried = sum(one[1] for one in self._carried.values())
        busy = max((one[2] for one in self._carried.values()), default=0.0)
        return Sight(
            min(files, self._of_files),
            self._of_files,
            min(carried, self._of_bytes),
            self._of_bytes,
            time.monotonic() - self._began,
            busy,
        )


def size(number: float) -> str:
    """Return bytes in words, in powers of ten."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} bytes"
