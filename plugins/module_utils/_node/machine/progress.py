# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How far a long module is, in a folder that the module's action reads while the module runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from typing import Callable

from .atomic import write_file

PROGRESS, WATCHED = "progress", "watched"
"""Names of files: the module writes the first one, the action touches the second one whenever it looks."""
ABANDONED_S = 180.0
"""After this many seconds without a look, nobody waits for the result any more."""


class Abandoned(RuntimeError):
    """The action has ended, for example because somebody interrupted Ansible."""


class ProgressFolder:
    """A folder with the progress of this process, for which somebody waits. It is removed at the end.

    :param path: the folder, which must not exist. Its name must not be predictable if others may write beside it.
    :param clock: the time, in seconds since the epoch.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._began = clock()

    def __enter__(self) -> ProgressFolder:
        os.mkdir(self._path, 0o700)
        try:
            # The action can touch an existing file even if the file system is full.
            with open(os.path.join(self._path, WATCHED), "x", encoding="utf-8"):
                return self
        except OSError:
            self.__exit__()
            raise

    def __exit__(self, *_about: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def report(self, words: str) -> None:
        """Write one line. A full file system only keeps it from being shown.

        :raises Abandoned: nobody has looked for a while.
        """
        try:
            watched = max(self._began, os.stat(os.path.join(self._path, WATCHED)).st_mtime)
        except OSError:
            watched = self._began
        if self._clock() - watched > ABANDONED_S:
            raise Abandoned("Ansible does not wait for the result any more, so the rest was not run.")
        with contextlib.suppress(OSError):
            write_file(os.path.join(self._path, PROGRESS), f"{words}\n")


@contextlib.contextmanager
def reporting(path: str | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes how far a module is, or does nothing if nobody reads it.

    :param path: the folder, as for ``ProgressFolder``, or None if nobody reads it.
    """
    with contextlib.ExitStack() as stack:
        report: Callable[[str], None] = _silently
        # What others wrote to a file system must not keep the module from its work.
        if path is not None:
            with contextlib.suppress(OSError):
                report = stack.enter_context(ProgressFolder(path)).report
        yield report


def _silently(_words: str) -> None:
    """Write nothing."""
