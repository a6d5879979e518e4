# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Asks the arbiter, from a job's prolog or epilog, whether the prolog or epilog may fail.

Slurm drains every node whose prolog or epilog fails, without a limit. To keep the drain limit, a prolog or epilog only
fails after the arbiter has drained the node. If the arbiter has not drained it, because the drain limit is reached or
it does not answer, the job starts although a check failed; a job whose prolog failed for another reason is requeued.
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

    :ivar problem: what is faulty; empty if everything that every job needs is good.
    :ivar words: why it may fail, or why not.
    """

    refuse: bool
    problem: str
    words: str


def ask(root: Root, job: str, seconds: float, clock: Clock = time.monotonic, pause: Pause = time.sleep) -> Permission:
    """Ask for permission to refuse the job, if the prolog's checks found a fault of something that every job needs.

    :param seconds: how long to wait for an answer.
    """
    problem = blocking_of(record.read(root, PROLOG))
    if not problem:
        return Permission(False, "", "everything that every job needs is good")
    try:
        if not read_settings(root).refuse_jobs:
            return Permission(False, problem, "prologs refuse no jobs here (health_checks_report.refuse_jobs)")
    except ConfigError as error:
        return Permission(False, problem, str(error))
    return _ask(root, job, problem, None, seconds, clock, pause)


def ask_for_script(
    root: Root, job: str, fault: ScriptFault, seconds: float, clock: Clock = time.monotonic, pause: Pause = time.sleep
) -> Permission:
    """Ask for permission to fail, after a script has failed because of the machine.

    :param seconds: how long to wait for an answer.
    """
    return _ask(root, job, fault.summary, fault, seconds, clock, pause)


def _ask(
    root: Root, job: str, problem: str, fault: ScriptFault | None, seconds: float, clock: Clock, pause: Pause
) -> Permission:
    deadline = clock() + seconds
    # Another job's prolog may already be waiting: one answer is enough for both.
    question = files.pending_question(root)
    try:
        if not question or fault:
            question = question or f"{job or 'none'}.{int(clock() * 1000)}"
            files.write_question(root, question, fault)
        return _answer(root, question, problem, deadline, clock, pause)
    except OSError as error:
        return Permission(False, problem, f"cannot ask the arbiter: {error}")


def _answer(root: Root, question: str, problem: str, deadline: float, clock: Clock, pause: Pause) -> Permission:
    while clock() < deadline:
        given = files.read_answer(root, question)
        if given:
            return Permission(given.refuse, problem, given.words)
        pause(_PAUSE_S)
    if files.pending_question(root) == question:
        files.withdraw_question(root)
    return Permission(False, problem, "no answer before the timeout: see 'journalctl -u hpcai-health-report'")
