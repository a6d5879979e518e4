# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Requests for the daemon: from Slurm's programs, which run as SlurmUser, and from an administrator.

A program only writes a file, wakes the daemon and ends: slurmctld waits for it. Nothing depends on the file, because
the daemon finds what Slurm wants in the states of the nodes; it tells the log who asked, and when.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.root import Root
from ..machine.run import Run
from ..slurm.hostlist import expand
from .settings import RUN_FOLDER, STATE_FOLDER
from .views import ELASTIC

SPOOL = f"{STATE_FOLDER}/spool"
"""Slurm's user writes here."""
CONTROL = f"{STATE_FOLDER}/control"
"""Only root writes here."""
HEARTBEAT = f"{RUN_FOLDER}/heartbeat"
POKE = f"{RUN_FOLDER}/poke"
SILENT_S = 600.0
"""Without a heartbeat for this time, nobody orders nodes, and waiting for them is useless."""
RESUME, SUSPEND, RESUME_FAIL = PROGRAMS = ("resume", "suspend", "resume-fail")
_LONGEST = 1 << 16
_MOST = 1000
READ = "read"
"""The request to read sets of Azure in the next pass, although nothing has changed."""
SCHEMA = 1


@dataclass(frozen=True)
class Request:
    """A request.

    :ivar kind: one of PROGRAMS, or what an administrator asks for.
    :ivar names: slots or sets.
    :ivar time: when, in seconds since the epoch.
    :ivar until: when a ``keep`` ends.
    :ivar words: why, in the administrator's words.
    """

    kind: str
    names: tuple[str, ...]
    time: float
    until: float = 0.0
    words: str = ""


def write(
    root: Root, folder: str, kind: str, names: Sequence[str], now: float, until: float = 0.0, words: str = ""
) -> None:
    """Leave a request for the daemon, and wake it.

    :raises OSError: it cannot be written.
    """
    name = f"{now:.6f}-{os.getpid()}"
    held = {"schema": SCHEMA, "kind": kind, "names": list(names), "time": now, "until": until, "words": words}
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(root.at(f"{folder}/.{name}"), flags, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(held))
    os.rename(root.at(f"{folder}/.{name}"), root.at(f"{folder}/{name}.json"))
    poke(root)


def poke(root: Root) -> None:
    """Wake the daemon, if it runs."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
    ):
        sender.sendto(b".", root.at(POKE))


def take(root: Root, folder: str, kinds: Sequence[str]) -> list[Request]:
    """Return the requests in a folder, the oldest first, and remove their files. Anything else is removed too."""
    found = []
    for entry in root.entries(folder)[:_MOST]:
        if entry.startswith("."):
            continue
        path = root.at(f"{folder}/{entry}")
        request = _read(path)
        with contextlib.suppress(OSError):
            os.unlink(path)
        if request is not None and request.kind in kinds:
            found.append(request)
    return found


def _read(path: str) -> Request | None:
    try:
        # SlurmUser could put a link, a pipe or a long file here.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            held: Any = json.loads(file.read(_LONGEST))
        if not isinstance(held, Mapping) or held.get("schema") != SCHEMA:
            return None
        names = tuple(str(name) for name in held["names"])
        words = str(held.get("words") or "")
        return Request(str(held["kind"]), names, float(held["time"]), float(held["until"]), words)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def beat(root: Root, now: float) -> None:
    """Write the daemon's heartbeat.

    :raises OSError: it cannot be written.
    """
    os.makedirs(root.at(RUN_FOLDER), mode=0o755, exist_ok=True)
    with open(root.at(HEARTBEAT), "w", encoding="utf-8") as file:
        file.write(f"{now:.0f}\n")


def silent_s(root: Root, now: float) -> float | None:
    """Return for how long the daemon has been silent; None if it beats.

    /run is empty after a boot, and slurmctld starts before the daemon has ended its first pass. So without a heartbeat,
    the daemon is silent since the boot.
    """
    last = root.number(HEARTBEAT)
    age = now - last if last is not None else _since_boot(root, now)
    return age if age > SILENT_S or age < -SILENT_S else None


def _since_boot(root: Root, now: float) -> float:
    try:
        return float((root.text("/proc/uptime") or "").split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return now


def serve_program(root: Root, kind: str, hostlist: str, run: Run, now: float) -> str:
    """Do what a program of Slurm does, and return a line for slurmctld's log; usually empty.

    :raises HostlistError: the argument is no host list.
    :raises OSError: the request cannot be written.
    """
    names = expand(hostlist)
    silent = silent_s(root, now) if kind == RESUME else None
    if silent is not None:
        words = "hpcai-elastic.service does not run on the controller, so nobody orders nodes"
        run(["scontrol", "update", f"NodeName={hostlist}", "State=DOWN", f"Reason={ELASTIC}NoDaemon: {words}"])
        return words
    write(root, SPOOL, kind, names, now)
    return ""


class Listener:
    """Wakes up when a program or an administrator pokes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def wait(self, seconds: float) -> bool:
        """Wait for a poke, at most until the timeout; return whether there was one."""
        poked = bool(select.select([self._listener], [], [], max(0.0, seconds))[0])
        while True:
            try:
                self._listener.recv(16)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    return poked
                raise


@contextlib.contextmanager
def listening(root: Root) -> Iterator[Listener]:
    """Accept pokes of root and of the spool's owner.

    :raises OSError: the socket cannot be created.
    """
    path = root.at(POKE)
    os.makedirs(root.at(RUN_FOLDER), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        with contextlib.suppress(OSError):
            owner = os.stat(root.at(SPOOL))
            os.chown(path, owner.st_uid, owner.st_gid)
        yield Listener(listener)
