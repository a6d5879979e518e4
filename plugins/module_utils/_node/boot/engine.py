# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs steps, each with a timeout and a record, and turns the outcomes into text and into a module's result."""

from __future__ import annotations

import contextlib
import errno
import json
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..health.check import BOOT_STEP, COUNTS, FAIL, SKIP, UNKNOWN, WARN
from ..machine import child
from ..machine.config import ConfigError, read_config
from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..machine.verdict import VERDICTS
from ..sku.lookup import UnknownVmSize
from . import record
from .step import Context, Outcome, Step, StepFailed

_CURES = {
    errno.ENOSPC: "Free some space there: 'df -h' and 'df -i' show what is full",
    errno.EDQUOT: "Free some space there: a quota is used up",
    errno.EROFS: "Find out with 'journalctl -k -b' why it is read-only, and restart the machine",
}
"""Actions for errors whose messages do not say what to do."""
_LEAST_S = 1.0
"""A step gets at least this time, in seconds, after it has waited for another run of itself."""


@dataclass(frozen=True)
class StepRun:
    """The result of running a step.

    :ivar seconds: how long it took.
    :ivar problems: messages about records that could not be written.
    """

    step: Step
    outcome: Outcome
    seconds: float
    problems: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether its verdict is fail or unknown."""
        return self.outcome.verdict in COUNTS[BOOT_STEP]

    @property
    def blocks(self) -> bool:
        """Whether it keeps slurmd from starting."""
        return self.step.blocking and self.bad

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "name": self.step.name,
            "blocking": self.step.blocking,
            **asdict(self.outcome),
            "changes": list(self.outcome.changes),
            "seconds": round(self.seconds, 2),
        }


def perform_all(steps: Iterable[Step], root: Root, run: Run, check: bool = False) -> list[StepRun]:
    """Run all steps one after the other, also after one that failed, so that one report has all problems."""
    return [perform(step, root, run, check) for step in steps]


def perform(step: Step, root: Root, run: Run, check: bool = False) -> StepRun:
    """Run a step within its timeout and record its outcome; in check mode only return what would be done.

    If another run of the same step is in progress, it waits for that one, within the same timeout.

    :raises KeyboardInterrupt: this process got SIGINT or SIGTERM; that is recorded.
    """
    start = time.monotonic()
    if check:
        return StepRun(step, _within_limit(step, root, run, True, step.limit_s), time.monotonic() - start)
    problems: list[str] = []
    now = record.begun(root, step)
    try:
        with child.terminable(), contextlib.ExitStack() as alone:
            # If the lock file cannot be created, the record cannot be written either, and that is reported below.
            with contextlib.suppress(OSError):
                alone.enter_context(only_one(root.at(f"{record.FOLDER}/{step.name}.lock"), step.limit_s))
            problems.append(record.write(root, now))
            remaining_s = max(_LEAST_S, step.limit_s - (time.monotonic() - start))
            outcome = _within_limit(step, root, run, False, remaining_s)
    except Locked as error:
        # The other run writes the record.
        return StepRun(step, Outcome(FAIL, str(error)), time.monotonic() - start)
    except KeyboardInterrupt:
        interrupted = Outcome(UNKNOWN, "it was interrupted by a signal", f"Run it again: {_again(step)}")
        record.write(root, record.ended(now, interrupted, time.monotonic() - start))
        raise
    seconds = time.monotonic() - start
    problems.append(record.write(root, record.ended(now, outcome, seconds)))
    return StepRun(step, outcome, seconds, tuple(sorted(filter(None, set(problems)))))


def _within_limit(step: Step, root: Root, run: Run, check: bool, limit_s: float) -> Outcome:
    if step.name in _turned_off(root):
        return Outcome(SKIP, "it is turned off by boot_skip in /etc/hpcai/node.json")
    context = Context(root, run, check, limit_s)
    try:
        answer = child.within(limit_s, lambda: _performed(step, context))
    except child.Overdue as error:
        summary = f"it did not finish within {step.limit_s:g} s{error}"
        return Outcome(FAIL, summary, f"Find out with 'journalctl -k -b' what hangs, then run: {_again(step)}")
    except child.Died as error:
        return Outcome(UNKNOWN, str(error), f"Find the cause with 'journalctl -k -b', then run: {_again(step)}")
    except OSError as error:
        return Outcome(UNKNOWN, f"it could not be started: {error}", f"Run it again: {_again(step)}")
    return Outcome(**{**answer, "changes": tuple(answer["changes"])})


def _again(step: Step) -> str:
    return f"hpcnode boot run {step.name}"


def _turned_off(root: Root) -> Iterable[str]:
    try:
        names = (read_config(root, "node") or {}).get("boot_skip")
    except ConfigError:
        # No step is turned off then. The steps that need this file report what is wrong with it.
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()


def _performed(step: Step, context: Context) -> Mapping[str, Any]:
    """Run the step in the child process, and return the outcome as plain values."""
    try:
        outcome = step.perform(context)
        if outcome.verdict not in VERDICTS:
            raise ValueError(f"{outcome.verdict!r} is not a verdict")
        json.dumps(asdict(outcome))
    except (ConfigError, UnknownVmSize) as error:
        outcome = Outcome(UNKNOWN, str(error))
    except (StepFailed, CommandFailed, Locked, OSError) as error:
        outcome = Outcome(FAIL, str(error), _CURES.get(getattr(error, "errno", None) or 0, ""))
    except BaseException as error:
        words = f"{type(error).__name__}: {error}: this is a defect of hpcnode"
        action = f"Report it, with 'details' of {record.FOLDER}/{step.name}.json"
        outcome = Outcome(UNKNOWN, words, action, details={"traceback": traceback.format_exc()})
    result = asdict(outcome)
    for key in ("summary", "action"):
        result[key] = " ".join(result[key].split())
    return result


def sentence(summary: str, action: str) -> str:
    """Return the summary and the action in one line."""
    return f"{summary.rstrip('.')}. To do: {action.rstrip('.')}." if action else f"{summary.rstrip('.')}."


def as_document(ran: Sequence[StepRun], check: bool) -> dict[str, Any]:
    """Return the results of the steps as plain values, as ``hpcnode boot run --json`` prints them."""
    return {
        "check": check,
        "blocking": [one.step.name for one in ran if one.blocks],
        "steps": [one.as_dict() for one in ran],
    }


def problems_of(ran: Iterable[StepRun]) -> list[str]:
    """Return a line for each record that could not be written."""
    return [f"{one.step.name}: {problem}" for one in ran for problem in one.problems]


def as_result(document: Mapping[str, Any], problems: Iterable[str]) -> dict[str, Any]:
    """Return a module's result from the document of ``as_document``, with ``warnings``, and with ``msg`` if it fails.

    It fails if a step keeps slurmd from starting, but not in check mode. Changes are a diff without a before, because
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
    """Yield a warning for each problem that does not keep slurmd from starting, and in check mode for all problems."""
    for step in steps:
        if step["name"] in blocking:
            if check:
                yield (
                    f"{_words_of(step)} In this state, slurmd would not start. Check mode does not know whether an "
                    "earlier task would have fixed it."
                )
        elif step["verdict"] in (WARN, *COUNTS[BOOT_STEP]):
            yield _words_of(step)


def _words_of(step: Mapping[str, Any]) -> str:
    return f"{step['name']}: {sentence(step['summary'], step['action'])}"
