# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Judging the GPUs one by one: what the checks of their health have in common.

A GPU that could not be read, or does not tell what is asked for, is never as it should be: it is unknown. That it is
missing, lost or silent is for the check ``gpu_count`` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable, Union

from ..machine.gpu import GpuError, GpuHealth
from ..machine.gpu.facts import DIED, NO_ANSWER
from .check import UNKNOWN, Answer, CannotMeasure, Context, Finding, Reading

Observation = Union[Reading, Finding]
Judge = Callable[[GpuHealth], Iterable[Observation]]
"""Yields readings and findings of a GPU; a GPU of which it yields neither does not tell."""

_SEE_COUNT = "Check gpu_count says what is the matter with it"


def read_gpus(context: Context) -> tuple[GpuHealth, ...]:
    """Return the GPUs.

    :raises CannotMeasure: the driver cannot be asked, or knows no GPU.
    :raises GpuError: it does not answer.
    """
    try:
        gpus = context.gpus.all()
    except GpuError as error:
        if error.kind in (NO_ANSWER, DIED):
            raise
        raise CannotMeasure(f"the GPUs' driver cannot be asked: {error}") from None
    if not gpus:
        raise CannotMeasure("the driver knows no GPU")
    return gpus


def judge_each(context: Context, what: str, field: str, judge: Judge, good: str, limit: str = "") -> Answer:
    """Return the answer of a check that looks at each GPU by itself.

    :param what: what a GPU must tell, as words of a sentence.
    :param field: the field of ``GpuHealth`` that it is in.
    """
    observations: list[Observation] = []
    for gpu in read_gpus(context):
        observations += unreadable(gpu) or list(judge(gpu)) or [not_reported(gpu, what, field)]
    return gather(observations, good, limit)


def unreadable(gpu: GpuHealth) -> list[Observation]:
    """Return what to say of a GPU that could not be read; nothing of one that could."""
    if not gpu.problem:
        return []
    return [Finding(UNKNOWN, f"{gpu.label} could not be read: {gpu.problem}", gpu.device, _SEE_COUNT)]


def not_reported(gpu: GpuHealth, what: str, field: str) -> Finding:
    """Return what to say of a GPU that does not tell what is asked for."""
    why = f": {gpu.errors[field]}" if field in gpu.errors else ""
    return Finding(UNKNOWN, f"{gpu.label} does not tell {what}{why}", gpu.device)


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
