# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Running steps: each within its limit, with its record, and what a run comes to in words and as a module's result."""

from __future__ import annotations

import contextlib
import errno
import json
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..health.check import BOOT_STEP, COUNTS, FAIL, SKIP, UNKNOWN, VERDICTS, WARN
from ..machine import child
from ..machine.config import ConfigError, read_config
from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..sku.lookup import UnknownVmSize
from . import record
from .step import Context, Outcome, Step, StepFailed

_CURES = {
    errno.ENOSPC: "Make room there: 'df -h' and 'df -i' show what is full",
    errno.EDQUOT: "Make room there: a quota is used up",
    errno.EROFS: "Find out by 'journalctl -k -b' why it is read-only, and restart the machine",
}
"""What to do about errors whose own words leave that open."""
_LEAST_S = 1.0
"""What is left of a step's time at least when another run of it was waited for."""


@dataclass(frozen=True)
class StepRun:
    """What became of a step.

    :ivar seconds: how long it took.
    :ivar problems: what could not be recorded, in words.
    """

    step: Step
    outcome: Outcome
    seconds: float
    problems: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether it failed, or could not tell."""
        return self.outcome.verdict in COUNTS[BOOT_STEP]

    @property
    def blocks(self) -> bool:
        """Whether slurmd must not start for it."""
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
    """Do steps one after the other, also after one that failed, so that one report names all that is wrong."""
    return [perform(step, root, run, check) for step in steps]


def perform(step: Step, root: Root, run: Run, check: bool = False) -> StepRun:
    """Do a step within its limit and record how it ended; in check mode only say what would be done.

    Another run of the same step is waited for, within the same limit.

    :raises KeyboardInterrupt: this process was told to end (SIGINT, SIGTERM); that is recorded.
    """
    start = time.monotonic()
    if check:
        return StepRun(step, _within_limit(step, root, run, True, step.limit_s), time.monotonic() - start)
    problems: list[str] = []
    now = record.begun(root, step)
    try:
        with child.terminable(), contextlib.ExitStack() as alone:
            # Where no lock can be made, no record can be either, and that is what is told.
            with contextlib.suppress(OSError):
                alone.enter_context(only_one(root.at(f"{record.FOLDER}/{step.name}.lock"), step.limit_s))
            problems.append(record.write(root, now))
            remaining_s = max(_LEAST_S, step.limit_s - (time.monotonic() - start))
            outcome = _within_limit(step, root, run, False, remaining_s)
    except Locked as error:
        # Its record is the other run's.
        return StepRun(step, Outcome(FAIL, str(error)), time.monotonic() - start)
    except KeyboardInterrupt:
        interrupted = Outcome(UNKNOWN, "it was told to end before it was done", f"Run it again: {_again(step)}")
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
        summary = f"it did not end within {step.limit_s:g} s{error}"
        return Outcome(FAIL, summary, f"See 'journalctl -k -b' for what does not answer, then: {_again(step)}")
    except child.Died as error:
        return Outcome(UNKNOWN, str(error), f"See 'journalctl -k -b' for why, then: {_again(step)}")
    except OSError as error:
        return Outcome(UNKNOWN, f"it could not be started: {error}", f"Then: {_again(step)}")
    return Outcome(**{**answer, "changes": tuple(answer["changes"])})


def _again(step: Step) -> str:
    return f"hpcnode boot run {step.name}"


def _turned_off(root: Root) -> Iterable[str]:
    try:
        names = (read_config(root, "node") or {}).get("boot_skip")
    except ConfigError:
        # Then nothing is turned off; the steps that need this file say what is wrong with it.
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()


def _performed(step: Step, context: Context) -> Mapping[str, Any]:
    """Do it, in the child, and return the outcome as plain values."""
    try:
        outcome = step.perform(context)
        if outcome.verdict not in VERDICTS:
            raise ValueError(f"{outcome.verdict!r} is no verdict")
        json.dumps(asdict(outcome))
    except (ConfigError, UnknownVmSize) as error:
        outcome = Outcome(UNKNOWN, str(error))
    except (StepFailed, CommandFailed, Locked, OSError) as error:
        outcome = Outcome(FAIL, str(error), _CURES.get(getattr(error, "errno", None) or 0, ""))
    except BaseException as error:
        words = f"{type(error).__name__}: {error}: this is a defect of hpcnode"
        action = f"Report it with 'details' of {record.FOLDER}/{step.name}.json"
        outcome = Outcome(UNKNOWN, words, action, details={"traceback": traceback.format_exc()})
    result = asdict(outcome)
    for key in ("summary", "action"):
        result[key] = " ".join(result[key].split())
    return result


def sentence(summary: str, action: str) -> str:
    """Return in one line what is the case and what is to be done."""
    return f"{summary.rstrip('.')}. To do: {action.rstrip('.')}." if action else f"{summary.rstrip('.')}."


def as_document(ran: Sequence[StepRun], check: bool) -> dict[str, Any]:
    """Return what became of the steps as plain values, as ``hpcnode boot run --json`` prints them."""
    return {
        "check": check,
        "blocking": [one.step.name for one in ran if one.blocks],
        "steps": [one.as_dict() for one in ran],
    }


def problems_of(ran: Iterable[StepRun]) -> list[str]:
    """Return a line for each thing that could not be recorded."""
    return [f"{one.step.name}: {problem}" for one in ran for problem in one.problems]


def as_result(document: Mapping[str, Any], problems: Iterable[str]) -> dict[str, Any]:
    """Return a module's result from such a document, with ``warnings``, and with ``msg`` if it is a failure.

    Outside of check mode it is one if something keeps slurmd from starting. Changes are a diff without a before: not
    all of them are files.
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
        elif step["verdict"] in (WARN, *COUNTS[BOOT_STEP]):
            yield _words_of(step)


def _words_of(step: Mapping[str, Any]) -> str:
    return f"{step['name']}: {sentence(step['summary'], step['action'])}"
