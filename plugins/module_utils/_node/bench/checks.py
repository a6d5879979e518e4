# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The deep health checks that are benchmarks too: GEMM, bandwidths of GPUs and memory. They run in a job of the user,
on nodes that stay in scheduling, and their result never reaches the arbiter."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..health import catalog
from ..health.check import DEEP, FAIL, OBSERVE, Answer, Check, History
from ..health.gpus import Gpus
from ..health.measure import Machine, measure
from ..machine.run import Result
from .benchmark import EACH, Benchmark, Measured, Options, Step
from .on_node import by_hpcnode, read_answer

CHECK_OF: Mapping[str, str] = {
    "gemm": "gemm",
    "gpu_host_bandwidth": "gpu_host_bandwidth",
    "gpu_peer_bandwidth": "gpu_peer_bandwidth",
    "stream": "cpu_stream",
}
"""The health check behind each benchmark."""


def measure_here(name: str, machine: Machine, limits: Mapping[str, float]) -> Answer:
    """Run the check on this node, in a job that has the node for itself.

    :param limits: replace those of the site and the VM size.
    """
    check = catalog.load(CHECK_OF[name])
    # The job itself is what runs here.
    busy = {check.name: {**machine.settings.options.get(check.name, {}), "while_busy": True}}
    settings = replace(
        machine.settings,
        options={**machine.settings.options, **busy},
        limits={**machine.settings.limits, **limits},
        off=(),
        warn_only=(),
    )
    here = replace(machine, settings=settings)
    gpus = Gpus(machine.root)
    return measure(check, DEEP, here, gpus, History(), check.limit_s, time.time(), "").answer


def step(benchmark: Benchmark, options: Options, nodes: Sequence[str]) -> Step:
    """Return the command: hpcnode measures on the node."""
    limits = {name: value for name, value in options.limits.items() if name in benchmark.thresholds}
    made = by_hpcnode(benchmark, options)
    # The node compares, because its own limits would apply otherwise.
    words = [word for name, value in sorted(limits.items()) for word in ("--limit", f"{name}={value!r}")]
    return replace(made, program=(*made.program, *words))


def parse(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what the node measured. What a check would do about a failure is left out: a benchmark repairs nothing."""
    answers = read_answer(benchmark, result)
    if isinstance(answers, Measured):
        return answers
    answer = next(iter(answers.values()))
    findings = tuple(
        replace(finding, action=OBSERVE if finding.verdict == FAIL else finding.action, latch=False)
        for finding in answer.findings
    )
    return Measured(replace(answer, findings=findings, released=()))


def _of_check(name: str) -> Benchmark:
    check: Check = catalog.load(CHECK_OF[name])
    return Benchmark(
        name=name,
        title=check.title,
        explain=check.explain,
        scope=EACH,
        step=step,
        parse=parse,
        limit_s=int(check.limit_s) + 30,
        applies=check.applies,
        thresholds=check.limits,
    )


GEMM = _of_check("gemm")
GPU_HOST_BANDWIDTH = _of_check("gpu_host_bandwidth")
GPU_PEER_BANDWIDTH = _of_check("gpu_peer_bandwidth")
STREAM = _of_check("stream")
