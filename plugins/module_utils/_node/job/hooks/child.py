# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One script in a process group of its own, which is ended when its time is over."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

TERM_S, BURIAL_S = 5.0, 2.0
"""How long a script may take to end when it is asked to, and when it is killed, in seconds."""
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.002, 0.1
_TAIL = 4096
"""Bytes of its output that are kept for its last line."""


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    :ivar cause: why that is a failure, in words; empty where it is none.
    :ivar last_line: the last line that it wrote.
    :ivar seconds: how long it took.
    """

    cause: str
    last_line: str
    seconds: float


def run_script(
    path: str, environment: Mapping[str, str], limit_s: float, write: Callable[[bytes], None], grace_s: float = TERM_S
) -> Ended:
    """Run a script and return how it ended.

    What it leaves running goes on, if it ended by itself in time; it is not waited for.

    :param write: gets its output, both streams, as it comes.
    :param grace_s: how long it may take to end when it is asked to.
    """
    began = time.monotonic()
    try:
        # No AnsibleModule is here whose run_command could be called.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [path],
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(f"cannot be started: {error.strerror}", "", time.monotonic() - began)
    output = _Output(process, write)
    try:
        in_time = output.follow(began + limit_s)
        cause = _cause(process.returncode) if in_time else _end(process, output, limit_s, grace_s)
    except BaseException:
        _signal(process, signal.SIGKILL)
        raise
    finally:
        output.close()
    return Ended(cause, output.last_line(), time.monotonic() - began)


def _cause(status: int) -> str:
    if status < 0:
        return f"ended by signal {-status}"
    return f"exit status {status}" if status else ""


def _end(process: subprocess.Popen[bytes], output: _Output, limit_s: float, grace_s: float) -> str:
    words = f"not done within {limit_s:.3g} s"
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, BURIAL_S)):
        _signal(process, number)
        if output.follow(time.monotonic() + wait_s):
            # The leader is gone; what it started may have ignored the request.
            _signal(process, signal.SIGKILL)
            return words
    return f"{words}, and cannot be killed: it hangs in the kernel, in a driver or on a disk"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Output:
    def __init__(self, process: subprocess.Popen[bytes], write: Callable[[bytes], None]) -> None:
        self._process = process
        self._write = write
        self._tail = b""
        self._open = True
        if process.stdout is None:
            raise ValueError("its output is no pipe")
        self._handle = process.stdout.fileno()
        os.set_blocking(self._handle, False)

    def follow(self, deadline: float) -> bool:
        """Read until the process has ended, and return whether that was before the deadline.

        What it started may hold the other end for ever, so the end of the output is not what is waited for.
        """
        pause = _SHORTEST_LOOK_S
        while True:
            ended = self._process.poll() is not None
            got = self._read()
            if ended:
                while self._read():
                    pass
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            pause = _SHORTEST_LOOK_S if got else min(pause * 1.5, _LONGEST_LOOK_S)
            if self._open:
                select.select([self._handle], [], [], min(left, pause))
            else:
                time.sleep(min(left, pause))

    def _read(self) -> bool:
        if not self._open:
            return False
        try:
            part = os.read(self._handle, 1 << 16)
        except BlockingIOError:
            return False
        if not part:
            self._open = False
            return False
        self._tail = (self._tail + part)[-_TAIL:]
        self._write(part)
        return True

    def last_line(self) -> str:
        lines = [line.strip() for line in self._tail.decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def close(self) -> None:
        if self._process.stdout:
            self._process.stdout.close()
