# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal's commands for Slurm, and what their answers mean."""

from __future__ import annotations

import pytest

from hpcai_portal import slurm
from hpcai_portal.form import Choice
from hpcai_portal.slurm import Job, Status

HOSTILE = ["root; id", "-u", "$(id)", "a b", "a\nb", "", "../x", "a'b", "#0", "é", "x" * 65]


def test_each_value_is_one_argument_and_the_program_is_a_fixed_file() -> None:
    choice = Choice("gpu", gpus=2, cpus=8, hours=3, image="nvcr.io#nvidia/pytorch:25.04-py3")
    command = slurm.submit("alice", choice, ["JUPYTERHUB_API_TOKEN", "JUPYTERHUB_API_URL"], ["--idle-minutes=5"])
    assert command[:5] == ["sudo", "--non-interactive", "--user", "alice", "--"]
    assert command[5] == "/usr/bin/sbatch"
    assert {"--partition=gpu", "--gpus=2", "--cpus-per-task=8", "--time=180", "--no-requeue"} <= {*command}
    assert "--export=JUPYTERHUB_API_TOKEN,JUPYTERHUB_API_URL" in command
    assert command[-3:] == [
        "/usr/libexec/hpcai/notebook",
        "--image=nvcr.io#nvidia/pytorch:25.04-py3",
        "--idle-minutes=5",
    ]


def test_without_gpus_and_container_there_are_no_such_arguments() -> None:
    command = slurm.submit("alice", Choice("cpu"), [])
    assert not [word for word in command if word.startswith("--exclude")]
    assert "--exclude=gpu-7" in slurm.submit("alice", Choice("cpu"), [], exclude="gpu-7")
    for node in ("-x", "a,b", "gpu[1-9]", "a b"):
        with pytest.raises(slurm.Refused, match="cannot be the name of a node"):
            slurm.submit("alice", Choice("cpu"), [], exclude=node)
    assert not [word for word in command if word.startswith(("--gpus", "--image"))]


@pytest.mark.parametrize("user", HOSTILE)
def test_a_name_that_is_no_users_is_refused(user: str) -> None:
    for command in (
        lambda: slurm.submit(user, Choice("cpu"), []),
        lambda: slurm.query(user, "1"),
        lambda: slurm.cancel(user, "1"),
    ):
        with pytest.raises(slurm.Refused):
            command()


@pytest.mark.parametrize("number", ["", "0", "-1", "1 2", "1;id", "1_2", "1\n", "--all", "²", "12345678901"])
def test_a_text_that_is_no_job_id_is_refused(number: str) -> None:
    for command in (slurm.query, slurm.cancel):
        with pytest.raises(slurm.Refused):
            command("alice", number)


def test_a_variable_cannot_add_others() -> None:
    for name in ("ALL,LD_PRELOAD", "A=B", "", "A B"):
        with pytest.raises(slurm.Refused):
            slurm.submit("alice", Choice("cpu"), [name])


@pytest.mark.parametrize(
    ("answer", "number"), [("17\n", "17"), ("17;cluster\n", "17"), ("", None), ("Submitted batch job 17", None)]
)
def test_the_id_comes_from_sbatch(answer: str, number: str | None) -> None:
    if number is None:
        with pytest.raises(slurm.Refused):
            slurm.id_of(answer)
    else:
        assert slurm.id_of(answer) == number


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "job"),
    [
        (0, "PENDING||Resources\n", "", Job(Status.WAITING, reason="Resources")),
        (0, "PENDING|n/a|None\n", "", Job(Status.WAITING)),
        (0, "CONFIGURING|compute-0|None\n", "", Job(Status.WAITING)),
        (0, "RUNNING|compute-0|None\n", "", Job(Status.RUNNING, host="compute-0")),
        (0, "STOPPED|compute-0|None\n", "", Job(Status.WAITING)),
        (0, "SUSPENDED|compute-0|None\n", "", Job(Status.WAITING)),
        (0, "RESIZING|compute-0|None\n", "", Job(Status.WAITING)),
        (0, "SIGNALING|compute-0|None\n", "", Job(Status.WAITING)),
        (0, "A_NEW_STATE|compute-0|None\n", "", Job(Status.UNKNOWN)),
        (0, "COMPLETING|compute-0|None\n", "", Job(Status.ENDED)),
        (0, "TIMEOUT|compute-0|TimeLimit\n", "", Job(Status.ENDED)),
        (0, "CANCELLED|compute-0|None\n", "", Job(Status.ENDED)),
        (0, "", "", Job(Status.ENDED)),
        (1, "", "slurm_load_jobs error: Invalid job id specified\n", Job(Status.ENDED)),
        (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", Job(Status.UNKNOWN)),
        (124, "", "timed out", Job(Status.UNKNOWN)),
        (1, "", "sudo: a password is required\n", Job(Status.UNKNOWN)),
        (0, "RUNNING|; id|None\n", "", Job(Status.UNKNOWN)),
        (0, "PENDING||<b>x</b>\n", "", Job(Status.WAITING)),
    ],
)
def test_answers_of_squeue(rc: int, stdout: str, stderr: str, job: Job) -> None:
    assert slurm.job_of(rc, stdout, stderr) == job


def test_partitions_that_the_hubs_user_may_not_use_are_listed() -> None:
    assert "--all" in slurm.SINFO


def test_what_sbatch_says_reaches_the_user() -> None:
    refused = "sbatch: error: QOSMaxGRESPerUser\nsbatch: error: Batch job submission failed: Job violates policy\n"
    assert slurm.why_refused(refused) == (
        "Slurm refused the job: QOSMaxGRESPerUser Batch job submission failed: Job violates policy"
    )
    away = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"
    assert slurm.why_refused(away).startswith("Slurm's controller does not answer")
    assert "without a message" in slurm.why_refused("")
    assert len(slurm.why_refused("x" * 9999)) < 400
