# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a run of steps comes to: in words, and as the result of a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .engine import Ran
from .step import WARN


def sentence(summary: str, action: str) -> str:
    """Return in one line what is the case and what is to be done."""
    return f"{summary.rstrip('.')}. To do: {action.rstrip('.')}." if action else f"{summary.rstrip('.')}."


def words_of(ran: Ran) -> str:
    """Return in one line what is the case with a step and what is to be done."""
    return f"{ran.step.name}: {sentence(ran.outcome.summary, ran.outcome.action)}"


def problem_of(ran: Iterable[Ran]) -> str:
    """Return in one line what keeps slurmd from starting; nothing if nothing does."""
    return " ".join(words_of(one) for one in ran if one.blocks)


def warnings_of(ran: Iterable[Ran], check: bool) -> list[str]:
    """Return what is not as it should be and blocks nothing, and in check mode also what does."""
    told = []
    for one in ran:
        if one.blocks and check:
            told.append(
                f"{words_of(one)} As things are, slurmd would not start. Check mode cannot tell whether an earlier "
                "task would have mended it."
            )
        elif one.outcome.verdict == WARN or (one.bad and not one.blocks):
            told.append(words_of(one))
        told += [f"{one.step.name}: {problem}" for problem in one.problems]
    return told


def as_result(ran: Sequence[Ran]) -> dict[str, Any]:
    """Return a module's result. Changes are told as a diff without a before: not all of them are files."""
    changes = [f"{one.step.name}: {change}\n" for one in ran for change in one.outcome.changes]
    return {
        "changed": bool(changes),
        "steps": [one.as_dict() for one in ran],
        "blocking": [one.step.name for one in ran if one.blocks],
        "diff": {"prepared": "".join(changes)},
    }
