# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A plan for people, and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from .layout import Job
from .memory import RESERVE, gib
from .plan import Plan

UNKNOWN = "unknown"


def as_text(plan: Plan) -> str:
    """Return the plan as a table; the reasons and the smallest that fits come first if it does not fit."""
    rows = [*_job_rows(plan), *_memory_rows(plan)]
    if plan.problems:
        lines = [
            "This does not fit.",
            *(f"  {problem}" for problem in plan.problems),
            *_smallest(plan),
            "",
            table(rows),
        ]
        return "\n".join(lines)
    rows += [*_placement_rows(plan), *_speed_rows(plan), *_storage_rows(plan)]
    return "\n".join([table(rows), *(("", *plan.notes) if plan.notes else ())])


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan for programs. Sizes are bytes, times seconds, rates TFLOP/s."""
    job = plan.job
    return {
        "fits": plan.fits,
        "problems": list(plan.problems),
        "vm_size": plan.size.name,
        "parameters": plan.model.parameters,
        "model": asdict(plan.model),
        "nodes": job.nodes,
        "gpus": job.gpus,
        "replicas": job.replicas,
        "micro_batch": job.micro_batch,
        "global_batch": job.global_batch,
        "bubble": job.bubble,
        "layout": asdict(job.layout),
        "needed": None if plan.needed is None else {**asdict(plan.needed), "gpu": plan.needed.gpu, "reserve": RESERVE},
        "room": None if plan.room is None else asdict(plan.room),
        "places": [asdict(place) for place in plan.gpu_positions],
        "stages": [list(stage) for stage in plan.stages],
        "speed": None if plan.speed is None else asdict(plan.speed),
        "storage": None if plan.storage is None else asdict(plan.storage),
        "fewest": None if plan.fewest is None else _job_data(plan.fewest),
        "other": None if plan.other is None else _job_data(plan.other),
        "notes": list(plan.notes),
    }


def _job_data(job: Job) -> dict[str, Any]:
    return {"nodes": job.nodes, "micro_batch": job.micro_batch, "batch": job.batch, "layout": asdict(job.layout)}


def _smallest(plan: Plan) -> Iterator[str]:
    if plan.fewest is None:
        yield "No number of nodes fits with this layout."
    else:
        yield f"The smallest that fits with this layout: {_nodes(plan.fewest, plan.job)}."
    if plan.other is None:
        yield f"No layout fits on {_count(plan.job.nodes, 'node')} of {plan.size.name}."
    else:
        words = f"{plan.other.layout.words()}{_batch(plan.other, plan.job)}"
        yield f"A layout that fits on {_count(plan.job.nodes, 'node')}: {words}."


def _nodes(job: Job, asked: Job) -> str:
    return f"{_count(job.nodes, 'node')} ({job.gpus} GPUs){_batch(job, asked)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's' if what[-1] != 'h' else 'es'}"


def _batch(job: Job, asked: Job) -> str:
    if job.micro_batch != asked.micro_batch:
        return f", micro-batch {job.micro_batch}, {job.global_batch} samples per step"
    return f", {job.global_batch} samples per step" if job.global_batch != asked.global_batch else ""


def _job_rows(plan: Plan) -> Iterator[Sequence[str]]:
    model, job = plan.model, plan.job
    shape = f"{model.layers} layers, hidden {model.hidden}, {model.heads} heads, sequence {model.sequence}"
    yield "model", f"{count(model.parameters)} parameters ({shape}, vocabulary {model.vocabulary})"
    yield "nodes", f"{job.nodes} x {plan.size.name}, {job.gpus} GPUs"
    yield "layout", job.layout.words()
    yield (
        "batch",
        f"{job.global_batch} samples per step: {_count(job.replicas, 'replica')} with "
        f"{_count(job.micro_batches, 'micro-batch')} of {job.micro_batch}",
    )
    if job.layout.pipeline > 1 and plan.needed is not None:
        yield "pipeline bubble", f"{job.bubble:.1%} of the useful time"


def _memory_rows(plan: Plan) -> Iterator[Sequence[str]]:
    needed, available = plan.needed, plan.room
    if needed is None:
        return
    has = UNKNOWN if available is None else gib(available.gpu)
    yield "GPU memory", f"{gib(needed.gpu)} of {has}"
    for name in ("states", "gathered", "activations", "working", "logits"):
        if getattr(needed, name):
            yield f"  {name}", gib(getattr(needed, name))
    yield "  reserve", gib(RESERVE)
    if needed.host:
        host = UNKNOWN if available is None or available.host is None else gib(available.host)
        yield "host memory", f"{gib(needed.host)} of {host} per node"
    if needed.nvme:
        yield "NVMe", f"{gib(needed.nvme)} per node"


def _placement_rows(plan: Plan) -> Iterator[Sequence[str]]:
    job, size = plan.job, plan.size
    layout = job.layout
    links = f"{size.gpu_link_gbs} GB/s per direction" if size.gpu_link_gbs else "rate unknown"
    if layout.tensor > 1:
        groups = [f"{first}-{first + layout.tensor - 1}" for first in range(0, job.gpus_per_node, layout.tensor)]
        yield "tensors", f"GPUs {', '.join(groups)} of each node, over NVLink ({links})"
    if layout.pipeline > 1:
        ends = [f"{first}" if first == last else f"{first}-{last}" for first, last in plan.stages]
        shown = ends if len(ends) <= 6 else [*ends[:3], "...", ends[-1]]
        yield "stages", f"nodes {', '.join(shown)}"
    rails = [place.rail for place in plan.gpu_positions if place.rail]
    if rails and job.nodes > 1:
        yield "rails", f"GPU <i> of each node over mlx5_ib<i> ({size.ib_rate_gbps} Gb/s each)"
    numa = [place.numa_node for place in plan.gpu_positions]
    if numa and None not in numa:
        yield "NUMA nodes", f"{' '.join(map(str, numa))} of GPUs 0 to {job.gpus_per_node - 1}"


def _speed_rows(plan: Plan) -> Iterator[Sequence[str]]:
    speed = plan.speed
    if speed is None:
        yield "expected rate", f"{UNKNOWN}: nothing similar was published; measure some steps, then give --tflops"
        return
    yield "expected rate", f"{speed.rate:.1f} TFLOP/s per GPU ({speed.source})"
    yield "step", f"{speed.step:.3g} s" if speed.step < 10 else f"{speed.step:.1f} s"
    mfu, hfu = (UNKNOWN if part is None else f"{part:.1%}" for part in (speed.mfu, speed.hfu))
    yield "MFU, HFU", f"{mfu}, {hfu}{'' if speed.mfu is not None else ' (the peak of this GPU is unknown)'}"
    yield "tokens a day", count(speed.tokens_per_day)
    if speed.days is not None:
        yield "duration", f"{speed.days:.1f} days"
    if speed.cost is not None:
        yield "list price", f"{speed.cost:,.0f} {speed.currency}".rstrip()


def _storage_rows(plan: Plan) -> Iterator[Sequence[str]]:
    storage = plan.storage
    if storage is None:
        return
    save, upload = (UNKNOWN if one is None else duration(one) for one in (storage.save_seconds, storage.upload_seconds))
    copies = f" in {storage.copies} copies" if storage.copies > 1 else ""
    yield "checkpoint", f"{gib(storage.checkpoint_bytes)}{copies}: {save} to scratch, {upload} to the storage account"
    if storage.interval is not None and storage.lost is not None:
        yield "save every", f"{duration(storage.interval)}; checkpoints and repeated steps then take {storage.lost:.1%}"
    if storage.staging_seconds is not None:
        yield "staging", duration(storage.staging_seconds)


def duration(seconds: float) -> str:
    """Return a time in the unit that people read."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def count(number: float) -> str:
    """Return a large number with its unit."""
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:.4g} {name}"
    return f"{number:.4g}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of a name and a value as aligned lines."""
    listed = list(rows)
    width = max(len(row[0]) for row in listed)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in listed)
