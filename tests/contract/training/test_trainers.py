# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The trainers with the real frameworks, on CPUs: two processes train, are interrupted, and continue exactly.

Each training runs from the recipe's own size ``tiny``, with the options that the script passes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.report import read_progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.slow import STORAGE, find_slow

from .conftest import FILES, LIMIT_S
from .trained import COMPILED, ON_CPUS, Training, loss_of, training

__all__ = ["training"]

# Importing the frameworks takes minutes on a busy machine, and DeepSpeed and torch.compile compile.
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize(
    "training",
    [name if name == "bert-ddp" else pytest.param(name, marks=pytest.mark.thorough) for name in (*ON_CPUS, *COMPILED)],
    indirect=True,
)
def test_a_resumed_training_ends_with_the_loss_of_an_uninterrupted_one(training: Training) -> None:
    statuses, output = training.train()
    assert statuses == [0, 0], output
    assert training.steps() == [10, 20]
    for rank in (0, 1):
        lines = (training.folder / f"job/rank-{rank}.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["step"] == 20
        # As the report counts them: of all replicas, which with tensor parallelism are fewer than the ranks.
        size = read_recipe(str(FILES), training.recipe).size("tiny")
        assert json.loads(lines[-1])["samples"] == (size.batch or size.micro_batch * 2)
    assert len(read_progress(str(training.folder / "job"))) >= 6
    # As after a save that was interrupted.
    (training.folder / "run/step20/.complete").unlink()
    (training.folder / "run/step20/left").touch()
    statuses, again = training.train()
    assert statuses == [0, 0], again
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)
    assert training.steps() == [10, 20]
    assert not (training.folder / "run/step20/left").exists()


@pytest.mark.thorough
def test_a_warning_saves_and_ends_with_status_75(training: Training) -> None:
    processes = training.start("--steps=100000", "--save-every=100000")
    progress = training.folder / "job/rank-0.jsonl"
    deadline = time.monotonic() + LIMIT_S
    while not progress.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    # One rank is enough: they agree.
    processes[1].send_signal(signal.SIGUSR1)
    statuses, output = training.wait(processes)
    assert statuses == [75, 75], output
    assert len(training.steps()) == 1
    assert f"saved at {training.steps()[0]}" in output


@pytest.mark.thorough
def test_a_killed_rank_leaves_no_finished_checkpoint_and_ends_the_other(training: Training) -> None:
    processes = training.start("--steps=100000", "--save-every=100000", "--timeout=20")
    progress = training.folder / "job/rank-0.jsonl"
    deadline = time.monotonic() + LIMIT_S
    while not progress.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    processes[1].kill()
    statuses, _output = training.wait(processes)
    assert statuses[0] not in (0, 75)
    assert training.steps() == []


@pytest.mark.thorough
def test_a_loss_that_is_no_number_ends_with_status_65(training: Training) -> None:
    statuses, output = training.train("--learning-rate=1e30")
    assert statuses == [65, 65], output
    assert "the loss is not a number" in output


@pytest.mark.thorough
def test_a_checkpoint_that_cannot_be_written_ends_all_ranks_with_status_73(training: Training) -> None:
    (training.folder / "run").mkdir()
    # A file in the place of the checkpoint's folder: root is not stopped by permissions.
    (training.folder / "run/step10").touch()
    statuses, output = training.train()
    assert statuses == [73, 73], output
    assert "cannot write" in output


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("training", ["bert-ddp", "fsdp", "gpt-deepspeed"], indirect=True)
def test_a_full_disk_of_one_node_ends_its_rank_with_status_73_and_the_others(training: Training) -> None:
    (training.folder / "run").mkdir()
    processes = training.start("--timeout=60", full=True)
    outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    # Slurm ends the others, and hpcnode reads the status of the rank that ended first.
    assert processes[1].returncode == 73, outputs
    assert processes[0].returncode != 0, outputs
    assert "n-1: cannot write" in outputs[1]
    assert training.steps() == []


@pytest.mark.thorough
def test_a_batch_that_does_not_divide_ends_with_status_78(training: Training) -> None:
    statuses, output = training.train("--batch=7")
    assert statuses == [78, 78], output


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["fsdp", "bert-ddp"], indirect=True)
def test_a_training_continues_on_another_number_of_nodes_where_its_checkpoints_allow_that(training: Training) -> None:
    statuses, output = training.train("--steps=10")
    assert statuses == [0, 0], output
    statuses, alone = training.train(world=1)
    assert statuses == [0], alone
    assert "continuing after step 10" in alone
    # One node computes all samples of a step, so only rounding and the masks of tokens differ.
    (training.folder / "run/step20/.complete").unlink()
    statuses, both = training.train()
    assert statuses == [0, 0], both
    assert float(loss_of(alone)) == pytest.approx(float(loss_of(both)), rel=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-deepspeed", "gpt-megatron"], indirect=True)
def test_another_number_of_nodes_is_refused_where_only_as_many_can_load_a_checkpoint(training: Training) -> None:
    statuses, output = training.train("--steps=10")
    assert statuses == [0, 0], output
    statuses, output = training.train("--tensor=1" if training.recipe == "gpt-megatron" else "--steps=20", world=1)
    assert statuses == [78], output
    assert "step10 was written by 2 processes, and only as many can load it: this training has 1." in output


@pytest.mark.thorough
def test_a_checkpoint_of_another_job_is_refused_unless_this_one_has_restored_it(training: Training) -> None:
    statuses, output = training.train("--steps=10", SLURM_JOB_ID="41")
    assert statuses == [0, 0], output
    statuses, output = training.train(SLURM_JOB_ID="42")
    assert statuses == [78, 78], output
    assert "step10 was written by job 41, and this job has not restored it: use another folder" in output
    records = training.folder / "run/.hpcai-checkpoint"
    records.mkdir()
    (records / "record-n-0.json").write_text(json.dumps({"seen": [{"folder": "step10", "state": "restored"}]}))
    statuses, output = training.train(SLURM_JOB_ID="42")
    assert statuses == [0, 0], output
    assert "continuing after step 10" in output


COUNTED = """\
import os, sys
sys.path.insert(0, os.environ["TRAINERS"])
import torch
moved = []

class Counted(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, pin_memory=False):
        super().__init__(lambda tensor: moved.append(tuple(tensor.shape)) or tensor, lambda tensor: tensor)

torch.autograd.graph.save_on_cpu = Counted
import gpt_deepspeed, harness
leave = harness._leave
harness._leave = lambda status: (print("moved", len(moved), *set(moved), flush=True), leave(status))
gpt_deepspeed.main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-deepspeed"], indirect=True)
def test_offloaded_activations_leave_the_gpu_and_the_loss_stays(training: Training) -> None:
    counted, losses = training.folder / "counted.py", []
    counted.write_text(COUNTED)
    for words in ((), ("--offload-activations",), ("--offload-activations", "--offload-optimizer")):
        shutil.rmtree(training.folder / "run", ignore_errors=True)
        statuses, output = training.train("--steps=5", *words, instead=str(counted), TRAINERS=str(FILES / "trainers"))
        assert statuses == [0, 0], output
        # 5 steps of 2 micro-batches of 2 samples, and 4 layers: 128 tokens of 128 numbers.
        assert ("moved 40 (2, 128, 128)" if words else "moved 0\n") in output
        losses.append(loss_of(output.partition("moved")[0]))
    assert losses[0] == losses[1]
    # The host adds up the gradients of the micro-batches in another precision.
    assert float(losses[2]) == pytest.approx(float(losses[0]), rel=1e-3)


SLOWER = """\
import os, sys, time
sys.path.insert(0, os.environ["TRAINERS"])
import bert_ddp
import gpt

def slower(function, seconds):
    def call(*given):
        time.sleep(float(os.environ.get(seconds, 0)))
        return function(*given)
    return call

bert_ddp.Bert.forward = slower(bert_ddp.Bert.forward, f"SLEEP_{os.environ['SLURM_PROCID']}")
gpt.Tokens.sample = slower(gpt.Tokens.sample, "READ")
bert_ddp.main()
"""


@pytest.fixture
def slower(training: Training) -> str:
    """A program that trains, with ranks that sleep."""
    path = training.folder / "slower.py"
    path.write_text(SLOWER)
    return str(path)


@pytest.mark.thorough
def test_a_rank_that_sleeps_is_named_although_all_step_times_are_equal(training: Training, slower: str) -> None:
    statuses, output = training.train(instead=slower, TRAINERS=str(FILES / "trainers"), SLEEP_1="0.5")
    assert statuses == [0, 0], output
    times = [one.times for one in read_progress(str(training.folder / "job"))]
    steps = {node: [one.step for one in times if one.node == node] for node in ("n-0", "n-1")}
    # Two micro-batches, so each step takes a second on both.
    assert steps["n-0"] == pytest.approx(steps["n-1"], rel=0.2)
    assert min(steps["n-0"]) > 1.0
    assert [(one.subject, one.section) for one in find_slow(times)] == [("n-1", "own")]


@pytest.mark.thorough
def test_slow_storage_is_named_when_all_nodes_wait_for_data(training: Training, slower: str) -> None:
    statuses, output = training.train(instead=slower, TRAINERS=str(FILES / "trainers"), READ="0.2")
    assert statuses == [0, 0], output
    found = find_slow(one.times for one in read_progress(str(training.folder / "job")))
    assert [(one.subject, one.section) for one in found] == [(STORAGE, "data")]


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-megatron"], indirect=True)
def test_megatron_reads_its_own_format_in_an_order_that_a_resumed_training_repeats(training: Training) -> None:
    data = training.folder / "data"
    data.mkdir()
    lines = [json.dumps({"text": f"Document {number} says {number} things. " * 20}) for number in range(50)]
    (training.folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    words = [f"--input={training.folder / 'corpus.jsonl'}", f"--output-prefix={data / 'corpus'}"]
    made = subprocess.run(
        [sys.executable, str(FILES / "trainers/preprocess_data.py"), *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(training.packages), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("50 documents, ")
    assert sorted(path.name for path in data.iterdir()) == ["corpus.bin", "corpus.idx"]
    statuses, output = training.train(f"--data={data}")
    assert statuses == [0, 0], output
    (training.folder / "run/step20/.complete").unlink()
    _statuses, again = training.train(f"--data={data}")
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)
    assert loss_of(again) != "0.000000"
    statuses, output = training.train(f"--data={training.folder}")
    assert statuses == [78, 78], output
