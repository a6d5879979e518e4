# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Receives the progress of jobs on this node, and keeps the last figures of each job while it runs.

Any user may connect. The job is that of the slurmstepd above the process that connected, never from the message. A
message has known names with finite numbers, so that a user can only make up the progress of his own jobs. The number of
messages per second is limited, for all users together: one who floods the socket keeps the messages of others out.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Callable

from ..machine.exposition import Metrics
from ..machine.job_progress import LONGEST, SOCKET
from ..machine.owners import is_slurmstepd, live_jobs, read_owned, steps_of, uid_of
from ..machine.proc import read_stat
from ..machine.root import Root

KINDS: Mapping[str, tuple[str, ...]] = {
    "stage": ("files", "files_done", "bytes", "bytes_done"),
    "checkpoint": ("step", "published_step", "bytes", "bytes_done", "waiting"),
    "train": ("step", "steps", "step_seconds"),
}
"""Names of the figures by kind."""
HELP: Mapping[str, str] = {
    **{
        f"hpcai_job_{kind}_{name}": f"{name.replace('_', ' ')} of the {kind} progress of a job, as the job reports it."
        for kind, names in KINDS.items()
        for name in names
    },
    "hpcai_job_progress_timestamp_seconds": "When a job on this node last reported progress of this kind.",
}
"""Names of the metrics, each with its help text."""
MOST_PER_S = 20
MOST_JOBS = 256
_READ_TIMEOUT_S = 0.1
_LONGEST_CHAIN = 64


@dataclass
class Progress:
    """The last figures of jobs by job and kind, and when they came."""

    figures: dict[tuple[int, str], tuple[float, dict[str, float]]] = field(default_factory=dict)

    def take(self, job: int, message: bytes, now: float) -> bool:
        """Keep a message of a job; return whether it is valid."""
        read = parse(message)
        if read is None:
            return False
        kind, values = read
        if (job, kind) not in self.figures and len({number for number, _kind in self.figures} | {job}) > MOST_JOBS:
            return False
        self.figures[job, kind] = (now, values)
        return True

    def forget(self, live: set[int]) -> None:
        """Remove the jobs that have ended."""
        self.figures = {key: held for key, held in self.figures.items() if key[0] in live}

    def add_to(self, metrics: Metrics) -> None:
        """Add the figures."""
        for (job, kind), (when, values) in sorted(self.figures.items()):
            for name, value in values.items():
                metrics.add(f"hpcai_job_{kind}_{name}", value, job_id=str(job))
            metrics.add("hpcai_job_progress_timestamp_seconds", round(when), job_id=str(job), kind=kind)


def parse(message: bytes) -> tuple[str, dict[str, float]] | None:
    """Return kind and figures of a message; None if it is not valid."""
    try:
        given = json.loads(message)
        kind = given.get("kind")
        names = KINDS[kind]
        values = {name: float(given[name]) for name in names if isinstance(given.get(name), (int, float))}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return (kind, values) if values and all(math.isfinite(value) for value in values.values()) else None


def job_of_process(root: Root, pid: int, uid: int) -> int | None:
    """Return the job of a process: that of the slurmstepd above it; None if it is in none.

    The control group alone would do where Slurm uses control groups, but not where it tracks processes otherwise.
    Reads only the process and those above it: with all processes of a node, each message would cost as much CPU time as
    a user has started processes.

    :param uid: the user who connected. If the process belongs to another user, the one that connected has ended, and
        the kernel has given its id to a new process.
    """
    if uid_of(root, pid) != uid:
        return None
    current = pid
    for _step in range(_LONGEST_CHAIN):
        facts = read_stat(root, current)
        if facts is None:
            return None
        if is_slurmstepd(root, current):
            return steps_of(root, current)
        current = facts.parent
        if current <= 1:
            return None
    return None


def running_jobs(root: Root) -> set[int]:
    """Return the jobs that have a slurmstepd on this node."""
    return live_jobs(read_owned(root))


@contextlib.contextmanager
def listening(root: Root) -> Iterator[socket.socket]:
    """Listen for progress on a socket to which every user can connect."""
    path = root.at(SOCKET)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(64)
        listener.setblocking(False)
        yield listener


def receive(
    listener: socket.socket,
    progress: Progress,
    job_of: Callable[[int, int], int | None],
    until: float,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Take messages until a time of the monotonic clock.

    :param job_of: returns the job of a process and the user who connected.
    """
    began, messages = time.monotonic(), 0
    while not ended() and (rest := until - time.monotonic()) > 0:
        if not select.select([listener], [], [], min(rest, 1.0))[0]:
            continue
        with contextlib.suppress(OSError):
            connection, _address = listener.accept()
            with connection:
                _one(connection, progress, job_of)
        messages += 1
        if messages > MOST_PER_S * max(1.0, time.monotonic() - began):
            # Somebody floods the socket: others wait, and no CPU time is lost.
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))


def _one(connection: socket.socket, progress: Progress, job_of: Callable[[int, int], int | None]) -> None:
    connection.settimeout(_READ_TIMEOUT_S)
    message = connection.recv(LONGEST + 1)
    pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    job = job_of(pid, uid) if 0 < len(message) <= LONGEST else None
    accepted = job is not None and progress.take(job, message, time.time())
    connection.send(b"ok" if accepted else b"no")
