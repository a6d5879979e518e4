# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs work in a child process, which is ended at a timeout.

Python code could be interrupted by a signal, but a process that hangs in a driver or on a disk cannot even be killed.
So the work runs in a child that inherits none of this process's files: the parent does not hang, and the child keeps no
lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, NoReturn

from .proc import children, read_command, read_processes
from .root import Root
from .run import end_group, wait_until

_LOOK_S = 0.2
"""Interval of checks whether a silent child still runs: its pipe stays open if a process that it started has it."""
_TERM_S, _BURIAL_S, _LEAVE_S = 1.0, 2.0, 0.2
"""How long a child may take to end after SIGTERM, after SIGKILL, and after its last answer, in seconds."""


class Overdue(RuntimeError):
    """The child did not answer in time; the message, if any, says what it was doing, and continues a sentence.

    :ivar stuck: whether it cannot be killed, because it hangs in the kernel, for example in a driver or on a disk.
    """

    def __init__(self, words: str, stuck: bool = False) -> None:
        super().__init__(words)
        self.stuck = stuck


class Died(RuntimeError):
    """The child ended without an answer; the message says how.

    :ivar how: in two words: ``signal 11``, ``status 1``.
    """

    def __init__(self, how: str) -> None:
        super().__init__(f"its process ended without an answer ({how})")
        self.how = how


def within(limit_s: float, function: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Run ``function`` in a child process, and return its result: plain JSON values. It must not raise.

    :raises Overdue: no result within ``limit_s`` seconds; the child and its processes were ended if that was possible.
    :raises Died: the child ended without an answer.
    """
    with Child(lambda: (function() for _once in range(1))) as child:
        return child.answer(limit_s)


class Child:
    """A child process that returns a sequence of answers. It is ended when this object is closed or an answer fails.

    :param produce: yields the answers in the child: plain JSON values. It must not raise.
    :param kept: a descriptor, 3 or higher, that the child keeps open, such as a pipe for requests.
    :raises OSError: it cannot be started.
    """

    def __init__(self, produce: Callable[[], Iterable[Mapping[str, Any]]], kept: int | None = None) -> None:
        self._status: int | None = None
        self._given_up = False
        self._buffer = b""
        self._reads, writes = os.pipe()
        try:
            self.pid = os.fork()
        except BaseException:
            os.close(self._reads)
            os.close(writes)
            raise
        if self.pid == 0:
            _live(writes, produce, kept)
        os.close(writes)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: object, *_about: object) -> None:
        self.close(failed=bool(kind))

    def close(self, failed: bool = False) -> None:
        """End the child; unless it has failed, give it a moment to exit."""
        os.close(self._reads)
        if not failed:
            wait_until(lambda: self._ended() is not None, _LEAVE_S, 0.002)
        if self._ended() is None and not self._given_up:
            self._end()

    def answer(self, limit_s: float) -> dict[str, Any]:
        """Return the next answer.

        :raises Overdue: not within ``limit_s`` seconds; the child and its processes were ended if that was possible.
        :raises Died: the child ended without an answer.
        """
        try:
            line = self._line(time.monotonic() + limit_s)
        except TimeoutError:
            doing = self._doing()
            stuck = not self._end()
            lives = "; it cannot be killed: it hangs in the kernel, such as in a driver or on a disk" if stuck else ""
            raise Overdue(f"{doing}{lives}", stuck) from None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise TimeoutError
            # Check the process before the pipe, so that its last answer is not missed.
            status = self._ended()
            ready = select.select([self._reads], [], [], 0 if status is not None else min(remaining_s, _LOOK_S))[0]
            chunk = os.read(self._reads, 1 << 16) if ready else b""
            self._buffer += chunk
            if status is not None and not chunk:
                how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
                raise Died(how)
            if ready and not chunk:
                # The pipe is closed, so select would not wait; the process will end soon.
                time.sleep(0.01)
        line, _newline, self._buffer = self._buffer.partition(b"\n")
        return line

    def _ended(self) -> int | None:
        """Return its wait status; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def _doing(self) -> str:
        root = Root()
        # A forked process without an exec has the child's own command, which is no help in a message.
        own_command = read_command(root, self.pid)
        started = read_processes(root, children(root, self.pid))
        commands = [one.command for one in started if one.command != own_command]
        return f" (it was waiting for '{commands[0][:120]}')" if commands else ""

    def _end(self) -> bool:
        """End it and its processes, and return whether it has ended."""
        gone = end_group(self.pid, lambda: self._ended() is not None, _TERM_S, _BURIAL_S)
        self._given_up = not gone
        return gone


def _live(writes: int, produce: Callable[[], Iterable[Mapping[str, Any]]], kept: int | None) -> NoReturn:
    """Run as the child."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # A new session: its process group can be signalled as a whole, and no command can prompt on a terminal.
        os.setsid()
        # If the caller had no standard input, a pipe may have descriptor 0.
        writes = fcntl.fcntl(writes, fcntl.F_DUPFD_CLOEXEC, 3)
        _let_go_of_files(writes, kept)
        for answer in produce():
            data = json.dumps(answer).encode() + b"\n"
            while data:
                data = data[os.write(writes, data) :]
    finally:
        os._exit(0)


def _let_go_of_files(*kept: int | None) -> None:
    # A reader of our output (ssh, Ansible) waits until all copies of the descriptor are closed; so does a lock.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(entry))


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Handle SIGTERM like SIGINT in this context: systemd and Slurm send SIGTERM at their own timeouts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_arguments: Any) -> NoReturn:
    raise KeyboardInterrupt
