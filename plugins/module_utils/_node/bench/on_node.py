# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Benchmarks that hpcnode itself runs on each node of a job: the command, and the answers that come back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..health.check import Answer, InvalidAnswer, answer_as_dict, answer_of
from ..machine.run import Result, last_line
from .benchmark import Benchmark, Measured, Options, Step, not_measured

TimedRun = Callable[[Sequence[str], float], Result]
"""Runs a command with a timeout in seconds."""
_MARK = "hpcai-bench:"
"""Beginning of the line with a node's answer, because the program's own output may come before it."""


def by_hpcnode(benchmark: Benchmark, options: Options) -> Step:
    """Return the command that runs ``hpcnode bench measure`` once on each node."""
    words = ["hpcnode", "bench", "measure", benchmark.name]
    words += [word for name, value in sorted(options.own.items()) for word in ("--set", f"{name}={value}")]
    # One task, with all CPUs of the node. A node that cannot measure must not end the others, nor hide its reason.
    return Step(1, tuple(words), ("--cpu-bind=none", "--kill-on-bad-exit=0"))


def answer_line(node: str, answer: Answer) -> str:
    """Return the line with which a node reports its answer.

    :raises InvalidAnswer: a part of it is invalid.
    """
    return f"{_MARK} {json.dumps({'node': node, 'answer': answer_as_dict(answer)}, allow_nan=False)}"


def read_answer(benchmark: Benchmark, result: Result, nodes: int = 1) -> dict[str, Answer] | Measured:
    """Return the answers by node, or a result without a measurement if a node did not answer."""
    found: dict[str, Answer] = {}
    for line in result.stdout.splitlines():
        if not line.startswith(_MARK):
            continue
        try:
            held: Mapping[str, Any] = json.loads(line[len(_MARK) :])
            found[str(held["node"])] = answer_of(held["answer"])
        except (ValueError, LookupError, TypeError, InvalidAnswer) as error:
            return not_measured(f"a node's answer cannot be read: {error}")
    if len(found) < nodes:
        of = f"{len(found)} of {nodes} nodes answered" if nodes > 1 else "the node did not answer"
        return not_measured(f"{of}: {last_line(result)}")
    return found
