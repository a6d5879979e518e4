# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs a tier: its checks one after the other in a child process, each with a timeout."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from ..machine import child
from ..machine.config import ConfigError
from ..machine.kernel import read_boot_id
from ..machine.lock import Locked
from ..machine.root import Root
from ..machine.verdict import worst
from ..machine.vm_size import size_facts
from ..sku.lookup import UnknownVmSize
from . import state
from .check import BOOT, COUNTS, EPILOG, FAIL, NODE, PERIODIC, PROLOG, REBOOT, UNKNOWN, Answer, Check, Result, answer_of
from .judge import judge
from .measure import Machine, Measured, TimedRun, as_message, measure, not_run, overdue
from .settings import FILE, Settings
from .settings_file import read_settings
from .state import State

TARGET_S: Mapping[str, float] = {PROLOG: 2.0, PERIODIC: 10.0}
"""Target time of a tier in seconds; a tier that takes longer reports a problem."""
LIMIT_S: Mapping[str, float] = {PROLOG: 10.0, PERIODIC: 38.0, EPILOG: 10.0, BOOT: 60.0}
"""Timeout of a tier in seconds: Slurm kills a HealthCheckProgram after 60 s, and a job waits for its prolog. The deep
tier has only the timeouts of its checks."""
GRACE_S = 0.5
"""Seconds that a check gets after its timeout, to report that its tool did not answer."""
SILENT_RUNS_TO_FAIL = 2
"""After this many consecutive runs without an answer from the driver or device, the check fails."""


Begin = Callable[[str, int, int], None]
"""Called before a check is measured, with its name, its number from 1, and the number of checks."""


def silently(_name: str, _number: int, _of: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class TierRun:
    """The results of a tier.

    :ivar began: when it began, in seconds since the epoch.
    :ivar problems: messages about problems outside the checks.
    """

    tier: str
    began: float
    seconds: float
    checks: tuple[Check, ...]
    results: tuple[Result, ...]
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst of the verdicts."""
        return worst([result.verdict for result in self.results])

    @property
    def blocks_job(self) -> bool:
        """Whether a job must not start on this node."""
        return any(
            check.blocks_job and result.verdict in COUNTS[PROLOG] and result.cause == NODE
            for check, result in zip(self.checks, self.results)
        )


def machine_of(root: Root, run: TimedRun) -> Machine:
    """Return the environment of a run; what cannot be found out is in its ``..._problem`` fields."""
    settings, problem = Settings(), ""
    try:
        settings = read_settings(root)
    except ConfigError as error:
        problem = str(error)
    try:
        return Machine(root, run, size_facts(root, remembered_first=True)[0], settings, settings_problem=problem)
    except (ConfigError, UnknownVmSize) as error:
        return Machine(root, run, None, settings, str(error), problem)


def run_tier(tier: str, checks: Sequence[Check], machine: Machine, job: str = "", begin: Begin = silently) -> TierRun:
    """Run checks and return their verdicts, in the same order, and save what they keep and latch.

    :param begin: shows how far the run is.
    :raises ValueError: there are no checks: that must not look like a good result.
    :raises KeyboardInterrupt: this process got SIGINT or SIGTERM.
    """
    if not checks:
        raise ValueError(f"tier {tier} has no checks")
    now, start = time.time(), time.monotonic()
    known = state.read(machine.root)
    with child.terminable():
        answers = _Tier(tier, machine, known, now, start, job, begin).measure(checks)
    boot_id = read_boot_id(machine.root)
    results = tuple(_judged(check, answers[check.name], machine, known, boot_id, now) for check in checks)
    unusable = [machine.settings_problem] if machine.settings_problem else []
    problems = [*unusable, *known.problems, *_remember(machine.root, checks, answers, boot_id, now)]
    seconds = time.monotonic() - start
    if seconds > TARGET_S.get(tier, seconds):
        slowest = max(results, key=lambda result: result.seconds)
        problems.append(
            f"tier {tier} took {seconds:.1f} s, more than its target of {TARGET_S[tier]:g} s: "
            f"{slowest.name} took {slowest.seconds:.1f} s"
        )
    return TierRun(tier, now, seconds, tuple(checks), results, tuple(problems))


class _Tier:
    """A run of a tier."""

    def __init__(
        self, tier: str, machine: Machine, known: State, now: float, start: float, job: str, begin: Begin
    ) -> None:
        self._tier, self._machine, self._known, self._now, self._job = tier, machine, known, now, job
        self._begin = begin
        self._numbers: dict[str, int] = {}
        self._deadline = start + LIMIT_S[tier] if tier in LIMIT_S else float("inf")

    def measure(self, checks: Sequence[Check]) -> dict[str, Measured]:
        """Measure in a child process; if it hangs or dies, its check is given up, and a new child continues."""
        answers = {}
        self._numbers = {check.name: number for number, check in enumerate(checks, start=1)}
        for check in checks:
            answer = _without_measuring(check, self._machine)
            if answer:
                answers[check.name] = answer
        while True:
            pending = [check for check in checks if check.name not in answers]
            if not pending:
                return answers
            if self._remaining_s() <= 0:
                words = f"not run: tier {self._tier} reached its timeout of {LIMIT_S[self._tier]:g} s"
                return {**answers, **{check.name: not_run(words) for check in pending}}
            answers.update(self._by_a_child(pending))

    def _by_a_child(self, checks: Sequence[Check]) -> Iterator[tuple[str, Measured]]:
        """Yield the checks' answers, up to the first check that does not answer or has no time left."""
        try:
            working = child.Child(lambda: self._work(checks))
        except OSError as error:
            yield from ((check.name, not_run(f"it could not be started: {error}")) for check in checks)
            return
        with working:
            for check in checks:
                if self._remaining_s() <= 0:
                    return
                limit_s = min(check.limit_s, self._remaining_s())
                self._begin(check.name, self._numbers[check.name], len(self._numbers))
                try:
                    message = working.answer(limit_s + GRACE_S)
                except child.Overdue as error:
                    yield check.name, overdue(check, limit_s, str(error), error.stuck)
                    return
                except child.Died as error:
                    yield check.name, not_run(f"{error}: see 'journalctl -k -b' for the cause")
                    return
                yield check.name, _received(message)

    def _work(self, checks: Sequence[Check]) -> Iterator[Mapping[str, Any]]:
        """Run in the child process: measure, and yield the results as messages."""
        gpus = self._machine.gpus(self._machine.root)
        for check in checks:
            seconds = max(0.0, min(check.limit_s, self._remaining_s()))
            history = self._known.history(check.name)
            yield as_message(measure(check, self._tier, self._machine, gpus, history, seconds, self._now, self._job))

    def _remaining_s(self) -> float:
        return self._deadline - time.monotonic()


def _received(message: Mapping[str, Any]) -> Measured:
    changed = {key: (value, bool(for_good)) for key, (value, for_good) in message["changed"].items()}
    return Measured(**{**message, "answer": answer_of(message["answer"]), "changed": changed})


def _without_measuring(check: Check, machine: Machine) -> Measured | None:
    """Return the result of a check that need not or cannot run; None for all others."""
    if machine.settings_problem:
        return not_run(machine.settings_problem)
    if check.name in machine.settings.off:
        return Measured(Answer(skipped=f"turned off by 'off' in {FILE}"), ran=False)
    try:
        reason = check.applies(machine.size)
    except Exception as error:
        return not_run(f"{type(error).__name__}: {error}: cannot find out whether it applies, a defect of hpcnode")
    if reason:
        return Measured(Answer(skipped=reason), ran=False)
    lacking = [name for name in check.thresholds if machine.settings.threshold(machine.size, name) is None]
    if machine.size is None and lacking:
        return not_run(f"its limit {lacking[0]} is not known: {machine.size_problem}")
    return None


def _judged(check: Check, measured: Measured, machine: Machine, known: State, boot_id: str, now: float) -> Result:
    answer = measured.answer
    times = known.unanswered.get(check.name, 0) + 1
    if measured.silent and times >= SILENT_RUNS_TO_FAIL:
        answer = replace(answer, findings=tuple(_as_failure(finding, times) for finding in answer.findings))
    kept = state.latched_after(known.latched.get(check.name, ()), check, answer, boot_id, now)
    held = () if check.name in machine.settings.off else state.not_found_again(kept, answer)
    return judge(check, answer, machine.settings, held, measured.seconds, measured.details)


def _as_failure(finding: Any, times: int) -> Any:
    """Turn UNKNOWN into FAIL, because the driver or device did not answer in consecutive runs."""
    if finding.verdict != UNKNOWN:
        return finding
    words = f"{finding.summary}, {times} times in a row"
    return replace(finding, verdict=FAIL, summary=words, action=finding.action or REBOOT, fault=finding.fault or "")


def _remember(
    root: Root, checks: Sequence[Check], answers: Mapping[str, Measured], boot_id: str, now: float
) -> list[str]:
    """Save the checks' state, and return messages about what could not be saved."""
    try:
        with state.changes(root) as kept:
            for check in checks:
                one = answers[check.name]
                kept.keep(check.name, one.changed)
                if one.ran:
                    kept.unanswered[check.name] = kept.unanswered.get(check.name, 0) + 1 if one.silent else 0
                kept.latched[check.name] = state.latched_after(
                    kept.latched.get(check.name, ()), check, one.answer, boot_id, now
                )
    except (OSError, Locked) as error:
        return [f"cannot save the state of the checks: {error}"]
    return []
