# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmdbd for the tests: lines of sacct and sacctmgr in the forms of 22.05 and 24.11.

The files are written in the documented form of each release (sacct(1), sacctmgr(1)); tests/cluster/test_watch.py reads
real ones. Fields are separated by ``@``, which stands for the separator that the ledger asks for.
"""

from __future__ import annotations

import calendar
import pathlib
import time
from collections.abc import Callable, Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import Query
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

FOLDER = pathlib.Path(__file__).parent / "forms"
RELEASES = ("22.05", "24.11")
T0 = float(calendar.timegm((2026, 1, 1, 0, 0, 0)))
"""The beginning of the recorded window, of ten minutes."""
END = T0 + 600


def database(release: str = "22.05", more: Sequence[str] = (), events: Sequence[str] | None = None) -> Query:
    """Return a slurmdbd with the lines of a release, and more ones of sacct."""
    runs = [*(FOLDER / f"sacct-{release}.txt").read_text(encoding="utf-8").splitlines(), *more]
    listed = (FOLDER / f"events-{release}.txt").read_text(encoding="utf-8").splitlines()
    return lines(runs, listed if events is None else events)


def lines(runs: Sequence[str], events: Sequence[str] = ()) -> Query:
    """Return a slurmdbd with these lines."""

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        if words[0] == "sacctmgr":
            for line in events:
                handle(line)
            return
        delimiter = next(word.partition("=")[2] for word in words if word.startswith("--delimiter="))
        for line in runs:
            handle(line.replace("@", delimiter))

    return ask


def gone(_words: Sequence[str], _handle: Callable[[str], None]) -> None:
    """slurmdbd does not answer."""
    raise CommandFailed("'sacct' failed (Connection refused): see 'systemctl status slurmdbd'")


def at(seconds: float) -> str:
    """A time of the window, as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(T0 + seconds))


def run_line(job: int, state: str, start: float, end: float | None, nodes: str = "c-0", **more: object) -> str:
    """A line of sacct."""
    submit = more.get("submit", start)
    ended = "Unknown" if end is None else at(end)
    asked = at(float(str(submit)))
    return f"{job}@{state}@{asked}@{asked}@{at(start)}@{ended}@0:0@{nodes}@gpu@alice@{more.get('comment', '')}"
