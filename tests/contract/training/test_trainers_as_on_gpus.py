# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the trainers do on GPUs or on many nodes, shown on CPUs: divided models, bf16 and fp16, parts of checkpoints."""

from __future__ import annotations

import shutil

import pytest

from .conftest import FILES, LIMIT_S
from .trained import Training, loss_of, training

__all__ = ["training"]

# Importing the frameworks takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["fsdp"], indirect=True)
def test_a_checkpoint_that_lacks_parts_of_other_ranks_is_left_out(training: Training) -> None:
    statuses, output = training.train()
    assert statuses == [0, 0], output
    # As on a node's own disks, if the store has step 10 only: restored are all parts of that.
    (training.folder / "run/step20/__1_0.distcp").unlink()
    statuses, again = training.train()
    assert statuses == [0, 0], again
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)


INITIAL = """\
import os, sys
sys.path.insert(0, os.environ["TRAINERS"])
import gpt, harness, torch
made = []

class Seen(gpt.Gpt):
    def __init__(self, *given):
        super().__init__(*given)
        made.append(self)
        print("made on", {one.device.type for one in self.parameters()}, flush=True)

gpt.Gpt = Seen

def full(one):
    if hasattr(one, "full_tensor"):
        return one.full_tensor()
    if hasattr(one, "all_gather"):
        one.all_gather()
    return one

def show(self, *given):
    for name in ("tokens.weight", "blocks.3.feed.up.weight", "head.weight", "norm.weight", "blocks.0.attention.q.bias"):
        one = full(made[0].get_parameter(name)).detach().float()
        print(f"{name} {one.mean():.3f} {one.std():.4f}", flush=True)
        if one.dim() == 2:
            assert not torch.equal(one[0], one[len(one) // 2]), "ranks have equal parts"
    self.end(0)

harness.Training.loop = show
__import__(os.environ["TRAINER"]).main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["fsdp", "gpt-deepspeed"], indirect=True)
def test_a_divided_model_begins_with_the_parameters_of_a_whole_one(training: Training) -> None:
    program = training.folder / "initial.py"
    program.write_text(INITIAL)
    name = training.recipe.replace("-", "_")
    statuses, output = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"), TRAINER=name)
    assert statuses == [0, 0], output
    shown = [line.split() for line in output.splitlines() if line.split(" ")[0].endswith((".weight", ".bias"))]
    found = {name: (float(mean), float(std)) for name, mean, std in shown}
    assert found["tokens.weight"] == pytest.approx((0, 0.02), abs=0.001)
    assert found["blocks.3.feed.up.weight"] == pytest.approx((0, 0.02), abs=0.001)
    # 0.02 / sqrt(2 * 4 layers)
    assert found["head.weight"] == pytest.approx((0, 0.0071), abs=0.0005)
    assert found["norm.weight"] == (1.0, 0.0)
    assert found["blocks.0.attention.q.bias"] == (0.0, 0.0)
    if training.recipe == "fsdp":
        # A node has no room for the whole model of each of its ranks.
        assert "made on {'meta'}" in output


HALF = """\
import os, sys
sys.path.insert(0, os.environ["TRAINERS"])
import gpt_megatron
trained = gpt_megatron._Trained
gpt_megatron._Trained = lambda *given: trained(*given, half=True)
gpt_megatron.main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-megatron"], indirect=True)
def test_megatron_trains_in_bf16_as_on_gpus(training: Training) -> None:
    program = training.folder / "half.py"
    program.write_text(HALF)
    statuses, output = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"))
    assert statuses == [0, 0], output
    (training.folder / "run/step20/.complete").unlink()
    statuses, again = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"))
    assert statuses == [0, 0], again
    assert loss_of(again) == loss_of(output)


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-megatron"], indirect=True)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sequence-parallel",), "--sequence-parallel needs the norms of Apex"),
        (("--distributed-optimizer",), "give --shared and a folder that all nodes see"),
    ],
)
def test_megatron_refuses_what_would_fail_later(training: Training, words: tuple[str, ...], said: str) -> None:
    processes = training.start(*words, shared="distributed" not in words[0])
    outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [78, 78], outputs
    assert said in outputs[0]


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["gpt-megatron"], indirect=True)
def test_replicas_of_megatron_on_one_node_write_one_file(training: Training) -> None:
    words = ("--tensor=1", "--steps=10")
    statuses, output = training.wait(training.start(*words, shared=False, SLURMD_NODENAME="n-0"))
    assert statuses == [0, 0], output
    assert [path.name for path in (training.folder / "run/step10").glob("*.pt")] == ["tensor0of1-stage0of1.pt"]
    # Of an earlier release, which wrote a file for each rank.
    part = training.folder / "run/step10/tensor0of1-stage0of1.pt"
    shutil.copy(part, part.with_name("rank0.pt"))
    part.rename(part.with_name("rank1.pt"))
    statuses, output = training.wait(training.start("--tensor=1", shared=False, SLURMD_NODENAME="n-0"))
    assert statuses == [0, 0], output
    assert "continuing after step 10" in output


ORDERED = """\
import os, random, sys
sys.path.insert(0, os.environ["TRAINERS"])
import cosmoflow, harness
leave, made, shuffle = harness._leave, [], random.Random.shuffle
random.Random.shuffle = lambda self, order: made.append(len(order)) or shuffle(self, order)
harness._leave = lambda status: (print("orders", made, flush=True), leave(status))
cosmoflow.main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("training", ["cosmoflow"], indirect=True)
def test_cosmoflow_orders_its_samples_once_in_an_epoch(training: Training) -> None:
    program = training.folder / "ordered.py"
    program.write_text(ORDERED)
    statuses, output = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"))
    assert statuses == [0, 0], output
    # 20 steps of two ranks with 2 samples each: two epochs of 32 samples, and half of a third one.
    assert "orders [32, 32, 32]" in output


SCALED = """\
import os, sys
sys.path.insert(0, os.environ["TRAINERS"])
import bert_ddp, torch
bert_ddp.half_of = lambda device: torch.float16
bert_ddp.main()
"""


@pytest.mark.thorough
def test_bert_trains_in_fp16_as_on_gpus_without_bf16(training: Training) -> None:
    program = training.folder / "scaled.py"
    program.write_text(SCALED)
    statuses, output = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"))
    assert statuses == [0, 0], output
    (training.folder / "run/step20/.complete").unlink()
    statuses, again = training.train(instead=str(program), TRAINERS=str(FILES / "trainers"))
    assert statuses == [0, 0], again
    assert loss_of(again) == loss_of(output)
