# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection as users get it: installed from its archive into their repository."""

from __future__ import annotations

from pathlib import Path

from simulated.cluster import Cluster, Recap
from simulated.ops_repository import OpsRepository

READY = {"compute-0": "idle", "compute-3": "idle"}


def test_check_mode_before_the_first_run_predicts_changes(checked_before: Recap) -> None:
    assert checked_before.rc == 0, checked_before.output
    assert all(checked_before.hosts[host]["changed"] > 0 for host in ("ctl", "compute000000", "compute000003"))


def test_the_installed_archive_configures_the_cluster(cluster: Cluster, controller: str) -> None:
    cluster.wait_for_nodes(controller, READY)


def test_job_runs_on_both_nodes(cluster: Cluster, controller: str) -> None:
    machine_ids = cluster.run_job(controller, "cat /etc/machine-id", "--nodes=2").split()
    assert len(machine_ids) == len(set(machine_ids)) == 2


def test_second_run_changes_nothing(controller: str, ops_repository: OpsRepository) -> None:
    run = ops_repository.site()
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_the_clone_changes_nothing_that_the_archive_configured(
    cluster: Cluster, controller: str, inventory: Path
) -> None:
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_check_mode_on_a_converged_cluster_predicts_no_change(
    cluster: Cluster, controller: str, inventory: Path
) -> None:
    """The clone's run in check mode, on nodes that the installed archive has configured."""
    run = cluster.site(inventory, "--check", "--diff")
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_a_run_prints_no_secret(cluster: Cluster, controller: str, inventory: Path) -> None:
    """Not even with the most verbose output and with diffs."""
    key = cluster.ssh(controller, "sudo cat /etc/hpcai/munge.key").strip()
    cluster.ssh(controller, "sudo sh -c 'echo other > /etc/munge/munge.key'")
    run = cluster.site(inventory, "-vvvv", "--diff")
    assert run.rc == 0, run.output
    assert run.changed > 0
    assert len(key) == 128
    assert key not in run.output
    cluster.wait_for_nodes(controller, READY)
