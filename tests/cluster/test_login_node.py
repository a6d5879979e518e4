# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate login node has Slurm's commands and the controller's current configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.cluster import Cluster, Recap
from simulated.own_cluster import own_cluster
from simulator.suite import suite

NAME, PORT, NETWORK = "login", 8496, "10.74.0.0/24"
CONTROLLER, LOGIN = "10.74.0.4", "10.74.0.5"
AS_ALICE = "sudo -u alice"
SACKD = {"trixie": True, "bookworm": False}
"""Whether a suite has sackd, which exists since Slurm 23.11."""

cluster, source = own_cluster(NAME, PORT, NETWORK, "login")


@pytest.fixture(scope="module")
def converged(cluster: Cluster, source: Path) -> Recap:
    """The first run of site.yml."""
    run = cluster.site(source)
    assert run.rc == 0, run.output
    return run


@pytest.mark.usefixtures("converged")
def test_a_job_from_the_login_node_runs_on_another_machine(cluster: Cluster) -> None:
    there = cluster.ssh(LOGIN, "hostname").strip()
    done = cluster.ssh(LOGIN, f"cd /tmp && {AS_ALICE} srun --mpi=none --time=2 sh -c 'id -un; hostname'").split()
    assert done[0] == "alice"
    assert done[1] != there


@pytest.mark.usefixtures("converged")
def test_the_login_node_runs_no_daemon_of_the_controller(cluster: Cluster) -> None:
    for unit in ("slurmctld", "slurmdbd", "slurmd", "mariadb"):
        assert cluster.ssh(LOGIN, f"systemctl is-active {unit}", check=False).strip() != "active"


@pytest.mark.usefixtures("converged")
def test_sackd_replaces_copies_of_the_configuration_if_available(cluster: Cluster) -> None:
    active = cluster.ssh(LOGIN, "systemctl is-active sackd", check=False).strip() == "active"
    assert active is SACKD[suite()]
    copies = cluster.ssh(LOGIN, "ls /etc/slurm/slurm.conf", check=False).strip()
    assert bool(copies) is not SACKD[suite()]


@pytest.mark.usefixtures("converged")
def test_the_next_run_brings_a_change_to_the_login_node(cluster: Cluster, source: Path) -> None:
    run = cluster.slurm(source, "-e", '{"slurm_partitions": {"late": {"Nodes": "compute-0"}}}')
    assert run.rc == 0, run.output
    assert "late" in cluster.ssh(LOGIN, f"{AS_ALICE} sinfo --noheader --format=%R")


@pytest.mark.usefixtures("converged")
def test_commands_fail_only_while_slurmctld_is_stopped(cluster: Cluster) -> None:
    cluster.ssh(CONTROLLER, "sudo systemctl stop slurmctld")
    try:
        output = cluster.ssh(LOGIN, f"{AS_ALICE} timeout 60 sinfo 2>&1", check=False)
    finally:
        cluster.ssh(CONTROLLER, "sudo systemctl start slurmctld")
    assert "Unable to contact slurm controller" in output
    assert "compute-0" in cluster.ssh(LOGIN, f"{AS_ALICE} sinfo --noheader --Node --format=%N")


@pytest.mark.usefixtures("converged")
def test_a_second_run_changes_nothing(cluster: Cluster, source: Path) -> None:
    # This run removes the partition of an earlier test.
    assert cluster.slurm(source).rc == 0
    again = cluster.site(source)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
