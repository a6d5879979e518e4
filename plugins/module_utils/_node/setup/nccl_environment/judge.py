# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Is NCCL new enough?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .library import Copy
from .versions import as_text, parse_version

PASS, WARN, FAIL, UNKNOWN = "pass", "warn", "fail", "unknown"


@dataclass(frozen=True)
class Judgement:
    """What is to be said of the machine's NCCL.

    :ivar verdict: PASS, UNKNOWN, or WARN or FAIL for one that is too old.
    :ivar version: of the copy that decides; None where it is unknown or there is none.
    :ivar wanted: the oldest version that is good.
    :ivar summary: in words.
    :ivar copies: all that were found.
    """

    verdict: str
    version: str | None
    wanted: str
    summary: str
    copies: tuple[Copy, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        floor = parse_version(self.wanted)
        return {
            "verdict": self.verdict,
            "version": self.version,
            "min_version": self.wanted,
            "summary": self.summary,
            "copies": [
                {
                    "path": copy.path,
                    "version": as_text(copy.version) if copy.version else None,
                    "default": copy.default,
                    "old": None if copy.version is None else copy.version < floor,
                }
                for copy in self.copies
            ],
        }


def judge(copies: Sequence[Copy], wanted: str, when_old: str) -> Judgement:
    """Judge the copy that programs get; where the loader names none, each copy counts, the oldest first. Pure.

    :param when_old: the verdict of a version that is too old: WARN or FAIL.
    :raises ValueError: ``wanted`` is no version.
    """
    floor, found = parse_version(wanted), tuple(copies)

    def judgement(verdict: str, version: str | None, summary: str) -> Judgement:
        return Judgement(verdict, version, wanted, summary, found)

    deciding = [copy for copy in found if copy.default] or list(found)
    if not deciding:
        return judgement(UNKNOWN, None, "No NCCL was found on this machine; that of containers was not looked at.")
    known = sorted((copy.version, copy.path) for copy in deciding if copy.version)
    if known and known[0][0] < floor:
        version, path = known[0]
        text = as_text(version)
        return judgement(when_old, text, f"{path} is NCCL {text}; {wanted} or newer is needed.")
    for copy in deciding:
        if copy.version is None:
            return judgement(UNKNOWN, None, f"{copy.path}: which version it is cannot be told.")
    version, path = known[0]
    old = [copy.path for copy in found if copy.version and copy.version < floor]
    aside = f" Also here, and older than {wanted}: {', '.join(old)}." if old else ""
    return judgement(PASS, as_text(version), f"{path} is NCCL {as_text(version)}.{aside}")
