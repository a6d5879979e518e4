# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One check, measured: whatever it raises becomes an answer, and so does silence."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from ..machine.config import ConfigError
from ..machine.gpu.facts import DIED, LOST, MISMATCH, NO_ANSWER, NO_DRIVER, GpuError
from ..machine.root import Root
from ..machine.run import CommandFailed, Result
from ..sku.lookup import UnknownVmSize
from ..sku.types import VmSize
from .check import FAIL, REBOOT, UNKNOWN, Answer, CannotMeasure, Check, Context, Finding, History, answer_as_dict
from .gpus import Gpus
from .settings import Settings

TimedRun = Callable[[Sequence[str], float], Result]
"""Runs a command within some seconds; exit status 124 where it does not answer (``machine.run.run``)."""
SILENT = (NO_ANSWER, DIED)
"""Errors of a GPU driver that does not answer."""
_BROKEN = (LOST, NO_DRIVER, MISMATCH)
"""Errors of a GPU driver that answers and cannot work: no job gets a GPU from it."""
_NO_ANSWER_RC = 124
_LEAST_S = 0.05


@dataclass(frozen=True)
class Machine:
    """What a run works with.

    :ivar size_problem: why the size is not known.
    :ivar settings_problem: why the site's settings cannot be used: then no check can be judged.
    :ivar gpus: makes what answers for the GPUs, in the process in which the checks run.
    """

    root: Root
    run: TimedRun
    size: VmSize | None
    settings: Settings = field(default_factory=Settings)
    size_problem: str = ""
    settings_problem: str = ""
    gpus: Callable[[Root], Gpus] = Gpus


@dataclass(frozen=True)
class Measured:
    """What came of measuring.

    :ivar changed: what the check keeps (``History.changed``).
    :ivar silent: a driver or device has not answered.
    :ivar seconds: how long it took.
    :ivar details: what helps to find a defect of the check.
    :ivar ran: whether it was measured at all.
    """

    answer: Answer
    changed: Mapping[str, tuple[Any, bool]] = field(default_factory=dict)
    silent: bool = False
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    ran: bool = True


class _Bounded:
    """Runs commands within what is left of the check's time."""

    def __init__(self, run: TimedRun, deadline: float) -> None:
        self._run = run
        self._deadline = deadline
        self.silent = False

    def __call__(self, command: Sequence[str]) -> Result:
        result = self._run(command, max(_LEAST_S, self._deadline - time.monotonic()))
        self.silent = self.silent or result.rc == _NO_ANSWER_RC
        return result


def measure(
    check: Check, tier: str, machine: Machine, gpus: Gpus, history: History, seconds: float, now: float, job: str
) -> Measured:
    """Measure, and return what came of it. It never raises."""
    start = time.monotonic()
    run = _Bounded(machine.run, start + seconds)
    context = Context(
        machine.root, run, machine.size, tier, machine.settings, gpus, history, seconds=seconds, now=now, job=job
    )
    silent, details = False, {}
    try:
        answer = check.measure(context)
        answer_as_dict(answer)
        silent = run.silent and check.asks_device and _is_unknown(answer)
    except GpuError as error:
        answer, silent = _of_the_driver(error, machine.size), error.kind in SILENT
    except (CannotMeasure, ConfigError, UnknownVmSize, CommandFailed, OSError) as error:
        answer, silent = _unknown(str(error)), run.silent and check.asks_device
    except BaseException as error:
        words = f"{type(error).__name__}: {error}: this is a defect of hpcnode"
        if machine.size is None:
            words = f"the VM size of this machine is not known: {machine.size_problem}"
        answer, details = _unknown(words), {"traceback": traceback.format_exc()}
    return Measured(answer, history.changed, silent, time.monotonic() - start, details)


def as_message(measured: Measured) -> dict[str, Any]:
    """Return it as plain values."""
    return {**asdict(measured), "answer": answer_as_dict(measured.answer)}


def overdue(check: Check, seconds: float, words: str, stuck: bool) -> Measured:
    """Return what came of a check that had to be ended.

    :param words: what it was doing; continues a sentence.
    :param stuck: it could not even be killed, which only a driver or a device does.
    """
    answer = _unknown(
        f"it did not end within {round(seconds, 1):g} s{words}", "See 'journalctl -k -b' for what does not answer"
    )
    return Measured(answer, silent=stuck or check.asks_device, seconds=seconds)


def not_run(words: str) -> Measured:
    """Return what came of a check that was not run, and why."""
    return Measured(_unknown(words), ran=False)


def _unknown(words: str, hint: str = "") -> Answer:
    return Answer(findings=(Finding(UNKNOWN, " ".join(words.split()), hint=hint),))


def _is_unknown(answer: Answer) -> bool:
    return any(finding.verdict == UNKNOWN for finding in answer.findings)


def _of_the_driver(error: GpuError, size: VmSize | None) -> Answer:
    """A driver that cannot work fails where GPUs are expected; all else could not be measured."""
    if error.kind in _BROKEN and size is not None and size.gpu_count:
        hint = "See 'dmesg' for why, then drain the node and restart the machine"
        return Answer(findings=(Finding(FAIL, str(error), hint=hint, action=REBOOT),))
    return _unknown(str(error))
