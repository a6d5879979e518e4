# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Ends a job that hangs: its user's process watches a file that the training touches, and takes stacks before the end.

It runs as the job's user, on each node of the job, so it can neither read nor end anything of others. A step that is
slow but works is no hang: the limit grows with the longest pause between two changes that was seen before.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ledger.accounting import JobRun, Query, query, read_runs
from ..machine.proc import read_processes
from ..machine.root import Root
from ..machine.run import CommandFailed, Result, must

FACTOR = 10.0
"""A pause is a hang only if it is this many times as long as the longest one before."""
_LOOK_S = 5.0
_STACK_S = 20.0
_MOST_PROCESSES = 16
_PROGRAM = "py-spy"

Bounded = Callable[[Sequence[str], float], Result]


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


def mark_of(path: str) -> tuple[int, int] | None:
    """Return what changes when a file is touched or written; None without a file."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def stacks(run: Bounded, uid: int, root: Root | None = None) -> list[str]:
    """Return the stacks of this user's Python processes on this node, if py-spy is installed."""
    program = shutil.which(_PROGRAM)
    machine = root or Root()
    found = [one for one in read_processes(machine) if "python" in one.name and _owner(machine, one.pid) == uid]
    if program is None:
        names = ", ".join(f"{one.pid} ({one.name})" for one in found[:_MOST_PROCESSES]) or "none"
        return [f"no stacks: {_PROGRAM} is not installed; Python processes: {names}"]
    made = []
    for one in found[:_MOST_PROCESSES]:
        if one.pid == os.getpid():
            continue
        answer = run([program, "dump", "--nonblocking", "--pid", str(one.pid)], _STACK_S)
        text = answer.stdout.strip() if answer.rc == 0 else f"no stack: {answer.stderr.strip()[:200]}"
        made.append(f"process {one.pid}: {text}")
    return made or ["no stacks: there are no Python processes"]


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
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
    ask: Query = query,
) -> bool:
    """Watch a file until the job hangs or ends; return whether it was ended for a hang.

    :param environment: Slurm's variables of the job.
    :param write: writes a line to the job's log.
    :param ended: whether the training has ended.
    """
    progress = Progress(limits, clock())
    while not ended():
        waited = progress.hangs(mark_of(path), clock())
        if waited is not None:
            write(f"hang: {path} has not changed for {waited:.0f} s (limit {progress.limit_s:.0f} s)")
            for line in stacks(run, os.geteuid()):
                write(line)
            pause(limits.settle_s)
            _end(environment, run, write, ask)
            return True
        pause(_LOOK_S)
    return False


def _end(environment: Mapping[str, str], run: Bounded, write: Callable[[str], None], ask: Query) -> None:
    """Note the hang in the job's comment for the recovery, and kill the job's steps; its script goes on and ends."""
    job, restart = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_RESTART_COUNT") or "0"
    try:
        comment = _comment(int(job), ask)
        word = f"hpcai:hang={restart}"
        if comment and word not in comment.split(","):
            must(run(["scontrol", "update", f"JobId={job}", f"Comment={comment},{word}"], _STACK_S))
    except (CommandFailed, ValueError) as error:
        write(f"the hang is not in the job's comment: {error}")
    answer = run(["scancel", "--signal=KILL", job], _STACK_S)
    write(f"ended the steps of job {job}" if answer.rc == 0 else f"cannot end job {job}: {answer.stderr.strip()}")


def _comment(job: int, ask: Query) -> str:
    """Return the job's comment if it is one line with a word ``hpcai:``; else an empty text, and nothing is changed."""
    found: list[JobRun] = []
    read_runs(0.0, time.time(), found.append, ask, [job])
    comment = found[-1].comment if found else ""
    return comment if comment.isprintable() else ""
