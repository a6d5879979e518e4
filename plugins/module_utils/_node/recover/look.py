# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One pass of the recovery: find jobs whose run has ended, decide, act, record; and repeated passes.

Nothing is done without slurmctld's and slurmdbd's answers. A job's state is asked again right before it is changed, so
that a job that its user has cancelled meanwhile stays cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from ..job.recovery import HOLD, REQUEUE, Decision, decide
from ..ledger import checkpoints
from ..ledger.accounting import JobRun, Query, by_node, query, read_events, read_runs
from ..ledger.decisions import append_decision
from ..machine.root import Root
from ..machine.run import CommandFailed, Run, must
from ..slurm import nodes
from ..slurm.arbiter.reasons import has_machine
from ..slurm.nodes import OUR_PREFIX, as_reason
from .history import asks, history
from .settings import Settings

LOCK = "/run/hpcai/recovery.lock"
_STATES = "PENDING,FAILED,NODE_FAIL,BOOT_FAIL,TIMEOUT,DEADLINE,OUT_OF_MEMORY,PREEMPTED"
_SQUEUE = ("squeue", "--noheader", f"--states={_STATES}", "--Format=JobID:|,State:|,RestartCnt:|,BatchFlag:|")
"""Fields that contain no text of the job's user."""
_PENDING = "PENDING"
_EVENTS_S = 7 * 86400.0
_MOST_HANDLED = 20000


@dataclass(frozen=True)
class Ended:
    """A job whose run has ended, as slurmctld shows it: it failed, or is in the queue again.

    :ivar restarts: how often it was requeued.
    """

    job: int
    state: str
    restarts: int

    @property
    def key(self) -> tuple[int, int, bool]:
        """Identifies this end: the job, the number of runs, and whether Slurm has requeued it."""
        return (self.job, self.restarts, self.state == _PENDING)


@dataclass(frozen=True)
class Done:
    """The result for one job.

    :ivar problem: why the decision could not be carried out; empty if it was.
    """

    job: int
    decision: Decision
    problem: str = ""

    @property
    def words(self) -> str:
        """The result in one line."""
        text = f"job {self.job}: {self.decision.action}: {self.decision.reason}"
        return f"not done: {text} ({self.problem})" if self.problem else text


def parse_ended(shown: str) -> list[Ended]:
    """Parse squeue's lines. A job that waits for its first start has not ended; neither has one without a script."""
    found = []
    for line in shown.splitlines():
        fields = line.strip().split("|")
        if len(fields) < 4 or not all(one.isdecimal() for one in (fields[0], fields[2], fields[3])):
            continue
        one = Ended(int(fields[0]), fields[1], int(fields[2]))
        if fields[3] != "0" and (one.state != _PENDING or one.restarts > 0):
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
) -> list[Done]:
    """Make one pass, and return the decisions.

    :param handled: ends that earlier passes have handled; it is updated.
    :param check: only return what would be done.
    :raises CommandFailed: slurmctld or slurmdbd does not answer; then nothing was done.
    """
    new = [one for one in parse_ended(must(run(_SQUEUE)).stdout) if one.key not in handled]
    if not new:
        return []
    runs: dict[int, list[JobRun]] = {one.job: [] for one in new}
    read_runs(0.0, now, lambda found: runs.setdefault(found.job, []).append(found), ask, sorted(runs))
    wanted = [one for one in new if runs[one.job] and asks(runs[one.job][-1], settings.partitions)]
    done = []
    if wanted:
        listed, _skipped = read_events(now - _EVENTS_S, now, ask)
        index = checkpoints.index_of(checkpoints.read_record(root))
        bad = known_bad(nodes.read_nodes(run))
        for one in wanted:
            past = history(runs[one.job], by_node(listed), index)
            if len(past) <= (one.restarts - 1 if one.state == _PENDING else one.restarts):
                # slurmdbd does not have the end of the last run yet: the next pass decides.
                new = [other for other in new if other is not one]
                continue
            decision = decide(past, settings.limits, bad)
            result = Done(one.job, decision) if check else _carry_out(one, decision, run)
            done.append(result)
            if not check:
                append_decision(root, now, one.job, len(past), {**asdict(decision), "problem": result.problem})
    if len(handled) > _MOST_HANDLED:
        handled.clear()
    handled.update(one.key for one in new)
    return done


def known_bad(known: Mapping[str, nodes.NodeState]) -> dict[str, str]:
    """Return the nodes that are known to be faulty, with the reason: drained by us for a fault, or down."""
    found = {}
    for name, node in known.items():
        if not has_machine(node) or not node.out:
            continue
        ours = node.reason.startswith((f"{OUR_PREFIX} health:", f"{OUR_PREFIX} prolog:", f"{OUR_PREFIX} epilog:"))
        if ours or any(state in ("DOWN", "FAIL", "INVAL") for state in node.states):
            found[name] = node.reason or "down"
    return found


def commands(one: Ended, decision: Decision) -> list[Sequence[str]]:
    """Return Slurm's commands for a decision. Pure.

    Slurm changes excluded nodes and start time of a pending job only. So a job that is not in the queue is requeued
    held, changed, and released; a command that fails in between leaves it held. A hold by ``uhold`` can be released by
    the job's user.
    """
    job = str(one.job)
    comment = ["scontrol", "update", f"JobId={job}", f"AdminComment={as_reason(f'hpcai: {decision.reason}')}"]
    if decision.action == HOLD:
        return [
            *([] if one.state == _PENDING else [["scontrol", "requeuehold", job]]),
            ["scontrol", "uhold", job],
            comment,
        ]
    if decision.action != REQUEUE:
        return []
    changes = [f"ExcNodeList={','.join(decision.leave_out)}"] if decision.leave_out else []
    changes += [f"StartTime=now+{decision.wait_s}"] if decision.wait_s else []
    update = [["scontrol", "update", f"JobId={job}", *changes]] if changes else []
    if one.state == _PENDING:
        return [*update, comment]
    return [["scontrol", "requeuehold", job], *update, ["scontrol", "release", job], comment]


def _carry_out(one: Ended, decision: Decision, run: Run) -> Done:
    words = commands(one, decision)
    try:
        if words:
            current = parse_ended(must(run([*_SQUEUE, f"--jobs={one.job}"])).stdout)
            if not any(
                (other.job, other.state, other.restarts) == (one.job, one.state, one.restarts) for other in current
            ):
                return Done(one.job, decision, "its state has changed meanwhile")
        for command in words:
            must(run(command))
    except CommandFailed as error:
        return Done(one.job, decision, str(error))
    return Done(one.job, decision)


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
                yield f"{ERROR if one.problem else INFO}{one.words}"
            problem = ""
        except (CommandFailed, OSError, ValueError) as error:
            if str(error) != problem:
                problem = str(error)
                yield f"{ERROR}no decision was made: {problem}"
        pause(settings.interval_s)
