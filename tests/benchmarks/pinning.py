# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare numa_pin_check's core with a naive scan of /proc, on real processes with real threads.

The processes are real because files in a folder are faster than the kernel. The benchmark measures CPU time, because
the check takes CPUs from the job next to it. All contenders read the same processes, interleaved, and must agree on the
number of threads; ratios are from one run. The complete check also derives ranks, judges them, and writes the report.

Run it with `tests/benchmarks/run.sh pinning`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import PinningOptions, check
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.report import as_data
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

# Processes, and threads per process: growth with processes, growth with threads, and the size of the target.
SIZES = ((25, 64), (50, 64), (100, 64), (100, 1), (100, 16))
STACK = 64 << 10
Contender = Callable[[str, Sequence[int]], int]


def ours(pattern: str, _pids: Sequence[int], memory: bool = False) -> int:
    """Run the complete check, from the pattern to the report, and return the number of threads."""
    wanted = PinningOptions(Selection(pattern), ranks_per_node=1, memory=memory)
    data = as_data(check(Root(), wanted, lambda _root: None))
    return sum(rank["threads"] for rank in data["ranks"])


def ours_with_memory(pattern: str, pids: Sequence[int]) -> int:
    """The same, including the NUMA nodes of the memory."""
    return ours(pattern, pids, memory=True)


def naive(pattern: str, _pids: Sequence[int]) -> int:
    """Read /proc as text into dictionaries, as a simple tool would."""
    seen = 0
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                if not re.search(pattern, file.read().replace("\0", " ")):
                    continue
            for tid in os.listdir(f"/proc/{entry}/task"):
                with open(f"/proc/{entry}/task/{tid}/status", encoding="utf-8") as file:
                    fields = dict(line.split(":", 1) for line in file if ":" in line)
                with open(f"/proc/{entry}/task/{tid}/stat", encoding="utf-8") as file:
                    last_cpu = int(file.read().rpartition(")")[2].split()[36])
                cpus: set[int] = set()
                for part in fields["Cpus_allowed_list"].strip().split(","):
                    first, _dash, last = part.partition("-")
                    cpus.update(range(int(first), int(last or first) + 1))
                seen += last_cpu in cpus
        except OSError:
            continue
    return seen


def tools(_pattern: str, pids: Sequence[int]) -> int:
    """The commands that people type: ps for the last CPUs and taskset for the masks, for all threads."""
    subprocess.run(["ps", "-L", "-o", "lwp=,psr=", "-p", ",".join(map(str, pids))], stdout=subprocess.PIPE, check=True)
    seen = 0
    for pid in pids:
        shown = subprocess.run(["taskset", "-a", "-c", "-p", str(pid)], stdout=subprocess.PIPE, check=True)
        seen += shown.stdout.count(b"\n")
    return seen


CONTENDERS: dict[str, Contender] = {
    "numa_pin_check": ours,
    "with memory": ours_with_memory,
    "naive scan": naive,
    "ps and taskset": tools,
}


@contextmanager
def job(processes: int, threads: int, mark: str) -> Iterator[list[int]]:
    """Start processes with sleeping threads and ``mark`` in their command line."""
    program = [sys.executable, __file__, "--play", str(processes), str(threads), mark]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        program, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as played:
        try:
            assert played.stdout is not None
            yield json.loads(played.stdout.readline())
        finally:
            os.killpg(played.pid, signal.SIGKILL)


def play(processes: int, threads: int) -> None:
    """Act as a job: fork the processes, start their threads, print the process ids, sleep."""
    threading.stack_size(STACK)
    ready, started = os.pipe()
    pids = []
    for _process in range(processes):
        pid = os.fork()
        if not pid:
            for _thread in range(threads - 1):
                threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            os.write(started, b".")
            time.sleep(600)
        pids.append(pid)
    for _process in range(processes):
        os.read(ready, 1)
    # Without this process itself, which only waits.
    print(json.dumps(pids), flush=True)
    time.sleep(600)


def spent() -> float:
    """CPU time of this process and of its ended children, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(processes: int, threads: int, repeat: int) -> dict[str, float]:
    """Median CPU time of each contender, in seconds."""
    mark = f"hpcai-bench-{os.getpid()}"
    samples: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with job(processes, threads, mark) as pids:
        for _round in range(repeat):
            for name, contender in CONTENDERS.items():
                before = spent()
                seen = contender(f"{mark}", pids)
                samples[name].append(spent() - before)
                # The process that started the others also has the mark in its command line.
                expected = processes * threads
                if seen not in (expected, expected + 1):
                    raise SystemExit(f"{name} found {seen} of {expected} threads")
    return {name: statistics.median(values) for name, values in samples.items()}


def table(results: dict[tuple[int, int], dict[str, float]]) -> str:
    """The results in Markdown."""
    head = ["processes", "threads each", *CONTENDERS, "naive : ours", "µs a thread"]
    lines = ["| " + " | ".join(head) + " |", "|" + " ---: |" * len(head)]
    for (processes, threads), times in results.items():
        ratio = times["naive scan"] / times["numa_pin_check"]
        each = times["numa_pin_check"] / (processes * threads) * 1e6
        cells = [str(processes), str(threads), *(f"{times[name]:.3f} s" for name in CONTENDERS)]
        lines.append("| " + " | ".join([*cells, f"{ratio:.2f}", f"{each:.0f}"]) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the results are medians (default: 5)")
    parser.add_argument("--play", nargs=3, metavar=("PROCESSES", "THREADS", "MARK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(int(options.play[0]), int(options.play[1]))
        return 0
    results = {size: measure(*size, options.repeat) for size in SIZES}
    print(f"Linux {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} CPUs, CPU time\n")
    print(table(results))
    by_processes = results[100, 64]["numa_pin_check"] / results[25, 64]["numa_pin_check"]
    by_threads = results[100, 64]["numa_pin_check"] / results[100, 16]["numa_pin_check"]
    print(f"\nFour times the processes take {by_processes:.1f} times, four times the threads {by_threads:.1f} times.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
