# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Asking, from a job's prolog, whether the node may refuse the job.

Slurm drains each node whose prolog fails, as many as there are. So that no more go than may be out, a node refuses a
job only when the arbiter has taken it out before, and lets the job start where it was not: at the limit, and where no
arbiter answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...machine.config import ConfigError
from ...machine.root import Root
from .. import record
from ..check import PROLOG
from . import files
from .settings import read_settings
from .summing import blocking_of

_PAUSE_S = 0.2

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Permission:
    """Whether the job is refused.

    :ivar problem: what is broken; empty where nothing is that a job cannot do without.
    :ivar words: why, or why not.
    """

    refuse: bool
    problem: str
    words: str


def ask(root: Root, job: str, seconds: float, clock: Clock = time.monotonic, pause: Pause = time.sleep) -> Permission:
    """Ask for permission to refuse the job, if the prolog's checks found what no job can do without broken.

    :param seconds: how long an answer is waited for.
    """
    problem = blocking_of(record.read(root, PROLOG))
    if not problem:
        return Permission(False, "", "nothing is broken that a job cannot do without")
    try:
        if not read_settings(root).refuse_jobs:
            return Permission(False, problem, "prologs refuse no jobs here (health_checks_report.refuse_jobs)")
    except ConfigError as error:
        return Permission(False, problem, str(error))
    deadline = clock() + seconds
    # Another job's prolog may wait already: one answer does for both.
    question = files.asked(root)
    try:
        if not question:
            question = f"{job or 'none'}.{int(clock() * 1000)}"
            files.ask(root, question)
        return _answer(root, question, problem, deadline, clock, pause)
    except OSError as error:
        return Permission(False, problem, f"nobody could be asked: {error}")


def _answer(root: Root, question: str, problem: str, deadline: float, clock: Clock, pause: Pause) -> Permission:
    while clock() < deadline:
        given = files.answered(root, question)
        if given:
            return Permission(given.refuse, problem, given.words)
        pause(_PAUSE_S)
    if files.asked(root) == question:
        files.forget(root)
    return Permission(False, problem, "nobody answered in time: see 'journalctl -u hpcai-health-report'")
