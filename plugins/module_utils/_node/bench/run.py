# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs benchmarks over idle nodes, and returns their verdicts per node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

from ..health import record
from ..health.check import Answer, Finding, Result
from ..health.judge import judge
from ..health.pair_search import unavailable_nodes
from ..health.perform import of_result
from ..health.settings import Settings
from ..machine.run import Result as CommandResult
from ..machine.verdict import WORST_FIRST, worst
from ..slurm.hostlist import compress
from ..slurm.job_control import Job
from ..slurm.nodes import NodeState
from . import collectives
from .benchmark import EACH, PAIRS, TIER, Benchmark, Measured, Options, judge_run
from .launch import WAIT_S, command

_AT_ONCE = 32

RunFor = Callable[[Sequence[str], float], CommandResult]
"""Runs a command with a timeout in seconds."""
Report = Callable[[str], None]
"""Shows how far the benchmarks are, in one line."""


class NoNodes(ValueError):
    """There are not enough idle nodes; the message says why."""


@dataclass(frozen=True)
class JudgedRun:
    """A run that was judged.

    :ivar nodes: where it ran.
    :ivar began: seconds since the epoch.
    """

    nodes: tuple[str, ...]
    result: Result
    began: float

    @property
    def words(self) -> str:
        """One line for people."""
        return f"{self.result.name}: {self.result.verdict}: {compress(self.nodes)}: {self.result.summary}"


@dataclass(frozen=True)
class Outcome:
    """The results of all benchmarks.

    :ivar done: in the order in which they were asked for.
    :ivar left_out: nodes that were not measured, with the reason.
    :ivar skipped: benchmarks that were not run, with the reason.
    """

    done: tuple[JudgedRun, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


def idle_nodes(
    known: Mapping[str, NodeState], jobs: Iterable[Job], names: Sequence[str], most: int | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the nodes to use, and the others with the reasons. Pure.

    :param names: the nodes in question.
    :param most: use only this many of them.
    :raises NoNodes: none of them is idle, or fewer than asked for.
    """
    # A completing job has ended; the run waits for its epilog. So benchmarks can follow one another at once.
    out = unavailable_nodes(known, [job for job in jobs if job.state != "COMPLETING"], names)
    free = [name for name in names if name not in out]
    if not free or (most and len(free) < most):
        reasons = "; ".join(f"{name}: {why}" for name, why in list(out.items())[:3]) or "no node was named"
        raise NoNodes(f"{len(free)} of {most or len(names)} nodes are idle. {reasons}")
    for name in free[most:] if most else ():
        out[name] = f"only {most} nodes were asked for"
    return tuple(free[:most] if most else free), out


def groups_of(benchmark: Benchmark, nodes: Sequence[str], scale: bool) -> list[list[tuple[str, ...]]]:
    """Return the runs in rounds: those of a round go at the same time, because no node is in two of them.

    :param scale: for a benchmark over all nodes, also run it on 2, 4, 8 and so on of them.
    """
    if benchmark.scope == EACH:
        return [[(node,) for node in nodes]]
    if benchmark.scope == PAIRS:
        pairs: list[tuple[str, ...]] = [tuple(nodes[at : at + 2]) for at in range(0, len(nodes) - 1, 2)]
        # The node without a partner is paired with the first one afterwards.
        rest: list[list[tuple[str, ...]]] = [[(nodes[-1], nodes[0])]] if len(nodes) % 2 and len(nodes) > 1 else []
        return [pairs, *rest] if pairs else []
    counts = [len(nodes)]
    if scale:
        counts = sorted({count for count in (2**power for power in range(1, 20)) if count < len(nodes)} | {len(nodes)})
    return [[tuple(nodes[:count])] for count in counts]


def run_benchmark(
    benchmark: Benchmark,
    nodes: Sequence[str],
    options: Options,
    run: RunFor,
    scale: bool = False,
    report: Report = lambda _words: None,
    clock: Callable[[], float] = time.time,
    stop: Callable[[], None] = lambda: None,
) -> list[JudgedRun]:
    """Run one benchmark over the nodes, and return the judged runs.

    :param stop: ends all commands that ``run`` runs, so that an interruption also ends their jobs.
    :raises KeyboardInterrupt: this process was interrupted; the jobs have ended.
    """
    done: list[JudgedRun] = []
    for groups in groups_of(benchmark, nodes, scale):
        began = clock()
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(groups))) as pool:
            try:
                running = [pool.submit(_one, benchmark, group, options, run) for group in groups]
                for number, _ended in enumerate(as_completed(running), start=1):
                    report(f"{benchmark.name}: run {number} of {len(groups)}")
            except BaseException:
                # The pool waits for its threads, so without this it would wait for the jobs.
                stop()
                raise
        done += [_judged(benchmark, group, each.result(), began) for group, each in zip(groups, running)]
    return _with_efficiency(benchmark, done) if scale else done


def _one(benchmark: Benchmark, nodes: tuple[str, ...], options: Options, run: RunFor) -> tuple[Measured, float]:
    start = time.monotonic()
    words = command(nodes, benchmark.step(benchmark, options, nodes), options, benchmark.limit_s)
    measured = judge_run(benchmark, options, nodes, run(words, benchmark.limit_s + WAIT_S))
    return measured, time.monotonic() - start


def _judged(benchmark: Benchmark, nodes: tuple[str, ...], measured: tuple[Measured, float], began: float) -> JudgedRun:
    found, seconds = measured
    result = judge(benchmark.check, found.answer, Settings(), seconds=seconds, details=found.details)
    return JudgedRun(nodes, result, began)


def _with_efficiency(benchmark: Benchmark, done: list[JudgedRun]) -> list[JudgedRun]:
    """Add the scaling efficiency to the run over most nodes."""
    values = {
        len(one.nodes): float(reading.value)
        for one in done
        for reading in one.result.answer.readings
        if reading.name == benchmark.name
    }
    table, findings, readings = collectives.efficiency(values)
    if not table:
        return done
    last = done[-1]
    answer = last.result.answer
    answer = replace(answer, readings=(*answer.readings, *readings), findings=(*answer.findings, *findings))
    limit = "; ".join(filter(None, (answer.limit, f"scaling: {collectives.SCALING_SOURCE}")))
    measured = Measured(replace(answer, limit=limit), {**last.result.details, "scaling": table})
    return [*done[:-1], _judged(benchmark, last.nodes, (measured, last.result.seconds), last.began)]


def with_finding(done: JudgedRun, finding: Finding, benchmark: Benchmark) -> JudgedRun:
    """Return a run with one more finding, judged again."""
    answer: Answer = done.result.answer
    measured = Measured(replace(answer, findings=(*answer.findings, finding)), done.result.details)
    return _judged(benchmark, done.nodes, (measured, done.result.seconds), done.began)


def documents(outcome: Outcome, vm_size: str, collection: str) -> dict[str, dict[str, Any]]:
    """Return the results by node, each in the form of ``hpcnode health``, so that the health report can show them.

    A run over several nodes is in the document of each of them.
    """
    by_node: dict[str, list[JudgedRun]] = {}
    for one in outcome.done:
        for node in one.nodes:
            by_node.setdefault(node, []).append(one)
    return {node: _document(node, done, vm_size, collection) for node, done in by_node.items()}


def _rank(done: JudgedRun) -> int:
    return WORST_FIRST.index(done.result.verdict)


def _document(node: str, done: Sequence[JudgedRun], vm_size: str, collection: str) -> dict[str, Any]:
    last: dict[str, JudgedRun] = {}
    for one in done:
        # Of runs over 2, 4, 8 nodes, the one with the worst verdict, and of equal ones that over most nodes.
        held = last.get(one.result.name)
        if held is None or _rank(one) <= _rank(held):
            last[one.result.name] = one
    checks = [of_result(one.result) for one in last.values()]
    latest = max(one.began for one in last.values())
    identity = {"name": node, "vm_id": "", "vm_size": vm_size, "host": "", "boot_id": "", "image": ""}
    return {
        "schema": record.SCHEMA,
        "command": "bench",
        "status": 0,
        "tier": TIER,
        "time": time.strftime(record.TIME, time.gmtime(latest)),
        "seconds": round(sum(one.result.seconds for one in last.values()), 3),
        "verdict": worst([check["verdict"] for check in checks]),
        "node": {**identity, "collection": collection},
        "checks": [{key: value for key, value in check.items() if key != "details"} for check in checks],
        "problems": [],
    }
