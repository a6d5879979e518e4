# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trainings on a simulated cluster: the script that hpcnode writes, through Slurm, with a rank that is killed."""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import frameworks
from .cluster import Cluster

AS_ALICE = "sudo -u alice"
# Not a file system that all nodes see, so each node has the times of its own rank only.
FOLDER, PYTHON = "/var/tmp/training", frameworks.PYTHON
LIMIT_S = 900
ON_NODE_S = 600
"""For the start of a training, until its first checkpoint: on a busy machine, importing a framework takes minutes."""
RESTART_S = 300
"""From the end of a run to the next one. Slurm itself starts a requeued job after two minutes, when the credential of
its first start has expired."""
STEPS = 40
"""More than in the size tiny, so that a rank can be killed between a checkpoint and the end."""


@dataclass(frozen=True)
class TwoNodes:
    """A controller and two compute nodes.

    :ivar second: the name of the second node in Slurm.
    """

    cluster: Cluster
    controller: str
    nodes: tuple[str, str]
    second: str = "compute-3"

    def prepare(self, packages: Path, headers: bool = False) -> None:
        """Copy the frameworks to the nodes, and make a folder for the jobs on all machines."""
        for address in self.nodes:
            frameworks.install(self.cluster, address, packages, headers)
        for address in (self.controller, *self.nodes):
            self.cluster.ssh(address, f"{AS_ALICE} mkdir -p {FOLDER}")

    def new_folder(self, name: str) -> str:
        """Return a folder for checkpoints that no node has. A repeated test must not find those of the first try."""
        path = f"/var/tmp/{name}"
        for address in self.nodes:
            self.cluster.ssh(address, f"sudo rm -rf {path}")
        return path

    def signal_rank(self, name: str, trainer: str, condition: str = "true") -> None:
        """Send a signal to the rank of the second node when a condition is true there.

        On the node itself, because the steps take milliseconds.
        """
        send = f"pkill -{name} -f '^[^ ]*python3 .*trainers/{trainer}'"
        wait = f"until {condition}; do sleep 0.01; done; {send}"
        self.cluster.ssh(self.nodes[1], f"sudo timeout {ON_NODE_S} sh -c {shlex.quote(wait)}", limit=ON_NODE_S + 30)


class TrainingJob:
    """A job of a recipe, size tiny.

    :param words: more options of ``train script``.
    :param path: a folder in front of the PATH of its script.
    :param only_srun: whether the job has only the srun of the training.
    """

    def __init__(self, place: TwoNodes, recipe: str, *words: str, path: str = "", only_srun: bool = False) -> None:
        self.place, self.recipe = place, recipe
        command = shlex.join(["hpcnode", "train", "script", recipe, "--python", PYTHON, *words])
        script = self._ssh(place.controller, f"{AS_ALICE} {command}")
        # One compiler at a time, because the nodes have little memory (torch.utils.cpp_extension).
        found = f"env MAX_JOBS=1 PATH={path and path + ':'}/usr/bin:/bin "
        text = shlex.quote(bare(script) if only_srun else script)
        run = f"cd {FOLDER} && printf %s {text} | {AS_ALICE} {found}sbatch --parsable"
        self.number = self._ssh(place.controller, run).strip()

    def _ssh(self, address: str, command: str) -> str:
        return self.place.cluster.ssh(address, command)

    @property
    def state(self) -> str:
        """Its state and reason in Slurm."""
        words = f"squeue --noheader --states=all --job={self.number} --format='%T %r'"
        return self._ssh(self.place.controller, words).strip()

    def wait(self, *states: str, limit: float = LIMIT_S) -> str:
        """Wait until its state and reason begin with one of these. A held job never gets another state."""
        deadline = time.monotonic() + limit
        while not (state := self.state).startswith(states):
            runs = self.record().get("runs", []) if state.startswith("PENDING") else []
            is_held = any(str(run.get("decision")).startswith("Held") for run in runs)
            assert not is_held, f"{state}\n{self.log()}"
            assert time.monotonic() < deadline, f"{state}\n{self.log()}"
            time.sleep(2)
        return state

    def first_run(self) -> dict[str, Any]:
        """Wait until it is decided what follows its first run, and return that run."""
        deadline = time.monotonic() + LIMIT_S
        while not (self.record().get("runs") or [{}])[0].get("decision"):
            assert time.monotonic() < deadline, f"{self.state}\n{self.log()}"
            time.sleep(2)
        return dict(self.record()["runs"][0])

    def log(self) -> str:
        """The job's log, which is on its first node."""
        name = f"{FOLDER}/{self.recipe}-tiny-{self.number}.log"
        return "".join(self._ssh(address, f"cat {name} 2>/dev/null || true") for address in self.place.nodes)

    def losses(self) -> list[str]:
        """The last step's loss, from each run that reached it."""
        return re.findall(rf"^step {STEPS}: loss (\S+)$", self.log(), re.M)

    def record(self) -> dict[str, Any]:
        """The record of its runs."""
        name = f"{FOLDER}/{self.recipe}-tiny-{self.number}/runs.json"
        for address in self.place.nodes:
            text = self._ssh(address, f"cat {name} 2>/dev/null || true")
            if text:
                return dict(json.loads(text))
        return {}

    def seconds(self) -> tuple[int, int]:
        """How long the training took, and how long the rest of the job."""
        words = f"sacct --noheader --parsable2 --jobs={self.number} --format=JobID,JobName,ElapsedRaw"
        lines = [line.split("|") for line in self._ssh(self.place.controller, words).splitlines()]
        (complete,) = [int(line[2]) for line in lines if line[0] == self.number]
        (training,) = [int(line[2]) for line in lines if line[1] == PYTHON.rpartition("/")[2]]
        return training, complete - training

    def cancel(self) -> None:
        """Remove it from the queue."""
        self._ssh(self.place.controller, f"sudo scancel {self.number}")


def bare(script: str, *lines: str) -> str:
    """The training's srun of a script, without the steps before and after it.

    :param lines: what makes the job's folder and sets the variables of the ranks; by default, with Slurm and hpcnode.
    """
    found = re.search(r"^srun .*?(?= 2> >\()", script, re.MULTILINE | re.DOTALL)
    settings = re.findall(r"^(?:run|job)=.*$", script, re.MULTILINE)
    options = re.findall(r"^#SBATCH .*$", script, re.MULTILINE)
    assert found, "the script has another form"
    assert len(settings) == 2, settings
    lines = lines or (
        'srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" mkdir -p "$job"',
        'eval "$(hpcnode train env --ranks 1)"',
    )
    return "\n".join(["#!/bin/bash", *options, *settings, *lines, found[0], ""])


def uninterrupted(place: TwoNodes, recipe: str, *words: str, limit: float = LIMIT_S, path: str = "") -> TrainingJob:
    """Train to the end."""
    folder = place.new_folder(f"whole-{recipe}")
    job = TrainingJob(place, recipe, "--run", folder, "--steps", str(STEPS), *words, path=path)
    job.wait("COMPLETED", "FAILED", limit=limit)
    assert len(job.losses()) == 1, job.log()
    return job


def killed(place: TwoNodes, recipe: str, trainer: str) -> TrainingJob:
    """Start a training, and kill a rank after the first checkpoint."""
    folder = place.new_folder(f"killed-{recipe}")
    job = TrainingJob(place, recipe, "--run", folder, "--steps", str(STEPS))
    place.signal_rank("KILL", trainer, f"[ -e {folder}/step10/.complete ]")
    return job


def check_restarted(job: TrainingJob, whole: TrainingJob) -> None:
    """Wait for the end of a training whose rank was killed, and compare it with an uninterrupted one."""
    job.wait("COMPLETED", "FAILED")
    runs = job.record()["runs"]
    assert [run["cause"] for run in runs] == ["exit", "exit"], job.log()
    assert runs[0]["failed"] == [job.place.second]
    assert runs[1]["started_at"] == runs[0]["kept"] >= 10
    # The other job may have the nodes until its end, whichever started first.
    began = max(runs[0]["ended"], whole.record()["runs"][-1]["ended"])
    assert runs[1]["started"] - began < RESTART_S
    assert job.losses() == whole.losses(), job.log()


def require(packages: Path, name: str) -> None:
    """Skip the test if a package is not among the given wheels."""
    if name and not frameworks.has(packages, name):
        pytest.skip(f"{frameworks.VARIABLE} has no wheel of {name}")
