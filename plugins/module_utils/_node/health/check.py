# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The form of a health check, of its context, and of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable

from ..machine.root import Root
from ..machine.run import Run
from ..machine.verdict import VERDICTS
from ..sku.types import VmSize
from .settings import Settings

if TYPE_CHECKING:
    # Each boot step imports this file, and most need no GPU.
    from .gpus import Gpus

PASS, WARN, FAIL, UNKNOWN, SKIP = VERDICTS
"""The verdicts of ``machine.verdict``, beside what else a check uses."""

PROLOG, PERIODIC, EPILOG, BOOT, DEEP = TIERS = ("prolog", "periodic", "epilog", "boot", "deep")
"""When checks run. Only DEEP may disturb a job."""

NOTHING, OBSERVE, RESET_GPU, REBOOT, REPLACE = ACTIONS = ("nothing", "observe", "reset_gpu", "reboot", "replace")
"""What to do, the mildest action first: nothing, observe, reset the GPU, restart the machine, replace the machine
(redeploy or replace the instance: this is a hardware fault, which you should report to Azure)."""

NODE, USER = CAUSES = ("node", "user")
"""What caused the problem: the node, or a user's job, whose traces say nothing about the node. USER never drains."""

BOOT_STEP, REPORT = "boot step", "report"
COUNTS: Mapping[str, tuple[str, ...]] = {
    # A blocking step of the boot phase keeps slurmd from starting, also if it is unknown whether the GPUs are there.
    BOOT_STEP: (FAIL, UNKNOWN),
    # A failed check of the tier boot keeps slurmd from starting if it has ``blocks_boot``. Here and below, a
    # measurement that is not possible does not count against the node.
    BOOT: (FAIL,),
    # A job does not start (``Check.blocks_job``).
    PROLOG: (FAIL,),
    # The arbiter may drain the node.
    REPORT: (FAIL,),
}
"""The verdicts that have consequences, for each context. For PROLOG and REPORT the cause must also be NODE."""


@dataclass(frozen=True)
class Reading:
    """One measured value.

    :ivar name: what was measured, e.g. ``gpu_temperature``; the same for all devices of a kind, so that nodes can be
        compared.
    :ivar value: a number, or a text.
    :ivar unit: e.g. ``C``, ``GB/s``; empty for counts and texts.
    :ivar device: the measured device, e.g. ``0001:00:00.0``, ``mlx5_ib0``; empty for the machine.
    :ivar limit: the limit that it was compared with; None if there is none.
    :ivar at_most: whether the limit is a maximum.
    """

    name: str
    value: float | str
    unit: str = ""
    device: str = ""
    limit: float | None = None
    at_most: bool = False


@dataclass(frozen=True)
class Finding:
    """One problem, or one thing that could not be measured.

    :ivar verdict: WARN, FAIL or UNKNOWN.
    :ivar summary: one line: what is wrong, and where. For FAIL it becomes the node's reason in Slurm.
    :ivar device: the affected device, as in ``Reading``; empty for the machine.
    :ivar hint: one line: what to do.
    :ivar action: one of ACTIONS; None for the check's action.
    :ivar fault: AzNHC's code, e.g. ``NHC2009``; None for the check's code, empty if there is none.
    :ivar cause: NODE or USER.
    :ivar latch: the next run would not find it again although it is not repaired, for example because it comes from a
        log. The engine keeps it until the machine restarts, the GPU is reset or somebody clears it.
    """

    verdict: str
    summary: str
    device: str = ""
    hint: str = ""
    action: str | None = None
    fault: str | None = None
    cause: str = NODE
    latch: bool = False


@dataclass(frozen=True)
class Answer:
    """What a check found.

    A check returns readings and findings. The engine derives the verdict: the worst of the findings, or PASS without
    findings. A check that passes has at least one reading: an answer without findings and without readings becomes
    UNKNOWN, because nothing was measured.

    :ivar good: one line: the summary if there are no findings.
    :ivar limit: the limits that it compared with, as text with their source, e.g. ``at least 21 GB/s (azurehpc-health-
        checks, conf/nd96asr_v4.conf)``; empty if the check's ``explain`` has them.
    :ivar skipped: why there is nothing of this kind here; the verdict is then SKIP.
    :ivar released: devices that were reset or replaced: their latched findings are removed.
    """

    good: str = ""
    readings: tuple[Reading, ...] = ()
    findings: tuple[Finding, ...] = ()
    limit: str = ""
    skipped: str = ""
    released: tuple[str, ...] = ()


class CannotMeasure(RuntimeError):
    """A check may raise it if nothing can be measured; the verdict is UNKNOWN, with the message as its summary."""


@dataclass(frozen=True)
class Context:
    """The environment of a check.

    :ivar root: the root folder of the machine's files.
    :ivar run: runs commands; the exit status is 124 after a timeout, and 127 for a missing command.
    :ivar size: the facts of the machine's VM size; None if it is not known: checks that need it are then UNKNOWN.
    :ivar tier: one of TIERS.
    :ivar settings: the site's settings, from /etc/hpcai/health.json.
    :ivar gpus: the GPUs, read once for all checks of a run.
    :ivar history: the values that earlier runs of the same check kept.
    :ivar seconds: timeout of the check.
    :ivar now: seconds since the epoch.
    :ivar job: id of the job whose prolog or epilog this is; empty if there is none.
    """

    root: Root
    run: Run
    size: VmSize | None
    tier: str
    settings: Settings
    gpus: Gpus
    history: History
    seconds: float
    now: float
    job: str = ""

    def option(self, check: Check, name: str, default: Any = None) -> Any:
        """Return the site's value of a check's option, or the default in the check's manifest.

        :param default: replaces the manifest's default, if it depends on the machine.
        :raises ConfigError: the value is not of the default's type.
        """
        return self.settings.option(check.name, name, check.options[name] if default is None else default)

    @property
    def known_size(self) -> VmSize:
        """The facts of the VM size, for a check that needs them.

        :raises CannotMeasure: the VM size is not known.
        """
        if self.size is None:
            raise CannotMeasure("the VM size of this machine is not known, so its expected hardware is not known")
        return self.size


@dataclass(frozen=True)
class Check:
    """A health check: its manifest, and the function that measures.

    :ivar name: short and unique.
    :ivar title: what it checks, in a few words.
    :ivar explain: for ``hpcnode health --list``: what is measured, the limit and its source, in one to three sentences.
    :ivar tiers: when it runs.
    :ivar applies: returns an empty text if a machine of this size has the device that is checked, else the reason why
        not. Its argument is None if the size is unknown.
    :ivar limit_s: timeout in seconds; after it the check is stopped, and is UNKNOWN.
    :ivar action: one of ACTIONS: what to do if it fails.
    :ivar fault: AzNHC's code of a failure; empty if there is none.
    :ivar asks_device: it queries a driver or a device: if that does not answer before the timeout in two consecutive
        runs, the check fails. (For an NVIDIA driver that does not answer, ``GpuError``, this always holds.)
    :ivar thresholds: names of limits in the facts of VM sizes (``VmSize.thresholds``) that it needs to judge.
    :ivar further_limits: names of limits that it uses if the site or the VM size has them.
    :ivar options: the other options that a site can set (``Settings.options``): the names, with the defaults. A value
        must have the default's type.
    :ivar blocks_job: a failure ends a prolog with an error. Only for: GPU absent, scratch absent, fabric down.
    :ivar blocks_boot: a failure in the boot tier keeps slurmd from starting. Only for the same three.
    :ivar measure: runs it. If it raises an exception, the verdict is UNKNOWN.
    """

    name: str
    title: str
    explain: str
    tiers: tuple[str, ...]
    measure: Callable[[Context], Answer]
    applies: Callable[[VmSize | None], str] = lambda size: ""
    limit_s: float = 2.0
    action: str = OBSERVE
    fault: str = ""
    asks_device: bool = False
    thresholds: tuple[str, ...] = ()
    blocks_job: bool = False
    blocks_boot: bool = False
    further_limits: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of all limits that it uses."""
        return (*self.thresholds, *self.further_limits)


@dataclass(frozen=True)
class Result:
    """A check's answer with its verdict, as it is stored, shown and reported.

    :ivar seconds: how long it took.
    :ivar latched: the verdict comes from a finding of an earlier run.
    """

    name: str
    verdict: str
    summary: str
    answer: Answer
    action: str = NOTHING
    fault: str = ""
    cause: str = NODE
    hint: str = ""
    seconds: float = 0.0
    latched: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


class History:
    """The values that a check keeps between its runs, as plain JSON. They are lost when the machine restarts, unless
    they are kept ``for_good``.

    :ivar changed: the values kept in this run: (value, for good) by key; the engine saves them.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        self._kept = dict(kept or {})
        self.changed: dict[str, tuple[Any, bool]] = {}

    def get(self, key: str) -> Any:
        """Return the value that the last run of this check kept under this key; None if there is none."""
        return self._kept.get(key)

    def keep(self, key: str, value: Any, for_good: bool = False) -> None:
        """Keep a value for the next run; None removes it. It is saved when the check has finished.

        :raises TypeError: the value cannot be stored as JSON.
        """
        # Convert it to what the next run will read: JSON turns a tuple into a list, and a numeric key into a text.
        self._kept[key] = json.loads(json.dumps(value))
        self.changed[key] = (self._kept[key], for_good)


class InvalidAnswer(ValueError):
    """A check returned an invalid answer; the message says why. It is a defect of the check."""


def answer_as_dict(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values.

    :raises InvalidAnswer: a part of it is invalid.
    """
    if not isinstance(answer, Answer):
        raise InvalidAnswer(f"it returned {answer!r}")
    for finding in answer.findings:
        _require_valid(finding)
    for reading in answer.readings:
        if not isinstance(reading.value, (int, float, str)):
            raise InvalidAnswer(f"{reading.value!r} is not a valid value of {reading.name}")
    return asdict(answer)


def answer_of(values: Mapping[str, Any]) -> Answer:
    """Return the answer from its plain values."""
    known = {field.name for field in fields(Answer)}
    given: dict[str, Any] = {key: value for key, value in values.items() if key in known}
    given["readings"] = tuple(Reading(**reading) for reading in values["readings"])
    given["findings"] = tuple(finding_of(finding) for finding in values["findings"])
    given["released"] = tuple(values["released"])
    return Answer(**given)


def finding_of(values: Mapping[str, Any]) -> Finding:
    """Return the finding from its plain values, with its texts on one line that a terminal can show.

    :raises TypeError: the values are not those of a finding.
    """
    return Finding(**{**values, **{key: _as_line(str(values.get(key, ""))) for key in ("summary", "hint")}})


def _as_line(text: str) -> str:
    # Names of processes and files are from users, and may contain control sequences, or bytes that are not UTF-8.
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def _require_valid(finding: Finding) -> None:
    if not isinstance(finding, Finding) or finding.verdict not in (WARN, FAIL, UNKNOWN):
        raise InvalidAnswer(f"{finding!r} is not a finding")
    if finding.cause not in CAUSES or (finding.action is not None and finding.action not in ACTIONS):
        raise InvalidAnswer(f"{finding.action!r} is not an action, or {finding.cause!r} is not a cause")


def growth(before: int | None, now: int) -> int | None:
    """Return the increase of a counter; None without an earlier value. A smaller value means that it was reset to 0."""
    if before is None:
        return None
    return now - before if now >= before else now
