# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One pass of the recovery: find jobs whose run has ended, decide, act, record; and repeated passes.

Slow nodes that the run named are checked (``suspects``), whatever the job's end.

Nothing is done without slurmctld's and slurmdbd's answers. A job's state is asked again right before it is changed, so
that a job that its user has cancelled meanwhile stays cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..job.recovery import HOLD, REQUEUE, Decision, decide
from ..ledger import checkpoints
from ..ledger.accounting import JobRun, Query, by_node, query, read_history, read_runs
from ..ledger.decisions import CHECKS, LOG, MOST_OF_A_USER, append_decision, count_by_user, read_decisions
from ..machine.root import Root
from ..machine.run import CommandFailed, Run, must
from ..slurm import nodes
from ..slurm.arbiter.reasons import faulty_nodes, has_machine
from ..slurm.hostlist import HostlistError, expand
from ..slurm.nodes import as_reason
from .history import asks, decided_runs, history
from .job_log import HANGS, append_as_user, log_of
from .settings import Settings
from .suspects import CHECK, DAY_S, Order, command, count_waiting, orders, slow_nodes

LOCK = "/run/hpcai/recovery.lock"
_FINAL = ("COMPLETED", "CANCELLED")
"""States after which nothing is started again."""
_STATES = ("PENDING", "FAILED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", *_FINAL)
FIELDS = ("JobID", "State", "RestartCnt", "BatchFlag", "UserID", "ArrayJobID", "ArrayTaskID", "ExcNodes")
_SQUEUE = ("squeue", "--noheader", f"--states={','.join(_STATES)}", f"--Format={','.join(f'{n}:|' for n in FIELDS)}")
"""Fields that contain no text of the job's user."""
_PENDING = "PENDING"
_EVENTS_S = 7 * 86400.0
_REMEMBERED_S = 60 * 86400.0
_MOST_HANDLED = 20000
_TOO_MANY = f"in 24 hours there were {MOST_OF_A_USER} decisions about jobs of this user, the limit"
_MOST_AT_ONCE, _MOST_OF_A_USER = 1000, 200
"""One command asks slurmdbd for at most this many jobs, and this many of a user; the others wait for the next pass."""


@dataclass(frozen=True)
class Ended:
    """A job whose run has ended, as slurmctld shows it: it failed, or is in the queue again.

    :ivar restarts: how often it was requeued.
    :ivar uid: its user's id.
    :ivar name: its id for Slurm's commands; with the task number if the bare id would mean all tasks of an array.
    :ivar excluded: nodes that it excludes already, as Slurm's host list.
    """

    job: int
    state: str
    restarts: int
    uid: int = -1
    name: str = ""
    excluded: str = ""

    @property
    def key(self) -> tuple[int, int, bool]:
        """Identifies this end: the job, the number of runs, and whether Slurm has requeued it."""
        return (self.job, self.restarts, self.state == _PENDING)


@dataclass(frozen=True)
class JobOutcome:
    """The result for one job.

    :ivar problem: why the decision could not be carried out; empty if it was.
    :ivar held: whether this requeued the job held, and could not release it.
    :ivar unrecorded: why the decision is not in the log; empty if it is.
    """

    job: int
    decision: Decision
    problem: str = ""
    held: bool = False
    unrecorded: str = ""

    @property
    def action(self) -> str:
        """As in the log of decisions."""
        return self.decision.action

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        return self.decision.reason

    @property
    def words(self) -> str:
        """The result in one line."""
        text = f"job {self.job}: {self.decision.action}: {self.decision.reason}"
        return _with_problems(text, self.problem, self.unrecorded)


@dataclass(frozen=True)
class Checked:
    """A deep check of a node that a training found slow.

    :ivar problem: why it was not started; empty if it was.
    :ivar unrecorded: why it is not in the log of decisions; empty if it is.
    """

    order: Order
    problem: str = ""
    unrecorded: str = ""

    @property
    def job(self) -> int:
        """The job whose training found the node slow."""
        return self.order.job

    @property
    def action(self) -> str:
        """As in the log of decisions."""
        return CHECK

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        return f"The training found {self.order.node} slow: the deep health checks run there when it has no job."

    @property
    def words(self) -> str:
        """The result in one line."""
        return _with_problems(f"job {self.job}: {CHECK}: {self.why}", self.problem, self.unrecorded)


def _with_problems(text: str, problem: str, unrecorded: str) -> str:
    text = f"not done: {text} ({problem})" if problem else text
    return f"{text} (not in the log of decisions: {unrecorded})" if unrecorded else text


def parse_ended(shown: str) -> list[Ended]:
    """Parse squeue's lines. A job that waits for its first start has not ended; neither has one without a script."""
    found = []
    for line in shown.splitlines():
        fields = line.strip().split("|")
        if len(fields) < len(FIELDS) or not all(fields[place].isdecimal() for place in (0, 2, 3, 4)):
            continue
        number, state, restarts, is_batch, uid, array, task, excluded = fields[: len(FIELDS)]
        name = f"{number}_{task}" if array == number and task.isdecimal() else number
        one = Ended(int(number), state, int(restarts), int(uid), name, excluded)
        if is_batch != "0" and (state != _PENDING or one.restarts > 0):
            found.append(one)
    return found


def look(
    root: Root,
    run: Run,
    settings: Settings,
    now: float,
    handled: set[tuple[int, int, bool]],
    check: bool = False,
    ask: Query = query,
) -> list[JobOutcome | Checked]:
    """Make one pass, and return the decisions and the checks of slow nodes.

    :param handled: ends that earlier passes have handled; it is updated.
    :param check: only return what would be done.
    :raises CommandFailed: slurmctld or slurmdbd does not answer; then nothing was done.
    """
    new = next_ones([one for one in parse_ended(must(run(_SQUEUE)).stdout) if one.key not in handled])
    if not new:
        return []
    runs: dict[int, list[JobRun]] = {one.job: [] for one in new}
    read_runs(0.0, now, lambda found: runs.setdefault(found.job, []).append(found), ask, sorted(runs))
    runs = {one.job: own_runs(one, runs[one.job]) for one in new}
    # slurmdbd may not have the end of the last run yet: then the next pass decides.
    new = [one for one in new if _ends(runs[one.job]) > one.restarts - (one.state == _PENDING)]
    wanted = [one for one in new if one.state not in _FINAL and asks(runs[one.job][-1], settings.partitions)]
    slow = [runs[one.job][-1] for one in new if slow_nodes(runs[one.job][-1])] if settings.slow.per_user else []
    done: list[JobOutcome | Checked] = []
    if wanted or slow:
        known = nodes.read_nodes(run)
        bad = faulty_nodes(known)
    if wanted:
        listed = read_history(now - _EVENTS_S, now, ask).events
        index = checkpoints.index_of(checkpoints.read_record(root))
        log = read_decisions(root, now - _REMEMBERED_S, now)
        count = count_by_user(log, now - DAY_S)
        hang: set[int] = set()
        for one in wanted:
            entries = [entry for entry in log if entry.get("job") == one.job]
            decided = decided_runs(runs[one.job], entries)
            past = history(runs[one.job], by_node(listed), index, decided)
            if len(past) in decided:
                # It is in the queue because of that decision, and has not run since.
                continue
            decision = decide(past, settings.limits, bad)
            held = was_left_held(runs[one.job], entries)
            user = runs[one.job][-1].user
            # The user cannot release a job that root has requeued held.
            limit = _TOO_MANY if count.get(user, 0) >= MOST_OF_A_USER and not held else ""
            undone = JobOutcome(one.job, decision, limit) if check or limit else None
            result = undone or _carry_out(one, decision, run, known, held)
            # A user whose files hang would delay the jobs of others, with each of his jobs.
            if not check and one.uid not in hang and _write_log(one, result, run).startswith(HANGS):
                hang.add(one.uid)
            if not check and not limit:
                count[user] = count.get(user, 0) + 1
                entry = {**asdict(decision), "cause": past[-1].cause, "status": past[-1].status, "user": user}
                entry.update({"problem": result.problem, **({"held": True} if result.held else {})})
                result = replace(result, unrecorded=_record(root, now, one.job, len(past), entry))
            done.append(result)
    if slow:
        # Also those that a person drained: the check would wait there. On the machine that an elastic node gets next,
        # it would find nothing.
        out = [name for name, node in known.items() if node.out or not has_machine(node)]
        done += _check_slow(root, run, settings, now, slow, out, check)
    if len(handled) > _MOST_HANDLED:
        handled.clear()
    handled.update(one.key for one in new)
    return done


def _record(root: Root, now: float, job: int, runs: int, entry: Mapping[str, Any], path: str = LOG) -> str:
    """Append to a log of decisions, and return why that failed.

    An error must not end the pass: the job would be decided about again in each pass, and the others never.
    """
    try:
        append_decision(root, now, job, runs, entry, path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def own_runs(one: Ended, runs: Sequence[JobRun]) -> list[JobRun]:
    """Return the runs of this job that have ended, oldest first. Pure.

    Ids begin again with a new state folder, so slurmdbd may have runs of another job with the same id.
    """
    ordered = sorted(runs, key=lambda run: run.start)
    ended = [run for run in ordered if run.user == ordered[-1].user and run.end is not None]
    number = one.restarts + (one.state != _PENDING)
    return ended[-number:] if number else []


def was_left_held(runs: Sequence[JobRun], log: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last decision about a job requeued it held after its last run, and could not release it. Pure.

    A hold of the job's user has no such entry, and is not released.
    """
    last: Mapping[str, Any] = next((entry for entry in reversed(log) if entry.get("action") != CHECK), {})
    return bool(last.get("held")) and last.get("runs") == len(runs) and last["time"] >= int(runs[-1].end or 0)


def next_ones(ended: Sequence[Ended]) -> list[Ended]:
    """Return the jobs for this pass. Each user has a share, so that nobody's many jobs delay those of others. Pure.

    Jobs that may be started again come first. slurmdbd has no run of a job that was cancelled while it was pending, so
    such a job comes again in each pass until slurmctld forgets it.
    """
    count: dict[int, int] = {}
    found = []
    for one in sorted(ended, key=lambda one: one.state in _FINAL):
        turn = count[one.uid] = count.get(one.uid, 0) + 1
        if turn <= _MOST_OF_A_USER:
            found.append((turn, one))
    return [one for _turn, one in sorted(found, key=lambda pair: pair[0])][:_MOST_AT_ONCE]


def _write_log(one: Ended, result: JobOutcome, run: Run) -> str:
    return append_as_user(log_of(one.name, run), one.uid, f"hpcai recovery: {result.words}")


def _ends(runs: Sequence[JobRun]) -> int:
    return sum(run.end is not None for run in runs)


def _check_slow(
    root: Root, run: Run, settings: Settings, now: float, runs: Sequence[JobRun], out: Sequence[str], check: bool
) -> list[Checked]:
    """Start the deep checks of the nodes that these runs found slow."""
    earlier = read_decisions(root, now - DAY_S, now)
    done = []
    for order in orders(runs, earlier, count_waiting(run), settings.slow, out):
        problem = order.refused
        if not problem and not check:
            answer = run(command(order, settings.slow))
            problem = "" if answer.rc == 0 else answer.stderr.strip() or f"sbatch ended with {answer.rc}"
        one = Checked(order, problem)
        if not problem and not check:
            entry = {"action": CHECK, "reason": one.why, "node": order.node, "user": order.user}
            one = replace(one, unrecorded=_record(root, now, order.job, 0, entry, CHECKS))
        done.append(one)
    return done


def commands(one: Ended, decision: Decision, held: bool = False) -> list[Sequence[str]]:
    """Return Slurm's commands for a decision. Pure.

    :param held: an earlier pass requeued the job held, and could not release it.

    Slurm changes excluded nodes and start time of a pending job only. So a job that is not in the queue is requeued
    held, changed, and released; a command that fails in between leaves it held. A hold by ``uhold`` can be released by
    the job's user.

    Slurm lets a requeued job wait for cred_expire, although the credential of its next run is a new one. squeue shows
    the job as pending only when all its nodes have ended their epilogs, so it can start at once.
    """
    job = one.name
    comment = ["scontrol", "update", f"JobId={job}", f"AdminComment={as_reason(f'hpcai: {decision.reason}')}"]
    if decision.action == HOLD:
        return [
            *([] if one.state == _PENDING else [["scontrol", "requeuehold", job]]),
            ["scontrol", "uhold", job],
            comment,
        ]
    if decision.action != REQUEUE:
        return []
    # Those of the user and of earlier decisions stay excluded.
    out = ",".join([*filter(None, [one.excluded]), *decision.leave_out])
    changes = [f"ExcNodeList={out}"] if decision.leave_out else []
    changes.append(f"StartTime=now+{decision.wait_s}" if decision.wait_s else "StartTime=now")
    update = ["scontrol", "update", f"JobId={job}", *changes]
    release = ["scontrol", "release", job]
    if one.state == _PENDING:
        return [update, release, comment] if held else [update, comment]
    return [["scontrol", "requeuehold", job], update, release, comment]


def _carry_out(one: Ended, decision: Decision, run: Run, known: Container[str], held: bool) -> JobOutcome:
    """Carry out a decision.

    :param known: the nodes that slurmctld knows.
    :param held: an earlier pass left the job held.
    """
    words = commands(one, decision, held)
    try:
        if words:
            current = parse_ended(must(run([*_SQUEUE, f"--jobs={one.name}"])).stdout)
            if not any(
                (other.job, other.state, other.restarts) == (one.job, one.state, one.restarts) for other in current
            ):
                return JobOutcome(one.job, decision, "its state has changed meanwhile")
        for command in words:
            answer = run(command)
            # slurmctld refuses a list with a node that was removed.
            fewer = without_unknown(command, known) if answer.rc else command
            must(run(fewer) if fewer != command else answer)
            if command[1] in ("requeuehold", "release"):
                held = command[1] == "requeuehold"
    except CommandFailed as error:
        return JobOutcome(one.job, decision, str(error), held and decision.action == REQUEUE)
    return JobOutcome(one.job, decision)


def without_unknown(command: Sequence[str], known: Container[str]) -> list[str]:
    """Return a command without the nodes in ExcNodeList that slurmctld does not know. Pure."""
    found = []
    for word in command:
        key, _equals, text = word.partition("=")
        if key == "ExcNodeList":
            try:
                word = f"{key}={','.join(name for name in expand(text) if name in known)}"
            except HostlistError:
                continue
        found.append(word)
    return found


ERROR, INFO = "<3>", "<6>"


def look_forever(
    root: Root,
    run: Run,
    settings: Settings,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
    ask: Query = query,
) -> Iterator[str]:
    """Make passes forever, and yield lines for the journal: decisions, and new problems."""
    handled: set[tuple[int, int, bool]] = set()
    problem = ""
    while True:
        try:
            for one in look(root, run, settings, clock(), handled, ask=ask):
                yield f"{ERROR if one.problem or one.unrecorded else INFO}{one.words}"
            problem = ""
        except (CommandFailed, OSError, ValueError) as error:
            if str(error) != problem:
                problem = str(error)
                yield f"{ERROR}no decision was made: {problem}"
        pause(settings.interval_s)
