# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether each InfiniBand adapter reaches its bandwidth."""

from __future__ import annotations

import re

from ..check import DEEP, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..deep import perftest, tools
from ..deep.applies import infiniband
from ..deep.compare import compared, outliers
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..limits import in_words
from ..parsers.perftest import bandwidth_gbps

NAME = "ib_write_bandwidth"
OF_GPU, OF_HOST = "ib_gdr_write", "ib_write"

_SIZE = 8388608
_BYTES = re.compile(r"(\d+) B\b")
_QUEUE_PAIRS = re.compile(r"(\d+) queue pairs")
_RUN_S = 30.0
_HINT = "Look at the port's errors: hpcnode health run periodic --only ib_errors; then replace the node"


def measure(context: Context) -> Answer:
    """Write through each adapter, from memory of a GPU near it where that can be, else of the host."""
    ports = perftest.active_ports(context)
    path = tools.needed(context, CHECK, "ib_write_bw", perftest.FOLDERS, perftest.SOURCE)
    must_be_idle(context, CHECK)
    of_gpu = context.settings.threshold(context.size, OF_GPU)
    findings: list[Finding] = []
    if of_gpu:
        try:
            return _answer(context, path, ports, OF_GPU, findings)
        except perftest.WithoutCuda:
            words = "ib_write_bw was built without CUDA: memory of the host was measured, not of the GPUs"
            findings.append(Finding(WARN, words, hint=f"Install a perftest with CUDA, and set options.{NAME}.program"))
    return _answer(context, path, ports, OF_HOST, findings)


def _answer(
    context: Context, path: str, ports: list[perftest.Port], limit_name: str, findings: list[Finding]
) -> Answer:
    threshold = context.settings.threshold(context.size, limit_name)
    at = threshold.at if threshold else ""
    stated = _BYTES.search(at)
    size = int(stated[1]) if stated else _SIZE
    pairs = _QUEUE_PAIRS.search(at)
    readings, found = [], list(findings)
    for port in ports:
        options = ["-s", str(size), *(["-q", pairs[1]] if pairs else ()), "--report_gbits"]
        gpu = perftest.gpu_near(context, port) if limit_name == OF_GPU else None
        if limit_name == OF_GPU and gpu is None:
            found.append(Finding(UNKNOWN, f"no GPU is near {port.label}, so it was not measured", port.label))
            continue
        options += [] if gpu is None else [f"--use_cuda={gpu}"]
        said, wrong = perftest.between(context, path, port, options, _RUN_S)
        found += wrong
        value = bandwidth_gbps(said, size)
        if value is not None:
            limit = threshold.limit if threshold else None
            readings.append(Reading(f"{limit_name}_bandwidth", round(value, 2), "Gb/s", port.label, limit))
        elif not wrong:
            words = f"ib_write_bw on {port.label} ended well, but printed no bandwidth"
            found.append(Finding(UNKNOWN, words, port.label, f"Run it by hand: {path} -d {port.device}"))
    what = "the bandwidth of writes"
    found += compared(readings, threshold, what, _HINT) if threshold else outliers(readings, what)
    slowest = min((float(one.value) for one in readings), default=0)
    memory = "of the GPUs" if limit_name == OF_GPU else "of the host"
    good = f"{len(readings)} adapters, the slowest with {slowest:.4g} Gb/s, memory {memory}"
    return Answer(good, tuple(readings), tuple(found), in_words(threshold) if threshold else "")


CHECK = Check(
    name=NAME,
    title="bandwidth of the adapters",
    explain="Runs ib_write_bw on each InfiniBand adapter with itself, messages and queue pairs as the limit says, in "
    "memory of a GPU on its NUMA node, and compares with the size's limit (azurehpc-health-checks, check_ib_bw_gdr). A "
    "perftest without CUDA measures memory of the host, and the check says so.",
    tiers=(DEEP,),
    measure=measure,
    applies=infiniband,
    limit_s=8 * 2 * _RUN_S + 60,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=(OF_GPU, OF_HOST),
    options=WITH_PROGRAM,
)
