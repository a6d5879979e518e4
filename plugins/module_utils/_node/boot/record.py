# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is known of each step's last run, until the next boot: one file a step in /run/hpcai/boot."""

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
"""Stands where the verdict will be, while a step runs."""


@dataclass(frozen=True)
class Record:
    """A step's last run.

    :ivar step: its name.
    :ivar boot_id: the kernel's name of the boot that it belongs to.
    :ivar pid: the process that ran or runs it.
    :ivar pid_started: when that process started, in the kernel's ticks since the boot: numbers of processes return.
    :ivar verdict: RUNNING, or that of the outcome.
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
    words = f"it runs, for {step.limit_s:g} s at most"
    pid = os.getpid()
    return Record(step.name, read_boot_id(root), pid, pid_started(root, pid), RUNNING, words, "", (), {}, now)


def ended(record: Record, outcome: Outcome, seconds: float) -> Record:
    """Return the record of a step that has ended."""
    given = {**asdict(record), **asdict(outcome), "seconds": round(seconds, 2)}
    return Record(**given)


def write(root: Root, record: Record) -> str:
    """Replace the step's record, and return in words why it could not be; nothing if it could.

    A record that cannot be written must not keep a step from being done.
    """
    path = root.at(_path(record.step))
    try:
        write_file(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        # An older one would be taken for this one's.
        with contextlib.suppress(OSError):
            remove_file(path)
        return (
            f"{path} cannot be written ({error.strerror}): 'hpcnode boot status' cannot tell what became of this step"
        )
    return ""


def read(root: Root, step: str) -> Record | None:
    """Return the record of a step's last run in this boot; None if there is none.

    One that says that it runs, and whose process is gone, was interrupted: its verdict is UNKNOWN.
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
        summary = f"it was interrupted: process {record.pid}, which began it at {record.started}, is gone"
        return Record(**{**asdict(record), "verdict": UNKNOWN, "summary": summary, "changes": ()})
    return record


def pid_started(root: Root, pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None if there is none of that number."""
    # The name, the second field, may hold spaces and parentheses: the last one closes it (proc(5)).
    fields = (root.text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def is_alive(root: Root, record: Record) -> bool:
    """Whether the process that ran or runs the step is still there."""
    stat = read_stat(root, record.pid)
    return stat is not None and stat.state not in "ZX" and pid_started(root, record.pid) == record.pid_started


def _path(step: str) -> str:
    return f"{FOLDER}/{step}.json"
