# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Jobs on nodes: drain nodes before they are removed, list the jobs that still run, hold new jobs, cancel all.

Only ``cancel`` ends jobs. The only job that this makes runs health checks of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..machine.run import Run, must
from .hostlist import HostlistError, compress, expand
from .nodes import NodeState

# A suspended job releases its CPUs but will resume; without SUSPENDED it would not be listed.
_ON_A_NODE = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
_PENDING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""States that squeue shows of a pending job, with those that replace the state of a requeued or held one."""
_SQUEUE = ("squeue", "--noheader", "--noconvert", "--format=%A|%u|%T|%N")
# Flags and states of a node that is in use, also by what squeue does not show (slurm.h, node states).
_BUSY = ("ALLOCATED", "MIXED", "COMPLETING")


@dataclass(frozen=True)
class Job:
    """A job that has nodes, or waits for them.

    :ivar nodes: names of its nodes.
    """

    id: str
    user: str
    state: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.id} ({self.user}, {self.state.lower()})"


@dataclass(frozen=True)
class Drain:
    """What to do before nodes may be removed.

    :ivar drain: nodes to drain with the given reason.
    :ivar drain_as_it_is: nodes that somebody set down, with their reason, which stays. A node that is only down would
        return to scheduling when it registers.
    :ivar unknown: nodes that slurmctld does not know.
    """

    drain: tuple[str, ...]
    drain_as_it_is: Mapping[str, str]
    unknown: tuple[str, ...]


def plan_drain(known: Mapping[str, NodeState], names: Iterable[str]) -> Drain:
    """Return which nodes to drain. Pure. A node that is already drained keeps its reason, whoever gave it."""
    drain: list[str] = []
    as_it_is: dict[str, str] = {}
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        node = known.get(name)
        if node is None:
            unknown.append(name)
        elif node.drained:
            continue
        elif node.out and not node.is_nobodys_decision:
            as_it_is[name] = node.reason
        else:
            drain.append(name)
    return Drain(tuple(drain), as_it_is, tuple(unknown))


def jobs_on(names: Iterable[str], run: Run) -> list[Job]:
    """Return the jobs on these nodes.

    :raises CommandFailed: slurmctld does not answer, or its output is invalid.
    """
    listed = list(names)
    if not listed:
        return []
    return parse_jobs(must(run([*_SQUEUE, f"--states={_ON_A_NODE}", f"--nodelist={compress(listed)}"])).stdout)


def all_jobs(run: Run) -> tuple[list[Job], list[Job]]:
    """Return all jobs that have nodes, and all pending ones, of which an array's tasks are one.

    One command lists both, because a pending job may start at any time.

    :raises CommandFailed: slurmctld does not answer, or its output is invalid.
    """
    jobs = parse_jobs(must(run([*_SQUEUE, f"--states={_ON_A_NODE},PENDING"])).stdout)
    return [job for job in jobs if job.state not in _PENDING], [job for job in jobs if job.state in _PENDING]


def cancel(jobs: Iterable[Job], run: Run) -> None:
    """Cancel these jobs. A job that has ended in the meantime is not an error."""
    run(["scancel", "--quiet", *(job.id for job in jobs)])


def parse_jobs(shown: str) -> list[Job]:
    """Parse lines of ``id|user|state|nodes``.

    :raises HostlistError: a line is invalid.
    """
    jobs = {number: Job(number, user, state, nodes) for (number, user, state), nodes in split_lines(shown, 4)}
    return list(jobs.values())


def split_lines(shown: str, fields: int) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Yield each line of squeue as its fields before the nodes, and the names of the nodes.

    :param fields: how many fields a line has; the last one is squeue's ``%N``.
    :raises HostlistError: a line is invalid.
    """
    for line in filter(None, map(str.strip, shown.splitlines())):
        words = line.split("|")
        if len(words) != fields:
            raise HostlistError(f"squeue printed {line!r}, which is not a job.")
        *first, nodes = words
        # A completing job may have no node left.
        yield first, tuple(expand(nodes)) if nodes else ()


def busy(known: Mapping[str, NodeState], names: Iterable[str], jobs: Iterable[Job]) -> dict[str, list[str]]:
    """Return the nodes that cannot be removed yet, with the jobs on each. Pure.

    A node also counts if only its state says so, because squeue and the node states are read at different times.
    """
    listed = list(jobs)
    busy_nodes: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        on_node = [str(job) for job in listed if name in job.nodes]
        node = known.get(name)
        if on_node or (node is not None and any(state in _BUSY for state in node.states)):
            busy_nodes[name] = on_node
    return busy_nodes


RESERVATION = "hpcai-new-nodes"
MINUTES = 5
"""After this time the reservation ends automatically, in case its creator could not end it."""


def is_held(run: Run) -> bool:
    """Whether new jobs are held."""
    shown = run(["scontrol", "--oneliner", "show", "reservation", RESERVATION])
    return shown.rc == 0 and any(
        line.startswith(f"ReservationName={RESERVATION} ") for line in shown.stdout.splitlines()
    )


def slurmctld_answers(run: Run) -> bool:
    """Whether slurmctld answers; the query does not wait for it."""
    return run(["scontrol", "ping"]).rc == 0


def hold_new_jobs(run: Run) -> None:
    """Let no new job start while slurmctld learns names of spare nodes; running jobs continue.

    A spare node is idle from slurmctld's start until it is set down, and a pending job would get it immediately. A
    reservation of all nodes takes effect before slurmctld schedules the first job, and covers nodes added later.

    :raises CommandFailed: slurmctld refused.
    """
    if is_held(run):
        # Left by an interrupted run: its time starts again.
        must(run(["scontrol", "update", f"ReservationName={RESERVATION}", f"EndTime=now+{MINUTES}minutes"]))
        return
    words = [f"ReservationName={RESERVATION}", f"Duration={MINUTES}", "StartTime=now"]
    words += ["Nodes=ALL", "Users=root", "Flags=MAINT,IGNORE_JOBS"]
    must(run(["scontrol", "create", "reservation", *words]))


def release_new_jobs(run: Run) -> None:
    """Let jobs start again.

    :raises CommandFailed: slurmctld refused.
    """
    must(run(["scontrol", "delete", f"ReservationName={RESERVATION}"]))


DEEP_CHECK_MINUTES = 30
"""Time limit of the deep checks."""
_CHECK = "/usr/bin/hpcnode health run"
# 2 is unknown: as on other nodes, a check that could not measure anything stops nothing.
# Unless somebody waits for the job, its state in Slurm says nothing: the report has the results.
_FAILS_WITH_IT, _PASSES_ALWAYS = " || [ $? = 2 ]", " || true"


def health_check_job(
    node: str,
    partition: str,
    name: str,
    minutes: int = DEEP_CHECK_MINUTES,
    comment: str = "",
    tiers: Sequence[str] = ("deep",),
    fails: bool = False,
) -> list[str]:
    """Return the command that submits root's job with health checks of a node, and prints the job's id.

    The job waits in the queue until the node has no other job, and gets all of it.

    :param tiers: which health checks it runs.
    :param fails: whether the job fails, and leaves out the next tier, if a check fails.
    """
    after = _FAILS_WITH_IT if fails else _PASSES_ALWAYS
    script = " && ".join(f"{{ {_CHECK} {tier}{after}; }}" for tier in tiers)
    words = ["sbatch", "--parsable", f"--job-name={name}", f"--partition={partition}", "--nodes=1"]
    words += [f"--nodelist={node}", "--exclusive", "--mem=0", f"--time={minutes}", "--no-requeue", "--chdir=/"]
    words += ["--output=/dev/null", *([f"--comment={comment}"] if comment else [])]
    return [*words, f"--wrap={script}"]
