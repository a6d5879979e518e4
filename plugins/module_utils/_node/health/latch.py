# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Findings that are kept although the next run does not see them: an XID stands in the log once, the GPU stays broken.

They are kept until the machine restarts, the device is reset, or somebody clears them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .check import ACTIONS, RESET_GPU, Answer, Check, Finding

MOST = 64
"""How many findings of one check are kept, the newest ones: a log may be full of them."""


@dataclass(frozen=True)
class Latched:
    """A finding that is kept.

    :ivar boot_id: the kernel's name of the boot in which it was found.
    :ivar since: when it was found first, in seconds since the epoch.
    """

    finding: Finding
    boot_id: str
    since: float


def after(kept: Sequence[Latched], check: Check, answer: Answer, boot_id: str, now: float) -> tuple[Latched, ...]:
    """Return what is kept of a check after it has answered."""
    for device in answer.released:
        kept = release(kept, check, device)
    known = {_identity(latched.finding): latched for latched in kept}
    for finding in answer.findings:
        if finding.latch:
            before = known.pop(_identity(finding), None)
            known[_identity(finding)] = Latched(finding, boot_id, before.since if before else now)
    return tuple(known.values())[-MOST:]


def release(kept: Sequence[Latched], check: Check, device: str) -> tuple[Latched, ...]:
    """Return what is kept when a device was reset: all but what a reset of this device mends."""
    mended = ACTIONS[: ACTIONS.index(RESET_GPU) + 1]
    return tuple(
        latched
        for latched in kept
        if latched.finding.device != device or (latched.finding.action or check.action) not in mended
    )


def of_boot(kept: Iterable[Latched], boot_id: str) -> tuple[Latched, ...]:
    """Return what is kept in this boot: a restart ends all. Where the boot has no name, nothing is forgotten."""
    return tuple(latched for latched in kept if not boot_id or latched.boot_id == boot_id)


def unseen(kept: Iterable[Latched], answer: Answer) -> tuple[Finding, ...]:
    """Return what is kept and was not found again."""
    seen = {_identity(finding) for finding in answer.findings}
    return tuple(latched.finding for latched in kept if _identity(latched.finding) not in seen)


def _identity(finding: Finding) -> tuple[str, str, str]:
    return finding.verdict, finding.device, finding.summary
