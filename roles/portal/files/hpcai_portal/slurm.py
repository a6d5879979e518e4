# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the portal asks Slurm for: command lines without a shell, and what their answers mean.

Every command runs as the notebook's user, through sudo, whose rule permits only these commands (role portal).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .form import Choice

SUDO = ("sudo", "--non-interactive", "--user")
SBATCH, SQUEUE, SCANCEL = "/usr/bin/sbatch", "/usr/bin/squeue", "/usr/bin/scancel"
NOTEBOOK = "/usr/libexec/hpcai/notebook"
JOB_NAME = "hpcai-notebook"
# All, because the hub's user is in no AllowGroups. sbatch refuses users who may not use a partition.
SINFO = ("/usr/bin/sinfo", "--all", "--noheader", "--format=%P|%l|%c|%G")

# Of useradd(8), with the dots, at signs and capitals of directories, and without "-" in front.
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}")
_JOB_ID = re.compile(r"[1-9][0-9]{0,9}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Refused(ValueError):
    """A name or number that cannot be an argument here."""


class Status(Enum):
    """What squeue says of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """Slurm did not answer, so it is not known whether the job runs."""


@dataclass(frozen=True)
class Job:
    """A job as squeue shows it.

    :ivar host: name of its node, if it runs.
    :ivar reason: why it waits, such as ``Resources``.
    """

    status: Status
    host: str = ""
    reason: str = ""


def as_user(user: str, command: Sequence[str]) -> list[str]:
    """Return the command as another user.

    :raises Refused: the name cannot be a user's.
    """
    if not _USER.fullmatch(user):
        raise Refused(f"{user[:40]!r} cannot be the name of a user")
    return [*SUDO, user, "--", *command]


def submit(
    user: str, choice: Choice, variables: Sequence[str], arguments: Sequence[str] = (), exclude: str = ""
) -> list[str]:
    """Return the command that submits a notebook. No value is part of a script or passes a shell.

    :param variables: names of the environment's variables that the job needs.
    :param arguments: further arguments of the notebook's program.
    :param exclude: a node on which the job must not run; empty for none.
    :raises Refused: a name cannot be a user's or a variable's.
    """
    wrong = [name for name in variables if not _VARIABLE.fullmatch(name)]
    if wrong:
        raise Refused(f"{wrong[0][:40]!r} cannot be the name of a variable")
    options = [
        "--parsable",
        f"--job-name={JOB_NAME}",
        "--comment=notebook of the portal",
        f"--partition={choice.partition}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={choice.cpus}",
        f"--time={choice.minutes}",
        # A notebook that starts again would have a new address, and has lost the state of its kernels anyway.
        "--no-requeue",
        # sbatch must not create files in the folder of the portal.
        "--chdir=/",
        "--output=/dev/null",
        f"--export={','.join(variables)}",
    ]
    if choice.gpus:
        options.append(f"--gpus={choice.gpus}")
    if exclude:
        options.append(f"--exclude={node_of(exclude)}")
    given = [f"--image={choice.image}"] if choice.image else []
    return as_user(user, [SBATCH, *options, NOTEBOOK, *given, *arguments])


def query(user: str, job_id: str) -> list[str]:
    """Return the command whose answer ``job_of`` reads."""
    return as_user(user, [SQUEUE, "--noheader", "--states=all", f"--jobs={_id(job_id)}", "--format=%T|%B|%r"])


def cancel(user: str, job_id: str) -> list[str]:
    """Return the command that ends a notebook."""
    return as_user(user, [SCANCEL, _id(job_id)])


def is_cancelled(rc: int, stderr: str) -> bool:
    """Whether an answer of scancel means that the job ends, or has ended."""
    return rc == 0 or "Invalid job id" in stderr or "already completing or completed" in stderr


def id_of(answer: str) -> str:
    """Return the job's id from the answer of ``sbatch --parsable``, which is ``ID`` or ``ID;CLUSTER``.

    :raises Refused: it is something else.
    """
    return _id(answer.strip().partition(";")[0])


def node_of(text: str) -> str:
    """Return a text if it can be the name of a node.

    :raises Refused: it cannot.
    """
    if not _NODE.fullmatch(text):
        raise Refused(f"{text[:40]!r} cannot be the name of a node")
    return text


def _id(text: str) -> str:
    if not _JOB_ID.fullmatch(text):
        raise Refused(f"{text[:40]!r} is not the id of a job")
    return text


# squeue's states (job_state_string in Slurm's src/common/slurm_protocol_defs.c). Of others it is not known what the job
# does. A job that is stopped or suspended keeps its GPUs.
_WAITING = (
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
    "SUSPENDED",
    "STOPPED",
    "SIGNALING",
    "RESIZING",
    "POWER_UP_NODE",
)
_ENDED = (
    "",
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "COMPLETING",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "STAGE_OUT",
    "TIMEOUT",
)


def job_of(rc: int, stdout: str, stderr: str) -> Job:
    """Return what an answer of squeue means."""
    if rc != 0:
        # slurmctld forgets a job MinJobAge after its end.
        return Job(Status.ENDED if "Invalid job id" in stderr else Status.UNKNOWN)
    state, host, reason = ([*stdout.strip().partition("\n")[0].split("|"), "", "", ""])[:3]
    if state in _WAITING:
        return Job(Status.WAITING, reason=reason if re.fullmatch(r"\w+", reason) and reason != "None" else "")
    if state == "RUNNING" and _NODE.fullmatch(host):
        return Job(Status.RUNNING, host=host)
    return Job(Status.ENDED if state in _ENDED else Status.UNKNOWN)


def why_refused(stderr: str) -> str:
    """Return what sbatch said, as one line for the user."""
    lines = [line.removeprefix("sbatch: error: ").strip() for line in stderr.splitlines()]
    said = " ".join(line for line in lines if line)[:300]
    if "Unable to contact slurm controller" in said or "timed out" in said.lower():
        return "Slurm's controller does not answer. No notebook was started. Try again later."
    return f"Slurm refused the job: {said or 'sbatch failed without a message'}"
