# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Shared by the checks that judge each GPU.

A GPU that cannot be read, or does not report the value, is unknown, never good. The check ``gpu_count`` reports GPUs
that are missing, lost, or do not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable, Union

from ..machine.gpu import GpuError, GpuHealth
from ..machine.gpu.facts import DIED, NO_ANSWER
from .check import UNKNOWN, Answer, CannotMeasure, Context, Finding, Reading

Observation = Union[Reading, Finding]
Judge = Callable[[GpuHealth], Iterable[Observation]]
"""Yields readings and findings of a GPU; if it yields nothing, the GPU does not report the value."""

_SEE_COUNT = "See the check gpu_count for the cause"


def read_gpus(context: Context) -> tuple[GpuHealth, ...]:
    """Return the GPUs.

    :raises CannotMeasure: the driver cannot be queried, or shows no GPU.
    :raises GpuError: the driver does not answer.
    """
    try:
        gpus = context.gpus.all()
    except GpuError as error:
        if error.kind in (NO_ANSWER, DIED):
            raise
        raise CannotMeasure(f"the GPUs' driver cannot be queried: {error}") from None
    if not gpus:
        raise CannotMeasure("the driver shows no GPU")
    return gpus


def judge_each(context: Context, what: str, field: str, judge: Judge, good: str, limit: str = "") -> Answer:
    """Return the answer of a check that judges each GPU separately.

    :param what: the value that a GPU must report, for the message.
    :param field: its field in ``GpuHealth``.
    """
    observations: list[Observation] = []
    for gpu in read_gpus(context):
        observations += unreadable(gpu) or list(judge(gpu)) or [not_reported(gpu, what, field)]
    return gather(observations, good, limit)


def unreadable(gpu: GpuHealth) -> list[Observation]:
    """Return a finding for a GPU that could not be read; nothing for others."""
    if not gpu.problem:
        return []
    return [Finding(UNKNOWN, f"{gpu.label} could not be read: {gpu.problem}", gpu.device, _SEE_COUNT)]


def not_reported(gpu: GpuHealth, what: str, field: str) -> Finding:
    """Return a finding for a GPU that does not report the value."""
    why = f": {gpu.errors[field]}" if field in gpu.errors else ""
    return Finding(UNKNOWN, f"{gpu.label} does not report {what}{why}", gpu.device)


def gather(observations: Sequence[Observation], good: str, limit: str = "") -> Answer:
    """Return readings and findings as an answer."""
    return Answer(
        good,
        tuple(one for one in observations if isinstance(one, Reading)),
        tuple(findings_in(observations)),
        limit,
    )


def findings_in(observations: Iterable[Observation]) -> list[Finding]:
    """Return the findings without the readings."""
    return [one for one in observations if isinstance(one, Finding)]
