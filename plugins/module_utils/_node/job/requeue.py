# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Requeue a job from its prolog: another node lacks its part of the file system, or the job itself is at fault.

The prolog must not report this by its exit code, because slurmctld drains each node whose prolog fails. When another
node's part is missing, all nodes but the bad one are good; and what a user can cause must not drain a node either. So
the prolog has slurmctld requeue the job, verifies that it did, and exits with 0. The job then cannot run without its
file system, and a later incarnation of it is not affected. The reasons, read in slurmctld and slurmd 22.05.8:

* With PrologFlags=Alloc,DeferBatch, which the role slurm sets, the job is RUNNING and CONFIGURING until the prologs of
  all nodes have ended; its batch script is not sent, and srun and salloc wait. (``prolog_complete``)
* ``scontrol requeue`` makes it PENDING and COMPLETING in one step, under slurmctld's lock, and increments its restart
  count (``_job_requeue_op``). After that, the end of a prolog does not start it: ``prolog_complete`` does nothing for a
  job that is COMPLETING. The job is not held: only ``requeuehold`` and a launch failure hold it.
* The next incarnation cannot start before this prolog has ended: a job stays COMPLETING until the epilog of each of its
  nodes is done, and slurmd runs the epilog after the prolog (``_rpc_terminate_job``, ``_wait_for_job_running_prolog``).
  The one exception is a node that slurmctld has set down in the meantime. So the prolog requeues a job only while
  slurmctld reports the same incarnation (``Restarts``) and the job is not in the queue again. If it is, another node
  has requeued it already, with the same result. slurmctld answers a second request with "Job is pending execution".
* An array task whose id equals the array's id is requeued as ARRAY_TASK: the bare id would mean the whole array.
  (``job_requeue2``)
* The job is identified by the ids that slurmd gave the prolog. ``squeue --Format`` is asked for fields that contain no
  text of the job's user: a job's name or comment may look like any field of ``scontrol show job``.
* A job without a batch script cannot be requeued (``ESLURM_BATCH_ONLY``): it is cancelled, and the log says so. For a
  job submitted with ``--no-requeue``, which has not started yet, ``Requeue`` is set to 1 during the request.

If slurmctld does not answer, what it will do with the job is unknown, and the prolog must fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..machine.run import CommandFailed, Result
from ..slurm.nodes import as_reason
from .beeond.job import Bounded, Job, last_line

REQUEUE, CANCEL, LEAVE, REFUSE = "requeue", "cancel", "leave", "refuse"
MOST_RESTARTS = 3
"""After this many restarts, a job that is requeued because of its own fault is held."""
_ANSWER_S = 8
_OVER = (
    *("PENDING", "COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
    *("DEADLINE", "OUT_OF_MEMORY", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED"),
)
"""States in which the end of a prolog no longer starts the job."""
FIELDS = ("JobID", "State", "RestartCnt", "BatchFlag", "Requeue", "ArrayJobID", "ArrayTaskID")
"""Fields of squeue(1); none of them contains free text."""
_FORMAT = ",".join(f"{name}:|" for name in FIELDS)


@dataclass(frozen=True)
class JobRecord:
    """A job as slurmctld reports it.

    :ivar state: such as ``CONFIGURING``.
    :ivar restarts: how often it was requeued.
    :ivar is_batch: whether it has a batch script.
    :ivar may_requeue: whether its user permits a requeue.
    :ivar name: the job's own id; with the task number if the bare id would mean a whole array.
    """

    state: str
    restarts: int
    is_batch: bool
    may_requeue: bool
    name: str


class JobStateUnknown(RuntimeError):
    """slurmctld does not answer, or its answer cannot be parsed; the message says which."""


@dataclass(frozen=True)
class Controller:
    """Queries slurmctld from a machine that has no slurm.conf.

    :ivar servers: addresses of the machines that run slurmctld.
    """

    servers: Sequence[str]
    run: Bounded

    def ask(self, *words: str) -> Result:
        """Run one of Slurm's commands with a timeout, and return its result."""
        server = f"SLURM_CONF_SERVER={','.join(self.servers)}"
        answer = self.run(["timeout", "--kill-after=1", str(_ANSWER_S), "env", server, *words], _ANSWER_S + 3.0)
        if answer.rc in (124, 127, 137):
            raise JobStateUnknown(
                f"slurmctld did not answer within {_ANSWER_S} s" if answer.rc != 127 else last_line(answer)
            )
        return answer


def job_record_of(number: str, text: str) -> JobRecord | None:
    """Return the job with this id from squeue's lines, which list all tasks if the id is an array's.

    :raises JobStateUnknown: a line of this job does not have the requested format.
    """
    for line in text.splitlines():
        values = dict(zip(FIELDS, line.split("|")))
        if values.get("JobID") != number:
            continue
        numbers = [values.get(name, "") for name in ("RestartCnt", "BatchFlag", "Requeue")]
        if line.count("|") != len(FIELDS) or not values["State"] or not all(_is_number(value) for value in numbers):
            raise JobStateUnknown(f"squeue shows job {number} as {line!r}, which is not the requested format")
        task = values["ArrayTaskID"]
        return JobRecord(
            state=values["State"],
            restarts=int(values["RestartCnt"]),
            is_batch=values["BatchFlag"] != "0",
            may_requeue=values["Requeue"] != "0",
            name=f"{number}_{task}" if values["ArrayJobID"] == number and _is_number(task) else number,
        )
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def plan(record: JobRecord | None, job: Job) -> str:
    """Return what to do about the job in the state that slurmctld reports now. Pure."""
    if record is None or record.state in _OVER:
        return LEAVE
    if job.restarts is None:
        return REFUSE
    if record.restarts != job.restarts:
        return LEAVE
    return REQUEUE if record.is_batch else CANCEL


def ask(job: Job, controller: Controller) -> JobRecord | None:
    """Return the job as slurmctld reports it; None if slurmctld has no job with that id.

    :raises JobStateUnknown: slurmctld does not answer.
    """
    answer = controller.ask("squeue", "--noheader", "--states=all", f"--jobs={job.number}", f"--Format={_FORMAT}")
    if answer.rc != 0:
        if "Invalid job id" in f"{answer.stdout}{answer.stderr}":
            return None
        raise JobStateUnknown(last_line(answer))
    return job_record_of(job.number, answer.stdout)


def why_not_running(job: Job, controller: Controller) -> str:
    """Return the state of a job that will not run any more; an empty text if it will, or if that is unknown."""
    try:
        record = ask(job, controller)
    except (JobStateUnknown, CommandFailed):
        return ""
    return _words(record, job) if plan(record, job) == LEAVE else ""


def requeue(job: Job, controller: Controller, reason: str = "", may_hold: bool = True) -> str:
    """Requeue exactly this incarnation of the job, and return what was done.

    :param reason: written to the job's AdminComment, where its user can read it.
    :param may_hold: whether to hold a job that has a reason and was requeued several times before, so that it does not
        start on the same node again and again.
    :raises JobStateUnknown: it is not certain that the job will not run.
    """
    record = ask(job, controller)
    chosen = plan(record, job)
    if chosen == LEAVE or record is None:
        return _words(record, job)
    if chosen == REFUSE:
        raise JobStateUnknown(
            "the prolog cannot identify the incarnation of the job: Slurm did not set SLURM_JOB_RESTART_COUNT"
        )
    name = record.name if job.leader == job.number else job.leader
    if reason:
        controller.ask("scontrol", "update", f"JobId={name}", f"AdminComment={as_reason(f'hpcai: {reason}')}")
    if chosen == CANCEL:
        answer = controller.ask("scancel", name)
        done = f"job {job.number} was cancelled: it has no batch script, so it cannot be requeued"
    else:
        answer = _ask_requeue(name, record, controller)
        done = f"job {job.number} was requeued"
    after = ask(job, controller)
    if plan(after, job) != LEAVE:
        raise JobStateUnknown(f"slurmctld did not requeue or cancel job {job.number}: {last_line(answer)}")
    if answer.rc != 0:
        return _words(after, job)
    if reason and may_hold and chosen == REQUEUE and record.restarts >= MOST_RESTARTS:
        # Slurm delays the start after a requeue, so the job cannot start before the hold. Its user may release it.
        controller.ask("scontrol", "uhold", name)
        return f"{done} and held: correct the cause, then run 'scontrol release {name}'"
    return done


def _ask_requeue(name: str, record: JobRecord, controller: Controller) -> Result:
    if not record.may_requeue:
        controller.ask("scontrol", "update", f"JobId={name}", "Requeue=1")
    answer = controller.ask("scontrol", "requeue", name)
    if not record.may_requeue:
        controller.ask("scontrol", "update", f"JobId={name}", "Requeue=0")
    return answer


def _words(record: JobRecord | None, job: Job) -> str:
    if record is None:
        return f"slurmctld no longer knows job {job.number}"
    again = f" (restart {record.restarts})" if record.restarts else ""
    return f"job {job.number} is already {record.state}{again}"


def runs(number: str, controller: Controller) -> bool | None:
    """Return whether slurmctld reports that a job runs; None if slurmctld does not answer."""
    try:
        record = ask(Job(number, 0, 0, (), ""), controller)
    except (JobStateUnknown, CommandFailed):
        return None
    return record is not None and record.state not in _OVER
