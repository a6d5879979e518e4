# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a training reached: its rate against the expected one, the time that restarts lost, and which node was slow.

Each rank writes lines of JSON to ``rank-N.jsonl`` in the job folder, each an average over some steps. The guide to the
recovery describes them, because any job may write them.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from . import estimate
from .layout import Job
from .model import NONE, Model
from .plan import Plan
from .plan_text import count, duration
from .record import Record
from .slow import Sample, Slow, find_slow

_LONGEST_FILE = 64 * 2**20
"""Only the end of a longer file is read: a rank writes one line per some steps."""


@dataclass(frozen=True)
class Progress:
    """One line of a rank.

    :ivar time: when it was written, in seconds since 1970.
    :ivar step: the last step that it covers.
    :ivar samples: samples of a step, of all ranks.
    :ivar loss: of the last step; None from ranks that do not know it.
    """

    time: float
    step: int
    rank: int
    samples: int
    loss: float | None
    times: Sample


def read_progress(folder: str) -> list[Progress]:
    """Return the lines of all ranks in a job folder, by time. Incomplete and invalid lines are ignored."""
    found = []
    for path in glob.glob(f"{glob.escape(folder)}/rank-*.jsonl"):
        found += list(_lines(path))
    return sorted(found, key=lambda one: (one.time, one.rank))


def times_of_run(folder: str, nodes: Collection[str], since: float) -> tuple[list[Sample], list[str]]:
    """Return the times that the ranks of a run wrote to a folder, and which nodes they name besides the run's own.

    :param nodes: the nodes of the run.
    :param since: when it started: a run after a requeue may find the lines of the earlier one.
    """
    times = [one.times for one in read_progress(folder) if one.time >= since]
    return [one for one in times if one.node in nodes], sorted({one.node for one in times} - set(nodes))


def last_seen(folder: str) -> float:
    """Return when the first rank wrote its last line in a job folder, in seconds since 1970; 0 if it wrote none."""
    try:
        return os.stat(f"{folder}/rank-0.jsonl").st_mtime
    except OSError:
        return 0.0


def _lines(path: str) -> Iterator[Progress]:
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - _LONGEST_FILE, 0))
        content = file.read().decode("utf-8", "replace")
    for line in content.splitlines():
        try:
            data = json.loads(line)
            rank, whole, waits = int(data.get("rank", 0)), float(data["step_s"]), float(data.get("data_s", 0.0))
            times = Sample(str(data["node"]), whole, waits, float(data.get("own_s", whole - waits)), rank)
            loss = data.get("loss")
            yield Progress(
                float(data["t"]),
                int(data.get("step", 0)),
                rank,
                int(data.get("samples", 0)),
                None if loss is None else float(loss),
                times,
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue


@dataclass(frozen=True)
class Report:
    """What a training reached.

    :ivar steps: the last step.
    :ivar loss: of the last step that reported one.
    :ivar step_s: median seconds of a step.
    :ivar samples_per_s: samples per second.
    :ivar tokens_per_s_gpu: tokens per second and GPU; None without a transformer.
    :ivar rate: TFLOP/s of each GPU, of the model's own operations and what its layout computes again; None likewise.
    :ivar mfu: MFU; None if the peak is unknown.
    :ivar expected: the expected TFLOP/s and its source; None if there are none.
    :ivar of_expected: the rate as a part of the expected one.
    :ivar runs: number of runs.
    :ivar wall_s: from the first start to the last end, in seconds.
    :ivar trained_s: seconds of steps that were kept.
    :ivar lost: the part of ``wall_s`` that starts, checkpoints and repeated steps took; None without steps.
    :ivar cost: price of the nodes for all runs; None if unknown.
    :ivar slow: what was slow.
    :ivar decisions: what was decided after each run.
    """

    recipe: str
    nodes: int
    gpus: int
    steps: int
    loss: float | None
    step_s: float | None
    samples_per_s: float | None
    tokens_per_s_gpu: float | None
    rate: float | None
    mfu: float | None
    expected: tuple[float, str] | None
    of_expected: float | None
    runs: int
    wall_s: float
    trained_s: float
    lost: float | None
    cost: float | None
    currency: str
    slow: tuple[Slow, ...]
    decisions: tuple[str, ...]


def report(
    record: Record,
    progress: Sequence[Progress],
    plan: Plan | None,
    gpus: int,
    now: float,
    hourly: float | None = None,
    currency: str = "",
) -> Report:
    """Return the report. Pure.

    :param plan: the plan of a transformer; None for other models.
    :param gpus: processes of the training, which are its GPUs if it uses GPUs.
    :param hourly: price of a node per hour.
    """
    first = [one for one in progress if one.rank == 0]
    step = median(one.times.step for one in first) if first else None
    samples = first[-1].samples if first else 0
    losses = [one.loss for one in first if one.loss is not None]
    last = max((one.step for one in first), default=0)
    # One without an end was killed before the next one began.
    until = [*(run.started for run in record.runs[1:]), now]
    ends = [run.ended or end for run, end in zip(record.runs, until)]
    spent = [end - run.started for run, end in zip(record.runs, ends)]
    start = min((run.started_at or 0 for run in record.runs), default=0)
    wall = (max(ends) - record.runs[0].started) if record.runs else 0.0
    trained = (last - start) * step if step else 0.0
    nodes = len(record.runs[-1].nodes) if record.runs else 0
    reached = _rates(plan, samples, step, gpus) if plan and step else None
    node_seconds = sum(seconds * len(run.nodes) for seconds, run in zip(spent, record.runs))
    return Report(
        recipe=record.recipe,
        nodes=nodes,
        gpus=gpus,
        steps=last,
        loss=losses[-1] if losses else None,
        step_s=step,
        samples_per_s=samples / step if step else None,
        tokens_per_s_gpu=reached.tokens if reached else None,
        rate=reached.rate if reached else None,
        mfu=reached.mfu if reached else None,
        expected=reached.expected if reached else None,
        of_expected=reached.rate / reached.expected[0] if reached and reached.expected else None,
        runs=len(record.runs),
        wall_s=wall,
        trained_s=trained,
        lost=max(1 - trained / wall, 0.0) if step and wall > 0 else None,
        cost=None if hourly is None else hourly * node_seconds / 3600,
        currency=currency,
        slow=tuple(find_slow(one.times for one in progress)),
        decisions=tuple(run.decision for run in record.runs if run.decision),
    )


@dataclass(frozen=True)
class _Rates:
    tokens: float
    rate: float
    mfu: float | None
    expected: tuple[float, str] | None


def _rates(plan: Plan, samples: int, step: float, gpus: int) -> _Rates:
    model: Model = plan.model
    job = Job(gpus, 1, plan.job.layout, 1, samples)
    rate = estimate.rate_of(model, job, step, plan.job.layout.recomputation)
    peak = (plan.size.gpu_tflops or {}).get("bf16")
    own = estimate.rate_of(model, job, step, NONE)
    expected = None
    if plan.speed is not None:
        # Both as operations of this layout, so that a rate that counts others can be compared.
        wanted = estimate.rate_of(model, plan.job, plan.speed.step, plan.job.layout.recomputation)
        expected = (wanted, plan.speed.source)
    return _Rates(samples * model.sequence / step / gpus, rate, own / peak if peak else None, expected)


def as_text(one: Report) -> str:
    """Return the report for people."""
    rows: list[tuple[str, str]] = [("training", f"{one.recipe}, {one.nodes} nodes, {one.gpus} processes")]
    loss = "" if one.loss is None else f", loss {one.loss:.6f}"
    rows.append(("steps", f"{one.steps}{loss}"))
    if one.step_s is not None and one.samples_per_s is not None:
        rows.append(("step", f"{one.step_s:.3g} s, {one.samples_per_s:.4g} samples/s"))
    if one.rate is not None and one.tokens_per_s_gpu is not None:
        mfu = "MFU unknown" if one.mfu is None else f"MFU {one.mfu:.1%}"
        tokens = f"{count(one.tokens_per_s_gpu)} tokens/s per GPU"
        rows.append(("reached", f"{one.rate:.4g} TFLOP/s per GPU, {tokens}, {mfu}"))
        if one.expected is None or one.of_expected is None:
            rows.append(("expected", "unknown: nothing similar was published"))
        else:
            rate, source = one.expected
            rows.append(("expected", f"{rate:.4g} TFLOP/s per GPU, so {one.of_expected:.0%} were reached ({source})"))
    runs = f"{one.runs} run{'' if one.runs == 1 else 's'}"
    lost = "" if one.lost is None else f", {one.lost:.1%} of it in starts, checkpoints and repeated steps"
    rows.append(("time", f"{duration(one.wall_s)} in {runs}{lost}"))
    if one.cost is not None:
        rows.append(("list price", f"{one.cost:,.2f} {one.currency}".rstrip()))
    width = max(len(name) for name, _value in rows)
    lines = [f"{name.ljust(width)}  {value}" for name, value in rows]
    return "\n".join([*lines, *(finding.why for finding in one.slow), *one.decisions])


def as_data(one: Report) -> dict[str, Any]:
    """Return the report for programs."""
    return asdict(one)
