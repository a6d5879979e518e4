# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The verdict of a check: the worst of its findings and of the findings latched earlier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..machine.verdict import worst
from .check import (
    ACTIONS,
    FAIL,
    NODE,
    NOTHING,
    OBSERVE,
    PASS,
    REBOOT,
    REPLACE,
    RESET_GPU,
    SKIP,
    UNKNOWN,
    USER,
    WARN,
    Answer,
    Check,
    Finding,
    Result,
)
from .settings import FILE, Settings

CURES: Mapping[str, str] = {
    RESET_GPU: "Drain the node and reset the GPU (nvidia-smi --gpu-reset), or restart the machine",
    REBOOT: "Drain the node and restart the machine",
    REPLACE: "Redeploy or replace the instance: a restart alone leaves it on the same host",
}
"""What to do if a failing check gives no better hint."""


def judge(
    check: Check,
    answer: Answer,
    settings: Settings,
    held: Sequence[Finding] = (),
    seconds: float = 0.0,
    details: Mapping[str, Any] | None = None,
) -> Result:
    """Return the verdict with its texts.

    :param held: latched findings of earlier runs that were not found again.
    """
    result = Result(check.name, PASS, answer.good or "no problem found", answer, seconds=seconds, details=details or {})
    if answer.skipped and not answer.findings and not held:
        return replace(result, verdict=SKIP, summary=answer.skipped)
    answer = _with_numbers_only(answer)
    if not answer.findings and not answer.readings and not answer.skipped:
        nothing = Finding(UNKNOWN, "it measured nothing, which is a defect of this check")
        answer = replace(answer, findings=(nothing,))
    softened = [_with_warn_only(check, finding, settings) for finding in (*answer.findings, *held)]
    result = replace(result, answer=replace(answer, findings=tuple(softened)))
    if not softened:
        return result
    verdict = worst([finding.verdict for finding in softened])
    # Problems of the node come before traces of a user's job.
    deciding = sorted(
        (finding for finding in softened if finding.verdict == verdict), key=lambda finding: finding.cause == USER
    )
    first = deciding[0]
    of_first = [finding for finding in deciding if finding.cause == first.cause]
    action = max((_action(check, finding) for finding in of_first), key=ACTIONS.index)
    more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
    return replace(
        result,
        verdict=verdict,
        summary=f"{first.summary}{more}",
        hint=first.hint or (CURES.get(action, "") if verdict == FAIL and first.cause == NODE else ""),
        action=action,
        fault=_fault(check, first),
        cause=first.cause,
        latched=softened.index(first) >= len(answer.findings),
    )


def _action(check: Check, finding: Finding) -> str:
    if finding.action is not None:
        return finding.action
    if finding.cause == USER:
        return NOTHING
    return check.action if finding.verdict == FAIL else OBSERVE


def _fault(check: Check, finding: Finding) -> str:
    if finding.fault is not None:
        return finding.fault
    return check.fault if finding.verdict == FAIL and finding.cause == NODE else ""


def _with_warn_only(check: Check, finding: Finding, settings: Settings) -> Finding:
    if finding.verdict != FAIL or check.name not in settings.warn_only:
        return finding
    return replace(finding, verdict=WARN, hint=finding.hint or f"Only a warning, because of warn_only in {FILE}")


def _with_numbers_only(answer: Answer) -> Answer:
    """Replace readings that are not finite numbers by an UNKNOWN finding, because nothing was measured."""
    numbers = [one for one in answer.readings if isinstance(one.value, str) or math.isfinite(one.value)]
    if len(numbers) == len(answer.readings):
        return answer
    odd = next(one for one in answer.readings if one not in numbers)
    of = f" of {odd.device}" if odd.device else ""
    finding = Finding(UNKNOWN, f"{odd.name}{of} could not be measured: the value is not a number", odd.device)
    return replace(answer, readings=tuple(numbers), findings=(*answer.findings, finding))
