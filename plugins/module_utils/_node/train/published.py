# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What others published about a recipe in another unit than TFLOP/s: what a plan expects, and what a run reached of it.

The memory of a model that is no transformer is not calculated, so its plan is only what follows from that result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..sku.types import VmSize
from . import estimate
from .layout import Layout
from .model import Model
from .plan import Options
from .plan_text import count, duration, table
from .recipe import DATA, SAMPLES, SCALING, Expected, Recipe, Size


@dataclass(frozen=True)
class Reached:
    """What a training reached of a published result.

    :ivar value: in the unit of the published one; None if it was not measured.
    """

    published: Expected
    value: float | None

    @property
    def part(self) -> float | None:
        """What was reached as a part of the published result."""
        return None if self.value is None else self.value / self.published.value


def reached(size: Size, samples_per_s: float | None, gpus: int, efficiency: float | None) -> Reached | None:
    """Return what a training reached; None if nothing was published about its size.

    :param efficiency: the scaling efficiency that the trainer measured, as a part; None if it did not.
    """
    published = size.expected
    if published is None:
        return None
    if published.unit == SCALING:
        return Reached(published, None if efficiency is None else 100 * efficiency)
    if samples_per_s is None:
        return Reached(published, None)
    each = samples_per_s / gpus
    return Reached(published, each if published.unit == SAMPLES else each * (size.sample_bytes or 0) / 1e6)


def with_rate(options: Options, size: Size, model: Model, layout: Layout, vm_size: VmSize) -> Options:
    """Return the options with the rate of a size's published result, if it was measured with this model and VM size.

    A rate that is given counts more.
    """
    published = size.expected
    if options.rate is not None or published is None or published.unit != SAMPLES:
        return options
    if model != size.model or vm_size.name != size.vm_size:
        return options
    rate = model.flops(published.value, layout.recomputation) / 1e12
    return replace(options, rate=rate, rate_source=words(published))


def words(published: Expected) -> str:
    """Return a published result with its conditions and source."""
    return f"{published.value:g} {published.unit} ({published.conditions}; {published.source})"


@dataclass(frozen=True)
class OtherPlan:
    """What is expected of a training that is no transformer; seconds and cost are None if unknown.

    :ivar samples: samples of a step.
    :ivar step: seconds of a step at the published rate.
    :ivar seconds: of the complete training.
    :ivar staging: seconds to stage the data; None also without data.
    """

    recipe: str
    vm_size: str
    nodes: int
    gpus: int
    samples: int
    steps: int
    published: Expected | None
    step: float | None
    seconds: float | None
    cost: float | None
    currency: str
    staging: float | None


def other_plan(recipe: Recipe, name: str, nodes: int, gpus: int, vm_size: VmSize, options: Options) -> OtherPlan:
    """Return the plan of a size of a recipe that is no transformer.

    :param gpus: GPUs of a node.
    """
    size = recipe.size(name)
    samples = size.batch or size.micro_batch * nodes * gpus
    step = _step_seconds(size, samples, nodes * gpus)
    seconds = None if step is None else step * size.steps
    rate = options.node_gbps or vm_size.ethernet_gbps
    staging = None
    if rate and options.data_bytes is not None:
        staging = estimate.transfer_seconds(options.data_bytes, nodes, rate, options.account_gbps)
    cost = None
    if seconds is not None and options.hourly is not None:
        cost = estimate.cost(options.hourly, nodes, seconds / 3600)
    return OtherPlan(
        recipe=f"{recipe.name} {name}",
        vm_size=vm_size.name,
        nodes=nodes,
        gpus=nodes * gpus,
        samples=samples,
        steps=size.steps,
        published=size.expected,
        step=step,
        seconds=seconds,
        cost=cost,
        currency=options.currency,
        staging=staging,
    )


def _step_seconds(size: Size, samples: int, gpus: int) -> float | None:
    published = size.expected
    if published is None or published.unit not in (SAMPLES, DATA):
        return None
    each = published.value if published.unit == SAMPLES else published.value * 1e6 / (size.sample_bytes or 1)
    return samples / (each * gpus)


def as_text(plan: OtherPlan) -> str:
    """Return the plan for people."""
    return table(_rows(plan))


def _rows(plan: OtherPlan) -> Iterator[tuple[str, str]]:
    yield "training", f"{plan.recipe}, no transformer: its memory is not calculated"
    yield "nodes", f"{plan.nodes} x {plan.vm_size}, {plan.gpus} GPUs"
    yield "batch", f"{plan.samples} samples per step, {count(plan.steps)} steps"
    yield "expected", words(plan.published) if plan.published else "unknown: nothing was published about this size"
    if plan.step is not None and plan.seconds is not None:
        yield "step", duration(plan.step)
        yield "duration", duration(plan.seconds)
    if plan.cost is not None:
        yield "list price", f"{plan.cost:,.0f} {plan.currency}".rstrip()
    if plan.staging is not None:
        yield "staging", duration(plan.staging)


def as_data(plan: OtherPlan) -> dict[str, Any]:
    """Return the plan for programs."""
    return asdict(plan)
