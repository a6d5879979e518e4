# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Latency and bandwidth of MPI between two nodes, with OSU's micro-benchmarks or NetPIPE."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..health.check import Answer, Reading
from ..machine.run import Result
from ..sku.types import Threshold
from .benchmark import PAIRS, Benchmark, Measured, Options, Step, failed_run, limit_findings, limit_words, not_measured
from .launch import by_shell, mpi_variables

_RUN_S = 300
_HINT = "Check both nodes with 'hpcnode health run periodic --only ib_ports --only ib_rate --only ib_errors'"
_OSU = {"mpi_latency": "osu_latency", "mpi_bandwidth": "osu_bw"}
_SIZES = {"mpi_latency": (1, 64), "mpi_bandwidth": (64 << 10, 4 << 20)}
"""Bytes of the smallest and the largest message. NetPIPE takes minutes for all sizes."""
# HPC-X has OSU's programs among its tests, so Azure's HPC images have them. Debian and Ubuntu have NetPIPE.
_FIND = (
    'wanted=$1; given=$2; for program in ${given:+"$given"} /opt/hpcx*/ompi/tests/osu-micro-benchmarks*/"$wanted" '
    '/usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/"$wanted" "$(command -v "$wanted")" '
    '/usr/lib64/openmpi/bin/mpitests-"$wanted"; do '
    'if [ -x "$program" ]; then exec "$program" -m UP_TO; fi; done; '
    'program=$(command -v NPopenmpi) && exec "$program" -l FROM -u UP_TO -p 0 -o /dev/null; '
    'echo "neither $wanted nor NPopenmpi is installed: HPC-X has the first one, the package netpipe-openmpi the second '
    'one" >&2; exit 127'
)
_OSU_TITLE = re.compile(r"^# OSU MPI (Latency|Bandwidth) Test", re.MULTILINE)
_OSU_ROW = re.compile(r"^\s*(\d+)\s+(\d+\.\d+)\s*$", re.MULTILINE)
_NETPIPE_ROW = re.compile(r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+([\d.]+) Mbps in\s+([\d.]+) usec", re.MULTILINE)


def step(benchmark: Benchmark, options: Options, nodes: Sequence[str]) -> Step:
    """Return the command: one rank on each of the two nodes."""
    smallest, largest = _SIZES[benchmark.name]
    script = _FIND.replace("FROM", str(smallest)).replace("UP_TO", str(largest))
    find = ("sh", "-c", script, "sh", _OSU[benchmark.name], options.program)
    return Step(1, by_shell(find, options), ("--cpu-bind=cores",), mpi_variables(options, starts_only=False))


def latency_us(text: str) -> float | None:
    """Return the latency of the smallest message in microseconds; None if none was printed."""
    title = _OSU_TITLE.search(text)
    if title and title[1] == "Latency":
        # OSU's row for 0 bytes is the latency of an empty message.
        return min(((int(size), float(value)) for size, value in _OSU_ROW.findall(text)), default=(0, None))[1]
    rows = [(int(size), float(time)) for size, _rate, time in _NETPIPE_ROW.findall(text)]
    return min(rows)[1] if rows else None


def bandwidth_gbps(text: str) -> float | None:
    """Return the highest bandwidth in GB/s (10^9 bytes); None if none was printed."""
    title = _OSU_TITLE.search(text)
    if title and title[1] == "Bandwidth":
        return max((float(value) / 1000 for _size, value in _OSU_ROW.findall(text)), default=None)
    return max((float(rate) / 8000 for _size, rate, _time in _NETPIPE_ROW.findall(text)), default=None)


def parse(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what two nodes measured."""
    failed = failed_run(result)
    if failed:
        return failed
    is_latency = benchmark.name == MPI_LATENCY.name
    # NetPIPE prints its rows to stderr, OSU's programs to stdout.
    text = f"{result.stdout}\n{result.stderr}"
    value = latency_us(text) if is_latency else bandwidth_gbps(text)
    if not value or not value > 0:
        return not_measured("the program succeeded, but printed no rows")
    limit = options.threshold(benchmark.name) or (None if is_latency else _by_adapter(options))
    unit = "us" if is_latency else "GB/s"
    reading = Reading(
        benchmark.name, float(f"{value:.4g}"), unit, "", limit.limit if limit else None, at_most=is_latency
    )
    tool = "OSU" if _OSU_TITLE.search(text) else "NetPIPE"
    what = f"the {'latency' if is_latency else 'bandwidth'} of MPI between {' and '.join(nodes)}"
    # The limits are those of the adapters, and MPI adds to them.
    findings = limit_findings(reading, limit, what, _HINT, stated=False)
    good = f"{value:.4g} {unit} between {' and '.join(nodes)} ({tool})"
    return Measured(Answer(good, (reading,), tuple(findings), limit_words(limit)), {"tool": tool})


def _by_adapter(options: Options) -> Threshold | None:
    """Return the limit of one adapter's bandwidth, in GB/s."""
    stated = options.threshold("ib_gdr_write") or options.threshold("ib_write")
    return Threshold(stated.limit / 8, "GB/s", stated.source, at=f"one adapter ({stated.at})") if stated else None


MPI_LATENCY = Benchmark(
    name="mpi_latency",
    title="latency of MPI between two nodes",
    explain="Runs osu_latency, or NetPIPE if that is not installed, with one rank on each of two nodes. A latency "
    "above the limit of the adapters warns (azurehpc, ndv4_a100_healthchecks).",
    scope=PAIRS,
    step=step,
    parse=parse,
    limit_s=_RUN_S,
    thresholds=("mpi_latency",),
)
MPI_BANDWIDTH = Benchmark(
    name="mpi_bandwidth",
    title="bandwidth of MPI between two nodes",
    explain="Runs osu_bw, or NetPIPE if that is not installed, with one rank on each of two nodes. A bandwidth below "
    "the limit of one InfiniBand adapter warns (azurehpc-health-checks, check_ib_bw_gdr).",
    scope=PAIRS,
    step=step,
    parse=parse,
    limit_s=_RUN_S,
    thresholds=("mpi_bandwidth", "ib_gdr_write", "ib_write"),
)
