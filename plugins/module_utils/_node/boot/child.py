# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A step in a process of its own, which is ended when its time is over, whatever it hangs in.

What hangs in Python could be interrupted by a signal; what sits in a driver or waits for a disk cannot even be killed.
So a step runs in a child that holds none of our files: its parent does not hang with it, and no lock is kept by it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import Any, Callable, NoReturn

from ..machine.proc import read_processes
from ..machine.root import Root

_LOOK_S = 0.2
"""How often a child is looked at that has not answered: it may be gone while something it started holds its pipe."""
_TERM_S, _BURIAL_S = 1.0, 2.0
"""How long a child may take to end when it is asked to, and when it is killed, in seconds."""


class Overdue(RuntimeError):
    """The child did not answer in time; the message, if any, says what it was doing, and continues a sentence."""


class Died(RuntimeError):
    """The child ended without an answer; the message says how."""


def within(limit_s: float, function: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return what ``function`` returns in a child process: plain JSON values. It must not raise.

    :raises Overdue: not within ``limit_s`` seconds; the child and all that it started were ended, or as good as.
    :raises Died: the child ended without an answer.
    """
    reads, writes = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _live(writes, function)
        os.close(writes)
        child = _Child(pid)
        try:
            return _answer(reads, child, time.monotonic() + limit_s)
        except TimeoutError:
            doing = child.doing()
            lives = "" if child.end() else "; it cannot be killed: it hangs in the kernel, in a driver or on a disk"
            raise Overdue(f"{doing}{lives}") from None
        except BaseException:
            child.end()
            raise
    finally:
        os.close(reads)


class _Child:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def status(self) -> int | None:
        """Return how it ended; None while it lives."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def doing(self) -> str:
        commands = [process.command for process in read_processes(Root()) if process.parent == self.pid]
        return f" (it was waiting for '{commands[0][:120]}')" if commands else ""

    def end(self) -> bool:
        """End it and what it started, and return whether it is gone."""
        for number, wait_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _BURIAL_S)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            deadline = time.monotonic() + wait_s
            while self.status() is None and time.monotonic() < deadline:
                time.sleep(0.01)
        return self.status() is not None


def _answer(reads: int, child: _Child, deadline: float) -> dict[str, Any]:
    said = b""
    while not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        # Looked at before the pipe, or an answer that comes in between would be missed.
        status = child.status()
        ready = select.select([reads], [], [], 0 if status is not None else min(left, _LOOK_S))[0]
        part = os.read(reads, 1 << 16) if ready else b""
        said += part
        if status is not None and not part:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            raise Died(f"its process ended without an answer ({how})")
        if ready and not part:
            # Its end is near, and select would not wait for it.
            time.sleep(0.01)
    answer: dict[str, Any] = json.loads(said)
    return answer


def _live(writes: int, function: Callable[[], Mapping[str, Any]]) -> NoReturn:
    """Be the child."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # A group of its own to be ended with, and no terminal on which a command could ask something.
        os.setsid()
        # Where the caller had no standard input, a pipe may have taken its number.
        writes = fcntl.fcntl(writes, fcntl.F_DUPFD_CLOEXEC, 3)
        _let_go_of_files(writes)
        said = json.dumps(function()).encode() + b"\n"
        while said:
            said = said[os.write(writes, said) :]
    finally:
        os._exit(0)


def _let_go_of_files(kept: int) -> None:
    # Whoever reads our output (ssh, Ansible) waits until the last holder of it has gone, and a lock is held until then.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) != kept:
            with contextlib.suppress(OSError):
                os.close(int(entry))
