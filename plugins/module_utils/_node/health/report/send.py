# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Writes the report to the node's record at slurmctld, and waits for the arbiter if a prolog or epilog asks.

A service does this and not the prolog or epilog itself, because Slurm's commands in them would hang if slurmctld hangs.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...machine.atomic import remove_file
from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...slurm import node_queries, slurmd_env
from ...slurm.arbiter import observed
from ...slurm.arbiter.report import FORM, Fault, Report, decode, encode
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.slurmd_env import SlurmdEnv
from .. import record
from ..check import OBSERVE, TIERS
from . import files
from .content import report_of
from .files import ArbiterAnswer, LastReport, ReportSettings, read_settings

RENEW_S = 600.0
"""An unchanged report is sent again after this many seconds, so that the arbiter sees that the node still reports."""
ANSWER_S = 40.0
"""How long the arbiter may take to decide, in seconds: it reads the reports every ten seconds."""
_SPREAD = 0.2
"""Nodes renew their reports up to this share earlier, each at another time, so that they do not all report at once."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 8.0

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Sent:
    """The result of sending.

    :ivar known: whether slurmctld has the report, or needs none.
    """

    known: bool
    words: str


def send(
    root: Root,
    run: Run,
    find_address: FindOwnAddress = node_queries.find_own_address,
    clock: Clock = time.time,
    pause: Pause = time.sleep,
) -> Sent:
    """Send the report to slurmctld if it is new or the last one is old, and answer a pending question.

    :param find_address: finds this machine's address as the controllers see it.
    """
    # First, because results that are written from now on need another report.
    remove_file(root.at(record.REPORT_REQUEST))
    question = files.pending_question(root)
    try:
        env, settings = slurmd_env.read(root), read_settings(root)
    except ConfigError as error:
        return _not_sent(root, question, f"cannot send the report: {error}")
    if env is None:
        words = f"this machine has no name in Slurm: {slurmd_env.ENV_FILE} does not exist"
        return _not_sent(root, question, words, True)
    sent = _send_newest(root, run, env, settings, find_address, clock(), bool(question))
    if sent is None:
        return _not_sent(root, question, "no tier of checks has run in this boot", True)
    if question:
        # While this waits, systemd does not start another run for new results, so they are sent from here.
        def send_newest() -> Sent:
            return _send_newest(root, run, env, settings, find_address, clock(), False) or sent

        words = _wait(question, root, run, env, find_address, clock, pause, send_newest)
        return Sent(send_newest().known, f"{sent.words}; {words}")
    return sent


def _newest_report(root: Root) -> tuple[Report, LastReport] | None:
    """Return the current report, and the last sent report with updated runs; None if there are no records."""
    before = files.read_last_report(root)
    report, runs = report_of([document for tier in TIERS if (document := record.read(root, tier))], before.runs)
    if report is None:
        return None
    fault = files.pending_fault(root)
    if fault:
        # Not older than the fault, so that it counts even if the node was resumed in the meantime.
        first = Fault(fault.kind, OBSERVE, fault.summary, blocks=True)
        report = replace(report, time=max(report.time, fault.time), faults=(first, *report.faults))
    # As slurmctld stores it, without what does not fit, because the next report is compared with it.
    return decode(encode(report)), replace(before, runs=runs)


def _not_sent(root: Root, question: str, words: str, known: bool = False) -> Sent:
    if question:
        files.write_answer(root, ArbiterAnswer(question, False, words))
    return Sent(known, words)


def _send_newest(
    root: Root,
    run: Run,
    env: SlurmdEnv,
    settings: ReportSettings,
    find_address: FindOwnAddress,
    now: float,
    urgent: bool,
) -> Sent | None:
    """Send the current report if it is new or due; None if there are no records."""
    newest = _newest_report(root)
    if newest is None:
        return None
    report, before = newest
    due = RENEW_S * (1 - _SPREAD * _share(env.node_name))
    if not urgent and report.is_like(before.report) and now - before.sent < due:
        files.write_last_report(root, before)
        return Sent(True, "slurmctld already has the report")
    try:
        find_address(env.controllers)
        problem = _foreign_text(env, settings, run)
        if problem:
            return Sent(False, problem)
        if not node_queries.update_node(env.node_name, [f"{settings.field}={encode(report)}"], env.controllers, run):
            return Sent(False, f"cannot send the report: slurmctld knows no node {env.node_name}")
    except (NoController, CommandFailed) as error:
        # Keep the counts; the next run sends the report.
        files.write_last_report(root, replace(before, report=None))
        return Sent(False, f"cannot send the report: {error}")
    files.write_last_report(root, replace(before, report=report, sent=now))
    return Sent(True, f"sent the report of node {env.node_name}: {report.failed} checks failed")


def _foreign_text(env: SlurmdEnv, settings: ReportSettings, run: Run) -> str:
    """Return why the field must not be written, if it has somebody else's text; else an empty text."""
    text = node_queries.query_text(env.node_name, settings.field, env.controllers, run)
    if not text or text.startswith(f"{FORM}/"):
        return ""
    other = next(field for field in observed.FIELDS if field != settings.field)
    return (
        f"cannot report: {settings.field} of node {env.node_name} has somebody else's text ({text[:40]}). "
        f"Set health_checks_report.field to {other}, or clear the text"
    )


def _wait(
    question: str,
    root: Root,
    run: Run,
    env: SlurmdEnv,
    find_address: FindOwnAddress,
    clock: Clock,
    pause: Pause,
    send_newest: Callable[[], Sent],
) -> str:
    """Wait until the node is drained, and answer. New results are sent in the meantime: the node may be good again."""
    words = f"the arbiter has not drained this node within {ANSWER_S:g} s: see its journal"
    given = ArbiterAnswer(question, False, words)
    for pause_s in _pauses(clock() + ANSWER_S, clock, env.node_name):
        pause(pause_s)
        send_newest()
        try:
            find_address(env.controllers)
            node = node_queries.query_node(env.node_name, env.controllers, run)
        except (NoController, CommandFailed) as error:
            given = replace(given, words=f"cannot query slurmctld: {error}")
            continue
        if node and node.drained:
            given = ArbiterAnswer(question, True, node.reason)
            break
    files.write_answer(root, given)
    return f"{'the node is drained' if given.refuse else 'the node stays in scheduling'}: {given.words}"


def _pauses(deadline: float, clock: Clock, name: str) -> Iterator[float]:
    """Yield the pauses between queries. They differ between nodes, because all nodes of a job may query at once."""
    wait = _FIRST_PAUSE_S * (1 + _share(name))
    while clock() + wait < deadline:
        yield wait
        wait = min(wait * 1.4, _LONGEST_PAUSE_S)


def _share(name: str) -> float:
    """Return a number from 0 to 1 that depends on the node's name."""
    return zlib.crc32(name.encode()) % 1000 / 1000
