# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Notes that a job leaves in its comment for the controller, as words ``hpcai:NAME=VALUE``. The job's user writes them.

============================  ==========================================================================================
``hang=RESTARTS``             this run hung and was ended by its watchdog
``slow=NODE``                 the training found this node slow: check it when the job has ended
``saved=RESTARTS.STEP.TIME``  this run's last complete checkpoint, for a training without a store; TIME in ms
============================  ==========================================================================================

A comment is the user's text, so a note can change only what concerns that user's own job: how it is recovered, how its
time is counted, and whether nodes that it had are checked (``suspects``).

slurmdbd gets the comment when the run ends. While the job runs, only slurmctld has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ..machine.run import Result, must

HANG, SLOW, SAVED = "hang", "slow", "saved"
LIMIT_S = 20.0
LONGEST = 1000
"""Longer comments are not extended: slurmctld keeps the comment of each job in memory."""
Bounded = Callable[[Sequence[str], float], Result]


class NoNote(RuntimeError):
    """The comment was not changed; the message says why."""


def job_of(environment: Mapping[str, str]) -> str:
    """Return the job's id for Slurm's commands, with the task number for an array; empty outside of a job.

    The bare id of an array's first task would mean all its tasks.
    """
    array, task = environment.get("SLURM_ARRAY_JOB_ID", ""), environment.get("SLURM_ARRAY_TASK_ID", "")
    if array.isdecimal() and task.isdecimal():
        return f"{array}_{task}"
    number = environment.get("SLURM_JOB_ID", "")
    return number if number.isdecimal() else ""


def restarts_of(environment: Mapping[str, str]) -> str:
    """Return how often the job was requeued."""
    count = environment.get("SLURM_RESTART_COUNT", "")
    return count if count.isdecimal() else "0"


def with_notes(comment: str, notes: Sequence[str], instead_of: str = "") -> str:
    """Return a comment with notes, each once. Pure.

    :param notes: words without ``hpcai:``.
    :param instead_of: notes that start with this are removed first.
    :raises NoNote: the comment is no single line, or too long.
    """
    if comment and not comment.isprintable():
        raise NoNote("the job's comment is not one line of text")
    if instead_of:
        comment = re.sub(rf"(?:^|,)hpcai:{re.escape(instead_of)}[A-Za-z0-9._-]*(?=,|$)", "", comment).lstrip(",")
    present = re.split(r"[\s,;]+", comment)
    new = [word for word in dict.fromkeys(f"hpcai:{note}" for note in notes) if word not in present]
    made = ",".join([*([comment] if comment else []), *new])
    if len(made) > LONGEST:
        raise NoNote(f"the job's comment would have more than {LONGEST} characters")
    return made


def add_notes(job: str, notes: Sequence[str], run: Bounded, instead_of: str = "") -> None:
    """Add notes to the comment of an own job.

    :param job: its id, as ``job_of`` returns it.
    :raises NoNote: see ``with_notes``.
    :raises CommandFailed: slurmctld does not answer or refuses.
    """
    shown = must(run(["squeue", "--noheader", f"--jobs={job}", "--format=%k"], LIMIT_S)).stdout.rstrip("\n")
    before = "" if shown in ("(null)", "N/A") else shown
    after = with_notes(before, notes, instead_of)
    if after != before:
        must(run(["scontrol", "update", f"JobId={job}", f"Comment={after}"], LIMIT_S))


def hung(environment: Mapping[str, str], run: Bounded) -> bool:
    """Return whether this run's watchdog noted a hang; False also if slurmctld does not answer."""
    answer = run(["squeue", "--noheader", f"--jobs={job_of(environment)}", "--format=%k"], LIMIT_S)
    return f"hpcai:{HANG}={restarts_of(environment)}" in re.split(r"[\s,;]+", answer.stdout)


def add_saved(environment: Mapping[str, str], step: int, when: float, run: Bounded) -> None:
    """Note this run's last complete checkpoint, instead of the earlier one of this run.

    :param when: when it became complete, in seconds since 1970.
    :raises NoNote: see ``with_notes``.
    :raises CommandFailed: slurmctld does not answer or refuses.
    """
    beginning = f"{SAVED}={restarts_of(environment)}."
    add_notes(job_of(environment), [f"{beginning}{step}.{int(when * 1000)}"], run, beginning)
