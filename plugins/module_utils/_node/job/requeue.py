# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Requeuing a job from its prolog: another node lacks its part of the file system, or the job itself is at fault.

That must not be a prolog's exit code: slurmctld drains each node whose prolog fails. Where another node's part is
missing, all nodes but the bad one are good, and what a user can cause must not drain a node either. So the prolog has
slurmctld requeue the job, sees that this is so, and ends well. Why the job cannot run without its file system then, nor
a later incarnation of it be hit, read in slurmctld and slurmd 22.05.8:

* With PrologFlags=Alloc,DeferBatch, which the role slurm sets, the job is RUNNING and CONFIGURING until the prologs of
  all nodes have ended; its batch script is not sent, and srun and salloc wait. (``prolog_complete``)
* ``scontrol requeue`` makes it PENDING and COMPLETING in one step, under slurmctld's lock, and counts its restarts up
  then (``_job_requeue_op``). From there on no prolog's end starts it: ``prolog_complete`` does nothing for a job that
  is COMPLETING. It is not held: only ``requeuehold`` and a launch failure do that.
* The next incarnation cannot start before this prolog has ended: a job stays COMPLETING until the epilog of each of its
  nodes is done, and slurmd runs that after the prolog (``_rpc_terminate_job``, ``_wait_for_job_running_prolog``).
  The one exception is a node that slurmctld has set down in the meantime. So a job is requeued only while slurmctld
  says that it still is the incarnation of this prolog (``Restarts``), and not in the queue already: then another node
  was faster, which is as good. slurmctld answers a second request in a row by "Job is pending execution".
* The task of an array whose id is the array's own is named as ARRAY_TASK: the bare id would mean the whole array.
  (``job_requeue2``)
* What is requeued is named by the ids that slurmd gave the prolog. slurmctld is asked by ``squeue --Format`` for fields
  that hold no text of the job's user: a job's name or comment may read like any field of ``scontrol show job``.
* A job that did not start from a batch script cannot be requeued (``ESLURM_BATCH_ONLY``): it is cancelled, and its user
  told so by the log. One submitted with ``--no-requeue`` has not started yet; it is made one that may be requeued, for
  as long as that takes.

Where slurmctld does not answer, nobody knows what it will do with the job, and the prolog must fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..machine.run import CommandFailed, Result
from ..slurm.nodes import as_reason
from .beeond.job import Bounded, Job, last_line

REQUEUE, CANCEL, LEAVE, REFUSE = "requeue", "cancel", "leave", "refuse"
MOST_RESTARTS = 3
"""After so many restarts a job that is requeued for its own reason is held."""
_ANSWER_S = 8
_OVER = (
    *("PENDING", "COMPLETING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
    *("DEADLINE", "OUT_OF_MEMORY", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED"),
)
"""States in which a job's prologs start nothing any more."""
FIELDS = ("JobID", "State", "RestartCnt", "BatchFlag", "Requeue", "ArrayJobID", "ArrayTaskID")
"""Of squeue(1); none of them holds free text."""
_FORMAT = ",".join(f"{name}:|" for name in FIELDS)


@dataclass(frozen=True)
class JobRecord:
    """A job as slurmctld has it.

    :ivar state: such as ``CONFIGURING``.
    :ivar restarts: how often it was requeued.
    :ivar is_batch: whether it has a batch script.
    :ivar may_requeue: whether its user lets it be requeued.
    :ivar name: the job's own id, with its task where the bare id would mean a whole array.
    """

    state: str
    restarts: int
    is_batch: bool
    may_requeue: bool
    name: str


class JobStateUnknown(RuntimeError):
    """slurmctld does not answer, or its answer cannot be read; the message says which."""


@dataclass(frozen=True)
class Controller:
    """How slurmctld is asked from a machine that has no slurm.conf.

    :ivar servers: where it is.
    """

    servers: Sequence[str]
    run: Bounded

    def ask(self, *words: str) -> Result:
        """Return the answer of one of Slurm's commands, within a limit."""
        server = f"SLURM_CONF_SERVER={','.join(self.servers)}"
        answer = self.run(["timeout", "--kill-after=1", str(_ANSWER_S), "env", server, *words], _ANSWER_S + 3.0)
        if answer.rc in (124, 127, 137):
            raise JobStateUnknown(
                f"slurmctld gave no answer in {_ANSWER_S} s" if answer.rc != 127 else last_line(answer)
            )
        return answer


def job_record_of(number: str, text: str) -> JobRecord | None:
    """Return the job of this id out of squeue's lines, which are of all tasks where the id is an array's.

    :raises JobStateUnknown: a line of this job is not of the form that was asked for.
    """
    for line in text.splitlines():
        values = dict(zip(FIELDS, line.split("|")))
        if values.get("JobID") != number:
            continue
        numbers = [values.get(name, "") for name in ("RestartCnt", "BatchFlag", "Requeue")]
        if line.count("|") != len(FIELDS) or not values["State"] or not all(_is_number(value) for value in numbers):
            raise JobStateUnknown(f"squeue shows job {number} as {line!r}, which is not what was asked for")
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
    """Return what to do about the job, as slurmctld has it now. Pure."""
    if record is None or record.state in _OVER:
        return LEAVE
    if job.restarts is None:
        return REFUSE
    if record.restarts != job.restarts:
        return LEAVE
    return REQUEUE if record.is_batch else CANCEL


def ask(job: Job, controller: Controller) -> JobRecord | None:
    """Return the job as slurmctld has it; None if it has none of that id.

    :raises JobStateUnknown: it does not answer.
    """
    answer = controller.ask("squeue", "--noheader", "--states=all", f"--jobs={job.number}", f"--Format={_FORMAT}")
    if answer.rc != 0:
        if "Invalid job id" in f"{answer.stdout}{answer.stderr}":
            return None
        raise JobStateUnknown(last_line(answer))
    return job_record_of(job.number, answer.stdout)


def why_not_running(job: Job, controller: Controller) -> str:
    """Return what became of a job that is not to run any more; nothing if it is, or nobody knows."""
    try:
        record = ask(job, controller)
    except (JobStateUnknown, CommandFailed):
        return ""
    return _words(record, job) if plan(record, job) == LEAVE else ""


def requeue(job: Job, controller: Controller, reason: str = "", may_hold: bool = True) -> str:
    """Put exactly this incarnation of the job back, and return what became of it.

    :param reason: written to the job's AdminComment, where its user reads it.
    :param may_hold: whether a job with a reason that was requeued several times before is held, so that it does not
        start on the same node without end.
    :raises JobStateUnknown: it cannot be told that the job will not run.
    """
    record = ask(job, controller)
    chosen = plan(record, job)
    if chosen == LEAVE or record is None:
        return _words(record, job)
    if chosen == REFUSE:
        raise JobStateUnknown(
            "Slurm did not tell the prolog which incarnation of the job this is (SLURM_JOB_RESTART_COUNT)"
        )
    name = record.name if job.leader == job.number else job.leader
    if reason:
        controller.ask("scontrol", "update", f"JobId={name}", f"AdminComment={as_reason(f'hpcai: {reason}')}")
    if chosen == CANCEL:
        answer = controller.ask("scancel", name)
        done = f"job {job.number} was cancelled: it has no batch script, and cannot be requeued"
    else:
        answer = _ask_requeue(name, record, controller)
        done = f"job {job.number} was requeued"
    after = ask(job, controller)
    if plan(after, job) != LEAVE:
        raise JobStateUnknown(f"slurmctld leaves job {job.number} as it is: {last_line(answer)}")
    if answer.rc != 0:
        return _words(after, job)
    if reason and may_hold and chosen == REQUEUE and record.restarts >= MOST_RESTARTS:
        # Its start is delayed after a requeue, so it cannot start before this. Its user may release it.
        controller.ask("scontrol", "uhold", name)
        return f"{done} and held: 'scontrol release {name}' once that is corrected"
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
        return f"slurmctld knows job {job.number} no more"
    again = f", for the {record.restarts}. time" if record.restarts else ""
    return f"job {job.number} is {record.state} already{again}"


def runs(number: str, controller: Controller) -> bool | None:
    """Return whether slurmctld says that a job runs; None where it does not answer."""
    try:
        record = ask(Job(number, 0, 0, (), ""), controller)
    except (JobStateUnknown, CommandFailed):
        return None
    return record is not None and record.state not in _OVER
