# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What there is of scripts on this node, and what failed last."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...machine.root import Root
from . import record
from .kinds import KINDS
from .record import Failure
from .scripts import scripts_of
from .settings import read_settings


@dataclass(frozen=True)
class Line:
    """A script.

    :ivar limit_s: how long it may take.
    :ivar owner: the set that Ansible put it there for; None if it did not.
    :ivar problem: why it is not run; empty where it is.
    """

    name: str
    limit_s: float
    owner: str | None
    problem: str


@dataclass(frozen=True)
class KindStatus:
    """A kind.

    :ivar total_s: how long all of its scripts may take.
    :ivar failure: what failed last in this boot.
    """

    kind: str
    total_s: float
    scripts: tuple[Line, ...]
    failure: Failure | None

    @property
    def bad(self) -> bool:
        """Whether the last run failed, or the next one will."""
        failed = self.failure is not None and not self.failure.passed
        return failed or any(script.problem for script in self.scripts)


def look(root: Root) -> list[KindStatus]:
    """Return the status of all kinds.

    :raises ConfigError: the settings cannot be used.
    """
    settings = read_settings(root)
    return [
        KindStatus(
            kind,
            settings.limits[kind].total,
            tuple(
                Line(
                    script.name,
                    settings.limit_of(kind, script.name),
                    settings.owner_of(kind, script.name),
                    script.problem,
                )
                for script in scripts_of(root, kind)
            ),
            record.read(root, kind),
        )
        for kind in KINDS
    ]


def as_dict(found: list[KindStatus]) -> dict[str, Any]:
    """Return it for programs."""
    return {
        one.kind: {
            "total_s": one.total_s,
            "scripts": [asdict(script) for script in one.scripts],
            "failure": {**asdict(one.failure), "reason": one.failure.reason} if one.failure else None,
        }
        for one in found
    }


def in_words(found: list[KindStatus]) -> list[str]:
    """Return it for people, a line each."""
    lines = []
    for one in found:
        number = len(one.scripts)
        lines.append(f"{one.kind}: {number} script{'' if number == 1 else 's'}, {one.total_s:g} s in all")
        for script in one.scripts:
            what = f"refused: {script.problem}" if script.problem else f"{script.limit_s:g} s"
            lines.append(f"  {script.name}: {what}{f' ({script.owner})' if script.owner else ''}")
        lines += _failure(one.failure) if one.failure else []
    return lines


def _failure(failure: Failure) -> list[str]:
    made = [f"  failed at {failure.time}: {failure.reason}"]
    if failure.words != failure.cause:
        made.append(f"    {failure.script}: {failure.cause}")
    if failure.others:
        made.append(f"    and then: {', '.join(failure.others)}")
    if failure.log:
        made.append(f"    all output: {failure.log}")
    if failure.passed:
        made.append(f"    a later run passed, at {failure.passed}")
    return made
