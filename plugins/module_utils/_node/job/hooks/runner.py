# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs the scripts of a kind in the order of their names, and records failures."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Optional

from ...machine.config import ConfigError
from ...machine.kernel import read_boot_id
from ...machine.root import Root
from ...machine.run import CommandFailed, follow
from ...machine.run import run as run_command
from ...slurm import slurmd_env
from ...slurm.arbiter.reasons import PROLOG_SCRIPT
from ..beeond.job import Bounded, NodeFailure, job_of
from ..requeue import Controller, JobStateUnknown, requeue
from . import failures
from .failures import Failure
from .options import (
    CONFIG,
    ENDS_AT_FAILURE,
    JOBS_FAULT_STATUS,
    NO_JOB,
    PROLOG,
    SLURMS_REASONS,
    HookSettings,
    job_number,
    read_settings,
    script_environment,
)
from .scripts import Script, scripts_of

TERM_S, BURIAL_S = 5.0, 2.0
"""How long a script may take to end after SIGTERM, and after SIGKILL, in seconds."""
_TAIL = 4096
"""Bytes of a script's output that are kept to find its last line."""


@dataclass(frozen=True)
class ScriptRun:
    """The result of a script.

    :ivar cause: why it failed; empty if it succeeded.
    """

    name: str
    cause: str
    last_line: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    :ivar failure: the failure to report to Slurm; None if nothing failed, or ``done_instead`` is set.
    :ivar done_instead: what was done instead of failing: the job was requeued, or the node stays; empty if nothing was.
    """

    kind: str
    job: str
    runs: tuple[ScriptRun, ...] = field(default_factory=tuple)
    failure: Failure | None = None
    done_instead: str = ""


@dataclass(frozen=True)
class DrainDecision:
    """Whether the node was drained for a failure, and why or why not."""

    is_out: bool
    words: str


Ask = Callable[[Failure, float], Optional[DrainDecision]]
"""Asks the arbiter, for at most that many seconds, whether to drain the node; returns None if there is no arbiter."""


def run_kind(
    kind: str,
    root: Root,
    given: Mapping[str, str],
    run: Bounded = run_command,
    ask: Ask = lambda _failure, _seconds: None,
) -> Outcome:
    """Run all scripts of a kind; a prolog stops at the first failure.

    Slurm drains the node if a prolog or epilog fails. If the fault is the job's, the job is requeued instead. The same
    happens if the arbiter decides whether to drain the node.

    :param given: the environment from slurmd.
    :param run: runs the commands that ask slurmctld to requeue a job.
    """
    began = time.monotonic()
    job = job_number(given)
    scripts = scripts_of(root, kind)
    settings, problem = HookSettings(), ""
    try:
        settings = read_settings(root)
    except ConfigError as error:
        problem = str(error)
    if not scripts and not problem:
        return _passed(kind, job, root, [])
    env = script_environment(given, kind)
    log = Log(root, kind, job)
    try:
        ran = [ScriptRun(f"{CONFIG}.json", problem)] if problem else _run_all(kind, scripts, settings, env, log)
        failure = _failure_of(kind, job, root, ran, log)
        if failure is None:
            return _passed(kind, job, root, ran)
        if kind == PROLOG and failure.cause == f"exit status {JOBS_FAULT_STATUS}":
            instead = _requeue(f"{failure.script}: {failure.last_line or failure.cause}", job, env, root, run, log)
            if instead:
                # The fault is the job's, so the node is good.
                return _passed(kind, job, root, ran, instead)
        instead = ""
        if kind in SLURMS_REASONS:
            decided = _HAS_ASKED if failure.script == PROLOG_SCRIPT and failure.cause == "exit status 1" else None
            decided = decided or ask(failure, began + settings.limits[kind].total - time.monotonic())
            instead = _instead(decided, failure, env, root, run, log) if decided else ""
    finally:
        log.close()
        prune_logs(root)
    _keep(root, failure, kind in SLURMS_REASONS and not instead)
    return Outcome(kind, job, tuple(ran), None if instead else failure, instead)


def _run_all(
    kind: str, scripts: list[Script], settings: HookSettings, env: Mapping[str, str], log: Log
) -> list[ScriptRun]:
    # Find refused scripts before the first script runs: an incomplete prolog prepares no job.
    ran = [ScriptRun(script.name, f"refused: {script.problem}") for script in scripts if script.problem]
    for one in ran:
        log.line(f"{one.name}: {one.cause}")
    if ran and kind in ENDS_AT_FAILURE:
        return ran
    total = settings.limits[kind].total
    # The total includes the time that the last script needs to end after a timeout.
    deadline = time.monotonic() + total
    for script in scripts:
        if script.problem:
            continue
        remaining_s = deadline - time.monotonic()
        limit = min(settings.limit_of(kind, script.name), remaining_s - TERM_S - BURIAL_S)
        if limit <= 0:
            ran.append(ScriptRun(script.name, f"not started: the {kind} reached its total limit of {total:g} s"))
            log.line(f"{script.name}: {ran[-1].cause}")
            break
        log.line(f"{script.name}: started, limit {limit:.3g} s")
        ran.append(run_script(script.name, script.path, env, limit, log.write))
        log.line(f"{script.name}: {ran[-1].cause or 'done'} ({ran[-1].seconds:.2f} s)")
        if ran[-1].cause and kind in ENDS_AT_FAILURE:
            break
    return ran


def run_script(
    name: str,
    path: str,
    environment: Mapping[str, str],
    limit_s: float,
    write: Callable[[bytes], None],
    grace_s: float = TERM_S,
) -> ScriptRun:
    """Run a script and return its result.

    Background processes of a script that ended in time continue to run; they are not waited for.

    :param write: gets the output of both streams as it arrives.
    :param grace_s: how long the script may take to end after SIGTERM.
    """
    tail = b""

    def keep(chunk: bytes) -> bool:
        nonlocal tail
        tail = (tail + chunk)[-_TAIL:]
        write(chunk)
        return True

    try:
        ended = follow([path], environment, keep, limit_s, grace_s=grace_s, cwd="/")
    except OSError as error:
        return ScriptRun(name, f"cannot be started: {error.strerror}")
    overdue = f"not done within {limit_s:.3g} s"
    if ended.rc is None:
        cause = f"{overdue}, and cannot be killed: it hangs in the kernel, such as in a driver or on a disk"
    elif ended.cut:
        cause = overdue
    elif ended.rc < 0:
        cause = f"ended by signal {-ended.rc}"
    else:
        cause = f"exit status {ended.rc}" if ended.rc else ""
    lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines()]
    return ScriptRun(name, cause, next((line for line in reversed(lines) if line), ""), ended.seconds)


_HAS_ASKED = DrainDecision(True, "the health checks asked the arbiter already")


def _instead(
    decided: DrainDecision, failure: Failure, env: Mapping[str, str], root: Root, run: Bounded, log: Log
) -> str:
    """Do what replaces the failure, and return it; an empty text if the prolog has to fail.

    The job is requeued even if the node was drained: slurmctld may start a job's script on its first node before it
    learns that another node's prolog failed (``_rpc_prolog`` and ``prolog_complete`` of 22.05.8). After a requeue it
    never does.
    """
    words = f"the node {'is drained' if decided.is_out else 'stays in scheduling'}: {decided.words}"
    log.line(words)
    if failure.kind != PROLOG:
        return f"{failure.reason}: {words}"
    return _requeue(failure.summary, failure.job, env, root, run, log, may_hold=not decided.is_out)


def _requeue(
    words: str, job: str, env: Mapping[str, str], root: Root, run: Bounded, log: Log, may_hold: bool = True
) -> str:
    """Requeue the job, and return what was done; an empty text if the job may still run, so the prolog has to fail."""
    reason = f"{env.get('SLURMD_NODENAME', '')}: {words}"
    try:
        known = slurmd_env.read(root)
        words = requeue(job_of(env), Controller(known.controllers if known else (), run), reason, may_hold)
    except (ConfigError, CommandFailed, NodeFailure, JobStateUnknown) as error:
        log.line(f"job {job} cannot be requeued, so the prolog fails: {error}")
        return ""
    log.line(words)
    return words


def _passed(kind: str, job: str, root: Root, ran: list[ScriptRun], instead: str = "") -> Outcome:
    if not instead:
        failures.record_success(root, kind)
    return Outcome(kind, job, tuple(ran), done_instead=instead)


def _failure_of(kind: str, job: str, root: Root, ran: list[ScriptRun], log: Log) -> Failure | None:
    bad = [one for one in ran if one.cause]
    if not bad:
        return None
    return Failure(
        kind=kind,
        job=job,
        boot_id=read_boot_id(root),
        script=bad[0].name,
        cause=bad[0].cause,
        last_line=bad[0].last_line[:500],
        others=tuple(one.name for one in bad[1:]),
        time=failures.timestamp(),
        log=log.path,
    )


def _keep(root: Root, failure: Failure, to_report: bool) -> None:
    try:
        failures.record_failure(root, failure, to_report)
    except OSError as error:
        sys.stderr.write(f"hpcnode job: cannot record the failure ({error})\n")


LOG_FOLDER = "/var/log/hpcai/jobs"
MOST_BYTES = 256 * 1024
"""Most bytes of the scripts' output in one run."""
MOST_FILES = 500
_SLACK = 50
"""Files are pruned only above MOST_FILES + this, so that not every job reads the times of all of them."""


def log_path(kind: str, job: str) -> str:
    """Return the path of a run's log."""
    return f"{LOG_FOLDER}/{kind}.log" if job == NO_JOB else f"{LOG_FOLDER}/{job}.{kind}.log"


class Log:
    """The scripts' output: one file of limited size per job and kind, and a limited number of files.

    A full or missing disk must not stop a job: the log then only loses lines.
    """

    def __init__(self, root: Root, kind: str, job: str) -> None:
        self.path = log_path(kind, job)
        self._handle: int | None = None
        self._room = MOST_BYTES
        with contextlib.suppress(OSError):
            os.makedirs(root.at(LOG_FOLDER), mode=0o750, exist_ok=True)
            # A requeued job appends to the log of its earlier run; without a job, only the last run is kept.
            mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(root.at(self.path), mode, 0o640)
            if job == NO_JOB or os.fstat(self._handle).st_size > 4 * MOST_BYTES:
                os.ftruncate(self._handle, 0)

    def line(self, text: str) -> None:
        """Write a line of this program, with the time."""
        self._put(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode("utf-8", "replace"))

    def write(self, chunk: bytes) -> None:
        """Write output of a script, up to the size limit."""
        if self._room > 0:
            self._put(chunk[: self._room])
            self._room -= len(chunk)
            if self._room <= 0:
                self._put(b"\n")
                self.line(f"the rest is left out: this log keeps {MOST_BYTES} bytes of a run")

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _put(self, chunk: bytes) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.write(self._handle, chunk)


def prune_logs(root: Root, most: int = MOST_FILES, slack: int = _SLACK) -> None:
    """Remove the oldest logs if there are too many."""
    names = [name for name in root.entries(LOG_FOLDER) if name.endswith(".log")]
    if len(names) <= most + slack:
        return
    ages = []
    for name in names:
        with contextlib.suppress(OSError):
            ages.append((os.lstat(root.at(f"{LOG_FOLDER}/{name}")).st_mtime, name))
    for _age, name in sorted(ages)[: len(ages) - most]:
        with contextlib.suppress(OSError):
            os.unlink(root.at(f"{LOG_FOLDER}/{name}"))
