# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Ends a job that hangs: its user's process watches a file that the training touches, and takes stacks before the end.

If NCCL runs, its own report about all ranks is taken too.

It runs as the job's user, on each node of the job, so it can neither read nor end anything of others. A step that is
slow but works is no hang: the limit grows with the longest pause between two changes that was seen before.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..job.checkpoint.directory import Signal, find_finished
from ..machine.own_files import ForeignFile, open_own, write_own
from ..machine.proc import Process, read_processes
from ..machine.root import Root
from ..machine.run import CommandFailed, must
from .comment import HANG, LIMIT_S, Bounded, NoNote, add_notes, add_saved, job_of, restarts_of

FACTOR = 10.0
"""A pause is a hang only if it is this many times as long as the longest one before."""
_LOOK_S = 5.0
_MOST_PROCESSES = 16
_PROGRAM = "py-spy"


@dataclass(frozen=True)
class Limits:
    """When a job hangs.

    :ivar hang_s: shortest time without a change that counts as a hang, in seconds.
    :ivar start_s: how long the first change may take: the job loads its data and its model.
    :ivar settle_s: wait before the job is ended, so that the watchdogs of other nodes can take their stacks.
    """

    hang_s: float = 1800.0
    start_s: float = 7200.0
    settle_s: float = 60.0


class Progress:
    """Decides whether a job hangs. Pure; it is given what was seen, and when.

    :param now: when the watchdog started.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._mark: object = None
        self._changed_at = now
        self._longest = 0.0
        self._seen = False

    @property
    def limit_s(self) -> float:
        """The longest time without a change at the moment."""
        return max(self._limits.hang_s, FACTOR * self._longest) if self._seen else self._limits.start_s

    def hangs(self, mark: object, now: float) -> float | None:
        """Return for how long nothing has changed, if that is a hang; else None.

        :param mark: anything that differs after progress; None if there is no file yet.
        """
        if mark != self._mark and mark is not None:
            if self._seen:
                self._longest = max(self._longest, now - self._changed_at)
            self._seen = self._seen or self._mark is not None
            self._mark, self._changed_at = mark, now
            return None
        waited = now - self._changed_at
        return waited if waited > self.limit_s else None

    def cannot_see(self, now: float) -> None:
        """Measure pauses from now on: until now, the training may have made progress without being seen."""
        self._changed_at = now


_STEP = re.compile(r"hpcai step ([0-9]{1,12})\n")


def progress_file(environment: Mapping[str, str]) -> str:
    """Return the usual path of a job's file of progress: all its nodes see the folder where it was submitted."""
    return f"{environment.get('SLURM_SUBMIT_DIR') or '.'}/hpcai-progress-{job_of(environment)}"


def write_step(path: str, step: int) -> None:
    """Write the last completed step to the file of progress. Others may be able to write to its folder.

    :raises OSError: it cannot be written.
    """
    write_own(path, f"hpcai step {step}\n")


def mark_of(path: str) -> object:
    """Return what changes with a file, or its step if ``write_step`` wrote it; None without a file.

    A program that repeats one step makes no progress, although it writes.

    :raises ForeignFile: another user created it, so it says nothing about this job.
    """
    try:
        handle = open_own(path)
        try:
            facts = os.fstat(handle)
            text = os.read(handle, 64) if stat.S_ISREG(facts.st_mode) else b""
        finally:
            os.close(handle)
    except ForeignFile:
        raise
    except OSError:
        return None
    step = _STEP.fullmatch(text.decode("ascii", "replace"))
    return int(step[1]) if step else (facts.st_mtime_ns, facts.st_size)


class Saves:
    """Notes the checkpoints of a folder in the job's comment, for a training without a store.

    :param folder: contains a folder for each checkpoint, which is complete when it contains ``.complete``.
    """

    def __init__(self, folder: str, environment: Mapping[str, str], run: Bounded, write: Callable[[str], None]) -> None:
        self._folder, self._environment, self._run, self._write = folder, environment, run, write
        self._noted = ""

    def look(self) -> None:
        """Note the newest complete checkpoint, if it is a new one."""
        try:
            newest = max(find_finished(self._folder, Signal()), key=lambda one: one.when, default=None)
        except OSError:
            return
        if newest is None or newest.stamp == self._noted:
            return
        self._noted = newest.stamp
        try:
            add_saved(self._environment, newest.step, newest.when, self._run)
        except (CommandFailed, NoNote) as error:
            self._write(f"the checkpoint of step {newest.step} is not in the job's comment: {error}")


def stacks(run: Bounded, uid: int, root: Root | None = None) -> list[str]:
    """Return the stacks of this user's Python processes on this node, if py-spy is installed."""
    program = shutil.which(_PROGRAM)
    machine = root or Root()
    own = [pid for pid, _path in machine.numbered("/proc", "") if pid != os.getpid() and _owner(machine, pid) == uid]
    found = [one for one in read_processes(machine, own) if _is_python(machine, one)]
    if program is None:
        names = ", ".join(f"{one.pid} ({one.name})" for one in found[:_MOST_PROCESSES]) or "none"
        return [f"no stacks: {_PROGRAM} is not installed; Python processes: {names}"]
    made = []
    for one in found[:_MOST_PROCESSES]:
        answer = run([program, "dump", "--nonblocking", "--pid", str(one.pid)], LIMIT_S)
        text = answer.stdout.strip() if answer.rc == 0 else f"no stack: {answer.stderr.strip()[:200]}"
        made.append(f"process {one.pid}: {text}")
    return made or ["no stacks: there are no Python processes"]


def _is_python(root: Root, one: Process) -> bool:
    """Whether a process runs Python, and is not hpcnode. Frameworks rename processes, so their names do not say so."""
    return (root.link_name(f"/proc/{one.pid}/exe") or "").startswith("python") and one.name != "hpcnode"


RAS_PORT = 28028
_RAS_S = 30.0
_MOST_RAS = 65536


def ras_status(port: int = RAS_PORT, limit_s: float = _RAS_S) -> list[str]:
    """Return what NCCL's RAS threads report about all ranks of the job, if NCCL (from 2.24 on) runs on this node.

    It compares how many operations each rank has started, and marks a rank that is behind with MISMATCH. It listens on
    loopback, and its protocol is text (NCCL user guide, RAS). Whoever listens there may send anything, so the answer is
    evidence for the job's log and no more.
    """
    received = b""
    deadline = time.monotonic() + limit_s
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(b"verbose status\n")
            while len(received) < _MOST_RAS and time.monotonic() < deadline:
                connection.settimeout(max(deadline - time.monotonic(), 0.1))
                chunk = connection.recv(4096)
                if not chunk:
                    break
                received += chunk
    except OSError:
        # Nobody listens there: the training does not use NCCL, or its RAS is turned off.
        pass
    lines = received[:_MOST_RAS].decode("utf-8", "replace").splitlines()
    return [f"NCCL RAS: {''.join(one if one.isprintable() else ' ' for one in line)}" for line in lines if line.strip()]


def _owner(root: Root, pid: int) -> int:
    try:
        return os.stat(root.at(f"/proc/{pid}")).st_uid
    except OSError:
        return -1


def watch(
    path: str,
    limits: Limits,
    environment: Mapping[str, str],
    run: Bounded,
    write: Callable[[str], None],
    ended: Callable[[], bool] = lambda: False,
    saves: Saves | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Watch a file until the job hangs or ends; return whether it was ended for a hang.

    :param environment: Slurm's variables of the job.
    :param write: writes a line to the job's log.
    :param ended: whether the training has ended.
    :param saves: notes checkpoints; None if a store has them.
    """
    progress = Progress(limits, clock())
    problem = ""
    while True:
        # Before the end too: the last checkpoint may be the newest.
        if saves:
            saves.look()
        if ended():
            return False
        try:
            waited = progress.hangs(mark_of(path), clock())
        except ForeignFile as error:
            waited = None
            progress.cannot_see(clock())
            if str(error) != problem:
                problem = str(error)
                write(f"a hang would not be noticed: {problem}")
        if waited is not None:
            write(f"hang: {path} has not changed for {waited:.0f} s (limit {progress.limit_s:.0f} s)")
            # All nodes would report the same.
            is_first = environment.get("SLURM_NODEID", "0") == "0"
            for line in (*stacks(run, os.geteuid()), *(ras_status() if is_first else ())):
                write(line)
            pause(limits.settle_s)
            _end(environment, run, write)
            return True
        pause(_LOOK_S)


def _end(environment: Mapping[str, str], run: Bounded, write: Callable[[str], None]) -> None:
    """Note the hang in the job's comment for the recovery, and kill the job's steps; its script goes on and ends."""
    job = job_of(environment)
    try:
        add_notes(job, [f"{HANG}={restarts_of(environment)}"], run)
    except (CommandFailed, NoNote) as error:
        write(f"the hang is not in the job's comment: {error}")
    try:
        steps = must(run(["squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i"], LIMIT_S)).stdout.split()
        own = f"{job}.{environment.get('SLURM_STEP_ID', '')}"
        # SIGKILL for a job without a step would cancel the job, and nobody starts a cancelled job again.
        ranks = [step for step in steps if step.rpartition(".")[2].isdecimal() and step != own]
        if ranks:
            must(run(["scancel", "--signal=KILL", *ranks], LIMIT_S))
        write(f"ended {', '.join(ranks) or 'no step: there is none'}")
    except CommandFailed as error:
        write(f"cannot end the steps of job {job}: {error}")
