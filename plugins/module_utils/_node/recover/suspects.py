# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Nodes that a training found slow get the deep health checks when the training has ended.

A job's processes name the nodes with ``add_slow_nodes`` (``hpcnode recover suspect NODE``), which notes them in the
job's comment. The controller reads the comment when the run has ended. The comment is the user's text, so all that it
can cause is an exclusive Slurm job of root that runs ``hpcnode health run deep`` on a node which that very run had, a
few times a day per user and once a day per node. Only what the checks then measure can drain the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ledger.accounting import JobRun
from ..machine.run import Run, must
from ..slurm.hostlist import HostlistError, expand
from ..slurm.job_control import DEEP_CHECK_MINUTES, health_check_job
from .comment import SLOW, Bounded, add_notes

CHECK = "check"
"""The action of such an order in the log of decisions."""
JOB_NAME = "hpcai-deep-check"
DAY_S = 86400.0
MOST_PER_RUN = 4
"""If a training finds more nodes slow, the cause is not in these nodes."""


@dataclass(frozen=True)
class SlowChecks:
    """Limits of the deep checks that trainings cause.

    :ivar per_user: the maximum number of checks that the jobs of a user cause in 24 hours; 0 turns them off.
    :ivar at_once: the maximum number of such checks that wait or run at a time.
    :ivar minutes: time limit of a check.
    """

    per_user: int = 4
    at_once: int = 2
    minutes: int = DEEP_CHECK_MINUTES


@dataclass(frozen=True)
class Order:
    """A check that is started, or why it is not.

    :ivar refused: why not; empty if it is started.
    """

    job: int
    user: str
    node: str
    partition: str
    refused: str = ""


def add_slow_nodes(job: str, nodes: Sequence[str], run: Bounded) -> None:
    """Note in an own job's comment that these nodes are slow; at most four.

    :param job: its id, as ``comment.job_of`` returns it.
    :raises NoNote: the comment cannot take the notes.
    :raises CommandFailed: slurmctld does not answer or refuses.
    """
    add_notes(job, [f"{SLOW}={node}" for node in nodes[:MOST_PER_RUN]], run)


def slow_nodes(run: JobRun) -> tuple[str, ...]:
    """Return the nodes that the notes of a run name, and that this run had; none if there are too many."""
    named = [word.partition("=")[2] for word in run.words if word.startswith(f"{SLOW}=")]
    try:
        own = set(expand(run.nodes))
    except HostlistError:
        return ()
    found = tuple(dict.fromkeys(node for node in named if node in own))
    return found if len(found) <= MOST_PER_RUN else ()


def orders(
    runs: Sequence[JobRun],
    earlier: Sequence[Mapping[str, Any]],
    waiting: int,
    limits: SlowChecks,
    out: Sequence[str] = (),
) -> list[Order]:
    """Return the checks that these ended runs cause. Pure.

    :param earlier: the log of decisions of the last 24 hours.
    :param waiting: how many such checks wait or run.
    :param out: nodes that are drained or down, or have no machine: a check would wait there, and keep others out.
    """
    started = [one for one in earlier if one.get("action") == CHECK and not one.get("problem")]
    checked = {str(one.get("node")) for one in started}
    by_user: dict[str, int] = {}
    for one in started:
        by_user[str(one.get("user"))] = by_user.get(str(one.get("user")), 0) + 1
    made = []
    for run in runs:
        for node in slow_nodes(run):
            if not limits.per_user or node in out or node in checked:
                # A repeated note about a node is no news.
                continue
            refused = ""
            if by_user.get(run.user, 0) >= limits.per_user:
                refused = f"the jobs of {run.user} caused {limits.per_user} checks in 24 hours, the limit"
            elif waiting >= limits.at_once:
                refused = f"{waiting} checks wait or run, the limit"
            else:
                checked.add(node)
                by_user[run.user] = by_user.get(run.user, 0) + 1
                waiting += 1
            made.append(Order(run.job, run.user, node, run.partition, refused))
    return made


def count_waiting(run: Run) -> int:
    """Return how many checks wait or run.

    :raises CommandFailed: slurmctld does not answer.
    """
    words = ["squeue", "--noheader", "--user=root", f"--name={JOB_NAME}", "--Format=JobID:|"]
    return len(must(run(words)).stdout.split())


def command(order: Order, limits: SlowChecks) -> list[str]:
    """Return the command that starts a check. slurmctld cancels one that waits for more than a day.

    The node may be drained while the check waits. slurmctld cancels a job that could not end before its deadline
    (deadline_ok in job_scheduler.c).
    """
    words = health_check_job(order.node, order.partition, JOB_NAME, limits.minutes, f"after job {order.job}")
    return [words[0], f"--deadline=now+{int(DAY_S) + 60 * limits.minutes}", *words[1:]]
