# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make release-check`: a user's repository with the previous release, upgraded to this one while a job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.ops_repository import OpsRepository

CONTROLLER = "10.81.0.4"
READY = {"compute-0": "idle", "compute-3": "idle"}


@pytest.fixture(scope="module")
def repository(cluster: Cluster, previous: Path, tmp_path_factory: pytest.TempPathFactory) -> OpsRepository:
    """The user's repository, with a cluster that the previous release configured."""
    made = OpsRepository.create(tmp_path_factory.mktemp("ops"), cluster, previous)
    run = made.site()
    assert run.rc == 0, run.output
    cluster.wait_for_nodes(CONTROLLER, READY)
    return made


@pytest.fixture(scope="module")
def job(cluster: Cluster, repository: OpsRepository) -> str:
    """A job that runs during the upgrade."""
    return cluster.ssh(CONTROLLER, "sbatch --parsable --output=/dev/null --wrap 'sleep 1800'").strip()


@pytest.fixture(scope="module")
def upgraded(repository: OpsRepository, job: str) -> Recap:
    """The first run after the upgrade."""
    assert job.isdecimal()
    repository.install(REPOSITORY)
    return repository.site()


def test_the_upgrade_passes_and_the_job_keeps_running(cluster: Cluster, upgraded: Recap, job: str) -> None:
    assert upgraded.rc == 0, upgraded.output
    assert cluster.ssh(CONTROLLER, f"squeue --noheader --jobs={job} --format='%T %V'").split()[0] == "RUNNING"
    restarts = cluster.ssh(CONTROLLER, f"squeue --noheader --jobs={job} --Format=RestartCnt").strip()
    assert restarts == "0"


def test_a_second_run_changes_nothing(upgraded: Recap, repository: OpsRepository) -> None:
    again = repository.site()
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


def test_jobs_run_on_all_nodes_afterwards(cluster: Cluster, upgraded: Recap, job: str) -> None:
    cluster.ssh(CONTROLLER, f"scancel {job}")
    cluster.wait_for_nodes(CONTROLLER, READY)
    assert len(set(cluster.run_job(CONTROLLER, "cat /etc/machine-id", "--nodes=2").split())) == 2
