# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What failed last of each kind in this boot, in /run/hpcai/job, and what has still to be said to Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict, dataclass, replace

from ...machine.atomic import remove_file, write_file
from ...machine.root import Root
from ...slurm.arbiter.report import SUMMARY
from ...slurm.nodes import LONGEST_REASON, as_reason
from .environment import NO_JOB
from .kinds import KINDS

FOLDER = "/run/hpcai/job"
TO_REPORT = f"{FOLDER}/report"
"""Failures whose cause is not in Slurm yet, one file a kind. hpcai-hook-report.path watches it."""
SCHEMA = 1
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Failure:
    """A run of scripts that failed.

    :ivar boot_id: the kernel's name of the boot that it belongs to.
    :ivar script: the script that failed first.
    :ivar cause: how: its exit status, a signal, its limit, or why it was refused.
    :ivar last_line: the last line that it wrote.
    :ivar others: scripts that failed after it.
    :ivar time: UTC, ISO 8601.
    :ivar log: where all output is.
    :ivar passed: when a later run of the kind had no failure; empty while there was none.
    """

    kind: str
    job: str
    boot_id: str
    script: str
    cause: str
    last_line: str
    others: tuple[str, ...] = ()
    time: str = ""
    log: str = ""
    passed: str = ""

    @property
    def reason(self) -> str:
        """The node's reason in Slurm."""
        return self._told(f"hpcai: {self.kind}: {self.script}: {self.words}", LONGEST_REASON)

    @property
    def summary(self) -> str:
        """What the arbiter is told, of the length that it takes."""
        return self._told(f"{self.script}: {self.words}", SUMMARY)

    def _told(self, words: str, longest: int) -> str:
        job = "" if self.job == NO_JOB else f" (job {self.job})"
        return as_reason(words, longest - len(job)) + job

    @property
    def words(self) -> str:
        """What is wrong: what the script said; how it ended says more only where it was not in its hands."""
        return self.last_line if self.last_line and self.cause.startswith("exit status") else self.cause


def now() -> str:
    """Return the time as records have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def boot_id(root: Root) -> str:
    """Return the kernel's name of this boot."""
    return root.text(_BOOT_ID) or ""


def write(root: Root, failure: Failure, to_report: bool) -> None:
    """Keep a failure, and leave it for whoever tells Slurm.

    :raises OSError: it cannot be written.
    """
    text = json.dumps({"schema": SCHEMA, **asdict(failure)}, indent=2, sort_keys=True) + "\n"
    write_file(root.at(_path(failure.kind)), text)
    if to_report:
        write_file(root.at(f"{TO_REPORT}/{failure.kind}.json"), text)


def note_success(root: Root, kind: str) -> None:
    """Note that a run had no failure, if one before it had. Best effort: nothing depends on it."""
    failure = read(root, kind)
    if failure and not failure.passed:
        with contextlib.suppress(OSError):
            write(root, replace(failure, passed=now()), False)


def read(root: Root, kind: str) -> Failure | None:
    """Return the last failure of a kind in this boot; None if there was none."""
    return _read(root, _path(kind))


def to_report(root: Root) -> list[Failure]:
    """Return the failures of this boot that are not in Slurm yet, and forget those of an earlier one."""
    found = []
    for kind in KINDS:
        failure = _read(root, f"{TO_REPORT}/{kind}.json")
        if failure:
            found.append(failure)
        else:
            remove_file(root.at(f"{TO_REPORT}/{kind}.json"))
    return found


def reported(root: Root, failure: Failure) -> None:
    """Forget that a failure has to be said, unless another one has taken its place."""
    if _read(root, f"{TO_REPORT}/{failure.kind}.json") == failure:
        remove_file(root.at(f"{TO_REPORT}/{failure.kind}.json"))


def is_there(root: Root, kind: str) -> bool:
    """Whether a record lies there, of whatever boot."""
    return os.path.lexists(root.at(_path(kind)))


def _read(root: Root, path: str) -> Failure | None:
    try:
        given = json.loads(root.text(path) or "")
        if given.pop("schema") != SCHEMA:
            return None
        failure = Failure(**{**given, "others": tuple(given["others"])})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if failure.boot_id != boot_id(root) or path.rpartition("/")[2] != f"{failure.kind}.json":
        return None
    return failure


def _path(kind: str) -> str:
    return f"{FOLDER}/{kind}.json"
