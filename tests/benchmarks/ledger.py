# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the ledger of 100,000 runs of jobs on 600 nodes in 30 days: time, and the most memory.

A process of its own prints lines as sacct does, with three steps for each run, so that the pipe and the parser are
measured too.

Run it with `tests/benchmarks/run.sh ledger`.
"""

from __future__ import annotations

import calendar
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import query, read_events, read_runs
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import BUCKETS
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint, index_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Sources, compute

RUNS, NODES, DAYS = 100_000, 600, 30
BEGAN = 1_767_225_600.0
"""2026-01-01 in seconds since the epoch."""


def stamp(when: float) -> str:
    """A time as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))


def play(delimiter: str, since: float, until: float) -> None:
    """Print the lines of the runs that overlap a time, as sacct does."""
    numbers = random.Random(3)
    lines = []
    for job in range(RUNS):
        start = BEGAN + numbers.random() * DAYS * 86400
        length = numbers.expovariate(1 / 5400)
        width = numbers.choice((1, 1, 1, 2, 4, 8, 16))
        first = numbers.randrange(NODES - width)
        state = numbers.choice(("COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT"))
        if start >= until or start + length < since:
            continue
        nodes = f"c-{first}" if width == 1 else f"c-[{first}-{first + width - 1}]"
        rest = (stamp(start - 60), stamp(start - 60), stamp(start), stamp(start + length), "0:0", nodes, "gpu", "alice")
        lines.append(delimiter.join((str(job), state, *rest, f"hpcai:training=t{job % 50}")))
        for step, late in (("batch", 10), ("extern", 0), ("0", 12)):
            began = (stamp(start + late),) * 3
            lines.append(
                delimiter.join((f"{job}.{step}", state, *began, stamp(start + length), "0:0", nodes, "", "", ""))
            )
    sys.stdout.write("\n".join(lines) + "\n")


def played(words: Sequence[str], handle: Callable[[str], None]) -> None:
    """Run this file instead of sacct; there are no events of nodes."""
    if words[0] == "sacct":
        values = dict(word.split("=", 1) for word in words if "=" in word)
        window = [values[f"--{name}time"] for name in ("start", "end")]
        query([sys.executable, "-m", "benchmarks.ledger", "play", values["--delimiter"], *window], handle)


def main() -> None:
    """Print the figures."""
    numbers = random.Random(4)
    steps = [Checkpoint(f"{1:012d}-{job}.0-w1", BEGAN + numbers.random() * DAYS * 86400) for job in range(0, RUNS, 2)]
    until = BEGAN + DAYS * 86400
    began = time.perf_counter()
    events, _skipped = read_events(BEGAN, until, played)
    names = [f"c-{number}" for number in range(NODES)]
    ledger = compute(Sources(names, events, partial(read_runs, ask=played), index_of(steps)), BEGAN, until)
    took = time.perf_counter() - began
    own = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    data = output.as_data(ledger, output.Rates())
    page = output.page(data)
    pages = time.perf_counter() - began
    total = sum(ledger.seconds(bucket) for bucket in BUCKETS)
    print(
        f"{ledger.runs} runs, {NODES} nodes, {DAYS} days: {took:.1f} s, of which {own.ru_utime:.1f} s CPU of the ledger"
    )
    print(f"page and values: {pages:.2f} s, {len(page) >> 10} KiB; at most {own.ru_maxrss >> 10} MiB of memory")
    print(f"sum of the buckets differs from nodes x time by {abs(total - NODES * DAYS * 86400):.6f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["play"]:
        moments = [float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))) for text in sys.argv[3:5]]
        play(sys.argv[2], *moments)
    else:
        main()
