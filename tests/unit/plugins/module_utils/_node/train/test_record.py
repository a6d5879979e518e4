# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a training's runs, how a run ended, and the commands for the decision."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import Malformed
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.directory import Signal
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.recovery import (
    EXIT,
    HANG,
    HOLD,
    LEAVE,
    NODE,
    PREEMPTED,
    PREFLIGHT,
    REQUEUE,
    TIME_LIMIT,
    Decision,
    JobRun,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.train import restart
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.record import (
    CONTINUE,
    Outcome,
    Record,
    Run,
    first_failed,
    outcome,
    read_record,
    write_record,
)

from ..machine.test_own_files import as_root, plant

FILES = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files"

KILLED = """\
step 12: loss 3.1
srun: error: c-1: task 9: Killed
srun: launch/slurm: _step_signal: Terminating StepId=7.2
srun: error: c-0: tasks 0-7: Terminated
"""
REFUSED = """\
srun: error: c-1: task 1: Exited with exit code 1
srun: error: c-[0,2]: tasks 0,2: Exited with exit code 1
"""


def test_the_first_failure_is_the_cause_and_the_others_are_consequences() -> None:
    assert first_failed(KILLED) == ("c-1",)
    assert first_failed("srun: error: c-[0,2]: tasks 0,2: Exited with exit code 1\n") == ("c-0", "c-2")
    assert first_failed("srun: error: c-0: tasks 0-7: Terminated\n" + KILLED) == ("c-1",)


@pytest.mark.parametrize("text", ["", "srun: error: Unable to create step", "srun: error: c-[0: task 1: Killed\n"])
def test_without_a_failure_no_node_is_named(text: str) -> None:
    assert first_failed(text) == ()


@pytest.mark.parametrize(
    ("status", "errors", "refused", "noticed", "near_limit", "expected"),
    [
        (0, "", False, (), False, Outcome(EXIT, 0)),
        (137, KILLED, False, (), False, Outcome(EXIT, 137, ("c-1",))),
        # Checks fail on each node independently, so no failure is a consequence of another one.
        (1, REFUSED, True, (), False, Outcome(PREFLIGHT, 1, ("c-1", "c-0", "c-2"))),
        (1, "srun: error: Unable to create step", True, (), False, Outcome(PREFLIGHT, 1)),
        # The tasks that srun terminated have a higher status than the one that failed.
        (143, "srun: error: c-0: task 0: Exited with exit code 65\n", False, (), False, Outcome(EXIT, 65, ("c-0",))),
        (CONTINUE, "", False, ("c-2",), False, Outcome(PREEMPTED, CONTINUE, ("c-2",))),
        (CONTINUE, "", False, (), True, Outcome(TIME_LIMIT, CONTINUE)),
        (CONTINUE, "", False, (), False, Outcome(TIME_LIMIT, CONTINUE)),
        # The training ended normally although a notice came.
        (0, "", False, ("c-2",), True, Outcome(EXIT, 0)),
        (143, "srun: error: Node failure on c-1\n", False, (), False, Outcome(NODE, 143)),
    ],
)
def test_how_a_run_ended(
    status: int, errors: str, refused: bool, noticed: tuple[str, ...], near_limit: bool, expected: Outcome
) -> None:
    assert outcome(status, errors, refused, noticed, near_limit) == expected


def test_a_hang_has_no_failed_node() -> None:
    """The watchdog killed all ranks, and srun names one of them first."""
    assert outcome(137, KILLED, False, (), False, hung=True) == Outcome(HANG, 137)
    assert outcome(0, "", False, (), False, hung=True) == Outcome(EXIT, 0)


def test_a_record_survives_writing_and_reading(tmp_path: pathlib.Path) -> None:
    assert read_record(str(tmp_path)) is None
    record = Record("fsdp tiny").begun(("c-0", "c-1"), 100.0, 0, invalid="it does not fit")
    record = record.ended(160.0, Outcome(EXIT, 137, ("c-1",)), 10).decided("Requeued.")
    write_record(str(tmp_path), record)
    assert read_record(str(tmp_path)) == record
    assert record.history() == (JobRun(("c-0", "c-1"), EXIT, 137, ("c-1",), 0, 10, "it does not fit"),)


def test_a_run_that_never_ended_was_killed_with_its_node() -> None:
    record = Record("fsdp tiny").begun(("c-0",), 100.0, 0).begun(("c-1",), 300.0, 20)
    first, second = record.runs
    assert (first.cause, first.kept) == (NODE, 20)
    assert (second.cause, second.started_at) == (None, 20)
    assert [run.nodes for run in record.history()] == [("c-0",)]


@pytest.mark.parametrize(("seen", "ended"), [(0.0, 300.0), (90.0, 300.0), (250.0, 250.0), (301.0, 300.0)])
def test_a_run_that_was_killed_ended_with_its_last_sign(seen: float, ended: float) -> None:
    record = Record("fsdp tiny").begun(("c-0",), 100.0, 0).begun(("c-1",), 300.0, 20, seen)
    assert [run.ended for run in record.runs] == [ended, None]


def test_a_run_must_be_begun_before_it_ends() -> None:
    with pytest.raises(ValueError, match="no run was begun"):
        Record("fsdp tiny").ended(1.0, Outcome(EXIT, 0), 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ('{"schema": 2, "recipe": "x", "runs": []}', "its schema is 2"),
        ('{"schema": 1, "recipe": "x", "runs": [{"nodes": ["c"]}]}', "lacks started"),
        (
            '{"schema": 1, "recipe": "x", "runs": [{"nodes": [], "started": 1, "started_at": 0, "cause": "luck"}]}',
            "cause",
        ),
    ],
)
def test_a_file_that_is_no_record_is_refused_in_one_line(tmp_path: pathlib.Path, text: str, words: str) -> None:
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(Malformed, match=r"runs\.json") as raised:
        read_record(str(tmp_path))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


class Commands:
    """Records commands, and answers from a table."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        self.answers = answers
        self.called: list[list[str]] = []

    def __call__(self, words: Sequence[str]) -> Result:
        self.called.append(list(words))
        rc, text = self.answers.get(words[0], (127, ""))
        return Result(tuple(words), rc, text, "")


MARKER = Signal("marker", ".complete")


def test_without_a_store_the_newest_finished_checkpoint_counts(tmp_path: pathlib.Path) -> None:
    assert restart.kept_step(str(tmp_path), MARKER, False, Commands()) == 0
    for step, finished in ((10, True), (20, True), (30, False)):
        (tmp_path / f"step{step}").mkdir()
        if finished:
            (tmp_path / f"step{step}/.complete").touch()
    assert restart.kept_step(str(tmp_path), MARKER, False, Commands()) == 20


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        ((0, json.dumps({"whole": [{"step": 40}, {"step": 20}], "not_whole": []})), 40),
        ((0, json.dumps({"whole": [], "not_whole": ["x"]})), 0),
        ((1, "{}"), None),
        ((0, "no JSON"), None),
    ],
)
def test_with_a_store_only_complete_checkpoints_in_it_count(
    tmp_path: pathlib.Path, answer: tuple[int, str], step: int | None
) -> None:
    (tmp_path / "step50").mkdir()
    (tmp_path / "step50/.complete").touch()
    assert restart.kept_step(str(tmp_path), MARKER, True, Commands(hpcnode=answer)) == step


def test_each_decision_has_its_commands() -> None:
    assert restart.commands(Decision(LEAVE, ""), "7") == []
    assert restart.commands(Decision(HOLD, ""), "7") == [["scontrol", "requeuehold", "7"]]
    assert restart.commands(Decision(REQUEUE, ""), "7_3") == [["scontrol", "requeue", "7_3"]]
    assert restart.commands(Decision(REQUEUE, "", ("c-1", "c-2"), 60), "7") == [
        ["scontrol", "requeuehold", "7"],
        ["scontrol", "update", "JobId=7", "ExcNodeList=c-1,c-2", "StartTime=now+60"],
        ["scontrol", "release", "7"],
    ]


def test_nodes_with_a_notice_and_errors_are_read_from_the_job_folder(tmp_path: pathlib.Path) -> None:
    assert restart.noticed_nodes(str(tmp_path)) == ()
    assert restart.read_errors(str(tmp_path), False) == ""
    (tmp_path / "notice-c-3").touch()
    (tmp_path / "errors").write_text(KILLED)
    assert restart.noticed_nodes(str(tmp_path)) == ("c-3",)
    assert restart.read_errors(str(tmp_path), True) == KILLED


def test_a_pipe_in_place_of_the_record_does_not_block(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "runs.json")
    with pytest.raises(Malformed, match=r"runs\.json: it is not a file"):
        read_record(str(tmp_path))


@as_root
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_in_a_folder_of_another_user_a_run_neither_begins_nor_ends(
    tmp_path: pathlib.Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user created it first: its record would decide whether the job starts again."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c-0")
    mine, job = tmp_path / "mine", tmp_path / "job"
    mine.mkdir()
    plant(job, kind, mine)
    folder = mine if kind == "link" else job
    theirs = {"schema": 1, "recipe": "bert-ddp tiny", "runs": [asdict(Run(("c-0",), 0.0, 0))]}
    (folder / "runs.json").write_text(json.dumps(theirs))
    os.mkfifo(folder / "errors")
    before = (folder / "runs.json").read_text()
    given = [f"--recipes={FILES}", f"--run={tmp_path}"]
    refused = f"{job} belongs to user 64321, not to you: have it removed"
    assert frame.main(["train", "end", str(job), *given, "--status=1"]) == 1
    assert refused in capsys.readouterr().err
    assert frame.main(["train", "preflight", "bert-ddp", f"--job={job}", *given]) == 1
    assert refused in capsys.readouterr().err
    assert sorted(os.listdir(folder)) == ["errors", "runs.json"]
    assert (folder / "runs.json").read_text() == before
