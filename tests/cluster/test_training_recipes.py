# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendered script of a recipe through real Slurm on two nodes: to the end, through a killed rank, and to a hold."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulated import frameworks
from simulated.cluster import REPOSITORY, Cluster, Recap

from .conftest import simulated

NAME, PORT, NETWORK = "training", 8486, "10.70.0.0/24"
CONTROLLER, NODES = "10.70.0.4", ("10.70.0.5", "10.70.0.6")
AS_ALICE = "sudo -u alice"
# Not a file system that all nodes see, so each node has the times of its own rank only.
FOLDER, PYTHON = "/var/tmp/training", "/opt/frameworks/python"
LIMIT_S = 900


@pytest.fixture(scope="module")
def packages() -> Path:
    """PyTorch; without it, the tests are skipped before a cluster starts."""
    return frameworks.packages()


@pytest.fixture(scope="module")
def cluster(packages: Path) -> Iterator[Cluster]:
    """A controller and two compute nodes."""
    with simulated(NAME, PORT, NETWORK) as made:
        yield made


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster."""
    return cluster.write_inventory(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def converged(cluster: Cluster, source: Path, packages: Path) -> Recap:
    """site.yml with the role training, and PyTorch on the nodes."""
    run = cluster.site(source, "-e", "hpcai_training=true")
    assert run.rc == 0, run.output
    for address in NODES:
        _install(cluster, address, packages)
    return run


def _install(cluster: Cluster, address: str, packages: Path) -> None:
    """Copy the packages to a node, with an interpreter that finds them."""
    theirs = cluster.ssh(address, "python3 -c 'import sys; print(*sys.version_info[:2])'").split()
    built = {path.name.split(".")[1] for path in (packages / "torch").glob("_C.cpython-*.so")}
    if not any(name.startswith(f"cpython-{theirs[0]}{theirs[1]}-") for name in built):
        pytest.skip(f"{frameworks.VARIABLE} has no PyTorch for the nodes' Python {'.'.join(theirs)}")
    key = ["-i", str(cluster.state / "id_ed25519"), "-o", "UserKnownHostsFile=/dev/null"]
    key += ["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
    unpack = "sudo mkdir -p /opt/frameworks/packages && sudo tar -x -C /opt/frameworks/packages"
    left_out = ["--exclude=torch/test", "--exclude=torch/include"]
    with subprocess.Popen(["tar", "-c", "-C", str(packages), *left_out, "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(["ssh", *key, f"azureuser@{address}", unpack], stdin=tar.stdout, check=True, timeout=600)
    text = '#!/bin/sh\nPYTHONPATH=/opt/frameworks/packages exec python3 "$@"\n'
    cluster.ssh(address, f"printf %s {shlex.quote(text)} | sudo tee {PYTHON} && sudo chmod 755 {PYTHON}")
    cluster.ssh(address, f"{AS_ALICE} mkdir -p {FOLDER}")


class Training:
    """A job of a recipe."""

    def __init__(self, cluster: Cluster, recipe: str, *words: str) -> None:
        self.cluster, self.recipe = cluster, recipe
        cluster.ssh(CONTROLLER, f"{AS_ALICE} mkdir -p {FOLDER}")
        script = shlex.join(["hpcnode", "train", "script", recipe, "--python", PYTHON, *words])
        run = f"cd {FOLDER} && {AS_ALICE} {script} | {AS_ALICE} sbatch --parsable"
        self.number = cluster.ssh(CONTROLLER, run).strip()

    @property
    def state(self) -> str:
        """Its state and reason in Slurm."""
        return self.cluster.ssh(
            CONTROLLER, f"squeue --noheader --states=all --job={self.number} --format='%T %r'"
        ).strip()

    def wait(self, *states: str) -> str:
        """Wait until it has one of these states."""
        deadline = time.monotonic() + LIMIT_S
        while not self.state.startswith(states):
            assert time.monotonic() < deadline, f"{self.state}\n{self.log()}"
            time.sleep(2)
        return self.state

    def log(self) -> str:
        """The job's log, which is on its first node."""
        name = f"{FOLDER}/{self.recipe}-tiny-{self.number}.log"
        return "".join(self.cluster.ssh(address, f"cat {name} 2>/dev/null || true") for address in NODES)

    def record(self) -> dict[str, Any]:
        """The record of its runs."""
        name = f"{FOLDER}/{self.recipe}-tiny-{self.number}/runs.json"
        for address in NODES:
            text = self.cluster.ssh(address, f"cat {name} 2>/dev/null || true")
            if text:
                return dict(json.loads(text))
        return {}


@pytest.mark.usefixtures("converged")
def test_a_training_runs_to_its_end_and_reports(cluster: Cluster) -> None:
    job = Training(cluster, "bert-ddp", "--run", "/var/tmp/run-end")
    job.wait("COMPLETED", "FAILED", "PENDING")
    log = job.log()
    assert job.state.startswith("COMPLETED"), log
    assert "step 20: loss" in log
    assert "The job finished." in log


@pytest.mark.usefixtures("converged")
def test_a_killed_rank_is_restarted_and_the_loss_is_that_of_an_uninterrupted_training(cluster: Cluster) -> None:
    whole = Training(cluster, "bert-ddp", "--run", "/var/tmp/run-whole", "--steps", "400")
    whole.wait("COMPLETED", "FAILED")
    job = Training(cluster, "bert-ddp", "--run", "/var/tmp/run-killed", "--steps", "400")
    deadline = time.monotonic() + LIMIT_S
    while not cluster.ssh(NODES[1], "ls -d /var/tmp/run-killed/step10/.complete 2>/dev/null || true"):
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.5)
    cluster.ssh(NODES[1], "sudo pkill -KILL -f trainers/bert_ddp.py")
    job.wait("COMPLETED", "FAILED")
    runs = job.record()["runs"]
    assert [run["cause"] for run in runs] == ["exit", "exit"]
    assert runs[0]["failed"] == ["compute-3"]
    assert runs[1]["started_at"] == runs[0]["kept"] >= 10
    loss = [line for line in job.log().splitlines() if line.startswith("step 400: loss")]
    assert loss == [line for line in whole.log().splitlines() if line.startswith("step 400: loss")]


@pytest.mark.usefixtures("converged")
def test_a_node_that_the_preflight_refuses_starts_no_training(cluster: Cluster) -> None:
    job = Training(cluster, "bert-ddp", "--run", "/proc/nothing")
    # The preflight refuses both nodes: no folder can be made there.
    job.wait("PENDING", "FAILED")
    assert "cannot write to /proc/nothing" in job.log()


@pytest.mark.usefixtures("converged")
def test_the_check_trains_on_two_nodes(cluster: Cluster, source: Path) -> None:
    words = [f"training_check_python={PYTHON}", "training_check_user=alice", f"training_check_folder={FOLDER}"]
    arguments = [word for given in [*words, "training_check_run=/var/tmp/run-check"] for word in ("-e", given)]
    run = cluster.playbook(REPOSITORY / "playbooks/training_check.yml", source, *arguments)
    assert run.rc == 0, run.output
    assert "bert-ddp tiny, 2 nodes" in run.output


@pytest.mark.usefixtures("converged")
def test_a_second_run_changes_nothing(cluster: Cluster, source: Path) -> None:
    again = cluster.site(source, "-e", "hpcai_training=true")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
