# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the ledger of 100,000 runs of jobs on 600 nodes and 400 spare nodes in 30 days: time, and the most memory.

A process of its own prints lines as sacct does, with three steps for each run, so that the pipe and the parser are
measured too. The lines are made before the measurement.

Run it with `tests/benchmarks/run.sh ledger`; with the argument `json` it prints the figures for a program.
"""

from __future__ import annotations

import calendar
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import query, read_history, read_runs
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import BUCKETS
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint, index_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Sources, compute

RUNS, NODES, SPARES, DAYS = 100_000, 600, 400, 30
BEGAN = 1_767_225_600.0
"""2026-01-01 in seconds since the epoch."""
LONGEST_DAYS = 2
"""No run is longer."""


def stamp(when: float) -> str:
    """A time as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))


PLAYER = f"""\
import sys
folder, delimiter, since, until = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
day = int((since - {BEGAN}) // 86400)
for number in range(max(day - {LONGEST_DAYS}, 0), int((until - {BEGAN}) // 86400) + 1):
    try:
        file = open(f"{{folder}}/{{number}}")
    except FileNotFoundError:
        continue
    for line in file:
        start, end, run = line.split(" ", 2)
        if float(start) < until and float(end) >= since:
            sys.stdout.write(run.replace("~", "\\n").replace("@", delimiter))
"""
"""The stand-in for sacct: prints the runs that overlap a time."""


def write_runs(folder: pathlib.Path) -> None:
    """Write the runs, one a line after its start and end, into a file for each day on which they start."""
    numbers = random.Random(3)
    days: dict[int, list[str]] = {}
    for job in range(RUNS):
        start = BEGAN + numbers.random() * DAYS * 86400
        length = min(numbers.expovariate(1 / 5400), LONGEST_DAYS * 86400)
        width = numbers.choice((1, 1, 1, 2, 4, 8, 16))
        first = numbers.randrange(NODES - width)
        state = numbers.choice(("COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT"))
        nodes = f"c-{first}" if width == 1 else f"c-[{first}-{first + width - 1}]"
        rest = (stamp(start - 60), stamp(start - 60), stamp(start), stamp(start + length), "0:0", nodes, "gpu", "alice")
        lines = ["@".join((str(job), state, *rest, f"hpcai:training=t{job % 50}"))]
        for step, late in (("batch", 10), ("extern", 0), ("0", 12)):
            began = (stamp(start + late),) * 3
            lines.append("@".join((f"{job}.{step}", state, *began, stamp(start + length), "0:0", nodes, "", "", "")))
        days.setdefault(int((start - BEGAN) // 86400), []).append(f"{start} {start + length} {'~'.join(lines)}\n")
    for day, texts in days.items():
        (folder / str(day)).write_text("".join(texts), encoding="ascii")


def played(folder: pathlib.Path, words: Sequence[str], handle: Callable[[str], None]) -> None:
    """Run the player instead of sacct. Each day the cluster registers again, and each spare node is reported again."""
    if words[0] == "sacctmgr":
        for day in range(DAYS):
            start, end = stamp(BEGAN + day * 86400), stamp(BEGAN + (day + 1) * 86400)
            handle(f"|{start}|{end}|||c-[0-{NODES + SPARES - 1}]|Cluster Registered TRES")
            for number in range(NODES, NODES + SPARES):
                handle(f"c-{number}|{start}|{end}|DOWN~|slurm(64030)||Powered down")
    else:
        values = dict(word.split("=", 1) for word in words if "=" in word)
        window = [
            str(calendar.timegm(time.strptime(values[f"--{name}time"], "%Y-%m-%dT%H:%M:%S")))
            for name in ("start", "end")
        ]
        query([sys.executable, "-S", "-E", "-c", PLAYER, str(folder), values["--delimiter"], *window], handle)


def most_memory_kib() -> int:
    """Return the most memory that this process had, in KiB.

    Linux counts in ``ru_maxrss`` also what the process had before it executed this program, that is what its parent had
    when it forked. VmHWM does not (setmax_mm_hiwater_rss in Linux's fs/exec.c).
    """
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def measure() -> dict[str, float]:
    """Return the figures: seconds, and MiB of this process."""
    numbers = random.Random(4)
    steps = [Checkpoint(f"{1:012d}-{job}.0-w1", BEGAN + numbers.random() * DAYS * 86400) for job in range(0, RUNS, 2)]
    until = BEGAN + DAYS * 86400
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own, because the memory of this one is measured.
        subprocess.run([sys.executable, "-m", "benchmarks.ledger", "write", folder], check=True)
        ask = partial(played, pathlib.Path(folder))
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        history = read_history(BEGAN, until, ask)
        names = [f"c-{number}" for number in range(NODES + SPARES)]
        runs = partial(read_runs, ask=ask)
        sources = Sources(names, history.events, runs, index_of(steps), registrations=history.registrations)
        ledger = compute(sources, BEGAN, until)
        took = time.perf_counter() - began
    own, memory_kib = resource.getrusage(resource.RUSAGE_SELF), most_memory_kib()
    began = time.process_time()
    page = output.page(output.as_data(ledger, output.Rates()))
    total = sum(ledger.seconds(bucket) for bucket in BUCKETS)
    return {
        "runs": ledger.runs,
        "nodes": len({node for node, _machine in ledger.totals}),
        "seconds": took,
        "cpu_seconds": own.ru_utime - before.ru_utime,
        "page_cpu_seconds": time.process_time() - began,
        "page_kib": len(page) >> 10,
        "memory_mib": memory_kib >> 10,
        "difference_s": abs(total - NODES * DAYS * 86400),
    }


def main() -> None:
    """Print the figures, or write the runs into a folder."""
    if sys.argv[1:2] == ["write"]:
        write_runs(pathlib.Path(sys.argv[2]))
        return
    found = measure()
    if sys.argv[1:2] == ["json"]:
        print(json.dumps(found))
        return
    print(
        f"{found['runs']} runs, {found['nodes']} nodes, {DAYS} days: {found['seconds']:.1f} s, of which"
        f" {found['cpu_seconds']:.1f} s CPU of the ledger"
    )
    print(
        f"page and values: {found['page_cpu_seconds']:.2f} s CPU, {found['page_kib']} KiB;"
        f" at most {found['memory_mib']} MiB of memory"
    )
    print(f"sum of the buckets differs from nodes x time by {found['difference_s']:.6f} s")


if __name__ == "__main__":
    main()
