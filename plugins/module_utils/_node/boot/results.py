# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a run of steps comes to: in words, and as the result of a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .engine import BAD, Ran
from .step import WARN


def sentence(summary: str, action: str) -> str:
    """Return in one line what is the case and what is to be done."""
    return f"{summary.rstrip('.')}. To do: {action.rstrip('.')}." if action else f"{summary.rstrip('.')}."


def as_document(ran: Sequence[Ran], check: bool) -> dict[str, Any]:
    """Return what became of the steps as plain values, as ``hpcnode boot run --json`` prints them."""
    return {
        "check": check,
        "blocking": [one.step.name for one in ran if one.blocks],
        "steps": [one.as_dict() for one in ran],
    }


def problems_of(ran: Iterable[Ran]) -> list[str]:
    """Return a line for each thing that could not be recorded."""
    return [f"{one.step.name}: {problem}" for one in ran for problem in one.problems]


def as_result(document: Mapping[str, Any], problems: Iterable[str]) -> dict[str, Any]:
    """Return a module's result from such a document, with ``warnings``, and with ``msg`` if it is a failure.

    Outside of check mode it is one if something keeps slurmd from starting. Changes are told as a diff without a before:
    not all of them are files.
    """
    steps, check = document["steps"], document["check"]
    changes = [f"{step['name']}: {change}\n" for step in steps for change in step["changes"]]
    blocks = [_words_of(step) for step in steps if step["name"] in document["blocking"]]
    result = {
        "changed": bool(changes),
        "steps": steps,
        "blocking": document["blocking"],
        "diff": {"prepared": "".join(changes)},
        "warnings": [*(_warnings_of(steps, document["blocking"], check)), *problems],
    }
    return {**result, "msg": " ".join(blocks)} if blocks and not check else result


def _warnings_of(steps: Iterable[Mapping[str, Any]], blocking: Sequence[str], check: bool) -> Iterable[str]:
    """What is not as it should be and blocks nothing, and in check mode also what does."""
    for step in steps:
        if step["name"] in blocking:
            if check:
                yield (
                    f"{_words_of(step)} As things are, slurmd would not start. Check mode cannot tell whether an "
                    "earlier task would have mended it."
                )
        elif step["verdict"] in (WARN, *BAD):
            yield _words_of(step)


def _words_of(step: Mapping[str, Any]) -> str:
    return f"{step['name']}: {sentence(step['summary'], step['action'])}"
