# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the machine's memory has its bandwidth."""

from __future__ import annotations

from ...machine.child import Died, Overdue, within
from ...machine.numa import read_cpus
from ..check import DEEP, FAIL, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..deep import memory_copy, tools
from ..deep.compare import compared, outliers
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..limits import in_words
from ..parsers import stream

NAME = "cpu_stream"

_TOOL_S, _OWN_S = 180.0, 60.0
_FOLDERS = ("/opt/stream", "/usr/local/stream")
_HINT = "See that nobody else computes here, then replace the node"


def measure(context: Context) -> Answer:
    """Run STREAM where it is installed; else copy on all CPUs of one NUMA node after the other."""
    must_be_idle(context, CHECK)
    path = tools.program_of(context, CHECK, "stream", _FOLDERS)
    readings, findings = _by_stream(context, path) if path else _by_copies(context)
    threshold = context.settings.threshold(context.size, NAME)
    what = "the memory bandwidth"
    findings += compared(readings, threshold, what, _HINT) if threshold else outliers(readings, what)
    total = sum(float(one.value) for one in readings)
    how = "STREAM's triad" if path else f"copies on {len(readings)} NUMA nodes"
    return Answer(
        f"{total:.4g} GB/s by {how}", tuple(readings), tuple(findings), in_words(threshold) if threshold else ""
    )


def _by_stream(context: Context, path: str) -> tuple[list[Reading], list[Finding]]:
    result = tools.call(context, [path], _TOOL_S)
    refused = tools.refusal(context, result, "stream", _TOOL_S)
    if refused:
        return [], [refused]
    if stream.is_wrong(result.stdout):
        return [], [Finding(FAIL, "stream gave wrong results: the memory or a CPU is broken")]
    value = stream.triad_gbps(result.stdout)
    if value is None:
        return [], [Finding(UNKNOWN, f"stream printed no rate of its triad: {tools.last_line(result)}")]
    return [Reading("stream_triad", round(value, 1), "GB/s", limit=_limit(context))], []


def _by_copies(context: Context) -> tuple[list[Reading], list[Finding]]:
    readings, findings = [], []
    for node in read_cpus(context.root).nodes:
        if not node.cpus:
            continue
        device = f"NUMA node {node.id}"
        what = "copying in memory"
        try:
            answer = within(_OWN_S, lambda cpus=node.cpus: memory_copy.bandwidth(cpus))  # type: ignore[misc]
        except Overdue:
            findings.append(tools.no_answer(context, what, _OWN_S, device))
            continue
        except Died as error:
            answer = {"words": str(error)}
        tools.answered(context, what, device)
        if "gbps" in answer:
            limit = _limit(context)
            readings.append(Reading("memory_copy", round(answer["gbps"], 1), "GB/s", device, limit))
        else:
            findings.append(Finding(UNKNOWN, f"{device}: {answer['words']}", device))
    return readings, findings


def _limit(context: Context) -> float | None:
    threshold = context.settings.threshold(context.size, NAME)
    return threshold.limit if threshold else None


CHECK = Check(
    name=NAME,
    title="memory bandwidth of the host",
    explain="Runs STREAM where it is installed (options.cpu_stream.program), else copies on all CPUs of each NUMA node "
    "at once. No source states a limit for sizes with GPUs: set limits.cpu_stream (GB/s: the triad's, or of one NUMA "
    "node), or compare the nodes; a NUMA node far below the median of its neighbours warns.",
    tiers=(DEEP,),
    measure=measure,
    limit_s=300.0,
    action=REPLACE,
    fault="NHC2022",
    options=WITH_PROGRAM,
    further_limits=(NAME,),
)
