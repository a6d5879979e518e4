# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Asking, from a job's prolog or epilog, whether it may fail.

Slurm drains each node whose prolog or epilog fails, as many as there are. So that no more go than may be out, a node
fails one only when it was taken out before. Where it was not, at the limit and where no arbiter answers, a job starts
although a check found something broken, and one whose prolog failed otherwise is requeued.
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
from .content import blocking_of
from .files import ScriptFault, read_settings

_PAUSE_S = 0.2

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Permission:
    """Whether the prolog or epilog may fail.

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
    return _ask(root, job, problem, None, seconds, clock, pause)


def ask_for_script(
    root: Root, job: str, fault: ScriptFault, seconds: float, clock: Clock = time.monotonic, pause: Pause = time.sleep
) -> Permission:
    """Ask for permission to fail, after a script has failed by the machine's own fault.

    :param seconds: how long an answer is waited for.
    """
    return _ask(root, job, fault.summary, fault, seconds, clock, pause)


def _ask(
    root: Root, job: str, problem: str, fault: ScriptFault | None, seconds: float, clock: Clock, pause: Pause
) -> Permission:
    deadline = clock() + seconds
    # Another job's prolog may wait already: one answer does for both.
    question = files.pending_question(root)
    try:
        if not question or fault:
            question = question or f"{job or 'none'}.{int(clock() * 1000)}"
            files.write_question(root, question, fault)
        return _answer(root, question, problem, deadline, clock, pause)
    except OSError as error:
        return Permission(False, problem, f"nobody could be asked: {error}")


def _answer(root: Root, question: str, problem: str, deadline: float, clock: Clock, pause: Pause) -> Permission:
    while clock() < deadline:
        given = files.read_answer(root, question)
        if given:
            return Permission(given.refuse, problem, given.words)
        pause(_PAUSE_S)
    if files.pending_question(root) == question:
        files.withdraw_question(root)
    return Permission(False, problem, "nobody answered in time: see 'journalctl -u hpcai-health-report'")
