# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a health check is, what it works with, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable

from ..machine.root import Root
from ..machine.run import Run
from ..sku.types import VmSize
from .settings import Settings

if TYPE_CHECKING:
    # Each step of the boot imports this file, and most ask no GPU.
    from .gpus import Gpus

PASS, WARN, FAIL, UNKNOWN, SKIP = VERDICTS = ("pass", "warn", "fail", "unknown", "skip")
"""As it should be; worth a look, but jobs may run; not so; could not be measured; nothing of this kind here."""

PROLOG, PERIODIC, EPILOG, BOOT, DEEP = TIERS = ("prolog", "periodic", "epilog", "boot", "deep")
"""When checks are run. Only DEEP may disturb a job."""

NOTHING, OBSERVE, RESET_GPU, REBOOT, REPLACE = ACTIONS = ("nothing", "observe", "reset_gpu", "reboot", "replace")
"""What helps, the mildest first: nothing to do, look at it, reset the GPU, restart the machine, get another one
(redeploy or replace the instance: a hardware fault, which Azure should be told)."""

NODE, USER = CAUSES = ("node", "user")
"""Whose problem it is: a user's job may leave traces that say nothing of the machine. USER never drains."""

BOOT_STEP, REPORT = "boot step", "report"
COUNTS: Mapping[str, tuple[str, ...]] = {
    # A blocking step of the boot phase keeps slurmd from starting: a node that cannot tell whether it has its GPUs
    # takes no jobs either.
    BOOT_STEP: (FAIL, UNKNOWN),
    # So does a check of the tier, if it may (``Check.blocks_boot``). That nothing could be measured is nothing against
    # the node, here and below.
    BOOT: (FAIL,),
    # A job does not start (``Check.blocks_job``).
    PROLOG: (FAIL,),
    # The arbiter may drain the node.
    REPORT: (FAIL,),
}
"""Which verdicts have a consequence in which context. For PROLOG and REPORT the cause must be NODE, too."""


@dataclass(frozen=True)
class Reading:
    """One measured value.

    :ivar name: what was measured, e.g. ``gpu_temperature``; the same for all devices of a kind, so that nodes can be
        compared.
    :ivar value: the number, or a word where it is none.
    :ivar unit: e.g. ``C``, ``GB/s``; empty for counts and words.
    :ivar device: of which device, e.g. ``0001:00:00.0``, ``mlx5_ib0``; empty where it is the machine's.
    :ivar limit: what it was compared with; None where it was not.
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
    """One thing that is not as it should be, or could not be told.

    :ivar verdict: WARN, FAIL or UNKNOWN.
    :ivar summary: one line: what is wrong, and where; of a FAIL it becomes the node's reason in Slurm.
    :ivar device: the device it is about, as in ``Reading``; empty where it is the machine.
    :ivar hint: one line: what to do about it.
    :ivar action: one of ACTIONS; None for the check's own.
    :ivar fault: AzNHC's code, e.g. ``NHC2009``; None for the check's own, empty where there is none.
    :ivar cause: NODE or USER.
    :ivar latch: it was read from a log or otherwise goes by without being mended: the engine keeps it until the
        machine restarts, the GPU is reset or somebody clears it.
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

    A check answers with readings and findings; the engine makes the verdict: the worst of the findings, PASS where
    there are none. A check that passes has at least one reading: the engine takes an answer without findings and
    without readings for UNKNOWN, because nothing was measured.

    :ivar good: one line: what is the case where nothing is wrong.
    :ivar limit: the limits it compared with, for people, with their source, e.g. ``at least 21 GB/s (azurehpc-health-
        checks, conf/nd96asr_v4.conf)``; empty where the check's ``explain`` says it all.
    :ivar skipped: why there is nothing of this kind here; then the verdict is SKIP.
    :ivar released: devices that were reset or replaced since: what was latched of them before is forgotten.
    """

    good: str = ""
    readings: tuple[Reading, ...] = ()
    findings: tuple[Finding, ...] = ()
    limit: str = ""
    skipped: str = ""
    released: tuple[str, ...] = ()


class CannotMeasure(RuntimeError):
    """A check may raise it where nothing can be measured; the message becomes the summary of an UNKNOWN."""


@dataclass(frozen=True)
class Context:
    """What a check works with.

    :ivar root: where the machine's files lie.
    :ivar run: what runs commands; a command that does not answer in time gives exit status 124, a missing one 127.
    :ivar size: the facts of the machine's VM size. The engine answers UNKNOWN for all checks that need it where it is
        not known.
    :ivar tier: one of TIERS.
    :ivar settings: the site's, from /etc/hpcai/health.json.
    :ivar gpus: the GPUs, read once for all checks of a run.
    :ivar history: what earlier runs of the same check wrote down.
    :ivar seconds: how long the check may take in all.
    :ivar now: seconds since the epoch.
    :ivar job: id of the job whose prolog or epilog this is; empty where it is none's.
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
        """Return an option of a check, or where the site sets none the default that its manifest names.

        :param default: in place of the manifest's, where only the machine tells it.
        :raises ConfigError: it is not of the default's kind.
        """
        return self.settings.option(check.name, name, check.options[name] if default is None else default)

    @property
    def known_size(self) -> VmSize:
        """The facts of the VM size, for a check that needs them.

        :raises CannotMeasure: it is not known.
        """
        if self.size is None:
            raise CannotMeasure("the VM size of this machine is not known, so nothing says what it should have")
        return self.size


@dataclass(frozen=True)
class Check:
    """A health check: its manifest, and what measures.

    :ivar name: short and unique; its file in checks/ has the same name.
    :ivar title: what it looks at, a few words.
    :ivar explain: for ``hpcnode health --list``: what is measured, what the limit is and where it comes from, in one to
        three sentences.
    :ivar tiers: when it is run.
    :ivar applies: whether a machine of this size has what is to be checked; None where the size is unknown. It answers
        an empty string if so, else why not.
    :ivar limit_s: seconds it may take; what lasts longer is ended and is UNKNOWN.
    :ivar action: one of ACTIONS: what helps where it fails.
    :ivar fault: AzNHC's code of a failure; empty where there is none.
    :ivar asks_device: it asks a driver or a device: where that does not answer within the check's time twice running,
        this is a failure. (A silent NVIDIA driver, ``GpuError``, is always taken so.)
    :ivar thresholds: names of limits in the facts of VM sizes (``VmSize.thresholds``) that it compares with, and
        without which it cannot judge.
    :ivar further_limits: names of limits that it compares with where the site, or the VM size, has one.
    :ivar options: what else a site may set of it (``Settings.options``): the names, with the defaults. Another value is
        of the default's kind.
    :ivar blocks_job: a failure ends a prolog with an error. Only for: GPU absent, scratch absent, fabric down.
    :ivar blocks_boot: a failure in the boot tier keeps slurmd from starting. Only for the same three.
    :ivar measure: does it. What it raises is UNKNOWN.
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
        """The names of all limits that it compares with."""
        return (*self.thresholds, *self.further_limits)


@dataclass(frozen=True)
class Result:
    """A check's answer with its verdict: what is written, shown and sent.

    :ivar seconds: how long it took.
    :ivar latched: it is there because of an earlier run's finding.
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
    """The values that a check keeps between its runs, plain JSON. They are forgotten when the machine restarts, unless
    kept ``for_good``.

    :ivar changed: what was kept in this run: (key, value, for good) of each; the engine writes it down.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        self._kept = dict(kept or {})
        self.changed: dict[str, tuple[Any, bool]] = {}

    def get(self, key: str) -> Any:
        """Return what the last run of this check kept under this key; None if there is nothing."""
        return self._kept.get(key)

    def keep(self, key: str, value: Any, for_good: bool = False) -> None:
        """Keep a value for the next run; None to forget it. Written when the check has ended.

        :raises TypeError: it is no JSON.
        """
        # As the next run will read it: a tuple is a list then, and a number as a key is a word.
        self._kept[key] = json.loads(json.dumps(value))
        self.changed[key] = (self._kept[key], for_good)


class InvalidAnswer(ValueError):
    """What a check returned is no answer; the message says why. It is a defect of the check."""


def answer_as_dict(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values.

    :raises InvalidAnswer: something in it is not what it has to be.
    """
    if not isinstance(answer, Answer):
        raise InvalidAnswer(f"it answered {answer!r}")
    for finding in answer.findings:
        _require_valid(finding)
    for reading in answer.readings:
        if not isinstance(reading.value, (int, float, str)):
            raise InvalidAnswer(f"{reading.value!r} is no value of {reading.name}")
    return asdict(answer)


def answer_of(values: Mapping[str, Any]) -> Answer:
    """Return the answer that these plain values were."""
    known = {field.name for field in fields(Answer)}
    given: dict[str, Any] = {key: value for key, value in values.items() if key in known}
    given["readings"] = tuple(Reading(**reading) for reading in values["readings"])
    given["findings"] = tuple(finding_of(finding) for finding in values["findings"])
    given["released"] = tuple(values["released"])
    return Answer(**given)


def finding_of(values: Mapping[str, Any]) -> Finding:
    """Return the finding that these plain values were, its words on one line.

    :raises TypeError: they were none.
    """
    words = {key: " ".join(str(values.get(key, "")).split()) for key in ("summary", "hint")}
    return Finding(**{**values, **words})


def _require_valid(finding: Finding) -> None:
    if not isinstance(finding, Finding) or finding.verdict not in (WARN, FAIL, UNKNOWN):
        raise InvalidAnswer(f"{finding!r} is no finding")
    if finding.cause not in CAUSES or (finding.action is not None and finding.action not in ACTIONS):
        raise InvalidAnswer(f"{finding.action!r} because of {finding.cause!r} is nothing that can be done")


def growth(before: int | None, now: int) -> int | None:
    """Return by how much a counter has grown; None where it was not known. One that was reset began anew."""
    if before is None:
        return None
    return now - before if now >= before else now
