# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The form of a step of the boot phase, and of its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from ..health.check import BOOT_STEP, COUNTS, PASS, WARN, Check, Finding
from ..machine.root import Root
from ..machine.run import Run
from ..machine.verdict import worst

REASON_PREFIX = "hpcai: boot: "
"""Beginning of a node's reason in Slurm after a failed step; the step's name and summary follow."""


@dataclass(frozen=True)
class Context:
    """The environment of a step.

    :ivar root: the root folder of the machine's files.
    :ivar run: runs commands.
    :ivar check: only return what would be done, and change nothing.
    :ivar seconds: timeout of the step; a step must not wait for anything longer than this.
    """

    root: Root
    run: Run
    check: bool = False
    seconds: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    :ivar verdict: one of ``health.check.VERDICTS``.
    :ivar summary: one line: the state, or what is wrong and where. It becomes the node's reason in Slurm.
    :ivar action: one line: what to do; empty if nothing has to be done.
    :ivar changes: what was changed, in order; in check mode, what would be changed.
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
    :ivar title: what it does; the unit's description.
    :ivar blocking: slurmd does not start unless the verdict is PASS, WARN or SKIP.
    :ivar limit_s: timeout in seconds, after which it counts as failed.
    :ivar perform: runs it. Exceptions become verdicts: ``CommandFailed``, ``OSError``, ``Locked`` and ``StepFailed``
        become FAIL; ``ConfigError``, ``UnknownVmSize`` and all others become UNKNOWN.
    """

    name: str
    title: str
    blocking: bool
    limit_s: float
    perform: Callable[[Context], Outcome]


class StepFailed(RuntimeError):
    """A step cannot finish; the message says what is wrong, where, and what to do."""


def at_boot(check: Check, findings: Iterable[Finding], context: str = BOOT_STEP) -> list[Finding]:
    """Return findings of a health check with their verdicts at boot: those that must not block slurmd become WARN.

    :param context: BOOT_STEP or BOOT, see ``COUNTS``.
    """
    kept = COUNTS[context] if check.blocks_boot else ()
    return [one if one.verdict in kept else replace(one, verdict=WARN) for one in findings]


def outcome_of(
    findings: Sequence[Finding], good: str, changes: Sequence[str] = (), details: Mapping[str, Any] | None = None
) -> Outcome:
    """Return the worst of the findings as the step's outcome, with all findings in its details.

    :param good: the summary if there are no findings.
    """
    described = [{"verdict": one.verdict, "summary": one.summary, "action": one.hint} for one in findings]
    all_details = {**(details or {}), "findings": described}
    if not findings:
        return Outcome(PASS, good, "", tuple(changes), all_details)
    verdict = worst([finding.verdict for finding in findings])
    first = next(finding for finding in findings if finding.verdict == verdict)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return Outcome(verdict, first.summary + more, first.hint, tuple(changes), all_details)
