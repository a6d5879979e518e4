# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""HPL on each node: the rate in double precision, and whether the result is correct."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ..health.check import FAIL, Answer, Finding, Reading
from ..machine.run import Result
from ..pinning.advise import AdviceError, advise
from ..pinning.layout import UnknownLayout, layout_of_size
from .benchmark import (
    EACH,
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

NAME = "hpl"
_RUN_S = 1200
_HINT = "Check clocks, memory and temperature with 'hpcnode health run periodic', then run it again"
# A result's row: variant, N, NB, P, Q, seconds, Gflops. NVIDIA's HPL adds the rate per GPU in parentheses.
_ROW = re.compile(
    r"^W[RC]\S+\s+(?P<n>\d+)\s+(?P<nb>\d+)\s+(?P<p>\d+)\s+(?P<q>\d+)\s+(?P<s>[\d.eE+-]+)\s+(?P<rate>[\d.eE+-]+)",
    re.MULTILINE,
)
_CHECKED = re.compile(r"\|\|Ax-b\|\|.*\.\.\.\.\.\. (PASSED|FAILED)")

_SHARE = 0.8
"""Share of the memory that the matrix fills; the rest is for HPL's own buffers and the system."""
_GPU_BLOCK, _CPU_BLOCK = 288, 192
"""Block sizes: of the input file that NVIDIA's image has for DGX A100, and a common one for CPUs."""


def order_of(memory_bytes: float, block: int) -> int:
    """Return the order of a matrix of doubles that fills the share of the memory, in whole blocks."""
    return max(block, int(math.sqrt(memory_bytes * _SHARE / 8)) // block * block)


def grid(ranks: int) -> tuple[int, int]:
    """Return the rows and columns of the process grid: as square as possible, with at least as many columns."""
    rows = max(one for one in range(1, int(math.sqrt(ranks)) + 1) if ranks % one == 0)
    return rows, ranks // rows


def input_file(order: int, block: int, ranks: int) -> str:
    """Return the text of HPL.dat for one problem (HPL's own format, TUNING of HPL 2.3)."""
    rows, columns = grid(ranks)
    lines = [
        "HPLinpack benchmark input file",
        "hpcai.azure",
        "HPL.out      output file name (if any)",
        "6            device out (6=stdout,7=stderr,file)",
        "1            # of problems sizes (N)",
        f"{order} Ns",
        "1            # of NBs",
        f"{block} NBs",
        "0            PMAP process mapping (0=Row-,1=Column-major)",
        "1            # of process grids (P x Q)",
        f"{rows} Ps",
        f"{columns} Qs",
        "16.0         threshold",
        *("1            # of panel fact", "2            PFACTs (0=left, 1=Crout, 2=Right)"),
        *("1            # of recursive stopping criterium", "4            NBMINs (>= 1)"),
        *("1            # of panels in recursion", "2            NDIVs"),
        *("1            # of recursive panel fact.", "1            RFACTs (0=left, 1=Crout, 2=Right)"),
        *("1            # of broadcast", "1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
        *("1            # of lookahead depth", "1            DEPTHs (>=0)"),
        *("2            SWAP (0=bin-exch,1=long,2=mix)", "64           swapping threshold"),
        *("0            L1 in (0=transposed,1=no-transposed) form", "0            U  in (0=transposed) form"),
        *("1            Equilibration (0=no,1=yes)", "8            memory alignment in double (> 0)"),
        # HPL ignores the rest, and HPC Challenge needs it: no more sizes for its other tests.
        *("#            separator", "0            # of further problem sizes (PTRANS)", "1200         Ns"),
        *("0            # of further NBs (PTRANS)", "40           NBs"),
    ]
    return "\n".join(lines) + "\n"


def affinities(options: Options, ranks: int) -> list[str]:
    """Return the arguments of NVIDIA's ``hpl.sh``: CPUs, memory and GPU of each rank, and its adapter, by the VM size.

    For ND A100 v4 these are the values in Microsoft's article, with the adapters' names of today's images.
    """
    if options.size is None or not options.size.gpus:
        return []
    try:
        placements = advise(layout_of_size(options.size), ranks).placements
    except (AdviceError, UnknownLayout):
        return []
    words = [
        *("--cpu-affinity", ":".join(one.cpus.as_list() for one in placements)),
        *("--gpu-affinity", ":".join(",".join(map(str, one.gpus)) for one in placements)),
        *("--mem-affinity", ":".join(str(one.node) for one in placements)),
    ]
    if options.size.hcas and len(options.size.hcas) == ranks:
        words += ["--ucx-affinity", ":".join(f"mlx5_ib{number}" for number in range(ranks))]
    return words


def step(benchmark: Benchmark, options: Options, nodes: Sequence[str]) -> Step:
    """Return the command for one node: each rank gets the input file from the first one's temporary folder."""
    ranks = int(options.option(benchmark, "ranks") or 0) or options.gpus or _cpu_ranks(options)
    block = int(options.option(benchmark, "block") or 0) or (_GPU_BLOCK if options.gpus else _CPU_BLOCK)
    order = int(options.option(benchmark, "order") or 0) or order_of(_memory(options), block)
    by_gpu = bool(options.gpus)
    program = options.program or ("/workspace/hpl.sh" if by_gpu else "xhpl")
    words = [program, *(affinities(options, ranks) if by_gpu else []), *(["--dat", _DAT] if by_gpu else [])]
    environment = {**mpi_variables(options, starts_only=False), "HPCAI_HPL_DAT": input_file(order, block, ranks)}
    if not by_gpu:
        environment["OMP_NUM_THREADS"] = "1"
    # NVIDIA's script pins by its own arguments.
    pinned = () if by_gpu else masks(options, ranks)
    return Step(ranks, by_shell(("sh", "-c", _IN_OWN_FOLDER, "sh", *words), options), pinned, environment)


_DAT = "./HPL.dat"
_IN_OWN_FOLDER = (
    'folder=$(mktemp -d) && cd "$folder" && printf %s "$HPCAI_HPL_DAT" >HPL.dat && cp HPL.dat hpccinf.txt || exit 126; '
    '"$@"; status=$?; cat hpccoutf.txt 2>/dev/null; cd / && rm -rf "$folder"; exit $status'
)
"""Runs the program in a folder of its own that has the input file, also under the name that HPC Challenge reads, which
contains HPL and writes its results to a file."""


def _cpu_ranks(options: Options) -> int:
    return (options.size.vcpus if options.size else None) or 1


def _memory(options: Options) -> float:
    size = options.size
    if size is not None and options.gpus and size.gpu_memory_gb:
        return options.gpus * size.gpu_memory_gb * 1e9
    return ((size.memory_mib if size else None) or 1024) * 1024.0 * 1024


def parse(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return the rate. A wrong result fails: the node computes wrong values."""
    checked = _CHECKED.findall(result.stdout)
    if "FAILED" in checked:
        words = "the residual check failed: the node computes wrong results"
        return Measured(Answer(findings=(Finding(FAIL, words, hint="Drain the node, and run the deep checks"),)))
    failed = failed_run(result)
    rows = [found.groupdict() for found in _ROW.finditer(result.stdout)]
    if failed or not rows:
        return failed or not_measured("HPL printed no result")
    if "PASSED" not in checked:
        return not_measured("HPL did not check its result, so it may be wrong")
    best = max(rows, key=lambda row: float(row["rate"]))
    rate = float(best["rate"]) / 1000
    limit = options.threshold(NAME)
    value = Reading(NAME, float(f"{rate:.4g}"), "TFLOP/s", "", limit.limit if limit else None)
    good = f"{rate:.4g} TFLOP/s with N = {best['n']}, the result is correct"
    # The source states what a good node reaches, and no limit.
    findings = limit_findings(value, limit, "the rate of HPL", _HINT, stated=False)
    grid_used = [int(best["p"]), int(best["q"])]
    details = {"order": int(best["n"]), "block": int(best["nb"]), "grid": grid_used, "seconds": float(best["s"])}
    return Measured(Answer(good, (value,), tuple(findings), limit_words(limit)), details)


HPL = Benchmark(
    name=NAME,
    title="HPL on each node",
    explain="Solves a dense linear system in double precision on each node. On GPUs, it uses NVIDIA's hpc-benchmarks "
    "image (--container), and places the ranks near their GPUs if --vm-size is given. On CPUs, it uses xhpl or hpcc. "
    "Microsoft states about 95 TFLOP/s for Standard_ND96asr_v4; less than 90 % of that warns.",
    scope=EACH,
    step=step,
    parse=parse,
    limit_s=_RUN_S,
    thresholds=(NAME,),
    options={"order": "", "block": "", "ranks": ""},
    check_option=lambda _name, text: check_whole(text) if text else None,
)
