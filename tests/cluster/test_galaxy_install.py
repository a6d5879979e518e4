# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection as users get it: installed from its archive into a repository of theirs."""

from __future__ import annotations

from pathlib import Path

from simulated.cluster import Cluster, Recap
from simulated.ops_repository import OpsRepository

READY = {"compute-0": "idle", "compute-3": "idle"}


def test_check_mode_before_the_first_run_says_what_it_would_do(checked_before: Recap) -> None:
    assert checked_before.rc == 0, checked_before.output
    assert all(checked_before.hosts[host]["changed"] > 0 for host in ("ctl", "compute000000", "compute000003"))


def test_cluster_comes_up_from_the_installed_archive(cluster: Cluster, controller: str) -> None:
    cluster.wait_for_nodes(controller, READY)


def test_job_runs_on_both_nodes(cluster: Cluster, controller: str) -> None:
    machine_ids = cluster.run_job(controller, "cat /etc/machine-id", "--nodes=2").split()
    assert len(machine_ids) == len(set(machine_ids)) == 2


def test_second_run_changes_nothing(controller: str, ops_repository: OpsRepository) -> None:
    run = ops_repository.site()
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_clone_changes_nothing_on_what_the_archive_made(cluster: Cluster, controller: str, inventory: Path) -> None:
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_check_mode_says_that_nothing_would_change(cluster: Cluster, controller: str, inventory: Path) -> None:
    """Neither to the installed archive's nodes nor by the clone, whose run it is."""
    run = cluster.site(inventory, "--check", "--diff")
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_no_secret_in_what_a_run_prints(cluster: Cluster, controller: str, inventory: Path) -> None:
    """Not even where every value and difference is asked for."""
    key = cluster.ssh(controller, "sudo cat /etc/hpcai/munge.key").strip()
    cluster.ssh(controller, "sudo sh -c 'echo other > /etc/munge/munge.key'")
    run = cluster.site(inventory, "-vvvv", "--diff")
    assert run.rc == 0, run.output
    assert run.changed > 0
    assert len(key) == 128
    assert key not in run.output
    cluster.wait_for_nodes(controller, READY)
