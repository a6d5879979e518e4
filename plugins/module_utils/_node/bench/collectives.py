# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Collectives of nccl-tests over all GPUs of the nodes, from 8 B to 8 GiB, on the host or in a container."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..health import nccl_tests
from ..health.applies import with_several_nvidia_gpus
from ..health.check import FAIL, UNKNOWN, WARN, Answer, Finding, Reading
from ..health.settings import SITE
from ..machine.run import Result
from ..sku.types import Threshold, VmSize
from . import expected, nccl_log
from .benchmark import (
    TOGETHER,
    Benchmark,
    Measured,
    Options,
    Step,
    check_whole,
    failed_run,
    limit_findings,
    limit_words,
    not_measured,
)
from .launch import by_shell, masks, mpi_variables

FOLDER = "/opt/nccl-tests/build"
"""Where Azure's HPC images have nccl-tests, built with HPC-X."""
SCALING = 0.9
"""Share of two nodes' bus bandwidth that more nodes should keep. Microsoft measured over 90 % scaling efficiency for
trainings with NCCL on Azure's InfiniBand ("Accelerating Distributed Training in Azure Machine Learning service using
SR-IOV", 2019)."""
SCALING_SOURCE = "Microsoft's article on distributed training with SR-IOV: over 90 %"
CURVE = 0.5
"""A message that reaches less than this share of the expected bandwidth gets a warning."""
_CURVE_FROM = 16 << 20
"""Bytes. Smaller messages depend on the software more than on the network, and NCCL's model is coarse there."""
_SIZE = re.compile(r"\b\d+[KMG]\b")
_HINT = "Find the slow node or link with the playbook hpcai.azure.health_pairs"
_RUN_S = 1200

_PROGRAMS: Mapping[str, tuple[str, str]] = {
    "nccl_allreduce": ("all_reduce_perf", "all_reduce"),
    "nccl_alltoall": ("alltoall_perf", "all_to_all"),
    "nccl_allgather": ("all_gather_perf", "all_gather"),
    "nccl_reducescatter": ("reduce_scatter_perf", "reduce_scatter"),
}
"""The program of nccl-tests, and the collective's name in ``expected``."""
_WITHIN, _BETWEEN = "nccl_allreduce", "nccl_allreduce_internode"


def step(benchmark: Benchmark, options: Options, nodes: Sequence[str]) -> Step:
    """Return the command: one rank per GPU, and NCCL's log of the first rank."""
    program, _collective = _PROGRAMS[benchmark.name]
    path = f"{options.program or FOLDER}/{program}" if options.program or not options.container else program
    words = [path, "-b", options.option(benchmark, "from"), "-e", _largest(benchmark, options, len(nodes)), "-f", "2"]
    words += ["-g", "1", "-c", "1", "-n", options.option(benchmark, "iterations")]
    environment = {**mpi_variables(options, starts_only=True), **nccl_log.DEBUG, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    algorithm = options.option(benchmark, "algorithm")
    if algorithm:
        environment["NCCL_ALGO"] = algorithm
    return Step(options.gpus, by_shell(words, options, one_log=True), masks(options, options.gpus), environment)


def parse(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what a run measured: the curve with what is expected, and the environment that was in force."""
    outcome = nccl_tests.parse(result.stdout)
    in_force = nccl_log.read(f"{result.stdout}\n{result.stderr}")
    details: dict[str, Any] = {"environment": nccl_log.in_words(in_force), "variables": dict(in_force.variables)}
    if outcome.wrong:
        words = f"{outcome.wrong} wrong values: data are corrupted in transit"
        return Measured(Answer(findings=(Finding(FAIL, words, hint=_HINT),)), details)
    failed = failed_run(result)
    if failed:
        return Measured(failed.answer, details)
    if not outcome.rows or outcome.bus_bandwidth is None:
        return Measured(not_measured("it succeeded, but printed no bandwidth").answer, details)
    if outcome.ranks and outcome.ranks != options.gpus * len(nodes):
        # A program without MPI runs separately for each GPU, and does not use the network.
        words = f"it ran on {outcome.ranks} GPUs, not {options.gpus * len(nodes)}: is the program built with MPI?"
        return Measured(not_measured(words).answer, details)
    known, stated = _limit(benchmark, options, len(nodes))
    row, is_at_limit = _row_at(outcome.rows, known)
    # A source's limit says nothing about a smaller message.
    limit = known if known and (is_at_limit or known.source == SITE) else None
    what = "in containers" if options.container else ""
    device = " ".join(filter(None, (f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", what)))
    value = Reading(benchmark.name, round(row.bus_bandwidth, 2), "GB/s", device, limit.limit if limit else None)
    readings = [value, *_latency(benchmark, outcome.rows, device)]
    findings = _completeness(_largest(benchmark, options, len(nodes)), outcome)
    findings += environment_findings(in_force, options.size, len(nodes))
    size_words = nccl_tests_size(row.size)
    findings += limit_findings(value, limit, f"the bus bandwidth at {size_words} over {device}", _HINT, stated)
    table, slow = _curve(benchmark, options, len(nodes), outcome.rows, known)
    details["rows"] = table
    good = f"{row.bus_bandwidth:.4g} GB/s of bus bandwidth at {size_words} over {device}"
    words = limit_words(known) if limit else f"{limit_words(known)}, a size that was not measured" if known else ""
    return Measured(Answer(good, tuple(readings), (*findings, *slow), words), details)


def _limit(benchmark: Benchmark, options: Options, nodes: int) -> tuple[Threshold | None, bool]:
    """Return the limit for this many nodes, and whether a source states it for this number."""
    if benchmark.name != _WITHIN:
        return options.threshold(benchmark.name), True
    if nodes == 1:
        return options.threshold(_WITHIN), True
    limit = options.threshold(_BETWEEN)
    # Stated for two nodes.
    return limit, nodes == 2


def _largest(benchmark: Benchmark, options: Options, nodes: int) -> str:
    """Return the largest message size: the user's, or else that of the limit, or else the default."""
    limit, _stated = _limit(benchmark, options, nodes)
    match = _SIZE.search(limit.at) if limit and "to" not in options.own else None
    return match[0] if match else options.option(benchmark, "to")


def _row_at(rows: Sequence[nccl_tests.Row], limit: Threshold | None) -> tuple[nccl_tests.Row, bool]:
    """Return the row with the limit's message size, or else the largest one, and whether it has the limit's size."""
    match = _SIZE.search(limit.at) if limit else None
    wanted = nccl_tests.size_in_bytes(match[0]) if match else None
    if wanted:
        for row in rows:
            # A row's size is rounded down to whole elements for each GPU.
            if wanted * 0.99 <= row.size <= wanted:
                return row, True
    return max(rows, key=lambda row: row.size), wanted is None


def _latency(benchmark: Benchmark, rows: Sequence[nccl_tests.Row], device: str) -> list[Reading]:
    smallest = min(rows, key=lambda row: row.size)
    times = [time for time in smallest.times if time is not None]
    if not times or smallest.size > 1024:
        return []
    return [Reading(f"{benchmark.name}_latency", round(sum(times) / len(times), 2), "us", device, at_most=True)]


def _completeness(asked: str, outcome: nccl_tests.Outcome) -> list[Finding]:
    largest = max(row.size for row in outcome.rows)
    if largest < nccl_tests.size_in_bytes(asked) * 0.99:
        words = f"the largest message had {largest} bytes, not {asked}: the GPUs' memory is too small or in use"
        return [Finding(UNKNOWN, words, hint="Give a smaller size with '--set to=4G'")]
    if not outcome.validated:
        return [Finding(UNKNOWN, "the program did not check its results, so they may be wrong")]
    return []


def _curve(
    benchmark: Benchmark, options: Options, nodes: int, rows: Sequence[nccl_tests.Row], limit: Threshold | None
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the measured and the expected curve, and a warning if a message is far below it."""
    collective = _PROGRAMS[benchmark.name][1]
    peak_of = limit
    if peak_of is None:
        # The other collectives reach about the same bus bandwidth, by the definition of bus bandwidth.
        peak_of = options.threshold(_WITHIN if nodes == 1 else _BETWEEN)
    peak = (peak_of.typical or peak_of.limit) if peak_of else 0.0
    table, worst, worst_share = [], None, CURVE
    for row in rows:
        model = expected.bus_bandwidth(collective, nodes, options.gpus, row.size, peak)
        known = None if model is None else round(model, 3)
        table.append({"bytes": row.size, "bus_gbps": round(row.bus_bandwidth, 3), "expected_gbps": known})
        share = row.bus_bandwidth / model if model else 1.0
        if row.size >= _CURVE_FROM and share < worst_share:
            worst, worst_share = (row, model), share
    if worst is None:
        return table, []
    row, model = worst
    words = (
        f"at {nccl_tests_size(row.size)} the bus bandwidth is {row.bus_bandwidth:.4g} GB/s, {worst_share:.0%} of the "
        f"{model:.4g} GB/s that NCCL's own model expects"
    )
    return table, [Finding(WARN, words, hint=_HINT)]


def environment_findings(in_force: nccl_log.InForce, size: VmSize | None, nodes: int) -> list[Finding]:
    """Return a warning for each setting in NCCL's log that differs from what the VM size needs."""
    if not in_force.seen:
        return [Finding(WARN, "NCCL wrote no log, so its settings are unknown")]
    if size is None:
        return []
    needed = size.nccl_settings or {}
    found = []
    if size.pcie_gtps and not in_force.topology_file:
        found.append("NCCL read no topology file: run 'hpcnode boot run nccl', and 'hpcnode nccl' in containers")
    if in_force.by_bus is False:
        found.append("the GPUs are not numbered by PCI address: set CUDA_DEVICE_ORDER=PCI_BUS_ID")
    interface = needed.get("NCCL_SOCKET_IFNAME", "")
    if interface and in_force.interface and in_force.interface != interface:
        found.append(f"ranks find each other over {in_force.interface}, not {interface}")
    if size.hca_count and nodes > 1:
        if in_force.network.lower() == "socket":
            found.append("the data go through Ethernet: NCCL found no InfiniBand")
        elif in_force.no_plugin:
            found.append("NCCL loaded no network plugin, such as HPC-X's nccl_rdma_sharp_plugin")
        if needed.get("NCCL_IB_PCI_RELAXED_ORDERING") == "1" and in_force.relaxed_ordering is False:
            found.append("the adapters do not use relaxed ordering (NCCL_IB_PCI_RELAXED_ORDERING=1)")
    return [Finding(WARN, words) for words in found]


def nccl_tests_size(size: int) -> str:
    """Return a size in the notation of nccl-tests: 8G for 8589934592."""
    for letter, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.3g}{letter}"
    return f"{size} B"


def efficiency(values: Mapping[int, float]) -> tuple[list[dict[str, Any]], list[Finding], list[Reading]]:
    """Return the scaling efficiency over node counts, the findings and the readings.

    :param values: bus bandwidth in GB/s by number of nodes, at one message size. The smallest number of nodes above
        one is the reference, because within a node other links carry the data.
    """
    counts = sorted(count for count in values if count > 1)
    if len(counts) < 2 or not values[counts[0]] > 0:
        return [], [], []
    reference = values[counts[0]]
    table = [{"nodes": count, "bus_gbps": values[count], "efficiency": values[count] / reference} for count in counts]
    readings, findings = [], []
    for count in counts[1:]:
        share = values[count] / reference
        readings.append(Reading("scaling_efficiency", round(100 * share, 1), "%", f"{count} nodes", 100 * SCALING))
        if not share >= SCALING:
            words = (
                f"{count} nodes keep {share:.0%} of the bus bandwidth of {counts[0]} nodes, but should keep at least "
                f"{SCALING:.0%}"
            )
            findings.append(Finding(WARN, words, f"{count} nodes", _HINT))
    return table, findings, readings


def _check_option(name: str, text: str) -> None:
    if name in ("from", "to"):
        nccl_tests.size_in_bytes(text)
    elif name == "iterations":
        check_whole(text)


_OPTIONS = {"from": "8", "to": "8G", "iterations": "20", "algorithm": ""}


def _collective(name: str, title: str, about: str, thresholds: tuple[str, ...]) -> Benchmark:
    program = _PROGRAMS[name][0]
    return Benchmark(
        name=name,
        title=title,
        explain=f"Runs {program} of nccl-tests over all GPUs of the nodes, from 8 B to 8 GiB, checks the results, and "
        f"prints the environment that NCCL's log shows. {about}",
        scope=TOGETHER,
        step=step,
        parse=parse,
        limit_s=_RUN_S,
        applies=with_several_nvidia_gpus,
        thresholds=thresholds,
        options=_OPTIONS,
        check_option=_check_option,
    )


_NO_LIMIT = "No source states a limit: set --limit {}=GBPS, or compare with earlier runs."
NCCL_ALLREDUCE = _collective(
    "nccl_allreduce",
    "NCCL all-reduce",
    "The VM size has a limit for one node and one for two; with more nodes, a value below the limit for two warns.",
    (_WITHIN, _BETWEEN),
)
NCCL_ALLTOALL = _collective("nccl_alltoall", "NCCL all-to-all", _NO_LIMIT.format("nccl_alltoall"), ("nccl_alltoall",))
NCCL_ALLGATHER = _collective(
    "nccl_allgather", "NCCL all-gather", _NO_LIMIT.format("nccl_allgather"), ("nccl_allgather",)
)
NCCL_REDUCESCATTER = _collective(
    "nccl_reducescatter", "NCCL reduce-scatter", _NO_LIMIT.format("nccl_reducescatter"), ("nccl_reducescatter",)
)
