# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a job that ended is started again: requeued, without which nodes and after which wait, or held and why.

``hpcnode train end`` and the recovery of jobs that ask for it use the same decision. It is pure: the caller collects
the job's runs and carries the decision out.

A restart costs the time of all nodes, so it must be likely to help. A job is requeued if it got further than before;
a restart that repeats the same failure is held, and its user reads the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..slurm.hostlist import compress

EXIT, NODE, HANG, PREFLIGHT, PREEMPTED, TIME_LIMIT, CANCELLED = CAUSES = (
    "exit",
    "node",
    "hang",
    "preflight",
    "preempted",
    "time_limit",
    "cancelled",
)
"""Why a run ended: its program exited, a node failed, it hung and was killed, the checks before it refused a node, the
platform took a node, Slurm's time limit passed, somebody cancelled it."""
REQUEUE, HOLD, LEAVE = ACTIONS = ("requeue", "hold", "leave")

USELESS: Mapping[int, str] = {
    2: "wrong arguments",
    64: "wrong arguments",
    65: "invalid data, such as a loss that is not a number",
    66: "a file or data set is missing",
    73: "a file cannot be written: the disk is full, or the folder is missing",
    77: "a permission is missing",
    78: "the configuration is invalid",
    126: "the program cannot be executed",
    127: "the program was not found",
}
"""Exit statuses that a restart repeats: argparse's 2, those of sysexits(3), and the shell's two."""
_PLANNED = (PREEMPTED, TIME_LIMIT)
_SIGNALLED = 128
"""Shells and srun report a program that a signal ended as 128 and the signal's number."""


@dataclass(frozen=True)
class JobRun:
    """One run of a job, from its start to its end.

    :ivar nodes: the nodes that it had.
    :ivar cause: one of ``CAUSES``.
    :ivar status: exit status of its program, for the cause ``exit``; None if unknown.
    :ivar failed: the nodes where it failed first; empty if unknown.
    :ivar started_at: the step from which it continued; None if unknown.
    :ivar kept: the step from which the next run can continue, which is that of the newest complete checkpoint; None if
        unknown.
    :ivar invalid: why no node can run the program, for the cause ``preflight``; empty if another node may help.
    """

    nodes: tuple[str, ...]
    cause: str
    status: int | None = None
    failed: tuple[str, ...] = ()
    started_at: int | None = None
    kept: int | None = None
    invalid: str = ""

    @property
    def advanced(self) -> bool:
        """Whether the next run starts later than this one did. False if that is unknown."""
        return self.started_at is not None and self.kept is not None and self.kept > self.started_at

    @property
    def succeeded(self) -> bool:
        """Whether its program ended without an error."""
        return self.cause == EXIT and self.status == 0

    @property
    def refused_everywhere(self) -> bool:
        """Whether the checks before the start refused all of several nodes, or the program can run on no node."""
        all_nodes = len(self.nodes) > 1 and {*self.nodes} <= {*self.failed}
        return self.cause == PREFLIGHT and (all_nodes or bool(self.invalid))


@dataclass(frozen=True)
class Limits:
    """How often and how soon a job is started again.

    :ivar requeues: the maximum number of requeues after failures. A run that ended at its time limit or by an eviction
        does not count if it advanced: a training of weeks has many of these.
    :ivar without_progress: after this many consecutive runs that did not advance, the job is held.
    :ivar first_wait_s: wait before a restart of a run that did not advance, in seconds; doubled each time.
    :ivar longest_wait_s: the maximum wait, in seconds.
    """

    requeues: int = 3
    without_progress: int = 2
    first_wait_s: int = 60
    longest_wait_s: int = 900


@dataclass(frozen=True)
class Decision:
    """What to do with a job whose last run ended.

    :ivar action: one of ``ACTIONS``; ``leave`` for a job that finished or was cancelled.
    :ivar reason: one sentence for the user: why, and for a hold what to do.
    :ivar leave_out: nodes on which the next run must not start, by name.
    :ivar wait_s: seconds to wait before the next run.
    """

    action: str
    reason: str
    leave_out: tuple[str, ...] = ()
    wait_s: int = 0


def decide(runs: Sequence[JobRun], limits: Limits, known_bad: Mapping[str, str]) -> Decision:
    """Return what to do after the last of these runs. Pure.

    :param runs: all runs of the job, oldest first; at least one.
    :param known_bad: why a node is known to be faulty, by node: from the health checks or Slurm's drain reasons.
    """
    last = runs[-1]
    if last.cause == CANCELLED:
        return Decision(LEAVE, "The job was cancelled.")
    if last.succeeded:
        return Decision(LEAVE, "The job finished.")
    out = _leave_out(runs, known_bad)
    reasons = (
        _refused(last, known_bad),
        _useless(last),
        _own_bug(runs, known_bad),
        _spent(runs, limits),
        _stuck(runs, limits, known_bad),
    )
    for why in reasons:
        if why:
            return Decision(HOLD, why, out)
    idle = _idle_runs(runs, known_bad)
    wait = min(limits.first_wait_s * 2 ** (idle - 1), limits.longest_wait_s) if idle else 0
    without = f", without {compress(out)}" if out else ""
    return Decision(REQUEUE, f"{_ended(last)}; {_progress(last)}. Requeued{without}.", out, wait)


def _refused(last: JobRun, known_bad: Mapping[str, str]) -> str:
    if not last.refused_everywhere or (not last.invalid and _is_explained(last, known_bad)):
        return ""
    if last.invalid:
        # Slurm has a copy of the script, so its user cannot correct it.
        action = "Submit a corrected script, and cancel this job."
        return f"Held: no node can run this job: {last.invalid.rstrip('.')}. {action}"
    return (
        f"Held: {_ended(last)}. These are all nodes of the job, so other nodes would not help. "
        "Correct the cause, then release the job."
    )


def _useless(last: JobRun) -> str:
    if last.cause != EXIT or last.status is None or last.status not in USELESS:
        return ""
    return (
        f"Held: exit status {last.status} means {USELESS[last.status]}, which a restart would repeat. "
        "Correct the cause, then release the job."
    )


def _own_bug(runs: Sequence[JobRun], known_bad: Mapping[str, str]) -> str:
    """Return a reason if the program failed twice in the same way, on different nodes and without getting further."""
    if len(runs) < 2:
        return ""
    before, last = runs[-2:]
    if last.advanced or _is_explained(before, known_bad) or _is_explained(last, known_bad):
        return ""
    if before.cause != EXIT or last.cause != EXIT or last.status is None or before.status != last.status:
        return ""
    first, second = (set(run.failed or run.nodes) for run in (before, last))
    if last.status > _SIGNALLED or first & second:
        return ""
    return (
        f"Held: the program ended with status {last.status} on {compress(sorted(first))} and again on "
        f"{compress(sorted(second))}, so the cause is the program and not a node. Correct it, then release the job."
    )


def _spent(runs: Sequence[JobRun], limits: Limits) -> str:
    failures = [run for run in runs if not (run.cause in _PLANNED and run.advanced)]
    if runs[-1] not in failures or len(failures) <= limits.requeues:
        return ""
    return (
        f"Held: {_ended(runs[-1])}, and the job was already requeued after {limits.requeues} failures, "
        "the limit. Find the cause, then release the job."
    )


def _stuck(runs: Sequence[JobRun], limits: Limits, known_bad: Mapping[str, str]) -> str:
    idle = _idle_runs(runs, known_bad)
    if idle < limits.without_progress:
        return ""
    return (
        f"Held: {_ended(runs[-1])}, and {idle} runs in a row made no progress ({_progress(runs[-1])}). "
        "Find the cause, then release the job."
    )


def _idle_runs(runs: Sequence[JobRun], known_bad: Mapping[str, str]) -> int:
    """Return how many of the last runs in a row did not advance, and had no cause outside of the job."""
    count = 0
    for run in reversed(runs):
        if run.advanced:
            break
        if run.cause not in (PREEMPTED, PREFLIGHT) and not _is_explained(run, known_bad):
            count += 1
    return count


def _is_explained(run: JobRun, known_bad: Mapping[str, str]) -> bool:
    """Return whether a known fault of a node explains the run's end."""
    return any(node in known_bad for node in run.failed)


def _leave_out(runs: Sequence[JobRun], known_bad: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes that the next run must not use: known faults, nodes that failed, and one that failed twice."""
    used = {node for run in runs for node in run.nodes}
    out = {node for node in known_bad if node in used}
    for run in runs:
        if run.cause in (NODE, PREFLIGHT) and not run.refused_everywhere:
            out.update(run.failed)
    failures: dict[str, int] = {}
    for run in runs:
        # If a run failed on most of its nodes at once, no node is the cause.
        if run.cause in (EXIT, HANG) and not run.succeeded and len(run.failed) == 1 and len(run.nodes) > 1:
            failures[run.failed[0]] = failures.get(run.failed[0], 0) + 1
    out.update(node for node, times in failures.items() if times > 1)
    return tuple(sorted(out))


def _ended(run: JobRun) -> str:
    on = f" on {compress(sorted(run.failed))}" if run.failed else ""
    if run.cause == EXIT:
        status = "an unknown status" if run.status is None else f"status {run.status}"
        if run.status is not None and run.status > _SIGNALLED:
            status = f"signal {run.status - _SIGNALLED}"
        return f"the program ended with {status}{on}"
    return {
        NODE: f"a node failed{on}",
        HANG: f"the program made no progress and was ended{on}",
        PREFLIGHT: f"the checks before the start refused {compress(sorted(run.failed)) or 'a node'}",
        PREEMPTED: f"the platform evicted a node{on}",
        TIME_LIMIT: "the time limit passed",
    }[run.cause]


def _progress(run: JobRun) -> str:
    if run.kept is None or run.started_at is None:
        return "its progress is unknown"
    if run.advanced:
        return f"it advanced from step {run.started_at} to {run.kept}"
    return f"it did not advance beyond step {run.started_at}"
