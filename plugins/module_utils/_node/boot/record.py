# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Records of each step's last run in this boot: one file per step in /run/hpcai/boot."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..health.check import UNKNOWN
from ..machine.atomic import remove_file, write_file
from ..machine.kernel import read_boot_id
from ..machine.proc import read_stat
from ..machine.root import Root
from .step import Outcome, Step

FOLDER = "/run/hpcai/boot"
SCHEMA = 1
RUNNING = "running"
"""The value of ``verdict`` while a step runs."""


@dataclass(frozen=True)
class Record:
    """A step's last run.

    :ivar step: the step's name.
    :ivar boot_id: the kernel's id of the boot in which it ran.
    :ivar pid: the process that ran or runs it.
    :ivar pid_started: when that process started, in the kernel's ticks since the boot, because process ids are reused.
    :ivar verdict: RUNNING, or the verdict of the outcome.
    :ivar started: UTC, ISO 8601.
    :ivar seconds: how long it took; None while it runs.
    """

    step: str
    boot_id: str
    pid: int
    pid_started: int | None
    verdict: str
    summary: str
    action: str
    changes: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    seconds: float | None = None


def begun(root: Root, step: Step) -> Record:
    """Return the record of a step that this process begins now."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = f"running, timeout {step.limit_s:g} s"
    pid = os.getpid()
    return Record(step.name, read_boot_id(root), pid, pid_started(root, pid), RUNNING, words, "", (), {}, now)


def ended(record: Record, outcome: Outcome, seconds: float) -> Record:
    """Return the record of a step that has ended."""
    given = {**asdict(record), **asdict(outcome), "seconds": round(seconds, 2)}
    return Record(**given)


def write(root: Root, record: Record) -> str:
    """Replace the step's record, and return an error message, or an empty text if it was written.

    It raises nothing, because a step must run even if its record cannot be written.
    """
    path = root.at(_path(record.step))
    try:
        write_file(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        # An older record would look like the result of this run.
        with contextlib.suppress(OSError):
            remove_file(path)
        return f"cannot write {path} ({error.strerror}): 'hpcnode boot status' cannot show the result of this step"
    return ""


def read(root: Root, step: str) -> Record | None:
    """Return the record of a step's last run in this boot; None if there is none.

    If the record says that the step is running, but its process has ended, the step was interrupted: its verdict is
    UNKNOWN.
    """
    try:
        given = json.loads(root.text(_path(step)) or "")
        if given.pop("schema") != SCHEMA:
            return None
        record = Record(**{**given, "changes": tuple(given["changes"])})
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if record.step != step or record.boot_id != read_boot_id(root):
        return None
    if record.verdict == RUNNING and not is_alive(root, record):
        summary = f"it was interrupted: process {record.pid}, which started it at {record.started}, has ended"
        return Record(**{**asdict(record), "verdict": UNKNOWN, "summary": summary, "changes": ()})
    return record


def pid_started(root: Root, pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None if there is no such process."""
    # The second field, the name, can contain spaces and parentheses: the last parenthesis closes it (proc(5)).
    fields = (root.text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def is_alive(root: Root, record: Record) -> bool:
    """Return whether the process that ran or runs the step still exists."""
    stat = read_stat(root, record.pid)
    return stat is not None and stat.state not in "ZX" and pid_started(root, record.pid) == record.pid_started


def _path(step: str) -> str:
    return f"{FOLDER}/{step}.json"
