# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the scripts wrote: one bounded file for each job and kind, and only so many of them."""

from __future__ import annotations

import contextlib
import os
import time

from ...machine.root import Root
from .environment import NO_JOB

FOLDER = "/var/log/hpcai/jobs"
MOST_BYTES = 256 * 1024
"""Of the scripts' output in one run."""
MOST_FILES = 500
_SLACK = 50
"""So many more may lie there before the oldest are removed, so that not every job looks at all of them."""


def path_of(kind: str, job: str) -> str:
    """Return where the log of a run lies."""
    return f"{FOLDER}/{kind}.log" if job == NO_JOB else f"{FOLDER}/{job}.{kind}.log"


class Log:
    """A log that is written to. A full disk, or none, must not keep a job from running: it only loses lines."""

    def __init__(self, root: Root, kind: str, job: str) -> None:
        self.path = path_of(kind, job)
        self._handle: int | None = None
        self._left = MOST_BYTES
        with contextlib.suppress(OSError):
            os.makedirs(root.at(FOLDER), mode=0o750, exist_ok=True)
            # A job that was requeued has its earlier run before this one; without a job, the last run is enough.
            mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(root.at(self.path), mode, 0o640)
            if job == NO_JOB or os.fstat(self._handle).st_size > 4 * MOST_BYTES:
                os.ftruncate(self._handle, 0)

    def line(self, text: str) -> None:
        """Write a line of ours, with the time."""
        self._put(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode("utf-8", "replace"))

    def write(self, part: bytes) -> None:
        """Write what a script said, as far as there is room."""
        if self._left > 0:
            self._put(part[: self._left])
            self._left -= len(part)
            if self._left <= 0:
                self._put(b"\n")
                self.line(f"what follows is left out: this log holds {MOST_BYTES} bytes of a run")

    def close(self) -> None:
        """End it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _put(self, part: bytes) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.write(self._handle, part)


def prune(root: Root, most: int = MOST_FILES, slack: int = _SLACK) -> None:
    """Remove the oldest logs where there are too many."""
    names = [name for name in root.entries(FOLDER) if name.endswith(".log")]
    if len(names) <= most + slack:
        return
    ages = []
    for name in names:
        with contextlib.suppress(OSError):
            ages.append((os.lstat(root.at(f"{FOLDER}/{name}")).st_mtime, name))
    for _age, name in sorted(ages)[: len(ages) - most]:
        with contextlib.suppress(OSError):
            os.unlink(root.at(f"{FOLDER}/{name}"))
