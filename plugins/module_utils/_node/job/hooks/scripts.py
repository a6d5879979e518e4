# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Lists the scripts in order, those that must not be run, and the last failures."""

from __future__ import annotations

import os
import stat
from dataclasses import asdict, dataclass
from typing import Any

from ...machine.root import Root
from . import failures
from .failures import Failure
from .options import KINDS, NAME, NAME_WORDS, folder, read_settings

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Script:
    """An entry of a scripts folder.

    :ivar name: of the file.
    :ivar path: of the file.
    :ivar problem: why it must not be run; empty if it may.
    """

    name: str
    path: str
    problem: str = ""


def scripts_of(root: Root, kind: str) -> list[Script]:
    """Return the scripts of a kind, sorted by name.

    Names that begin with a dot are files that are being written, and are left out. Any other file counts as a
    script: if it is not a valid one, it is returned with its problem and never skipped.
    """
    here = folder(kind)
    names = [name for name in root.entries(here) if not name.startswith(".")]
    unsafe = _unsafe(root.at(here)) if names else ""
    if unsafe:
        unsafe = f"its folder {here} is {unsafe}"
    return [
        Script(name, root.at(f"{here}/{name}"), unsafe or _problem(name, root.at(f"{here}/{name}"))) for name in names
    ]


def _problem(name: str, path: str) -> str:
    if not NAME.fullmatch(name):
        return f"its name is invalid: expected {NAME_WORDS}"
    try:
        found = os.lstat(path)
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file; links are not followed"
    if not found.st_mode & stat.S_IXUSR:
        return "it is not executable: run 'chmod 0755' on it, or remove it"
    unsafe = _unsafe(path)
    return f"it is {unsafe}" if unsafe else ""


def _unsafe(path: str) -> str:
    """Return why root must not run this file; an empty text if it may."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return f"unreadable ({error.strerror})"
    # Slurm runs this as root; tests run as any user, who then is the allowed owner.
    if found.st_uid not in (0, os.geteuid()):
        return f"owned by user {found.st_uid}: it must belong to root"
    if found.st_mode & _OTHERS_WRITE:
        return f"writable by group or others (mode {stat.S_IMODE(found.st_mode):04o}): run 'chmod go-w' on it"
    return ""


@dataclass(frozen=True)
class ScriptStatus:
    """The status of a script.

    :ivar limit_s: its time limit.
    :ivar owner: the set as part of which Ansible installed it; None if Ansible did not.
    :ivar problem: why it is not run; empty if it is.
    """

    name: str
    limit_s: float
    owner: str | None
    problem: str


@dataclass(frozen=True)
class KindStatus:
    """The status of a kind.

    :ivar total_s: the time limit of all its scripts together.
    :ivar failure: the last failure in this boot.
    """

    kind: str
    total_s: float
    scripts: tuple[ScriptStatus, ...]
    failure: Failure | None

    @property
    def bad(self) -> bool:
        """Whether the last run failed, or the next one will."""
        failed = self.failure is not None and not self.failure.passed
        return failed or any(script.problem for script in self.scripts)


def status(root: Root) -> list[KindStatus]:
    """Return the status of all kinds.

    :raises ConfigError: the settings are invalid.
    """
    settings = read_settings(root)
    return [
        KindStatus(
            kind,
            settings.limits[kind].total,
            tuple(
                ScriptStatus(
                    script.name,
                    settings.limit_of(kind, script.name),
                    settings.owner_of(kind, script.name),
                    script.problem,
                )
                for script in scripts_of(root, kind)
            ),
            failures.last_failure(root, kind),
        )
        for kind in KINDS
    ]


def as_dict(found: list[KindStatus]) -> dict[str, Any]:
    """Return the status for programs."""
    return {
        one.kind: {
            "total_s": one.total_s,
            "scripts": [asdict(script) for script in one.scripts],
            "failure": {**asdict(one.failure), "reason": one.failure.reason} if one.failure else None,
        }
        for one in found
    }


def status_lines(found: list[KindStatus]) -> list[str]:
    """Return the status as lines for people."""
    lines = []
    for one in found:
        number = len(one.scripts)
        lines.append(f"{one.kind}: {number} script{'' if number == 1 else 's'}, total limit {one.total_s:g} s")
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
