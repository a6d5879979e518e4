# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth of the host's memory, with STREAM (McCalpin's benchmark) or with copies of the C library."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import re
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from ...machine.child import Died, Overdue, within
from ...machine.numa import read_cpus
from ...machine.run import last_line
from .. import deep
from ..check import DEEP, FAIL, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..deep import WITH_PROGRAM, limit_findings, must_be_idle, outliers
from ..settings import in_words

# The output of STREAM, McCalpin's benchmark of memory bandwidth.

_TRIAD = re.compile(r"^Triad:\s+([0-9.eE+]+)", re.MULTILINE)
_WRONG = re.compile(r"^Failed Validation", re.MULTILINE)


def triad_gbps(text: str) -> float | None:
    """Return the rate of the triad in GB/s; None if it was not printed. STREAM prints MB/s, of 10^6 bytes."""
    match = _TRIAD.search(text)
    try:
        value = float(match[1]) / 1000 if match else 0.0
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def is_wrong(text: str) -> bool:
    """Return whether the results were wrong."""
    return bool(_WRONG.search(text))


# Bandwidth of a NUMA node's memory, with copies of the C library, because few nodes have a compiler for STREAM.

SIZE = 64 << 20
"""Bytes per copy: more than a CPU's share of any cache."""
COPIES = 10
_WAIT_S = 60.0


def copy_bandwidth(cpus: Collection[int], size: int = SIZE, copies: int = COPIES) -> Mapping[str, Any]:
    """Return ``gbps``: GB/s read and written by copies on all of these CPUs at once, each in its own memory.

    If a CPU cannot be used or there is not enough memory, it returns ``words`` with the error.
    """
    start, end = threading.Barrier(len(cpus) + 1), threading.Barrier(len(cpus) + 1)
    errors: list[str] = []

    def work(cpu: int) -> None:
        try:
            # For this thread only. Memory comes from the NUMA node of the CPU that first writes to it.
            os.sched_setaffinity(0, {cpu})
            with mmap.mmap(-1, 2 * size) as memory:
                target = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                ctypes.memset(target, 1, 2 * size)
                start.wait(_WAIT_S)
                # ctypes releases Python's lock while it copies.
                for _copy in range(copies):
                    memmove(target, target + size, size)
                end.wait(_WAIT_S)
        except BufferError:
            # The map cannot be closed while its address is in use: it is freed when the process ends.
            return
        except (OSError, threading.BrokenBarrierError) as error:
            errors.append(f"CPU {cpu}: {error}")
            start.abort()
            end.abort()

    memmove = ctypes.CDLL(None).memmove
    memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    memmove.restype = ctypes.c_void_p
    for cpu in sorted(cpus):
        threading.Thread(target=work, args=(cpu,), daemon=True).start()
    try:
        start.wait(_WAIT_S)
        began = time.perf_counter()
        end.wait(_WAIT_S)
        seconds = time.perf_counter() - began
    except threading.BrokenBarrierError:
        return {"words": next(iter(errors), "the copies did not finish")}
    return {"gbps": 2.0 * size * copies * len(cpus) / seconds / 1e9}


# Whether the machine's memory has its bandwidth.

NAME = "cpu_stream"

_TOOL_S, _COPIES_S = 180.0, 60.0
_FOLDERS = ("/opt/stream", "/usr/local/stream")
_HINT = "Make sure that nothing else runs on the node, and measure again; then replace the node"


def measure(context: Context) -> Answer:
    """Run STREAM if it is installed; else copy on all CPUs of one NUMA node after the other."""
    must_be_idle(context, CPU_STREAM)
    path = deep.find_program(context, CPU_STREAM, "stream", _FOLDERS)
    readings, findings = _by_stream(context, path) if path else _by_copies(context)
    threshold = context.settings.threshold(context.size, NAME)
    what = "the memory bandwidth"
    findings += limit_findings(readings, threshold, what, _HINT) if threshold else outliers(readings, what)
    total = sum(float(one.value) for one in readings)
    how = "STREAM's triad" if path else f"copies on {len(readings)} NUMA nodes"
    return Answer(
        f"{total:.4g} GB/s by {how}", tuple(readings), tuple(findings), in_words(threshold) if threshold else ""
    )


def _by_stream(context: Context, path: str) -> tuple[list[Reading], list[Finding]]:
    result = deep.run_tool(context, [path], _TOOL_S)
    refused = deep.run_problem(context, result, "stream", _TOOL_S)
    if refused:
        return [], [refused]
    if is_wrong(result.stdout):
        return [], [Finding(FAIL, "stream gave wrong results: the memory or a CPU is faulty")]
    value = triad_gbps(result.stdout)
    if value is None:
        return [], [Finding(UNKNOWN, f"stream printed no triad rate: {last_line(result)}")]
    return [Reading("stream_triad", round(value, 1), "GB/s", limit=_limit(context))], []


def _by_copies(context: Context) -> tuple[list[Reading], list[Finding]]:
    readings, findings = [], []
    for node in read_cpus(context.root).nodes:
        if not node.cpus:
            continue
        device = f"NUMA node {node.id}"
        what = "copying in memory"
        try:
            answer = within(_COPIES_S, lambda cpus=node.cpus: copy_bandwidth(cpus))  # type: ignore[misc]
        except Overdue:
            findings.append(deep.timeout_finding(context, what, _COPIES_S, device))
            continue
        except Died as error:
            answer = {"words": str(error)}
        deep.clear_timeout(context, what, device)
        if "gbps" in answer:
            limit = _limit(context)
            readings.append(Reading("memory_copy", round(answer["gbps"], 1), "GB/s", device, limit))
        else:
            findings.append(Finding(UNKNOWN, f"{device}: {answer['words']}", device))
    return readings, findings


def _limit(context: Context) -> float | None:
    threshold = context.settings.threshold(context.size, NAME)
    return threshold.limit if threshold else None


CPU_STREAM = Check(
    name=NAME,
    title="memory bandwidth of the host",
    explain=(
        "Runs STREAM if it is installed (option program). Otherwise it copies memory on all CPUs of a NUMA node at "
        "once, one NUMA node after the other. No source states a limit for sizes with GPUs: set your own (limit "
        "cpu_stream, in GB/s), or compare the nodes with each other in the report of the playbook health_check. The "
        "limit applies to STREAM's triad on the whole machine. Without STREAM, it applies to the copies on each NUMA "
        "node. If there is no limit and the copies ran on at least four NUMA nodes, the check compares these with each "
        "other. It warns if one is more than 5 percent below their median, and its modified z-score, a measure for "
        "outliers, is over 3.5."
    ),
    tiers=(DEEP,),
    measure=measure,
    limit_s=300.0,
    action=REPLACE,
    fault="NHC2022",
    options=WITH_PROGRAM,
    further_limits=(NAME,),
)
