# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The trainers with the real frameworks, on CPUs: two processes train, are interrupted, and continue exactly.

Each training runs from the recipe's own size ``tiny``, with the options that the script passes.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.report import read_progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.script import trainer_arguments
from simulated import frameworks
from simulated.cluster import REPOSITORY

FILES = REPOSITORY / "roles/training/files"
LIMIT_S = 900
NEEDS = {"gpt-deepspeed": "deepspeed", "gpt-megatron": "megatron"}
# The others need a GPU, libaio with a compiler, or a frozen image.
ON_CPUS = ("fsdp", "bert-ddp", "cosmoflow", "resnet-scaling", "gpt-deepspeed", "gpt-megatron")


@dataclass(frozen=True)
class Training:
    """A recipe's tiny size as two processes on this machine, each on a node of its own."""

    recipe: str
    folder: pathlib.Path
    packages: pathlib.Path

    def start(self, *changed: str) -> list[subprocess.Popen[str]]:
        """Start both processes."""
        recipe = read_recipe(str(FILES), self.recipe)
        (self.folder / "job").mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [sys.executable, str(FILES / "trainers" / recipe.trainer), *trainer_arguments(recipe.size("tiny"))]
        words += ["--shared", f"--run={self.folder / 'run'}", f"--job={self.folder / 'job'}", *changed]
        return [
            subprocess.Popen(
                words,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(self.packages),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "OMP_NUM_THREADS": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "GLOO_SOCKET_IFNAME": "lo",
                    "SLURM_NTASKS": "2",
                    "SLURM_LOCALID": "0",
                    "SLURM_PROCID": str(rank),
                    "SLURM_NODEID": str(rank),
                    "SLURMD_NODENAME": f"n-{rank}",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in (0, 1)
        ]

    def train(self, *changed: str) -> tuple[list[int], str]:
        """Train to the end, and return the exit statuses and the first rank's output."""
        return self.wait(self.start(*changed))

    def wait(self, processes: list[subprocess.Popen[str]]) -> tuple[list[int], str]:
        """Wait for both processes."""
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        return [process.returncode for process in processes], outputs[0]

    def steps(self) -> list[int]:
        """The steps of the finished checkpoints."""
        markers = (self.folder / "run").glob("step*/.complete")
        return sorted(int(path.parent.name.removeprefix("step")) for path in markers)


@pytest.fixture
def training(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Training:
    """A training of the recipe that the test names."""
    folder = frameworks.packages()
    name = getattr(request, "param", "bert-ddp")
    if name in NEEDS and not frameworks.has(folder, NEEDS[name]):
        pytest.skip(f"{frameworks.VARIABLE} has no wheel of {NEEDS[name]}")
    return Training(name, tmp_path, folder)


def loss_of(output: str) -> str:
    """The last loss in the log."""
    return output.rpartition("loss ")[2].split()[0]


@pytest.mark.parametrize(
    "training",
    [name if name == "bert-ddp" else pytest.param(name, marks=pytest.mark.thorough) for name in ON_CPUS],
    indirect=True,
)
def test_a_resumed_training_ends_with_the_loss_of_an_uninterrupted_one(training: Training) -> None:
    statuses, output = training.train()
    assert statuses == [0, 0], output
    assert training.steps() == [10, 20]
    for rank in (0, 1):
        lines = (training.folder / f"job/rank-{rank}.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["step"] == 20
    assert len(read_progress(str(training.folder / "job"))) >= 6
    (training.folder / "run/step20/.complete").unlink()
    statuses, again = training.train()
    assert statuses == [0, 0], again
    assert "continuing after step 10" in again
    assert loss_of(again) == loss_of(output)


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
def test_a_batch_that_does_not_divide_ends_with_status_78(training: Training) -> None:
    statuses, output = training.train("--batch=7")
    assert statuses == [78, 78], output
