# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A check's answer as plain values and back: it comes out of another process, and is written to files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from .check import ACTIONS, CAUSES, FAIL, UNKNOWN, WARN, Answer, Finding, Reading


class NoAnswer(ValueError):
    """What a check returned is no answer; the message says why. It is a defect of the check."""


def as_plain(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain values.

    :raises NoAnswer: something in it is not what it has to be.
    """
    if not isinstance(answer, Answer):
        raise NoAnswer(f"it answered {answer!r}")
    for finding in answer.findings:
        _judge(finding)
    for reading in answer.readings:
        if not isinstance(reading.value, (int, float, str)):
            raise NoAnswer(f"{reading.value!r} is no value of {reading.name}")
    return asdict(answer)


def as_answer(plain: Mapping[str, Any]) -> Answer:
    """Return the answer that these plain values were."""
    known = {field.name for field in fields(Answer)}
    given: dict[str, Any] = {key: value for key, value in plain.items() if key in known}
    given["readings"] = tuple(Reading(**reading) for reading in plain["readings"])
    given["findings"] = tuple(as_finding(finding) for finding in plain["findings"])
    given["released"] = tuple(plain["released"])
    return Answer(**given)


def as_finding(plain: Mapping[str, Any]) -> Finding:
    """Return the finding that these plain values were, its words on one line.

    :raises TypeError: they were none.
    """
    words = {key: " ".join(str(plain.get(key, "")).split()) for key in ("summary", "hint")}
    return Finding(**{**plain, **words})


def _judge(finding: Finding) -> None:
    if not isinstance(finding, Finding) or finding.verdict not in (WARN, FAIL, UNKNOWN):
        raise NoAnswer(f"{finding!r} is no finding")
    if finding.cause not in CAUSES or (finding.action is not None and finding.action not in ACTIONS):
        raise NoAnswer(f"{finding.action!r} because of {finding.cause!r} is nothing that can be done")
