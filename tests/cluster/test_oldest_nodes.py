# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The oldest supported nodes: site.yml configures them, a job runs, and a second run changes nothing. If PyTorch is
given, a training is killed and continues: of the clusters of ``make test``, only this one has a Python with a small
build of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated import frameworks
from simulated.cluster import Cluster, Recap
from simulated.node import wait_for
from simulated.own_cluster import simulated
from simulated.slurm_keys import compare_slurm_conf
from simulated.training_job import TwoNodes, check_restarted, killed, uninterrupted
from simulator.suite import OLDEST, VARIABLE

NAME, PORT, NETWORK = "oldest", 8494, "10.75.0.0/24"
CONTROLLER, NODES = "10.75.0.4", ("10.75.0.5", "10.75.0.6")


@pytest.fixture(scope="module")
def oldest() -> Iterator[Cluster]:
    """Three nodes of the oldest suite."""
    with simulated(NAME, PORT, NETWORK, **{VARIABLE: OLDEST}) as made:
        yield made


@pytest.fixture(scope="module")
def source(oldest: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster."""
    return oldest.write_inventory(tmp_path_factory.mktemp("oldest"))


@pytest.fixture(scope="module")
def converged(oldest: Cluster, source: Path) -> Recap:
    """The first run of site.yml."""
    return oldest.site(source)


def test_site_yml_configures_the_oldest_nodes(converged: Recap) -> None:
    assert converged.rc == 0, converged.output
    assert "All 3 nodes are configured" in converged.summary


def test_the_nodes_have_the_oldest_slurm(oldest: Cluster, converged: Recap) -> None:
    assert oldest.ssh(CONTROLLER, "sudo slurmctld -V").startswith("slurm-wlm 22.05.")
    assert "VERSION_CODENAME=bookworm" in oldest.ssh(CONTROLLER, "cat /etc/os-release")


def test_the_oldest_slurm_accepts_the_keys_that_the_role_accepts(oldest: Cluster, converged: Recap) -> None:
    found, expected = compare_slurm_conf(lambda command: oldest.ssh(CONTROLLER, f"sudo sh -c {shlex.quote(command)}"))
    assert found == expected


def test_a_job_runs_on_both_compute_nodes(oldest: Cluster, converged: Recap) -> None:
    assert len({*oldest.run_job(CONTROLLER, "hostname", "--nodes=2").split()}) == 2


def test_the_job_is_recorded(oldest: Cluster, converged: Recap) -> None:
    def recorded() -> str:
        return oldest.ssh(CONTROLLER, "sudo sacct --allusers --noheader --format=jobname%20")

    # slurmctld sends it to slurmdbd a little later.
    wait_for(lambda: "hostname" in recorded(), 60, recorded)


def test_a_second_run_changes_nothing(oldest: Cluster, source: Path, converged: Recap) -> None:
    again = oldest.site(source)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


@pytest.fixture(scope="module")
def trainers(oldest: Cluster, source: Path, converged: Recap) -> Recap:
    """A run of site.yml that adds the role training."""
    run = oldest.site(source, "--tags", "training", "-e", "hpcai_training=true")
    assert run.rc == 0, run.output
    return run


@pytest.mark.usefixtures("trainers")
def test_the_recipes_and_trainers_belong_to_root(oldest: Cluster) -> None:
    """Unlike a training, this needs no PyTorch."""
    for address in (CONTROLLER, *NODES):
        host = oldest.host(address)
        recipe, trainer = (
            host.file(f"/usr/share/hpcai/training/{name}") for name in ("recipes/bert-ddp", "trainers/bert_ddp.py")
        )
        assert (recipe.is_directory, recipe.user, oct(recipe.mode)) == (True, "root", "0o755")
        assert (trainer.is_file, trainer.user, oct(trainer.mode)) == (True, "root", "0o644")


@pytest.mark.usefixtures("trainers")
def test_a_training_whose_rank_was_killed_ends_with_the_loss_of_an_uninterrupted_one(oldest: Cluster) -> None:
    packages = frameworks.packages()
    place = TwoNodes(oldest, CONTROLLER, NODES)
    place.prepare(packages)
    job = killed(place, "bert-ddp", "bert_ddp.py")
    check_restarted(job, uninterrupted(place, "bert-ddp"))
