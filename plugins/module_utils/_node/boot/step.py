# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a step of the boot phase is, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from ..health.check import BOOT_STEP, COUNTS, PASS, WARN, Check, Finding
from ..health.judge import worst
from ..machine.root import Root
from ..machine.run import Run

REASON_PREFIX = "hpcai: boot: "
"""How the reason begins that a node gets in Slurm for a step that failed; the step's name and summary follow."""


@dataclass(frozen=True)
class Context:
    """What a step works with.

    :ivar root: where the machine's files lie.
    :ivar run: what runs commands.
    :ivar check: only say what would be done; nothing may be changed then.
    :ivar seconds: how long the step may take in all; a step that waits for something waits no longer than this.
    """

    root: Root
    run: Run
    check: bool = False
    seconds: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    :ivar verdict: one of ``health.check.VERDICTS``.
    :ivar summary: one line: what is the case, or what is wrong and where; it is also the node's reason in Slurm.
    :ivar action: one line: what to do about it; empty where nothing has to be done.
    :ivar changes: what was changed, in its order; in check mode, what would be.
    :ivar details: what was measured, for programs; plain JSON values.
    """

    verdict: str
    summary: str
    action: str = ""
    changes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A step of the boot phase.

    :ivar name: short and unique; its unit is ``hpcai-<name>.service``.
    :ivar title: what it does, as the unit's description.
    :ivar blocking: slurmd does not start unless the verdict is PASS, WARN or SKIP.
    :ivar limit_s: seconds after which it counts as failed.
    :ivar perform: does it. What it raises becomes a verdict: ``ConfigError``, ``UnknownVmSize`` and unforeseen errors
        UNKNOWN, ``CommandFailed``, ``OSError``, ``Locked`` and ``StepFailed`` FAIL.
    """

    name: str
    title: str
    blocking: bool
    limit_s: float
    perform: Callable[[Context], Outcome]


class StepFailed(RuntimeError):
    """A step cannot come to its end; the message says what, where, and what to do."""


def at_boot(check: Check, findings: Iterable[Finding], context: str = BOOT_STEP) -> list[Finding]:
    """Return findings of a health check with the verdicts that they have at boot: those without consequence only warn.

    :param context: BOOT_STEP or BOOT, see ``COUNTS``.
    """
    kept = COUNTS[context] if check.blocks_boot else ()
    return [one if one.verdict in kept else replace(one, verdict=WARN) for one in findings]


def outcome_of(
    findings: Sequence[Finding], good: str, changes: Sequence[str] = (), details: Mapping[str, Any] | None = None
) -> Outcome:
    """Return the worst of the findings as the step's answer, and all of them in its details.

    :param good: what is the case where nothing is wrong.
    """
    described = [{"verdict": one.verdict, "summary": one.summary, "action": one.hint} for one in findings]
    all_details = {**(details or {}), "findings": described}
    if not findings:
        return Outcome(PASS, good, "", tuple(changes), all_details)
    verdict = worst([finding.verdict for finding in findings])
    first = next(finding for finding in findings if finding.verdict == verdict)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return Outcome(verdict, first.summary + more, first.hint, tuple(changes), all_details)
