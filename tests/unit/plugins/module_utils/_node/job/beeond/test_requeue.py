# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requeuing a job: only the incarnation whose prolog failed, never a later one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job import requeue as module
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.requeue import (
    CANCEL,
    LEAVE,
    REFUSE,
    REQUEUE,
    JobRecord,
    JobStateUnknown,
    plan,
    requeue,
)

from .conftest import JOB, SQUEUE_LINE, Node

LIVE = JobRecord("CONFIGURING", 0, True, True, "17")


@pytest.mark.parametrize(
    ("record", "restarts", "expected"),
    [
        (LIVE, 0, REQUEUE),
        (replace(LIVE, state="RUNNING"), 0, REQUEUE),
        (replace(LIVE, is_batch=False), 0, CANCEL),
        (replace(LIVE, state="PENDING", restarts=1), 0, LEAVE),
        (replace(LIVE, state="COMPLETING", restarts=1), 0, LEAVE),
        (replace(LIVE, state="CANCELLED"), 0, LEAVE),
        (replace(LIVE, restarts=1), 0, LEAVE),
        (replace(LIVE, restarts=1, is_batch=False), 0, LEAVE),
        (LIVE, None, REFUSE),
        (None, 0, LEAVE),
    ],
)
def test_the_plan_depends_on_state_restarts_and_kind_of_job(
    record: JobRecord | None, restarts: int | None, expected: str
) -> None:
    assert plan(record, replace(JOB, restarts=restarts)) == expected


def test_a_batch_job_is_requeued_and_not_held(node: Node) -> None:
    assert requeue(JOB, node.controller) == "job 17 was requeued"
    assert (node.state, node.restarts) == ("PENDING", 1)
    assert [command[-2:] for command in node.calls("requeue")] == [("requeue", "17")]


def test_a_later_incarnation_is_left_running(node: Node) -> None:
    node.restarts = 1
    assert requeue(JOB, node.controller) == "job 17 is already CONFIGURING (restart 1)"
    assert node.state == "CONFIGURING"
    assert not node.calls("requeue")


def test_a_requeue_by_another_node_counts_as_success(node: Node) -> None:
    def faster(command: tuple[str, ...]) -> None:
        if "requeue" in command:
            node.state, node.restarts = "PENDING", 1

    node.during = faster
    assert "is already PENDING" in requeue(JOB, node.controller)
    assert node.restarts == 1


def test_an_interactive_job_is_cancelled(node: Node) -> None:
    node.batch = 0
    assert "was cancelled" in requeue(JOB, node.controller)
    assert (node.state, node.calls("requeue")) == ("CANCELLED", [])
    assert len(node.calls("scancel", "17")) == 1
    assert "scontrol" not in node.calls("scancel")[0]


def test_a_job_with_no_requeue_is_requeued_and_keeps_that_setting(node: Node) -> None:
    node.requeue = 0
    assert "was requeued" in requeue(JOB, node.controller)
    assert (node.state, node.requeue) == ("PENDING", 0)


def test_the_array_task_with_the_arrays_id_is_named_as_a_task(node: Node) -> None:
    node.array, node.task = "17", "3"
    requeue(JOB, node.controller)
    assert node.calls("requeue")[0][-1] == "17_3"


def test_other_tasks_of_the_array_are_ignored() -> None:
    other = "16|PENDING|4|1|1|17|2|\n"
    own_task = SQUEUE_LINE.format(state="RUNNING", restarts=2, batch=1, requeue=1, array="17", task="N/A")
    assert module.job_record_of("17", other + own_task) == JobRecord("RUNNING", 2, True, True, "17")


def test_a_wrong_answer_never_requeues_another_job(node: Node) -> None:
    """The job's id comes from slurmd. The answer can only add the number of an array task to it."""
    node.array, node.task = "10", "7"
    requeue(JOB, node.controller)
    assert node.calls("requeue")[0][-1] == "17"


def test_slurmctld_is_asked_for_fields_without_free_text(node: Node) -> None:
    requeue(JOB, node.controller)
    (asked,) = {command[-1] for command in node.calls("squeue")}
    fields = {field.partition(":")[0] for field in asked.partition("=")[2].split(",")}
    assert fields == {"JobID", "State", "RestartCnt", "BatchFlag", "Requeue", "ArrayJobID", "ArrayTaskID"}
    assert not node.calls("show")


@pytest.mark.parametrize(
    "line", ["17|RUNNING", "17|RUNNING|0|1|1|0|N/A|more|", "17|RUNNING|zero|1|1|0|N/A|", "17||0|1|1|0|N/A|"]
)
def test_a_malformed_answer_is_an_error(line: str) -> None:
    with pytest.raises(JobStateUnknown, match="not the requested format"):
        module.job_record_of("17", f"{line}\n")


def test_the_leader_of_a_heterogeneous_job_is_requeued(node: Node) -> None:
    requeue(replace(JOB, leader="15"), node.controller)
    assert node.calls("requeue")[0][-1] == "15"


def test_a_controller_that_is_silent_or_refuses_is_an_error(node: Node) -> None:
    node.controller_answers = False
    with pytest.raises(JobStateUnknown, match="did not answer within 8 s"):
        requeue(JOB, node.controller)
    node.controller_answers = True
    node.fails["requeue"] = module.Result((), 1, "", "Access denied")
    with pytest.raises(JobStateUnknown, match="did not requeue or cancel job 17: Access denied"):
        requeue(JOB, node.controller)


def test_a_silent_controller_does_not_end_the_wait(node: Node) -> None:
    node.controller_answers = False
    assert module.why_not_running(JOB, node.controller) == ""
    assert module.runs("17", node.controller) is None
    node.controller_answers, node.state = True, ""
    assert module.why_not_running(JOB, node.controller) == "slurmctld no longer knows job 17"
    assert module.runs("17", node.controller) is False
