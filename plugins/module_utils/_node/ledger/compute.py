# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Computes the ledger of a window from its sources, a day or less at a time, so that memory is bounded.

What stays in memory from one part to the next has limits too, because users decide how many jobs, trainings and notes
about checkpoints there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .accounting import Event, JobRun, Registration, Skipped, by_node, slices
from .buckets import (
    ABSENT,
    BY_CHECK,
    BY_PEOPLE,
    DOWN,
    HOLD,
    KEPT,
    LOST,
    ORDER,
    Interval,
    as_intervals,
    of_run,
    rank_of,
    sweep,
)
from .checkpoints import Index
from .machines import Machines
from .parts import Hosts, ReadRuns, WindowPart, read_parts
from .presence import declared, without_machine
from .reliability import Failure, failures_of

CAUSES: Mapping[str, str] = {
    "NODE_FAIL": "node",
    "BOOT_FAIL": "node",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "CANCELLED": "cancelled",
    "FAILED": "program",
    "OUT_OF_MEMORY": "program",
}
"""Why work was lost, by the state in which the run ended. A program that failed is no fault of a node."""
_REMEMBERED_S = 86400.0
"""How long after its end a run is kept in memory, because its job may start again."""
_MOST_REMEMBERED = 50_000
_MOST_NAMES = 1000
"""Trainings of a user, and jobs of these, that are listed. The work of further trainings is added up."""
OTHERS = "other trainings"
"""Name of what further trainings of a user did. No training has it, because a name in a comment has no blank."""
_BLAME_S = 900.0
"""Slurm ends a run when it notices a dead node, up to SlurmdTimeout after the outage began."""


@dataclass
class Work:
    """What one job or training did. Times are wall-clock seconds, not node-seconds, except where named so.

    :ivar eligible: when the first run could have started.
    :ivar end: when the last run ended, or now.
    :ivar interruptions: runs that ended without completing.
    :ivar joined: whether it is the sum of several, which may have run at the same time.
    """

    eligible: float = float("inf")
    end: float = 0.0
    runs: int = 0
    interruptions: int = 0
    nodes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    joined: bool = False

    @property
    def ettr(self) -> float | None:
        """The effective training time ratio: kept ÷ (last end - first eligible); None if what was kept is unknown.

        The sum of several has none: their kept times are added, but their wall-clock time may be the same.
        """
        wall = self.end - self.eligible
        if self.joined or wall <= 0 or (not self.seconds.get(KEPT) and not self.seconds.get(LOST)):
            return None
        return min(self.seconds.get(KEPT, 0.0) / wall, 1.0)


@dataclass
class Ledger:
    """The result.

    :ivar totals: seconds of each node and machine, in the order of ``ORDER``.
    :ivar machine_times: when a node was which machine.
    :ivar work: by training, or ``job NUMBER`` of a job with known checkpoints and without a training; and by user,
        because a user can give a job the name of another user's training.
    :ivar jobs: by training, user and number, the jobs of trainings whose checkpoints are known.
    :ivar lost: lost node-seconds by cause.
    :ivar blamed: lost node-seconds by the node, and its machine, whose failure ended a run.
    :ivar failures: of all nodes.
    :ivar runs: how many runs overlap the window.
    :ivar decisions: of the recovery, the newest last.
    :ivar notes: what could not be used or is uncertain, one sentence each.
    """

    since: float
    until: float
    totals: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    machine_times: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    work: dict[tuple[str, str], Work] = field(default_factory=dict)
    jobs: dict[tuple[str, str, int], Work] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    blamed: dict[tuple[str, str], float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    runs: int = 0
    requeues: int = 0
    decisions: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _named: dict[tuple[str, str], int] = field(default_factory=dict)

    def work_of(self, name: str, user: str) -> Work:
        """Return the work of a training, or that of all further ones of this user."""
        listed = (name, user) in self.work or self._may_name("work", user)
        return self.work.setdefault((name if listed else OTHERS, user), Work(joined=not listed))

    def job_of(self, training: str, user: str, job: int) -> Work | None:
        """Return the work of a job of a training; None if too many jobs of this user are listed already."""
        listed = (training, user, job) in self.jobs or self._may_name("job", user)
        return self.jobs.setdefault((training, user, job), Work()) if listed else None

    def _may_name(self, what: str, user: str) -> bool:
        count = self._named[what, user] = self._named.get((what, user), 0) + 1
        return count <= _MOST_NAMES

    def seconds(self, bucket: str) -> float:
        """Return the node-seconds in a bucket."""
        return sum(totals[rank_of(bucket)] for totals in self.totals.values())


@dataclass(frozen=True)
class Sources:
    """What the ledger is computed from.

    :ivar nodes: names of nodes that exist now; others are learned from registrations, runs and events.
    :ivar gone: since when nodes have no machine, in seconds since the epoch, for nodes that have none now.
    :ivar registrations: the nodes of the cluster by time; without any, each node is there for all of the window.
    :ivar read_runs: passes on the runs that overlap a time.
    :ivar training: the training whose work is listed; empty for all.
    :ivar jobs: trainings of jobs without a comment, by job.
    """

    nodes: Sequence[str]
    events: Sequence[Event]
    read_runs: ReadRuns
    checkpoints: Index = field(default_factory=Index)
    machines: Machines = field(default_factory=Machines)
    training: str = ""
    jobs: Mapping[int, str] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    registrations: Sequence[Registration] = ()

    def training_of(self, run: JobRun) -> str:
        """Return the name of a run's training; empty if it has none."""
        return run.training or self.jobs.get(run.job, "")


def compute(sources: Sources, since: float, until: float) -> Ledger:
    """Return the ledger of a window. Its node-seconds are the nodes times the window, less the time without a machine.

    A node that had no machine in the window is left out.

    :raises CommandFailed: slurmdbd does not answer.
    """
    ledger = Ledger(since, until)
    events = by_node(sources.events)
    spans = declared(sources.registrations, until)
    names = {*sources.nodes, *events, *spans}
    outages: dict[str, list[Interval]] = {}
    for node in sorted(names):
        there = spans.get(node, []) if spans else None
        listed, absent = without_machine(events.get(node, ()), there, sources.gone.get(node), since, until)
        ledger.failures += failures_of(listed)
        outages[node] = as_intervals(listed, until) + [(begin, stop, rank_of(ABSENT)) for begin, stop in absent]
    before: dict[int, JobRun] = {}
    hosts = Hosts()
    skipped = Skipped()
    first = True
    for part in (
        part for start, end in slices(since, until) for part in read_parts(sources.read_runs, start, end, until, hosts)
    ):
        for why, count in part.skipped.counts.items():
            skipped.add(why, count)
        intervals: dict[str, list[Interval]] = {}
        before = _add_runs(ledger, sources, part, intervals, before)
        sources.checkpoints.keep_noted(before)
        new = set(intervals) - names
        if new:
            names |= new
            if not first:
                # Before, it was idle or had no machine; which of these is unknown, so that time is left out.
                ledger.notes.append(
                    f"{len(new)} nodes are known only from their jobs, and count from their first job on."
                )
        for node in names:
            combined = [*intervals.get(node, ()), *outages.get(node, ())]
            for machine, begin, stop in sources.machines.parts(node, part.since, part.until):
                totals = ledger.totals.setdefault((node, machine), [0.0] * len(ORDER))
                sweep(combined, begin, stop, totals)
                if machine:
                    _add_time(ledger.machine_times.setdefault((node, machine), []), begin, stop)
        first = False
    ledger.notes += [f"{count} records were skipped: {why}." for why, count in skipped.counts.items()]
    _leave_out_absent(ledger)
    return ledger


def _add_time(times: list[tuple[float, float]], begin: float, stop: float) -> None:
    if times and times[-1][1] == begin:
        begin = times.pop()[0]
    times.append((begin, stop))


def _leave_out_absent(ledger: Ledger) -> None:
    """Remove the nodes that had no machine: a cluster may have many spare nodes and slots."""
    place = rank_of(ABSENT)
    there = {node for (node, _machine), totals in ledger.totals.items() if sum(totals) > totals[place]}
    ledger.totals = {key: totals for key, totals in ledger.totals.items() if key[0] in there}
    ledger.machine_times = {key: times for key, times in ledger.machine_times.items() if key[0] in there}


def _add_runs(
    ledger: Ledger,
    sources: Sources,
    part: WindowPart,
    intervals: dict[str, list[Interval]],
    before: Mapping[int, JobRun],
) -> dict[int, JobRun]:
    """Add the runs of one part, and return the last run of each job that waits for a later one, may be requeued or
    still runs."""
    since, until = window = part.since, part.until
    last: dict[int, JobRun] = dict(before)
    for run in sorted(part.runs, key=lambda one: (one.job, one.start)):
        nodes = part.hosts(run.nodes)
        earlier = last.get(run.job)
        if earlier is not None and earlier.start < run.start and earlier.end is not None:
            _add_hold(earlier, run.start, intervals, part.hosts)
            if since <= run.start < until:
                ledger.requeues += 1
        last[run.job] = run
        for name, when in run.saved:
            sources.checkpoints.add(name, when)
        training, stop = sources.training_of(run), run.end or ledger.until
        kept = sources.checkpoints.last_in(run.job, run.start, stop, training, run.user)
        known = sources.checkpoints.knows(run.job, training, run.start, stop, run.user)
        parts = of_run(run, kept, known, ledger.until)
        for start, end, bucket in parts:
            interval = (start, end, rank_of(bucket))
            for node in nodes:
                intervals.setdefault(node, []).append(interval)
        name = training or (f"job {run.job}" if known else "")
        clipped = _add_run(ledger, sources.machines, run, parts, nodes, window)
        if name and sources.training in ("", name):
            job = ledger.job_of(training, run.user, run.job) if training and known else None
            for work in (ledger.work_of(name, run.user), job):
                if work:
                    _add_work(work, ledger, run, clipped, len(nodes), window)
    waiting = part.later & set(last)
    for number in waiting:
        # The next parts have the rest of the wait.
        _add_hold(last[number], until, intervals, part.hosts)
    return _remembered(last, waiting, until)


def _remembered(last: Mapping[int, JobRun], waiting: set[int], until: float) -> dict[int, JobRun]:
    """Return the runs to keep for the next part. If they are too many, those of which the fewest jobs start again are
    left out: first those that completed, and of these the oldest, because Slurm forgets a job some minutes later."""

    def order(run: JobRun) -> tuple[bool, bool, float]:
        return (run.end is not None and run.job not in waiting, run.state == "COMPLETED", -(run.end or 0.0))

    kept = [run for job, run in last.items() if run.end is None or run.end > until - _REMEMBERED_S or job in waiting]
    if len(kept) > _MOST_REMEMBERED:
        kept = sorted(kept, key=order)[:_MOST_REMEMBERED]
    return {run.job: run for run in kept}


def _add_hold(earlier: JobRun, until: float, intervals: dict[str, list[Interval]], hosts: Hosts) -> None:
    """The nodes of the earlier run wait, as long as they are idle, until the job starts again."""
    if earlier.end is not None:
        for node in hosts(earlier.nodes):
            intervals.setdefault(node, []).append((max(earlier.end, 0.0), until, rank_of(HOLD)))


def _add_run(
    ledger: Ledger,
    machines: Machines,
    run: JobRun,
    parts: Sequence[tuple[float, float, str]],
    nodes: Sequence[str],
    window: tuple[float, float],
) -> dict[str, float]:
    """Count a run and what it lost, and return its seconds in the slice by bucket."""
    since, until = window
    ledger.runs += _counts_here(ledger, run, window)
    clipped: dict[str, float] = {}
    for start, end, bucket in parts:
        seconds = min(end, until) - max(start, since)
        if seconds > 0:
            clipped[bucket] = clipped.get(bucket, 0.0) + seconds
    lost = clipped.get(LOST, 0.0) * len(nodes)
    if lost:
        cause = CAUSES.get(run.state, "other")
        ledger.lost[cause] = ledger.lost.get(cause, 0.0) + lost
        if cause == "node":
            _blame(ledger, machines, run, nodes, lost)
    return clipped


def _counts_here(ledger: Ledger, run: JobRun, window: tuple[float, float]) -> bool:
    """Whether a run is counted in this slice: that of its start, or the first one if it began before."""
    since, until = window
    return since <= run.start < until or run.start < ledger.since == since


def _add_work(
    work: Work, ledger: Ledger, run: JobRun, clipped: Mapping[str, float], nodes: int, window: tuple[float, float]
) -> None:
    """Add one slice of a run to the work of its training or job."""
    since, until = window
    work.eligible = min(work.eligible, max(run.eligible, ledger.since))
    work.end = max(work.end, min(run.end if run.end is not None else ledger.until, ledger.until))
    work.nodes = max(work.nodes, nodes)
    work.runs += _counts_here(ledger, run, window)
    ended = run.end is not None and since <= run.end < until
    work.interruptions += ended and run.state != "COMPLETED"
    for bucket, seconds in clipped.items():
        work.seconds[bucket] = work.seconds.get(bucket, 0.0) + seconds


def _blame(ledger: Ledger, machines: Machines, run: JobRun, nodes: Sequence[str], lost: float) -> None:
    """Divide lost node-seconds among the nodes of the run that failed at its end."""
    end = run.end or ledger.until
    failed = {
        one.node: one.start
        for one in ledger.failures
        if one.node in nodes and end - _BLAME_S <= one.start <= end + _BLAME_S / 10
    }
    for node, when in failed.items():
        key = (node, machines.at(node, when))
        ledger.blamed[key] = ledger.blamed.get(key, 0.0) + lost / len(failed)


def service_s(totals: Sequence[float]) -> float:
    """Return the seconds in which a node could have taken jobs."""
    out = (BY_CHECK, BY_PEOPLE, DOWN, ABSENT)
    return sum(totals) - sum(totals[rank_of(bucket)] for bucket in out)
