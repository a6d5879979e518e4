# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is found of a machine's parts, and the step's one answer out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .step import FAIL, PASS, SKIP, UNKNOWN, WARN, Outcome

_WORST_FIRST = (FAIL, UNKNOWN, WARN, PASS, SKIP)


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    :ivar verdict: FAIL, UNKNOWN or WARN.
    :ivar summary: one line: what is wrong, and where.
    :ivar action: one line: what to do about it.
    """

    verdict: str
    summary: str
    action: str = ""


def outcome_of(
    findings: Sequence[Finding], good: str, changes: Sequence[str] = (), details: Mapping[str, Any] | None = None
) -> Outcome:
    """Return the worst of the findings as the step's answer, and all of them in its details.

    :param good: what is the case where nothing is wrong.
    """
    told = {**(details or {}), "findings": [asdict(finding) for finding in findings]}
    if not findings:
        return Outcome(PASS, good, "", tuple(changes), told)
    ordered = sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.verdict))
    worst = ordered[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return Outcome(worst.verdict, worst.summary + more, worst.action, tuple(changes), told)
