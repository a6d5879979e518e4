# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmdbd for the tests: lines of sacct and sacctmgr.

The files in ``forms`` are recordings of clusters on which tests/cluster/test_watch.py killed nodes; it prints them. The
scenario has the same form, with round times. Fields are separated by ``@``, which stands for the separator that the
ledger asks for.
"""

from __future__ import annotations

import calendar
import pathlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import Query, read_history, read_runs
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint, index_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger, Sources, compute
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.machines import Machines
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

FOLDER = pathlib.Path(__file__).parent / "forms"
RELEASES = ("22.05", "24.11")
T0 = float(calendar.timegm((2026, 1, 1, 0, 0, 0)))
"""The beginning of the scenario, of ten minutes."""
END = T0 + 600
NODES = ("c-0", "c-1", "c-2", "c-3", "c-4", "c-5")
STEPS = (Checkpoint("000000000040-10.0-w2", T0 + 100), Checkpoint("000000000060-10.1-w2", T0 + 350))
"""Job 10: a checkpoint 80 s after the start of its first run, one in the second run."""


SCENARIO = """\
10@NODE_FAIL@2026-01-01T00:00:10@2026-01-01T00:00:10@2026-01-01T00:00:20@2026-01-01T00:02:00@1:0@c-[0-1]@gpu@alice@hpcai:training=llama
10.batch@CANCELLED@2026-01-01T00:00:30@2026-01-01T00:00:30@2026-01-01T00:00:30@2026-01-01T00:02:01@0:15@c-0@@@
10.extern@COMPLETED@2026-01-01T00:00:20@2026-01-01T00:00:20@2026-01-01T00:00:20@2026-01-01T00:02:00@0:0@c-[0-1]@@@
10@COMPLETED@2026-01-01T00:02:00@2026-01-01T00:04:01@2026-01-01T00:04:10@2026-01-01T00:06:00@0:0@c-[0,2]@gpu@alice@hpcai:training=llama
10.batch@COMPLETED@2026-01-01T00:04:20@2026-01-01T00:04:20@2026-01-01T00:04:20@2026-01-01T00:06:00@0:0@c-0@@@
10.0@COMPLETED@2026-01-01T00:04:21@2026-01-01T00:04:21@2026-01-01T00:04:21@2026-01-01T00:06:00@0:0@c-[0,2]@@@
11@CANCELLED by 1000@2026-01-01T00:01:00@Unknown@None@2026-01-01T00:01:30@0:0@None assigned@gpu@bob@
12@RUNNING@2026-01-01T00:07:00@2026-01-01T00:07:00@2026-01-01T00:07:00@Unknown@0:0@c-3@gpu@bob@
"""
EVENTS = """\
|2025-12-01T00:00:00|Unknown||||Cluster Registered TRES
c-1|2026-01-01T00:01:50|2026-01-01T00:03:00|DOWN*|slurm(64030)||Not responding
c-1|2026-01-01T00:03:00|2026-01-01T00:05:00|DOWN+DRAIN|root(0)||hpcai: health: gpu_count: 7 of 8 GPUs
c-3|2026-01-01T00:00:00|2026-01-01T00:06:00|DRAIN|alice(1000)||maintenance | of the rack
c-4|2026-01-01T00:00:00|Unknown|IDLE~|slurm(64030)||hpcai: no such instance
"""


def database(more: Sequence[str] = (), events: Sequence[str] | None = None) -> Query:
    """Return a slurmdbd with the scenario, and more lines of sacct."""
    return lines([*SCENARIO.splitlines(), *more], EVENTS.splitlines() if events is None else events)


def recorded(release: str) -> Query:
    """Return a slurmdbd with the recording of a release."""
    runs, events = (
        (FOLDER / f"{name}-{release}.txt").read_text(encoding="utf-8").splitlines() for name in ("sacct", "events")
    )
    return lines(runs, events)


def lines(runs: Sequence[str], events: Sequence[str] = ()) -> Query:
    """Return a slurmdbd with these lines."""

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        if words[0] == "sacctmgr":
            for line in events:
                handle(line)
            return
        asked = dict(
            word.split("=", 1) for word in words if word.startswith(("--delimiter=", "--starttime", "--endtime"))
        )
        shown = False
        for line in runs:
            fields = line.split("@")
            if len(fields) == 11 and "." not in fields[0]:
                # Like slurmdbd: the jobs that were eligible before the end, and had not ended before the start.
                begin, end = (fields[place] if fields[place][:1].isdecimal() else "" for place in (3, 5))
                shown = (begin or fields[2]) <= asked["--endtime"] and (not end or end >= asked["--starttime"])
            if shown:
                handle(line.replace("@", asked["--delimiter"]))

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
    texts = f"{nodes}@gpu@{more.get('user', 'alice')}@{more.get('comment', '')}"
    return f"{job}@{state}@{asked}@{asked}@{at(start)}@{ended}@0:0@{texts}"


def ledger_of(
    ask: Query,
    known: Sequence[Checkpoint] = STEPS,
    machines: Machines | None = None,
    until: float = END,
    nodes: Sequence[str] = NODES,
) -> Ledger:
    """The ledger of the recorded window."""
    history = read_history(T0, until, ask)
    sources = Sources(nodes, history.events, partial(read_runs, ask=ask), index_of(known), machines or Machines())
    return compute(sources, T0, until)
