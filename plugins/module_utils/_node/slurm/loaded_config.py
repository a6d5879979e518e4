# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The configuration that a running daemon has loaded: a record that is valid for one process only.

A process is identified by its PID and start time, so the record becomes invalid after a crash, a boot, or a restart by
somebody else. It is in /run, which a boot empties.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..machine.atomic import write_file
from ..machine.root import Root
from ..machine.run import Run
from ..setup.daemon import newest, parse_timestamp

FOLDER = "/run/hpcai"
_SCHEMA = 1
_START_FIELD = 22
"""Field of /proc/PID/stat: the start in clock ticks after boot (proc(5))."""


@dataclass(frozen=True)
class Process:
    """A running daemon.

    :ivar started_at: in seconds since the epoch.
    """

    pid: int
    start_ticks: str
    started_at: float

    @property
    def identity(self) -> str:
        """An identifier that is unique within this boot."""
        return f"{self.pid}@{self.start_ticks}"


def process_of(service: str, root: Root, run: Run) -> Process | None:
    """Return the main process of a service; None if it has none."""
    answer = run(["systemctl", "show", service, "--timestamp=us+utc", "--property=MainPID,ExecMainStartTimestamp"])
    shown = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    pid, started_at = shown.get("MainPID", ""), parse_timestamp(shown.get("ExecMainStartTimestamp", ""))
    stat = root.text(f"/proc/{pid}/stat") if pid.isdecimal() and pid != "0" else None
    if not stat or started_at is None:
        return None
    # The name of the program, in brackets, may contain blanks.
    return Process(int(pid), stat.rpartition(")")[2].split()[_START_FIELD - 3], started_at)


def read_record(name: str, process: Process | None, root: Root) -> dict[str, Any] | None:
    """Return what the process has loaded; None if that was not recorded for this process."""
    try:
        record = json.loads(root.text(f"{FOLDER}/{name}.taken.json") or "null")
    except ValueError:
        return None
    if process is None or not isinstance(record, dict) or record.get("schema") != _SCHEMA:
        return None
    loaded = record.get("taken")
    return loaded if record.get("process") == process.identity and isinstance(loaded, dict) else None


def write_record(name: str, process: Process, loaded: dict[str, Any], root: Root) -> None:
    """Record what the process has loaded."""
    record = {"schema": _SCHEMA, "process": process.identity, "taken": loaded}
    write_file(root.at(f"{FOLDER}/{name}.taken.json"), json.dumps(record, indent=1, sort_keys=True) + "\n", mode=0o600)


def started_after(process: Process, paths: Iterable[str], root: Root, grace_s: float = 0.0) -> bool:
    """Whether none of the files changed since the process started, so that it has read them.

    :param grace_s: seconds after its start in which the process itself may have written them.
    """
    youngest = newest([root.at(path) for path in paths])
    return youngest is None or youngest[1] < process.started_at + grace_s
