# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Receives the progress of jobs on this node, and keeps the last figures of each job while it runs.

Any user may connect. The job is that of the slurmstepd above the process that connected, never from the message. A
message has known names with finite numbers, so that a user can only make up the progress of his own jobs. Each user may
send some messages per second; more are refused before they cost anything. Nobody waits for one who sends nothing.
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
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Callable

from ..machine.exposition import Metrics
from ..machine.job_progress import ACCEPTED, LATER, LONGEST, MOST_PER_S, REFUSED, SOCKET
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
MOST_JOBS = 256
_SILENT_S = 1.0
"""How long a connection may send nothing."""
_MOST_SILENT = 256
"""How many connections may send nothing at a time, of all users; select(2) takes 1024."""
_QUEUE = 32
"""How many connections the kernel keeps until they are accepted."""
_PAUSE = 20
"""After refusals, in times of the CPU time that they took: a flood then takes about 5 % of a CPU, also of a slow one
(measured). The service may take 10 % on a node. Messages are not counted, so they cannot make the pause long."""
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
        listener.listen(_QUEUE)
        listener.setblocking(False)
        yield listener


@dataclass(frozen=True)
class _Sender:
    """An accepted connection that has not sent its message yet, and the process that connected."""

    pid: int
    uid: int
    until: float


class _Senders:
    """The accepted connections, oldest first. Each user has a share of them."""

    def __init__(self) -> None:
        self.open: dict[socket.socket, _Sender] = {}
        self._second = -1
        self._accepted: Counter[int] = Counter()

    def accept(self, listener: socket.socket, now: float) -> bool:
        """Accept the connections in the kernel's queue; return whether one was refused, or an older one closed."""
        if int(now) != self._second:
            self._second = int(now)
            self._accepted.clear()
        refused = False
        for _turn in range(_QUEUE):
            try:
                connection, _address = listener.accept()
            except BlockingIOError:
                break
            pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            self._accepted[uid] += 1
            connection.setblocking(False)
            if self._accepted[uid] > MOST_PER_S:
                _refuse(connection)
                refused = True
                continue
            if len(self.open) >= _MOST_SILENT:
                # Programs that report send at once, so the oldest one is none of them. A user may have many user ids
                # (subuid(5)), so the shares of the users alone do not keep a place free.
                oldest = next(iter(self.open))
                del self.open[oldest]
                _refuse(oldest)
                refused = True
            self.open[connection] = _Sender(pid, uid, now + _SILENT_S)
        return refused

    def close_silent(self, now: float) -> None:
        """Close the connections that have sent nothing for too long."""
        for connection in [one for one, sender in self.open.items() if sender.until <= now]:
            del self.open[connection]
            connection.close()


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
    senders = _Senders()
    try:
        while not ended() and (now := time.monotonic()) < until:
            senders.close_silent(now)
            # A second is also how long ``ended`` is not asked. The listener is the last: it may close the others.
            for ready in select.select([*senders.open, listener], [], [], min(until - now, 1.0))[0]:
                with contextlib.suppress(OSError):
                    if ready is not listener:
                        with ready:
                            _answer(ready, senders.open.pop(ready), progress, job_of)
                        continue
                    used = time.thread_time()
                    if senders.accept(listener, time.monotonic()):
                        time.sleep(_PAUSE * (time.thread_time() - used))
    finally:
        senders.close_silent(math.inf)


def _answer(
    connection: socket.socket, sender: _Sender, progress: Progress, job_of: Callable[[int, int], int | None]
) -> None:
    message = connection.recv(LONGEST + 1)
    job = job_of(sender.pid, sender.uid) if 0 < len(message) <= LONGEST else None
    accepted = job is not None and progress.take(job, message, time.time())
    connection.send((ACCEPTED if accepted else REFUSED).encode())


def _refuse(connection: socket.socket) -> None:
    """Answer that the sender may try again later."""
    with connection, contextlib.suppress(OSError):
        # A message that is unread when the connection is closed would replace the answer by ECONNRESET (unix(7)). So no
        # message may come from now on, and one that has come is read.
        connection.shutdown(socket.SHUT_RD)
        connection.recv(1)
        connection.send(LATER.encode())
