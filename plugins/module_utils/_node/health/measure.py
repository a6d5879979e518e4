# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs one check: exceptions and timeouts become answers."""

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
"""Runs a command with a timeout in seconds; exit status 124 after the timeout (``machine.run.run``)."""
SILENT = (NO_ANSWER, DIED)
"""Errors of a GPU driver that does not answer."""
_BROKEN = (LOST, NO_DRIVER, MISMATCH)
"""Errors of a GPU driver that answers but does not work: no job can use a GPU."""
_NO_ANSWER_RC = 124
_LEAST_S = 0.05
_ENOUGH_S = 5.0
"""A device that does not answer is silent only after this many seconds, or after the check's timeout if that is less. A
check that gets less, because earlier checks used up the time of the tier, says nothing about its device."""


@dataclass(frozen=True)
class Machine:
    """The environment of a run.

    :ivar size_problem: why the size is not known.
    :ivar settings_problem: why the site's settings cannot be used; no check can be judged then.
    :ivar gpus: creates the ``Gpus``, in the process in which the checks run.
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
    """The result of measuring.

    :ivar changed: the values that the check keeps (``History.changed``).
    :ivar silent: a driver or device did not answer.
    :ivar seconds: how long it took.
    :ivar details: for finding a defect of the check.
    :ivar ran: whether the check ran.
    """

    answer: Answer
    changed: Mapping[str, tuple[Any, bool]] = field(default_factory=dict)
    silent: bool = False
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    ran: bool = True


class _Bounded:
    """Runs commands with the rest of the check's time as their timeout."""

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
    """Run the check and return the result. It never raises."""
    start = time.monotonic()
    run = _Bounded(machine.run, start + seconds)
    context = Context(
        machine.root, run, machine.size, tier, machine.settings, gpus, history, seconds=seconds, now=now, job=job
    )
    silent, timed_out, details = False, False, {}
    try:
        answer = check.measure(context)
        answer_as_dict(answer)
        timed_out = run.silent and check.asks_device and _is_unknown(answer)
    except GpuError as error:
        answer, silent = _of_the_driver(error, machine.size), error.kind in SILENT
    except (CannotMeasure, ConfigError, UnknownVmSize, CommandFailed, OSError) as error:
        answer, timed_out = _unknown(str(error)), run.silent and check.asks_device
    except BaseException as error:
        words = f"{type(error).__name__}: {error}: this is a defect of hpcnode"
        if machine.size is None:
            words = f"the VM size of this machine is not known: {machine.size_problem}"
        answer, details = _unknown(words), {"traceback": traceback.format_exc()}
    silent, ran = silent or (timed_out and _had_time(check, seconds)), not timed_out or _had_time(check, seconds)
    return Measured(answer, history.changed, silent, time.monotonic() - start, details, ran)


def _had_time(check: Check, seconds: float) -> bool:
    return seconds >= min(check.limit_s, _ENOUGH_S)


def as_message(measured: Measured) -> dict[str, Any]:
    """Return it as plain values."""
    return {**asdict(measured), "answer": answer_as_dict(measured.answer)}


def overdue(check: Check, seconds: float, words: str, stuck: bool) -> Measured:
    """Return the result of a check that reached its timeout.

    :param words: what it was doing; continues a sentence.
    :param stuck: it could not be killed, which means that it hangs in a driver or a device.
    """
    answer = _unknown(
        f"it did not finish within {round(seconds, 1):g} s{words}", "Find out with 'journalctl -k -b' what hangs"
    )
    ran = stuck or _had_time(check, seconds)
    return Measured(answer, silent=stuck or (ran and check.asks_device), seconds=seconds, ran=ran)


def not_run(words: str) -> Measured:
    """Return the result of a check that did not run, with the reason."""
    return Measured(_unknown(words), ran=False)


def _unknown(words: str, hint: str = "") -> Answer:
    return Answer(findings=(Finding(UNKNOWN, " ".join(words.split()), hint=hint),))


def _is_unknown(answer: Answer) -> bool:
    return any(finding.verdict == UNKNOWN for finding in answer.findings)


def _of_the_driver(error: GpuError, size: VmSize | None) -> Answer:
    """Return FAIL for a driver that does not work if GPUs are expected, and UNKNOWN otherwise."""
    if error.kind in _BROKEN and size is not None and size.gpu_count:
        hint = "Find the cause with 'dmesg', then drain the node and restart the machine"
        return Answer(findings=(Finding(FAIL, str(error), hint=hint, action=REBOOT),))
    return _unknown(str(error))
