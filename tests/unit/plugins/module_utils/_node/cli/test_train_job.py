# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode train in a job, from its preflight to a requeue and to a hold."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import train
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.record import read_record

from .test_train import A100, FILES, answer, price_file


class Cluster:
    """Slurm and the node's other commands, as a job sees them."""

    def __init__(self) -> None:
        self.called: list[list[str]] = []
        self.reasons = {"c-0": "none", "c-1": "none"}
        self.comment = ""

    def __call__(self, words: Sequence[str], _limit_s: float = 120) -> Result:
        self.called.append(list(words))
        text = ""
        if words[0] == "squeue":
            text = f"{self.comment}\n"
        if words[0] == "sinfo":
            bad = {name: reason for name, reason in self.reasons.items() if reason != "none"}
            states = {name: "draining" if name in bad else "mixed" for name in self.reasons}
            text = "".join(f"{name}|{states[name]}|{reason}\n" for name, reason in self.reasons.items())
        return Result(tuple(words), 2 if words[0] == "hpcnode" else 0, text, "")

    @property
    def control(self) -> list[list[str]]:
        """What scontrol was asked to do."""
        return [words for words in self.called if words[0] == "scontrol"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A job on two nodes."""
    made = Cluster()
    monkeypatch.setattr(train, "run", made)
    for name, value in (("ID", "7"), ("NODELIST", "c-[0-1]"), ("NUM_NODES", "2")):
        monkeypatch.setenv(f"SLURM_JOB_{name}", value)
    monkeypatch.setenv("SLURM_NODEID", "0")
    monkeypatch.setenv("SLURMD_NODENAME", "c-0")
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    monkeypatch.delenv("HPCAI_CHECKPOINT_STORE", raising=False)
    return made


class Job:
    """A job of the recipe bert-ddp."""

    def __init__(self, folder: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.run, self.job = folder / "run", folder / "job"
        self.job.mkdir()
        self._capfd = capfd

    def begin(self, *given: str) -> int:
        """Run the preflight.

        :param given: the recipe and further options; the recipe's smallest size by default.
        """
        words = ["preflight", *(given or ["bert-ddp"]), "--recipes", FILES]
        status = main(["train", *words, "--run", str(self.run), "--job", str(self.job)])
        self._capfd.readouterr()
        return status

    def keep(self, step: int) -> None:
        """Finish a checkpoint."""
        folder = self.run / f"step{step}"
        folder.mkdir(parents=True)
        (folder / ".complete").touch()

    def end(self, status: int, errors: str = "", *words: str) -> tuple[int, dict[str, Any]]:
        """End the run."""
        (self.job / "errors").write_text(errors)
        arguments = ["end", str(self.job), "--run", str(self.run), "--recipes", FILES, "--status", str(status)]
        return answer(self._capfd, *arguments, *words)


@pytest.fixture
def job(tmp_path: pathlib.Path, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Job:
    """A job whose first run has begun."""
    made = Job(tmp_path, capfd)
    assert made.begin() == GOOD
    return made


KILLED = "srun: error: c-1: task 1: Killed\n"


def test_the_first_node_begins_the_record(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NODEID", "1")
    job.begin()
    record = read_record(str(job.job))
    assert record is not None
    assert [run.nodes for run in record.runs] == [("c-0", "c-1")]
    assert record.recipe == "bert-ddp tiny"


def test_a_killed_rank_is_requeued_and_the_training_then_finishes(job: Job, cluster: Cluster) -> None:
    job.keep(10)
    status, data = job.end(137, KILLED)
    assert status == GOOD
    assert data["decision"]["action"] == "requeue"
    assert data["run"]["failed"] == ["c-1"]
    assert cluster.control == [["scontrol", "requeue", "7"]]
    job.begin()
    job.keep(20)
    status, data = job.end(0)
    assert (status, data["decision"]["action"]) == (GOOD, "leave")
    record = read_record(str(job.job))
    assert record is not None
    assert [(run.started_at, run.kept) for run in record.runs] == [(0, 10), (10, 20)]


@pytest.mark.parametrize("status", [0, 137])
def test_a_slow_node_is_named_to_the_controller(job: Job, cluster: Cluster, status: int) -> None:
    """Before the requeue, which ends the script. The controller checks it after the run."""
    for rank, (node, own) in enumerate((("c-0", 0.1), ("c-1", 0.9))):
        line = {"t": 1.0, "step": 5, "rank": rank, "node": node, "samples": 8}
        line |= {"step_s": 1.0, "data_s": 0.01, "own_s": own}
        (job.job / f"rank-{rank}.jsonl").write_text(f"{json.dumps(line)}\n")
    job.end(status, KILLED if status else "", "--dry-run")
    assert cluster.control == []
    job.end(status, KILLED if status else "")
    assert cluster.control[0] == ["scontrol", "update", "JobId=7", "Comment=hpcai:slow=c-1"]


def test_no_progress_twice_is_held_with_the_reason(job: Job, cluster: Cluster) -> None:
    status, data = job.end(137, KILLED)
    assert (status, data["decision"]["wait_s"]) == (GOOD, 60)
    assert cluster.control[-2] == ["scontrol", "update", "JobId=7", "StartTime=now+60"]
    job.begin()
    status, data = job.end(137, KILLED.replace("c-1", "c-0"))
    assert status == BAD
    assert "2 runs in a row made no progress" in data["decision"]["reason"]
    assert cluster.control[-1] == ["scontrol", "requeuehold", "7"]


@pytest.mark.parametrize(("comment", "cause"), [("x,hpcai:hang=1", "hang"), ("hpcai:hang=0", "exit"), ("", "exit")])
def test_a_hang_is_known_by_the_note_of_this_run(
    job: Job, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, comment: str, cause: str
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    cluster.comment = comment
    _status, data = job.end(137, KILLED)
    assert data["run"]["cause"] == cause


def test_a_loss_that_is_no_number_is_held_at_once(job: Job, cluster: Cluster) -> None:
    job.keep(10)
    status, data = job.end(65)
    assert status == BAD
    assert "a loss that is not a number" in data["decision"]["reason"]
    assert cluster.control == [["scontrol", "requeuehold", "7"]]


def test_a_full_disk_at_a_checkpoint_is_held_at_once(job: Job) -> None:
    job.keep(10)
    status, data = job.end(73)
    assert status == BAD
    assert "the disk is full" in data["decision"]["reason"]


def test_a_node_that_the_arbiter_drained_is_left_out(job: Job, cluster: Cluster) -> None:
    job.keep(10)
    cluster.reasons["c-1"] = "hpcai: gpu_xid"
    _status, data = job.end(137, KILLED)
    assert data["decision"]["leave_out"] == ["c-1"]
    assert ["scontrol", "update", "JobId=7", "ExcNodeList=c-1"] in cluster.control


def test_a_node_that_the_preflight_refuses_is_left_out(job: Job, cluster: Cluster) -> None:
    _status, data = job.end(1, "srun: error: c-0: task 0: Exited with exit code 1\n", "--refused")
    assert data["run"]["cause"] == "preflight"
    assert data["decision"]["leave_out"] == ["c-0"]


BOTH = "".join(f"srun: error: c-{number}: task {number}: Exited with exit code 1\n" for number in (1, 0))


def test_a_preflight_that_refuses_all_nodes_is_held_and_leaves_none_out(job: Job, cluster: Cluster) -> None:
    status, data = job.end(1, BOTH, "--refused")
    assert (status, data["run"]["failed"], data["decision"]["leave_out"]) == (BAD, ["c-1", "c-0"], [])
    assert data["decision"]["reason"].startswith("Held: the checks before the start refused c-[0-1].")
    assert cluster.control == [["scontrol", "requeuehold", "7"]]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("gpt-deepspeed", "--size", "175B", "--vm-size", A100), "it does not fit on 1 x Standard_ND96amsr_A100_v4: "),
        (("gpt-ort", "--vm-size", A100), "this recipe runs in a container image only: give --image"),
        (("bert-ddp", "--image", "x:latest"), "x:latest has no digest, so its content may change: use"),
    ],
)
def test_a_training_that_no_node_can_run_is_held_at_once_even_on_one_node(
    job: Job, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c-0")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    (job.job / "runs.json").unlink()
    assert job.begin(*given) == BAD
    status, data = job.end(1, BOTH.splitlines(keepends=True)[1], "--refused", "--vm-size", A100)
    assert (status, data["run"]["cause"], data["decision"]["leave_out"]) == (BAD, "preflight", [])
    assert data["decision"]["reason"].startswith(f"Held: no node can run this job: {reason}")
    assert cluster.control == [["scontrol", "requeuehold", "7"]]


def test_a_preflight_that_cannot_begin_is_a_run_of_its_own(job: Job) -> None:
    """Regression: it replaced the run before, so the failures never grew, and the job was requeued without end."""
    job.keep(10)
    job.end(137, KILLED)
    refused = [job.end(1, "srun: error: c-0: task 0: Exited with exit code 1\n", "--refused")[0] for _run in range(3)]
    record = read_record(str(job.job))
    assert record is not None
    assert [run.cause for run in record.runs] == ["exit", "preflight", "preflight", "preflight"]
    assert refused == [GOOD, GOOD, BAD]


def test_an_eviction_does_not_use_up_the_requeues(job: Job) -> None:
    for step in (10, 20, 30, 40, 50):
        job.keep(step)
        (job.job / "notice-c-1").touch()
        status, data = job.end(75)
        assert (status, data["run"]["cause"]) == (GOOD, "preempted")
        job.begin()


def test_a_time_limit_is_requeued(job: Job) -> None:
    job.keep(10)
    (job.job / "near-limit").touch()
    _status, data = job.end(75)
    assert (data["run"]["cause"], data["decision"]["action"]) == ("time_limit", "requeue")


def test_a_dry_run_changes_nothing(job: Job, cluster: Cluster) -> None:
    before = (job.job / "runs.json").read_text()
    _status, data = job.end(137, KILLED, "--dry-run")
    assert data["decision"]["action"] == "requeue"
    assert (job.job / "runs.json").read_text() == before
    assert cluster.control == []


def test_a_task_of_an_array_is_requeued_alone(job: Job, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "5")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    job.keep(10)
    job.end(137, KILLED)
    assert cluster.control == [["scontrol", "requeue", "5_2"]]


def test_without_a_record_nothing_is_decided(
    tmp_path: pathlib.Path, cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    made = Job(tmp_path, capfd)
    assert made.end(1)[0] == UNKNOWN
    assert answer(capfd, "report", str(made.job))[0] == UNKNOWN
    assert cluster.control == []


def test_the_report_is_printed_before_the_job_is_requeued(
    job: Job, cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    job.keep(10)
    (job.job / "errors").write_text(KILLED)
    words = ["end", str(job.job), "--run", str(job.run), "--recipes", FILES, "--status", "137"]
    assert main(["train", *words]) == GOOD
    shown = capfd.readouterr().out
    assert "bert-ddp tiny, 2 nodes" in shown
    assert "it advanced from step 0 to 10. Requeued." in shown
    assert main(["train", "report", str(job.job), "--recipes", FILES]) == GOOD


def test_the_report_compares_the_scaling_efficiency_with_the_published_one(
    job: Job, capfd: pytest.CaptureFixture[str]
) -> None:
    (job.job / "runs.json").unlink()
    assert job.begin("resnet-scaling", "--size", "large") == GOOD
    (job.job / "scaling.json").write_text('{"nodes": 2, "efficiency": 0.72}')
    assert job.end(0)[0] == GOOD
    _status, data = answer(capfd, "report", str(job.job), "--recipes", FILES)
    assert data["reached"]["value"] == pytest.approx(72)
    assert main(["train", "report", str(job.job), "--recipes", FILES]) == GOOD
    assert "so 80% were reached" in capfd.readouterr().out


def test_the_report_of_the_script_has_the_cost(
    job: Job, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prices, store = price_file(tmp_path), "https://a.blob.core.windows.net/c/x"
    given = ("--prices", str(prices), "--region", "westeurope")
    status, data = answer(capfd, "script", "bert-ddp", "--recipes", FILES, "--store", store, *given)
    assert status == GOOD
    plain = " ".join(data["script"].replace("\\\n", " ").split())
    assert plain.count(f"--recipes {FILES} --prices {prices} --region westeurope") == 2
    assert job.end(0, "", *given, "--vm-size", A100)[0] == GOOD
    status, data = answer(capfd, "report", str(job.job), "--recipes", FILES, *given, "--vm-size", A100)
    assert data["cost"] is not None
    # A price must not decide what happens to the job.
    prices.unlink()
    assert main(["train", "report", str(job.job), "--recipes", FILES, *given, "--vm-size", A100]) == GOOD
    assert "The cost is unknown: " in capfd.readouterr().err
