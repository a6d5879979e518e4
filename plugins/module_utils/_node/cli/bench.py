# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode bench: benchmarks over idle nodes, as Slurm jobs."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from ..bench import checks, results, storage
from ..bench import run as engine
from ..bench.benchmark import PAIRS, Benchmark, Options, limit_words
from ..bench.catalog import CATALOGUE, NAMES, NoSuchBenchmark, select
from ..bench.on_node import answer_line
from ..health.check import FAIL, SKIP, UNKNOWN, CannotMeasure, Finding
from ..health.check import Answer as Measurement
from ..health.engine import machine_of
from ..machine.child import terminable
from ..machine.config import read_config
from ..machine.root import Root
from ..machine.run import Stoppable, run
from ..machine.verdict import worst
from ..sku import find_size
from ..sku.types import VmSize
from ..slurm import job_control, nodes
from ..slurm.hostlist import HostlistError, expand
from ..version import VERSION
from . import command
from .command import Action, Answer, Command, UsageError, no_arguments, require_this_machine, suggest
from .terminal import Show, counter

_DESCRIPTION = """\
Benchmarks of the cluster: NCCL, HPL, matrix products, bandwidths, storage and MPI. Each runs as a Slurm job on idle
nodes that you choose. A result is a verdict with its limit and the source of the limit, and is compared with earlier
runs. A benchmark never drains a node.

Run it where salloc works, as a user who may submit jobs. Results are kept in ~/.local/state/hpcai/bench (as root in
/var/lib/hpcai/bench), one file per node.
"""
_STATUSES = """\
Exit status: 0 no benchmark failed, 1 one failed, 2 one could not be measured and none failed.
"""
_RUN = f"""\
Runs the benchmarks of these names, one after the other. 'hpcnode bench NAME' is the same for one of them.

Examples:

    hpcnode bench gemm --nodes compute-[0-15] --idle 4
    hpcnode bench run nccl_allreduce nccl_alltoall --scale \\
        --nodes compute-[0-15] --vm-size nd96asr_v4
    hpcnode bench hpl --nodes compute-3 --vm-size nd96asr_v4 \\
        --container nvcr.io#nvidia/hpc-benchmarks:25.02
    hpcnode bench nccl_allreduce --nodes compute-[0-1] \\
        --vm-size nd96asr_v4 --set algorithm=Ring --set from=1M

Nodes with jobs, and nodes on which Slurm starts no jobs, are skipped.

{_STATUSES}"""
_LIST = """\
Explains each benchmark, its limits and their sources for a VM size, and its own options (--set).

Exit status: 0 good.
"""
_RESULTS = """\
Shows the kept results of a node, the newest last.

Exit status: 0 there are results, 2 there are none.
"""
_MEASURE = """\
Measures on this node. 'hpcnode bench run' calls it in its job.

Exit status: 0 measured, 2 not measured.
"""


def _add_run(parser: argparse.ArgumentParser) -> None:
    suggest(parser.add_argument("names", metavar="NAME", nargs="+", help="a benchmark ('hpcnode bench list')"), NAMES)
    _add_options(parser)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", metavar="LIST", required=True, help="the nodes, in the order of pairs, such as compute-[0-15]")
    add("--idle", type=int, metavar="N", help="use only N idle nodes of the list (all)")
    add("--scale", action="store_true", help="run collectives also on 2, 4, 8 ... nodes; show the scaling efficiency")
    add("--vm-size", metavar="SIZE", help="the nodes' VM size, which has the limits, GPUs and CPU masks")
    add("--gpus", type=int, metavar="N", help="GPUs per node (those of the VM size)")
    add("--container", metavar="IMAGE", default="", help="run in containers of this image (srun --container-image)")
    add("--mounts", metavar="LIST", default="", help="srun's --container-mounts")
    add("--program", metavar="PATH", default="", help="the program, or the folder of nccl-tests")
    add("--mpi", metavar="TYPE", default="pmix", help="srun's --mpi (pmix)")
    add("--slurm", metavar="OPTION", action="append", default=[], help="an option of salloc, as --slurm=--partition=x")
    add("--env", metavar="NAME=VALUE", action="append", default=[], help="a variable of the program; can be repeated")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="an option of the benchmark; can be repeated")
    add(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="your own limit, in the unit that 'hpcnode bench list' shows; can be repeated",
    )
    _add_results_folder(parser)


def _add_results_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", help="folder of the results (see 'hpcnode bench --help')")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vm-size", metavar="SIZE", help="show the limits of this VM size")


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="the node")
    _add_results_folder(parser)


def _add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=_ON_NODE, help=", ".join(_ON_NODE))
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="an option of the benchmark")
    parser.add_argument("--limit", metavar="NAME=VALUE", action="append", default=[], help="a limit of your own")


_ON_NODE = (*checks.CHECK_OF, storage.SCRATCH.name, storage.BEEOND.name)


def _execute(args: argparse.Namespace) -> Answer:
    if args.action in NAMES:
        return _run(args, [args.action])
    return _ACTIONS[args.action](args)


def _pairs(words: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--{option} {word}: give NAME=VALUE")
        found[name] = value
    return found


def _limits(words: Sequence[str]) -> dict[str, float]:
    known = {name for benchmark in CATALOGUE for name in benchmark.thresholds}
    found = {}
    for name, text in _pairs(words, "limit").items():
        if name not in known:
            raise UsageError(f"there is no limit {name}: the limits are {', '.join(sorted(known))}")
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise UsageError(f"--limit {name}={text}: give a number above 0")
        found[name] = value
    return found


def _size(root: Root, name: str | None) -> VmSize | None:
    described = (read_config(root, "node") or {}).get("vm_sizes") if name else None
    return find_size(name, described) if name else None


def _options(args: argparse.Namespace, chosen: Sequence[Benchmark], size: VmSize | None) -> Options:
    own = _pairs(args.set, "set")
    for name, text in own.items():
        takers = [benchmark for benchmark in chosen if name in benchmark.options]
        if not takers:
            known = sorted({name for benchmark in chosen for name in benchmark.options})
            raise UsageError(f"--set {name}: the options are {', '.join(known) or 'none'}")
        for benchmark in takers:
            try:
                benchmark.check_option(name, text)
            except ValueError as error:
                raise UsageError(f"--set {name}={text}: {error}") from None
    gpus = args.gpus if args.gpus is not None else (size.gpu_count if size else None) or 0
    if gpus < 0:
        raise UsageError("--gpus must not be negative")
    return Options(
        size=size,
        gpus=gpus,
        container=args.container,
        mounts=args.mounts,
        program=args.program,
        mpi=args.mpi,
        slurm=tuple(args.slurm),
        environment=_pairs(args.env, "env"),
        own=own,
        limits=_limits(args.limit),
    )


def _run(args: argparse.Namespace, names: Sequence[str] = ()) -> Answer:
    root = Root(args.root)
    require_this_machine(root, "bench run")
    try:
        chosen = select(names or args.names)
        size = _size(root, args.vm_size)
        options = _options(args, chosen, size)
        asked = list(dict.fromkeys(expand(args.nodes)))
    except (NoSuchBenchmark, HostlistError) as error:
        raise UsageError(str(error)) from None
    known = nodes.read_nodes(run)
    jobs = job_control.jobs_on([name for name in asked if name in known], run)
    try:
        free, left_out = engine.idle_nodes(known, jobs, asked, args.idle)
    except engine.NoNodes as error:
        return Answer(command.UNKNOWN, str(error), {"left_out": {}, "runs": [], "nodes": {}, "reason": str(error)})
    folder = results.folder_for(args.results)
    done: list[engine.JudgedRun] = []
    skipped: dict[str, str] = {}
    not_kept = ""
    runs = Stoppable()
    # The interruption of this process ends its jobs, which could otherwise hold the nodes until their time limits.
    with terminable(), counter("bench", "benchmark", args.json) as show:
        for number, benchmark in enumerate(chosen, start=1):
            shown = partial(_show_run, show, number, len(chosen))
            shown(benchmark.name)
            reason = _cannot(benchmark, options, free)
            if reason:
                skipped[benchmark.name] = reason
                continue
            given = _options_for(benchmark, options)
            ran = engine.run_benchmark(benchmark, free, given, runs, args.scale, shown, stop=runs.stop)
            done += [_compared(root, folder, one, benchmark) for one in ran]
            # After each benchmark, so that an interruption loses only the one that runs.
            try:
                results.keep(root, folder, [one for one in done if one.result.name == benchmark.name])
            except OSError as error:
                # The results are shown nevertheless.
                not_kept = f"the results were not kept: {error}. Give another folder with --results"
    outcome = engine.Outcome(tuple(done), left_out, skipped)
    return _answer(outcome, size.name if size else "", folder, not_kept)


def _show_run(show: Show, number: int, of: int, words: str) -> None:
    show(words, number, of)


def _options_for(benchmark: Benchmark, options: Options) -> Options:
    return replace(options, own={name: value for name, value in options.own.items() if name in benchmark.options})


def _cannot(benchmark: Benchmark, options: Options, free: Sequence[str]) -> str:
    """Return why a benchmark cannot run at all; empty if it can."""
    reason = benchmark.applies(options.size)
    if reason:
        return reason
    if benchmark.scope == PAIRS and len(free) < 2:
        return "it needs two idle nodes"
    if benchmark.name.startswith("nccl_") and options.gpus * len(free) < 2:
        return "a collective needs two GPUs: give --vm-size or --gpus"
    return ""


def _compared(root: Root, folder: str, done: engine.JudgedRun, benchmark: Benchmark) -> engine.JudgedRun:
    found = results.trend(done, results.read(root, folder, done.nodes[0]))
    return engine.with_finding(done, found, benchmark) if found else done


def _answer(outcome: engine.Outcome, vm_size: str, folder: str, not_kept: str) -> Answer:
    verdicts = [one.result.verdict for one in outcome.done]
    status = command.GOOD
    if FAIL in verdicts:
        status = command.BAD
    elif UNKNOWN in verdicts or not verdicts:
        status = command.UNKNOWN
    lines = [line for one in outcome.done for line in _lines(one)]
    lines += [f"{name}: skipped: {why}" for name, why in outcome.skipped.items()]
    lines += [f"{name}: not used: {why}" for name, why in outcome.left_out.items()]
    lines += [not_kept] if not_kept else []
    data: dict[str, Any] = {
        "verdict": worst(verdicts) if verdicts else SKIP,
        "runs": [{"nodes": list(one.nodes), **engine.of_result(one.result)} for one in outcome.done],
        "skipped": dict(outcome.skipped),
        "left_out": dict(outcome.left_out),
        "nodes": engine.documents(outcome, vm_size, VERSION),
        "results": folder,
        "not_kept": not_kept,
    }
    return Answer(status, "\n".join(lines) or "nothing was run", data)


def _lines(done: engine.JudgedRun) -> Iterator[str]:
    yield done.words
    result = done.result
    for finding in result.answer.findings:
        if finding.summary != result.summary:
            yield f"    {finding.verdict}: {finding.summary}"
    if result.answer.limit:
        yield f"    limit: {result.answer.limit}"
    for term, words in dict(result.details.get("environment") or {}).items():
        yield f"    {term}: {words}"
    for row in result.details.get("rows") or ():
        expected = "" if row["expected_gbps"] is None else f", expected about {row['expected_gbps']:.3g}"
        yield f"    {row['bytes']:>12} B  {row['bus_gbps']:.3f} GB/s{expected}"
    for row in result.details.get("scaling") or ():
        yield f"    {row['nodes']} nodes: {row['bus_gbps']:.4g} GB/s, efficiency {row['efficiency']:.0%}"


def _list(args: argparse.Namespace) -> Answer:
    size = _size(Root(args.root), args.vm_size)
    lines: list[str] = []
    data = []
    for benchmark in CATALOGUE:
        lines.append(f"{benchmark.name}: {benchmark.title}")
        lines += textwrap.wrap(benchmark.explain, 100, initial_indent="    ", subsequent_indent="    ")
        limits = {name: limit_words(Options(size=size).threshold(name)) for name in benchmark.thresholds}
        reason = benchmark.applies(size) if size else ""
        if size:
            known = {name: words or "none is known for this VM size" for name, words in limits.items()}
            lines += [f"    limit {name}: {words}" for name, words in known.items()]
        lines += [f"    option {name}: {value or 'none'}" for name, value in benchmark.options.items()]
        lines += [f"    on {size.name}: skipped: {reason}"] if size and reason else []
        data.append(
            {
                "name": benchmark.name,
                "title": benchmark.title,
                "explain": benchmark.explain,
                "scope": benchmark.scope,
                "limits": limits,
                "options": dict(benchmark.options),
                "not_here": reason,
            }
        )
    return Answer(command.GOOD, "\n".join(lines), {"vm_size": size.name if size else "", "benchmarks": data})


def _results(args: argparse.Namespace) -> Answer:
    folder = results.folder_for(args.results)
    try:
        kept = results.read(Root(args.root), folder, args.node)
    except ValueError as error:
        raise UsageError(str(error)) from None
    lines = []
    for one in kept:
        values = ", ".join(f"{each.name} {each.value:g} {each.unit}" for each in one.readings if each.value != "")
        over = f" over {one.nodes} nodes" if one.nodes > 1 else ""
        lines.append(f"{one.time} {one.benchmark}{over}: {one.verdict}: {values or 'nothing was measured'}")
    data = [{**vars(one), "readings": [vars(each) for each in one.readings]} for one in kept]
    text = "\n".join(lines) or f"there are no results of {args.node} in {folder}"
    return Answer(command.GOOD if kept else command.UNKNOWN, text, {"results": data, "folder": folder})


def _measure(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    require_this_machine(root, "bench measure")
    asked = _pairs(args.set, "set")
    try:
        # Slurm sends SIGTERM when the job is cancelled or overdue. The files on the scratch must be removed.
        with terminable():
            if args.name in checks.CHECK_OF:
                answer = checks.measure_here(args.name, machine_of(root, run), _limits(args.limit))
            else:
                answer = storage.measure_here(args.name, root, run, asked)
    except CannotMeasure as error:
        answer = Measurement(findings=(Finding(UNKNOWN, str(error)),))
    node = os.environ.get("SLURMD_NODENAME", "")
    unknown = any(finding.verdict == UNKNOWN for finding in answer.findings)
    # The job reads the line on each node. A program reads the same with --json.
    text = answer_line(node, answer)
    return Answer(command.UNKNOWN if unknown else command.GOOD, text, {"node": node, "line": text})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "run": _run,
    "list": _list,
    "results": _results,
    "measure": _measure,
}


def _of(benchmark: Benchmark) -> Action:
    return Action(benchmark.name, benchmark.title, f"{benchmark.explain}\n\n{_STATUSES}", _add_options, listed=False)


COMMAND = Command(
    name="bench",
    summary="benchmarks over idle nodes, as Slurm jobs",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("run", "run benchmarks", _RUN, _add_run),
        Action("list", "explain the benchmarks and their limits", _LIST, _add_list),
        Action("results", "show the kept results of a node", _RESULTS, _add_results),
        Action("measure", "measure on this node, in a job", _MEASURE, _add_measure, listed=False),
        *map(_of, CATALOGUE),
    ),
)
