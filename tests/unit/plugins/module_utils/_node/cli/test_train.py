# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode train, from its words to its exit status, and a job from its preflight to a requeue and to a hold."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import train
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.record import read_record

FILES = str(pathlib.Path(__file__).resolve().parents[6] / "roles/training/files")
A100 = "nd96amsr_A100_v4"


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


def answer(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the JSON of a command."""
    status = main(["train", *words, "--json"])
    return status, json.loads(capfd.readouterr().out)


def test_a_plan_that_fits_is_good(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--model", "39B", "--nodes", "64", "--vm-size", A100, "--tensor", "8", "--pipeline", "2")
    status, data = answer(capfd, "plan", *words, "--batch", "1536", "--tokens", "300e9")
    assert (status, data["fits"], data["gpus"]) == (GOOD, True, 512)
    assert data["speed"]["rate"] == 138
    assert data["speed"]["days"] == pytest.approx(300e9 / data["speed"]["tokens_per_day"])


def test_a_plan_that_does_not_fit_is_bad(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "plan", "--model", "175B", "--nodes", "1", "--vm-size", A100, "--zero", "3")
    assert (status, data["fits"], data["fewest"]["nodes"]) == (BAD, False, 6)


def test_a_shape_replaces_parts_of_a_recipe(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "gpt-megatron", "--size", "1.7B", "--recipes", FILES, "--vm-size", A100)
    _status, data = answer(capfd, *words)
    assert (data["nodes"], data["global_batch"]) == (4, 512)
    _status, changed = answer(capfd, *words, "--layers", "48", "--nodes", "8", "--offload-optimizer", "--zero", "1")
    assert (changed["nodes"], changed["model"]["layers"], changed["layout"]["offload_optimizer"]) == (8, 48, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "--vm-size", A100), "--layers, --hidden, --heads, --sequence are missing"),
        (("plan", "--vm-size", A100, "--model", "9B"), "--model 9B is not known"),
        (("plan", "--vm-size", A100, "--model", "39B", "--nodes", "0"), "--nodes must be at least 1"),
        (("plan", "--vm-size", A100, "--model", "39B", "--zero", "4"), "--zero must be 0, 1, 2 or 3"),
        (("plan", "--vm-size", A100, "--model", "39B", "--tokens", "0"), "--tokens must be more than 0"),
        (("plan", "--vm-size", A100, "--model", "39B", "--prices", "x"), "--prices needs --region"),
        (("plan", "cosmoflow", "--vm-size", A100), "cosmoflow is no transformer"),
        (("script", "fsdp"), "give --store, or --shared"),
        (("script", "gpt-megatron", "--size", "175B", "--store", "https://a/b"), "give --shared, and --run with"),
        (("script", "bert-ddp", "--source", "https://a/b"), "--source needs --data"),
        (("script", "bert-ddp", "--data", "/d", "--data-shared"), "--data-shared needs --source"),
        (("script", "bert-ddp", "--launcher", "mpirun", "--image", "x"), "starts no container"),
        (("script", "gpt-ort"), "runs in a container image only"),
        (("script", "bert-ddp", "--hang", "-1"), "--hang must not be negative"),
        (("script", "bert-ddp", "--warn", "-1"), "--warn must be from 0 to 65535"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words, "--recipes", FILES]) == USAGE
    assert message in capfd.readouterr().err


def test_an_unknown_size_or_recipe_is_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "plan", "--model", "39B", "--vm-size", "nd1_v9"]) == UNKNOWN
    assert main(["train", "script", "fsdb", "--recipes", FILES]) == UNKNOWN
    assert "Did you mean fsdp" in capfd.readouterr().err


def price_file(folder: pathlib.Path) -> pathlib.Path:
    """A file with the price of a size."""
    prices = folder / "prices.json"
    size = {"region": "westeurope", "size": A100, "hourly": 30.0}
    prices.write_text(json.dumps({"schema": 1, "currency": "USD", "date": "2026-11-20", "sizes": [size]}))
    return prices


def test_a_price_file_gives_a_list_price(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    prices = price_file(tmp_path)
    words = ("plan", "--model", "39B", "--nodes", "64", "--vm-size", A100, "--tensor", "8", "--pipeline", "2")
    given = ("--tokens", "300e9", "--prices", str(prices), "--region", "WestEurope")
    _status, data = answer(capfd, *words, *given)
    assert data["speed"]["cost"] == pytest.approx(30.0 * 64 * 24 * data["speed"]["days"])
    assert data["speed"]["currency"] == "USD (prices of 2026-11-20)"
    status, data = answer(capfd, *words, *given, "--spot")
    assert (status, "no price of" in data["error"]) == (UNKNOWN, True)


def test_list_shows_where_each_size_ran(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "list", "--recipes", FILES)
    assert status == GOOD
    assert {recipe["name"] for recipe in data["recipes"]} >= {"fsdp", "gpt-deepspeed"}
    assert all(size["verified"] for recipe in data["recipes"] for size in recipe["sizes"].values())


def test_a_script_on_cpus_needs_no_vm_size(capfd: pytest.CaptureFixture[str]) -> None:
    status, data = answer(capfd, "script", "bert-ddp", "--recipes", FILES, "--steps", "7", "--nodes", "3")
    assert status == GOOD
    assert "#SBATCH --nodes=3" in data["script"]
    # Another job must not find the checkpoints of this one.
    assert 'run="/scratch/$USER/bert-ddp-tiny-$SLURM_JOB_ID"' in data["script"]
    assert "--steps=7" in data["script"]


def test_image_and_sums_of_a_recipe_are_used_unless_others_are_given(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = f"@sha256:{'0' * 64}"
    shutil.copytree(f"{FILES}/recipes/bert-ddp", tmp_path / "recipes/bert-ddp")
    path = tmp_path / "recipes/bert-ddp/recipe.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "image": f"x{digest}", "data_sums": "sums"}))
    sums = f"--sums {tmp_path}/recipes/bert-ddp/sums"

    def script(*words: str) -> str:
        status, data = answer(capfd, "script", "bert-ddp", "--recipes", str(tmp_path), *words)
        assert status == GOOD
        return " ".join(data["script"].replace("\\\n", " ").split())

    assert f"--container-image=x{digest}" in script()
    assert "--sums" not in script()
    assert sums in script("--data", "/d")
    assert f"--container-image=y{digest}" in script("--image", f"y{digest}")
    assert "--sums /s" in script("--data", "/d", "--sums", "/s")
    assert "--container-image" not in script("--python", "/env/python")


def test_env_needs_a_job(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    assert main(["train", "env"]) == UNKNOWN
    captured = capfd.readouterr()
    assert captured.out == "", "what is not understood must not be evaluated"
    assert "not a Slurm job" in captured.err


class Job:
    """A job of the recipe bert-ddp."""

    def __init__(self, folder: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.run, self.job = folder / "run", folder / "job"
        self.job.mkdir()
        self._capfd = capfd

    def begin(self) -> int:
        """Run the preflight."""
        words = ["preflight", "bert-ddp", "--recipes", FILES, "--run", str(self.run), "--job", str(self.job)]
        status = main(["train", *words])
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
