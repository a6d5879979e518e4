# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs all commands: ``run`` returns the result, ``follow`` passes on the output while the command runs."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Callable, cast


@dataclass(frozen=True)
class Result:
    """The result of a command: exit status and both outputs."""

    command: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


Run = Callable[[Sequence[str]], Result]
"""Anything that runs a command; tests pass a recorded one."""
Feed = Callable[[Sequence[str], str], Result]
"""Anything that runs a command with a text at its standard input."""


class CommandFailed(RuntimeError):
    """A command that had to succeed failed; the message contains the command and its error."""


TOO_LONG = 125
"""The exit status of a command whose output was too long."""
_BURIAL_S = 1.0
"""How long to wait for a killed command, in seconds."""
_MOST_MIB = 64
_MOST_BYTES = _MOST_MIB << 20
"""The largest output. Users choose how many jobs and processes there are, and how long their texts are."""


class _TooLong(Exception):
    """A command prints more than is read."""


def run(command: Sequence[str], timeout_s: float = 120) -> Result:
    """Run ``command`` without a shell, in the C locale and UTC, and return its result.

    The exit status is 127 for a missing command, 126 for one that cannot be executed, 125 for one that was killed
    because it printed more than 64 MiB, and 124 for one that was killed after ``timeout_s`` seconds. The output of a
    killed command is not returned, because the first part of a list would be mistaken for all of it. The command has
    no standard input, so it cannot wait for an answer. Use ``follow`` for more output.
    """
    started = _start(command)
    return started if isinstance(started, Result) else _finish(started, command, timeout_s)


def feed(command: Sequence[str], text: str, timeout_s: float = 120) -> Result:
    """Run ``command`` like ``run``, with ``text`` at its standard input: all users can read command lines."""
    started = _start(command, subprocess.PIPE)
    return started if isinstance(started, Result) else _finish(started, command, timeout_s, text)


def _start(command: Sequence[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes] | Result:
    """Return the process, or the result if it cannot be started."""
    env = {**os.environ, "LC_ALL": "C", "LANG": "C", "TZ": "UTC"}
    try:
        # The command stays in this process's session and process group, because slurmd ends a prolog by killing the
        # prolog's group (_kill_pg in Slurm's src/common/run_command.c). In a group of its own, the command would
        # survive, and change the node while other jobs run. So at its timeout only the command itself is killed, and
        # not the processes that it started.
        # The node core does not import Ansible, so there is no AnsibleModule.run_command.
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            list(command), env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError:
        return Result(tuple(command), 127, "", f"{command[0]}: command not found")
    except OSError as error:
        return Result(tuple(command), 126, "", f"{command[0]}: {error.strerror}")


def _finish(
    process: subprocess.Popen[bytes],
    command: Sequence[str],
    timeout_s: float,
    text: str = "",
    term_s: float = 0,
) -> Result:
    """Return the result of a process; at the timeout, kill it, but first send SIGTERM and wait ``term_s`` seconds."""
    printed = ""
    try:
        streams = _Streams(process, text)
        with contextlib.suppress(subprocess.TimeoutExpired):
            streams.read(timeout_s)
            return Result(tuple(command), process.returncode, *streams.texts())
        if term_s:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                streams.read(term_s)
                printed = streams.texts()[0]
    except _TooLong:
        _give_up(process)
        return Result(tuple(command), TOO_LONG, "", f"it was killed because it printed more than {_MOST_MIB} MiB")
    except BaseException:
        _give_up(process)
        raise
    _give_up(process)
    return Result(tuple(command), 124, printed, f"no answer within {timeout_s:g} s")


class _Streams:
    """The standard input and both outputs of a process.

    Popen.communicate would keep all output in memory, however long it is.
    """

    def __init__(self, process: subprocess.Popen[bytes], text: str) -> None:
        self._process = process
        self._input = memoryview(text.encode(errors="replace"))
        self._outputs = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream}

    def texts(self) -> list[str]:
        """Return what was read from both outputs."""
        found = [output.decode(errors="replace") for output in self._outputs.values()]
        return [text.replace("\r\n", "\n").replace("\r", "\n") for text in found]

    def read(self, seconds: float) -> None:
        """Write the input and read the outputs until the process ends. A second call continues.

        :raises _TooLong: an output is too long.
        :raises subprocess.TimeoutExpired: the process has not ended in time.
        """
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for stream in self._outputs:
                if not stream.closed:
                    selector.register(stream, selectors.EVENT_READ)
            if self._process.stdin and not self._process.stdin.closed:
                selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while selector.get_map():
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise subprocess.TimeoutExpired(self._process.args, seconds)
                for key, _events in selector.select(rest):
                    stream = cast("IO[bytes]", key.fileobj)
                    if self._has_ended(stream):
                        selector.unregister(stream)
                        stream.close()
        self._process.wait(max(deadline - time.monotonic(), 0.0))

    def _has_ended(self, stream: IO[bytes]) -> bool:
        """Read from an output or write to the input, and return whether that was the last time."""
        if stream is self._process.stdin:
            try:
                # No more than fits into a pipe that can be written to, so it does not block.
                self._input = self._input[os.write(stream.fileno(), self._input[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                return True
            return not self._input
        chunk = os.read(stream.fileno(), 1 << 16)
        self._outputs[stream] += chunk
        if len(self._outputs[stream]) > _MOST_BYTES:
            raise _TooLong
        return not chunk


def _give_up(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and wait only briefly: a process that hangs in a driver does not end, and waiting would hang."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_BURIAL_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def bound_to_this_process(signal_name: str) -> tuple[str, ...]:
    """Return the words before a command that send it a signal when this process ends, even if it is killed.

    They are empty if util-linux has no setpriv here.

    :param signal_name: the signal without its "SIG".
    """
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", signal_name, "--") if found else ()


class Stoppable:
    """Runs commands like ``run``, in several threads, until another thread stops all of them.

    A command also gets SIGTERM when this process ends, even if it is killed. Do not put ``timeout`` before it: a signal
    during the first moments of ``timeout`` ends only that, and the command runs on.

    :param term_s: how long a command may take to end after SIGTERM at its timeout, in seconds.
    """

    def __init__(self, term_s: float = 10) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._term_s = term_s

    def __call__(self, command: Sequence[str], timeout_s: float) -> Result:
        """Run a command; after ``stop`` it is not started, and the exit status is 143, that of SIGTERM."""
        with self._lock:
            if self._stopped:
                return Result(tuple(command), 128 + signal.SIGTERM, "", "stopped")
            started = _start([*bound_to_this_process("TERM"), *command])
            if isinstance(started, Result):
                return replace(started, command=tuple(command))
            self._running.add(started)
        try:
            return _finish(started, command, timeout_s, term_s=self._term_s)
        finally:
            with self._lock:
                self._running.discard(started)

    def stop(self) -> None:
        """Send SIGTERM to all commands, and start no more. Their callers wait for their end as before."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()


def must(result: Result) -> Result:
    """Return ``result`` if the command succeeded.

    :raises CommandFailed: it did not.
    """
    if result.rc != 0:
        raise CommandFailed(f"'{' '.join(result.command)}' failed (exit status {result.rc}): {last_line(result)}")
    return result


def last_line(result: Result, otherwise: str = "nothing was printed") -> str:
    """Return the last line with text, from stderr or else from stdout."""
    lines = [line.strip() for text in (result.stderr, result.stdout) for line in reversed(text.splitlines())]
    return next((line for line in lines if line.strip("#-=* ")), otherwise)


def wait_until(done: Callable[[], bool], seconds: float, pause_s: float = 1.0) -> bool:
    """Call ``done``, at least once, until it returns true or ``seconds`` are over; return its last result."""
    deadline = time.monotonic() + seconds
    while not done():
        rest = deadline - time.monotonic()
        if rest <= 0:
            return False
        time.sleep(min(pause_s, rest))
    return True


LIMIT, STALL = "limit", "stall"


@dataclass(frozen=True)
class Ended:
    """The result of a followed command.

    :ivar rc: exit status, negative for the signal that ended it; None if it cannot be killed, because it hangs in the
        kernel, for example in a driver or on a disk.
    :ivar cut: LIMIT if it was ended by the total timeout, STALL by the timeout without progress; else empty.
    :ivar seconds: how long it took.
    """

    rc: int | None
    cut: str
    seconds: float


def follow(
    command: Sequence[str],
    environment: Mapping[str, str],
    on_output: Callable[[bytes], bool],
    limit_s: float,
    stall_s: float | None = None,
    grace_s: float = 5.0,
    cwd: str | None = None,
) -> Ended:
    """Run a command in its own process group, pass on its output, and end the group at a timeout.

    Background processes of a command that ended in time continue to run; they are not waited for. An exception of
    ``on_output`` or an interrupt kills the group.

    :param environment: the complete environment.
    :param on_output: gets both streams as they arrive, and returns whether there was progress.
    :param limit_s: total timeout.
    :param stall_s: timeout without progress; None for none.
    :param grace_s: how long it may take to end after SIGTERM.
    :raises OSError: it cannot be started.
    """
    began = moved = time.monotonic()
    # The node core does not import Ansible, so there is no AnsibleModule.run_command.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        list(command),
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = _Output(process)
    cut = ""
    try:
        # Wait for the process, not for the end of its output: a background process may keep the output open forever.
        while process.poll() is None:
            now = time.monotonic()
            if now >= began + limit_s or (stall_s is not None and now >= moved + stall_s):
                cut = LIMIT if now >= began + limit_s else STALL
                break
            ends = [began + limit_s, *([] if stall_s is None else [moved + stall_s])]
            chunk = output.wait(min(ends) - now)
            if chunk and on_output(chunk):
                moved = time.monotonic()
        if cut:
            end_group(process.pid, lambda: process.poll() is not None, grace_s)
        for chunk in output.rest():
            on_output(chunk)
    except BaseException:
        end_group(process.pid, lambda: process.poll() is not None, 0)
        raise
    finally:
        output.close()
    return Ended(process.returncode, cut, time.monotonic() - began)


class _Output:
    """A process's output, read as it arrives."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            raise ValueError("its output is not a pipe")
        self._file = process.stdout
        self._open = True
        self._pause_s = _SHORTEST_LOOK_S
        os.set_blocking(self._file.fileno(), False)

    def wait(self, limit_s: float) -> bytes:
        """Return the available output, immediately or after a short wait; the process may have ended by then."""
        pause_s = min(max(limit_s, 0.0), self._pause_s)
        if self._open:
            select.select([self._file], [], [], pause_s)
        else:
            time.sleep(pause_s)
        chunk = self._read()
        self._pause_s = _SHORTEST_LOOK_S if chunk else min(self._pause_s * 1.5, _LONGEST_LOOK_S)
        return chunk

    def rest(self) -> list[bytes]:
        """Return the remaining output of a process that has ended."""
        return list(iter(self._read, b""))

    def close(self) -> None:
        self._file.close()

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._file.fileno(), 1 << 16) if self._open else b""
        except BlockingIOError:
            return b""
        self._open = self._open and bool(chunk)
        return chunk


_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.002, 0.1


def end_group(leader: int, has_ended: Callable[[], bool], term_s: float, kill_s: float = 2.0) -> bool:
    """End a process and its group, and return whether the process has ended: if it hangs in the kernel, it cannot.

    :param has_ended: returns whether the leader has ended; it must reap it.
    :param term_s: how long it may take to end after SIGTERM; 0 sends SIGKILL immediately.
    :param kill_s: how long to wait after SIGKILL.
    """
    # Send SIGKILL even if the leader has ended: other processes of the group may have ignored SIGTERM.
    for number, wait_s in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        if wait_s > 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, number)
            wait_until(has_ended, wait_s, _SHORTEST_LOOK_S)
    return has_ended()
