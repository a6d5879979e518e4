# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How far a long module is, in a folder that the module's action reads while the module runs."""

from __future__ import annotations

import os
import shutil
import time
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
        return self

    def __exit__(self, *_about: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def report(self, words: str) -> None:
        """Write one line.

        :raises Abandoned: nobody has looked for a while.
        """
        try:
            watched = os.stat(os.path.join(self._path, WATCHED)).st_mtime
        except OSError:
            watched = self._began
        if self._clock() - watched > ABANDONED_S:
            raise Abandoned("Ansible does not wait for the result any more, so the remaining runs were not started.")
        write_file(os.path.join(self._path, PROGRESS), f"{words}\n")
