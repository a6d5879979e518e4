# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Run the scripts of a kind in their order, and record what failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import run as run_command
from ..beeond.bounded import Bounded
from . import record
from .child import BURIAL_S, TERM_S, run_script
from .environment import environment, job_of
from .kinds import ENDS_AT_FAILURE, JOBS_OWN, PROLOG, SLURMS_REASONS
from .log import Log, prune
from .record import Failure
from .scripts import Script, scripts_of
from .settings import CONFIG, Settings, read_settings


@dataclass(frozen=True)
class Ran:
    """A script that was to run.

    :ivar cause: why it failed; empty where it did not.
    """

    name: str
    cause: str
    last_line: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    :ivar failure: what failed; None where nothing did.
    :ivar given_back: what became of a job that went back into the queue for its own reason; empty for others.
    """

    kind: str
    job: str
    ran: tuple[Ran, ...] = field(default_factory=tuple)
    failure: Failure | None = None
    given_back: str = ""


def run_kind(kind: str, root: Root, given: Mapping[str, str], run: Bounded = run_command) -> Outcome:
    """Run all scripts of a kind; a prolog only to the first failure.

    :param given: the environment that slurmd gave.
    :param run: what asks slurmctld to requeue a job for its own reason.
    """
    job = job_of(given)
    scripts = scripts_of(root, kind)
    try:
        settings = read_settings(root)
    except ConfigError as error:
        return _done(kind, job, root, [Ran(f"{CONFIG}.json", str(error))], "")
    if not scripts:
        return _done(kind, job, root, [], "")
    log = Log(root, kind, job)
    try:
        ran = _run_all(kind, scripts, settings, environment(given, kind), log)
        given_back = _give_back(kind, job, ran, environment(given, kind), root, run, log)
    finally:
        log.close()
    prune(root)
    if given_back:
        return Outcome(kind, job, tuple(ran), given_back=given_back)
    return _done(kind, job, root, ran, log.path)


def _run_all(kind: str, scripts: list[Script], settings: Settings, env: Mapping[str, str], log: Log) -> list[Ran]:
    # What is not to be run is known before the first one runs: a half of a prolog helps nobody.
    ran = [Ran(script.name, f"refused: {script.problem}") for script in scripts if script.problem]
    for one in ran:
        log.line(f"{one.name}: {one.cause}")
    if ran and kind in ENDS_AT_FAILURE:
        return ran
    total = settings.limits[kind].total
    # The last one that is ended needs its time to end, too.
    deadline = time.monotonic() + total
    for script in scripts:
        if script.problem:
            continue
        left = deadline - time.monotonic()
        limit = min(settings.limit_of(kind, script.name), left - TERM_S - BURIAL_S)
        if limit <= 0:
            ran.append(Ran(script.name, f"not started: the {kind} has {total:g} s in all, and they are over"))
            log.line(f"{script.name}: {ran[-1].cause}")
            break
        log.line(f"{script.name}: started, for {limit:.3g} s at most")
        ended = run_script(script.path, env, limit, log.write)
        ran.append(Ran(script.name, ended.cause, ended.last_line, ended.seconds))
        log.line(f"{script.name}: {ended.cause or 'done'} ({ended.seconds:.2f} s)")
        if ended.cause and kind in ENDS_AT_FAILURE:
            break
    return ran


def _give_back(kind: str, job: str, ran: list[Ran], env: Mapping[str, str], root: Root, run: Bounded, log: Log) -> str:
    """Requeue the job if its prolog ended with JOBS_OWN, and return what became of it; nothing if the prolog fails."""
    if kind != PROLOG or not ran or ran[-1].cause != f"exit status {JOBS_OWN}":
        return ""
    # Not above: few jobs need it, and each waits for its prolog.
    from .give_back import NotGivenBack, give_back

    reason = f"{env.get('SLURMD_NODENAME', '')}: {ran[-1].name}: {ran[-1].last_line or ran[-1].cause}"
    try:
        words = give_back(env, reason, root, run)
    except NotGivenBack as error:
        log.line(f"job {job} cannot be requeued, and the prolog fails: {error}")
        return ""
    log.line(words)
    return words


def _done(kind: str, job: str, root: Root, ran: list[Ran], log: str) -> Outcome:
    bad = [one for one in ran if one.cause]
    if not bad:
        record.note_success(root, kind)
        return Outcome(kind, job, tuple(ran))
    failure = Failure(
        kind=kind,
        job=job,
        boot_id=record.boot_id(root),
        script=bad[0].name,
        cause=bad[0].cause,
        last_line=bad[0].last_line[:500],
        others=tuple(one.name for one in bad[1:]),
        time=record.now(),
        log=log,
    )
    try:
        record.write(root, failure, kind in SLURMS_REASONS)
    except OSError as error:
        sys.stderr.write(f"hpcnode job: the failure cannot be recorded ({error})\n")
    return Outcome(kind, job, tuple(ran), failure)
