# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of single trainers that their size tiny does not use: stages of a pipeline, files of samples, and others."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest

from .conftest import FILES
from .trained import Training, loss_of, training

__all__ = ["training"]

# Importing the frameworks takes minutes on a busy machine.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.thorough]
TRAINERS = str(FILES / "trainers")

STAGES = """\
import os, sys, zlib
sys.path.insert(0, os.environ["TRAINERS"])
import gpt_megatron, harness, torch

refuse, initialize = harness.refuse, gpt_megatron._Trained.__init__
# The trainer has one stage on CPUs, because Megatron's schedules call this.
harness.refuse = lambda words: None if "has one stage" in words else refuse(words)
torch.Tensor.cuda = lambda self, *_given, **_named: self

def on_cpu(function):
    def call(*given, **named):
        named.update({"device": "cpu"} if str(named.get("device")).startswith("cuda") else {})
        return function(*given, **named)
    return call

for made in ("zeros", "empty", "ones", "tensor"):
    setattr(torch, made, on_cpu(getattr(torch, made)))

def with_the_same_parameters(self, args, *given):
    initialize(self, args, *given)
    from megatron.core import parallel_state
    self.model.zero_grad_buffer = lambda: None
    first = parallel_state.get_pipeline_model_parallel_rank() * args.layers // args.pipeline
    names = []
    for name, one in self.plain.named_parameters():
        parts = name.split(".")
        if "layers" in parts:
            at = parts.index("layers") + 1
            parts[at] = str(int(parts[at]) + first)
        names.append(".".join(parts))
        if one.dim() > 1:
            source = torch.Generator().manual_seed(zlib.crc32(names[-1].encode()))
            one.data.normal_(0, 0.02, generator=source)
    print(f"stage with layers from {first}: {len(names)} parameters", flush=True)

gpt_megatron._Trained.__init__ = with_the_same_parameters
gpt_megatron._Trained._on_cpus = gpt_megatron._Trained._on_gpus
gpt_megatron.main()
"""


@pytest.mark.parametrize("training", ["gpt-megatron"], indirect=True)
def test_two_stages_of_a_pipeline_train_as_one_does_and_continue_from_their_parts(training: Training) -> None:
    program = training.folder / "stages.py"
    program.write_text(STAGES)
    # Untied: Megatron's optimizer, which needs CUDA, adds up the gradients of embeddings that two stages share.
    words = ("--tensor=1", "--gated", "--micro-batch=2", "--batch=8")
    statuses, alone = training.train(*words, world=1, instead=str(program), TRAINERS=TRAINERS)
    assert statuses == [0], alone
    shutil.rmtree(training.folder / "run")
    divided = (*words, "--pipeline=2")
    statuses, output = training.train(*divided, instead=str(program), TRAINERS=TRAINERS)
    assert statuses == [0, 0], output
    counts = [int(re.findall(r"stage with layers from 0: (\d+) parameters", text)[0]) for text in (alone, output)]
    assert counts[1] < counts[0], "the first stage has all layers"
    assert float(loss_of(output)) == pytest.approx(float(loss_of(alone)), rel=1e-4)
    parts = sorted(path.name for path in (training.folder / "run/step10").glob("*.pt"))
    assert parts == ["tensor0of1-stage0of2.pt", "tensor0of1-stage1of2.pt"]
    (training.folder / "run/step20/.complete").unlink()
    statuses, again = training.train(*divided, instead=str(program), TRAINERS=TRAINERS)
    assert statuses == [0, 0], again
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)


WRITE = """\
import os, sys
sys.path.insert(0, os.environ["TRAINERS"])
import cosmoflow, tfrecord, torch

folder, side = os.environ["DATA"], 32
os.makedirs(folder)
for number in range(8):
    source = torch.Generator().manual_seed(number)
    cells = torch.randint(0, 50, (side, side, side, 4), generator=source, dtype=torch.int16)
    targets = [number / 8, -0.5, 0.25, 1.0]
    path = f"{folder}/sample_{number:03}.tfrecord.gz"
    tfrecord.write_records(path, iter([tfrecord.example({"x": cells.numpy().tobytes(), "y": targets})]))
    cube, read = cosmoflow.read_sample(path, side)
    assert cube.shape == (4, side, side, side)
    # The redshifts are the last dimension of the file, and the channels of the model.
    assert torch.equal(cube[3, 1, 2, 0], torch.log1p(cells[1, 2, 0, 3].float()))
    assert read.tolist() == targets
try:
    cosmoflow.read_sample(path, 16)
except tfrecord.DamagedRecord as error:
    print(error)
print(sum(one.numel() for one in cosmoflow.model_of(128, 32).parameters()), "parameters")
"""


@pytest.mark.parametrize("training", ["cosmoflow"], indirect=True)
def test_cosmoflow_trains_with_compressed_files_in_an_order_that_a_resumed_training_repeats(training: Training) -> None:
    program, data = training.folder / "write.py", training.folder / "data"
    program.write_text(WRITE)
    statuses, shown = training.train(world=1, instead=str(program), TRAINERS=TRAINERS, DATA=str(data))
    assert statuses == [0], shown
    assert f"{data}/sample_007.tfrecord.gz has 131072 cells, not 16^3 times 4" in shown
    # As MLPerf HPC's model has with cubes of 128 cells.
    assert "8907556 parameters" in shown
    statuses, output = training.train(f"--data={data}")
    assert statuses == [0, 0], output
    (training.folder / "run/step20/.complete").unlink()
    statuses, again = training.train(f"--data={data}")
    assert statuses == [0, 0], again
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)
    shutil.rmtree(training.folder / "run")
    _statuses, synthetic = training.train()
    assert loss_of(synthetic) != loss_of(output)
    shutil.rmtree(training.folder / "run")
    statuses, output = training.train(f"--data={training.folder}/job")
    assert statuses == [78, 78], output
    assert "has no TFRecord files" in output


@pytest.mark.parametrize("training", ["resnet-scaling"], indirect=True)
def test_the_scaling_efficiency_is_kept_for_the_report(training: Training) -> None:
    statuses, output = training.train()
    assert statuses == [0, 0], output
    measured = dict(re.findall(r"(\d) nodes: [\d.]+ images/s, scaling efficiency ([\d.]+)%", output))
    assert list(measured) == ["1", "2"]
    assert measured["1"] == "100.0"
    kept = json.loads((training.folder / "job/scaling.json").read_text())
    assert kept["nodes"] == 2
    assert f"{100 * kept['efficiency']:.1f}" == measured["2"]


ORTMODULE = """\
import torch

class ORTModule(torch.nn.Module):
    # In place of ONNX Runtime's, which needs a frozen image: it shows only when it is called.
    def __init__(self, model):
        super().__init__()
        self.model = model
        print(f"ORTModule gets {type(model).__name__}", flush=True)

    def forward(self, *given):
        return self.model(*given)
"""
ORT = """\
import os, sys
sys.path[:0] = [os.environ["TRAINERS"], os.path.dirname(__file__)]
os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed
initialize = deepspeed.initialize

def shown(*given, **named):
    print(f"DeepSpeed gets {type(named['model']).__name__}", flush=True)
    return initialize(*given, **named)

deepspeed.initialize = shown
import gpt_ort
gpt_ort.main()
"""


@pytest.mark.parametrize("training", ["gpt-deepspeed"], indirect=True)
def test_onnx_runtime_wraps_the_model_before_deepspeed_does(training: Training, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "ort.py"
    program.write_text(ORT)
    package = tmp_path / "onnxruntime/training"
    package.mkdir(parents=True)
    for made in (package / "__init__.py", package.parent / "__init__.py"):
        made.touch()
    (package / "ortmodule.py").write_text(ORTMODULE)
    statuses, output = training.train("--steps=2", "--zero=2", instead=str(program), TRAINERS=TRAINERS)
    assert statuses == [0, 0], output
    order = [line for line in output.splitlines() if " gets " in line]
    assert order == ["ORTModule gets Gpt", "DeepSpeed gets ORTModule"]
    statuses, output = training.train("--compiler=xla", "--zero=2", instead=str(program), TRAINERS=TRAINERS)
    assert statuses == [78, 78], output
