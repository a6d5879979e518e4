# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendered script of each recipe through real Slurm on two nodes, with the real framework: to its end, through a
killed rank, and to a hold. Only the size differs from a user's training.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe
from simulated import frameworks
from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.node import Node
from simulated.ops_repository import OpsRepository
from simulated.own_cluster import simulated
from simulated.storage_account import BIN, CHECKPOINTS, StorageAccount, storage_account
from simulated.training_job import (
    AS_ALICE,
    FOLDER,
    LIMIT_S,
    PYTHON,
    STEPS,
    TrainingJob,
    TwoNodes,
    check_restarted,
    killed,
    require,
    uninterrupted,
)
from simulator.suite import VARIABLE

NAME, PORT, NETWORK = "training", 8486, "10.70.0.0/24"
CONTROLLER, NODES = "10.70.0.4", ("10.70.0.5", "10.70.0.6")
RECIPES = {
    "bert-ddp": "",
    "cosmoflow": "",
    "resnet-scaling": "",
    "gpt-deepspeed": "deepspeed",
    "gpt-megatron": "megatron",
}
"""The recipes whose checkpoints can stay on the nodes, with the package that they need beside PyTorch."""
COMPILED = {"gpt-nvme": "/usr/include/libaio.h", "gpt-compile": "/usr/include/python3.11/Python.h"}
"""Those that compile C++ at their start, with a header that they need."""
COMPILERS = "g++ python3-dev libaio-dev ninja-build"
COMPILING_S = 2400
# A C++ compiler needs more beside PyTorch than the 2 GiB of the other simulated nodes.
SIZE = {"vcpus": 2, "memory_mib": 8192, "gpu_count": 0, "hca_count": 0, "nvme_count": 0}
SETTINGS = ("-e", json.dumps({"hpcai_training": True, "hpcai_vm_sizes": {"Standard_ND96asr_v4": SIZE}}))


@pytest.fixture(scope="module")
def packages() -> Path:
    """PyTorch; without it, the tests are skipped before a cluster starts."""
    return frameworks.packages()


@pytest.fixture(scope="module")
def cluster(packages: Path) -> Iterator[Cluster]:
    """A controller and two compute nodes, of the suite whose Python the packages are for."""
    with simulated(NAME, PORT, NETWORK, **{VARIABLE: frameworks.suite_of(packages)}) as made:
        yield made


@pytest.fixture(scope="module")
def repository(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> OpsRepository:
    """A user's repository, with the collection installed from its archive, as the recipes and trainers are."""
    return OpsRepository.create(tmp_path_factory.mktemp("training"), cluster)


@pytest.fixture(scope="module")
def converged(cluster: Cluster, repository: OpsRepository, packages: Path) -> Recap:
    """site.yml with the role training, and PyTorch on the nodes."""
    run = repository.site(*SETTINGS)
    assert run.rc == 0, run.output
    TwoNodes(cluster, CONTROLLER, NODES).prepare(packages, headers=True)
    return run


@pytest.fixture
def place(cluster: Cluster, converged: Recap) -> TwoNodes:
    """The cluster, ready for trainings."""
    assert converged.rc == 0
    return TwoNodes(cluster, CONTROLLER, NODES)


@pytest.mark.parametrize(
    ("recipe", "launcher"), [("bert-ddp", "srun"), ("bert-ddp", "mpirun"), ("resnet-scaling", "mpirun")]
)
def test_a_training_runs_to_its_end_and_reports(place: TwoNodes, recipe: str, launcher: str) -> None:
    job = TrainingJob(place, recipe, "--run", place.new_folder(f"{recipe}-{launcher}"), "--launcher", launcher)
    job.wait("COMPLETED", "FAILED", "PENDING (")
    log = job.log()
    assert job.state.startswith("COMPLETED"), log
    assert "step 20: loss" in log
    assert "The job finished." in log


def test_the_steps_around_a_training_take_little_time(place: TwoNodes) -> None:
    """The figure is in the output. That below 2 % of a run are the script's depends on how long the run is."""
    job = TrainingJob(place, "bert-ddp", "--run", place.new_folder("long"), "--steps", "1000")
    job.wait("COMPLETED", "FAILED", "PENDING (")
    assert job.state.startswith("COMPLETED"), job.log()
    folder = place.new_folder("short")
    alone = TrainingJob(place, "bert-ddp", "--run", folder, "--steps", str(STEPS), only_srun=True)
    alone.wait("COMPLETED", "FAILED")
    assert alone.state.startswith("COMPLETED"), alone.log()
    assert len(alone.losses()) == 1
    (training, rest), (_short, floor) = job.seconds(), alone.seconds()
    print(f"training {training} s, the rest of its job {rest} s, and of a job with only its srun {floor} s")
    print(
        f"the script takes {(rest - floor) / training:.1%} of the run more, and less than 2 % of runs over "
        f"{(rest - floor) / 0.02:.0f} s"
    )


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_killed_rank_is_restarted_and_the_loss_is_that_of_an_uninterrupted_training(
    place: TwoNodes, packages: Path, recipe: str
) -> None:
    require(packages, RECIPES[recipe])
    job = killed(place, recipe, trainer_of(recipe))
    # Meanwhile, the other job waits for the end of its credential.
    check_restarted(job, uninterrupted(place, recipe))


@pytest.mark.timeout(2 * COMPILING_S)
@pytest.mark.parametrize("recipe", COMPILED)
def test_a_killed_rank_is_restarted_where_the_framework_compiles(
    cluster: Cluster, place: TwoNodes, packages: Path, recipe: str
) -> None:
    require(packages, "deepspeed")
    install = f"sudo DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends {COMPILERS}"
    for address in NODES:
        cluster.ssh(address, f"sudo apt-get -q update && {install}", check=False, limit=600)
        if cluster.ssh(address, f"test -e {COMPILED[recipe]} && which g++ ninja", check=False).count("\n") != 2:
            pytest.skip(f"{address} cannot install {COMPILERS}: {recipe} compiles C++ at its start")
    # A rank that is killed while it compiles leaves a lock, so this is done before.
    whole = uninterrupted(place, recipe, limit=COMPILING_S)
    check_restarted(killed(place, recipe, trainer_of(recipe)), whole)


def trainer_of(recipe: str) -> str:
    """The file of a recipe's trainer."""
    return read_recipe(str(REPOSITORY / "roles/training/files"), recipe).trainer


@pytest.fixture
def account(cluster: Cluster, place: TwoNodes, tmp_path: Path) -> Iterator[StorageAccount]:
    """A storage account that alice's jobs on both nodes can use."""
    nodes = [Node.of(cluster, place.controller, number) for number in ("0", "3")]
    with storage_account(nodes[0], tmp_path) as made:
        for one in nodes:
            made.give(one, "alice")
        yield made


def test_parts_of_a_checkpoint_are_published_and_restored_on_all_nodes(
    cluster: Cluster, place: TwoNodes, account: StorageAccount
) -> None:
    """fsdp: each node has its own part, and the next run needs all of them on each node."""
    words = ["--run", "/var/tmp/killed-fsdp", "--steps", str(STEPS), "--store", f"{account.url}/killed"]
    job = TrainingJob(place, "fsdp", *words, path=BIN)
    # A stopped rank stops the others too, so the upload ends before the training.
    place.signal_rank("STOP", "fsdp.py", "[ -e /var/tmp/killed-fsdp/step10/.complete ]")
    deadline = time.monotonic() + LIMIT_S
    while not account.complete_steps("killed"):
        assert time.monotonic() < deadline, f"{account.blobs.names(CHECKPOINTS)}\n{job.log()}"
        time.sleep(1)
    place.signal_rank("KILL", "fsdp.py")
    # Until then, each node may still publish. Afterwards the job waits for its next start for two minutes.
    job.first_run()
    # As on nodes that had no part of this training.
    for address in NODES:
        cluster.ssh(address, "sudo rm -rf /var/tmp/killed-fsdp")
    whole = uninterrupted(place, "fsdp", "--store", f"{account.url}/whole", path=BIN)
    check_restarted(job, whole)
    names = account.blobs.names(CHECKPOINTS, "killed/")
    assert [name for name in names if name.endswith("/lineage.json")], names
    assert [name for name in names if name.startswith("killed/outputs/")], names


def test_a_rank_that_hangs_is_ended_and_the_training_starts_again(place: TwoNodes) -> None:
    folder = place.new_folder("hang")
    job = TrainingJob(place, "bert-ddp", "--run", folder, "--hang", "20", "--steps", "200000")
    # Two looks of the watchdog after a checkpoint.
    place.signal_rank("STOP", "bert_ddp.py", f"ls {folder}/step*/.complete >/dev/null 2>&1 && sleep 20")
    first = job.first_run()
    assert (first["cause"], first["failed"]) == ("hang", []), job.log()
    assert "hpcai recover: hang: " in job.log()
    assert first["kept"] >= 10
    job.cancel()


@pytest.mark.usefixtures("converged")
def test_a_user_cannot_change_the_recipes_and_trainers_of_others(cluster: Cluster) -> None:
    folder = "/usr/share/hpcai/training"
    recipes = cluster.host(CONTROLLER).file(f"{folder}/recipes")
    assert (recipes.is_directory, recipes.user, recipes.mode & 0o022) == (True, "root", 0)
    for command in (
        f"touch {folder}/trainers/harness.py",
        f"cp /dev/null {folder}/recipes/fsdp/recipe.json",
        f"mv {folder}/trainers /tmp/taken",
        f"ln -s /tmp {folder}/recipes/mine",
        # Python would import it instead of the module of this name.
        f"mkdir {folder}/trainers/torch",
        f"mkdir {folder}/trainers/__pycache__",
    ):
        for address in (CONTROLLER, *NODES):
            done = cluster.ssh(address, f"{AS_ALICE} {command} 2>/dev/null && echo changed || echo refused")
            assert done.strip() == "refused", (command, address)


@pytest.mark.parametrize("both", [False, True])
def test_a_node_that_the_preflight_refuses_is_left_out_and_both_together_are_held(
    cluster: Cluster, place: TwoNodes, both: bool
) -> None:
    # No folder can be made below a file.
    for address in place.nodes if both else place.nodes[1:]:
        cluster.ssh(address, "sudo touch /var/tmp/file")
    job = TrainingJob(place, "bert-ddp", "--run", "/var/tmp/file/run")
    first = job.first_run()
    assert "cannot write to /var/tmp/file/run" in job.log()
    assert "step 20" not in job.log()
    assert (first["cause"], place.second in first["failed"], len(first["failed"])) == ("preflight", True, 1 + both)
    job.wait("PENDING")
    shown = cluster.ssh(CONTROLLER, f"scontrol show job {job.number}")
    # A held job has the priority 0.
    assert ("Priority=0" if both else f"ExcNodeList={place.second}") in shown, shown
    assert both == ("ExcNodeList=(null)" in shown), shown
    job.cancel()
    for address in place.nodes:
        cluster.ssh(address, "sudo rm -rf /var/tmp/file")


def test_the_check_trains_on_two_nodes(place: TwoNodes, repository: OpsRepository) -> None:
    words = [f"training_check_python={PYTHON}", "training_check_user=alice", f"training_check_folder={FOLDER}"]
    run_folder = f"training_check_run={place.new_folder('check')}"
    arguments = [word for given in [*words, run_folder] for word in ("-e", given)]
    run = repository.playbook("hpcai.azure.training_check", *arguments)
    assert run.rc == 0, run.output
    # The controller does not see the nodes' folder.
    assert "The training finished." in run.output


@pytest.mark.usefixtures("place")
def test_a_second_run_changes_nothing(repository: OpsRepository) -> None:
    again = repository.site(*SETTINGS)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
