# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Calling what may never return: in a child process, with a limit.

A call into a driver that hangs sits in the kernel and cannot be interrupted, not even by SIGKILL: a thread in it keeps
its process from ending, and a parent that waits for such a child hangs as well. So the calls are made in a child that
holds none of our files, and a child that does not answer is killed, waited for briefly, and else left to the kernel.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any, Callable

from .facts import DIED, NO_ANSWER, UNKNOWN, GpuError

Serve = Callable[[str, Sequence[Any]], Any]
"""Carries out a request: its name and arguments; what it returns must go through JSON."""

_BURIAL_S = 3.0
"""How long a killed child is waited for, in seconds."""


class Worker:
    """A child process that carries out requests one after the other. It is started by the first, and anew after it had
    to be given up.

    :param make: called in the child before its first request; what it raises is the answer to that request.
    :param limit_s: seconds a request may take.
    """

    def __init__(self, make: Callable[[], Serve], limit_s: float) -> None:
        self._make = make
        self._limit_s = limit_s
        self._pid = 0
        self._to_child = self._from_child = -1

    def ask(self, request: str, *arguments: Any) -> Any:
        """Return what the child answers.

        :raises GpuError: what the child raised; ``no_answer`` if it did not answer in time, ``died`` if it ended.
        """
        if not self._pid:
            self._start()
        try:
            _write_line(self._to_child, {"request": request, "arguments": arguments})
            answer = json.loads(self._read_line())
        except (BrokenPipeError, EOFError):
            raise GpuError(DIED, f"the driver's library ended the process that called it ({self._end()})") from None
        except TimeoutError:
            self._end()
            raise GpuError(NO_ANSWER, f"the driver did not answer within {self._limit_s:g} s") from None
        if "error" in answer:
            raise GpuError(*answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the child; it is asked to, and killed if it does not."""
        if self._pid:
            os.close(self._to_child)
            self._to_child = -1
            if not self._buried():
                self._end()
            self._forget()

    def _start(self) -> None:
        child_reads, self._to_child = os.pipe()
        self._from_child, child_writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            _live(child_reads, child_writes, self._make)
        self._pid = pid
        os.close(child_reads)
        os.close(child_writes)

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + self._limit_s
        read = b""
        while not read.endswith(b"\n"):
            ready = select.select([self._from_child], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise TimeoutError
            part = os.read(self._from_child, 1 << 16)
            if not part:
                raise EOFError
            read += part
        return read

    def _end(self) -> str:
        """Kill the child and say how it ended."""
        status = self._buried(0.1)
        if status is None:
            os.kill(self._pid, signal.SIGKILL)
            status = self._buried()
        self._forget()
        if status is None:
            return "it cannot even be killed"
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"

    def _buried(self, wait_s: float | None = None) -> int | None:
        """Return the child's status; None if it still lives."""
        deadline = time.monotonic() + (_BURIAL_S if wait_s is None else wait_s)
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                return status
            if time.monotonic() > deadline:
                return None
            time.sleep(0.002)

    def _forget(self) -> None:
        for descriptor in (self._to_child, self._from_child):
            if descriptor >= 0:
                os.close(descriptor)
        self._pid, self._to_child, self._from_child = 0, -1, -1


def _write_line(descriptor: int, message: Any) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _live(reads: int, writes: int, make: Callable[[], Serve]) -> None:
    """Be the child: never returns."""
    try:
        os.setsid()
        # Where the caller had no standard input, a pipe may have taken its number.
        reads, writes = (fcntl.fcntl(descriptor, fcntl.F_DUPFD, 3) for descriptor in (reads, writes))
        _let_go_of_files(reads, writes)
        serve: Serve | None = None
        with os.fdopen(reads, encoding="utf-8") as requests:
            for line in requests:
                asked = json.loads(line)
                try:
                    serve = serve or make()
                    answer = {"result": serve(asked["request"], asked["arguments"])}
                except GpuError as error:
                    answer = {"error": [error.kind, str(error)]}
                except Exception as error:
                    answer = {"error": [UNKNOWN, f"{type(error).__name__}: {error}"]}
                _write_line(writes, answer)
    finally:
        os._exit(1)


def _let_go_of_files(*kept: int) -> None:
    # Whoever reads our output (ssh, Ansible) waits until the last holder of it has gone.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) not in kept:
            try:
                os.close(int(entry))
            except OSError:
                continue
