# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes join and leave when the Azure SDK changes the scale set's capacity or deletes instances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster

# Not in `make test`: there, test_joining.py and test_members.py of molecule/cluster test nodes that join and leave.


@pytest.fixture(scope="module")
def grown(cluster: Cluster, controller: str, inventory: Path) -> Iterator[str]:
    """The cluster with a third node; two nodes again afterwards."""
    cluster.set_capacity(3)
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    yield controller
    _shrink_to_two(cluster, controller, inventory)


def _shrink_to_two(cluster: Cluster, controller: str, inventory: Path) -> None:
    added = [number for number in cluster.instance_ids() if number not in ("0", "3")]
    if added:
        cluster.delete_instances(*added)
    if set(cluster.nodes(controller)) != {"compute-0", "compute-3"}:
        run = cluster.slurm(inventory)
        assert run.rc == 0, run.output


def test_new_node_joins(cluster: Cluster, grown: str) -> None:
    assert cluster.nodes(grown) == {"compute-0": "idle", "compute-3": "idle", "compute-17": "idle"}


def test_job_runs_on_old_and_new_nodes_together(cluster: Cluster, grown: str) -> None:
    hostnames = cluster.run_job(grown, "hostname", "--nodes=3").split()
    assert sorted(hostnames) == ["compute000000", "compute000003", "compute00000H"]


def test_every_node_has_the_new_configuration(cluster: Cluster, grown: str) -> None:
    """slurmctld does not push it to nodes that registered earlier; some job steps need the addresses of all nodes."""
    wanted = cluster.ssh(grown, "sha256sum < /etc/slurm/slurm.conf")
    for address in ("10.79.0.5", "10.79.0.6", "10.79.0.7"):
        assert cluster.ssh(address, "sudo cat /var/lib/slurm/slurmd/conf-cache/slurm.conf | sha256sum") == wanted


def test_a_run_after_growing_changes_nothing(cluster: Cluster, grown: str, inventory: Path) -> None:
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output


def test_a_limited_run_removes_no_node(cluster: Cluster, grown: str, inventory: Path) -> None:
    run = cluster.slurm(inventory, "--limit", "ctl,localhost")
    assert run.rc == 0, run.output
    assert set(cluster.nodes(grown)) == {"compute-0", "compute-3", "compute-17"}


def test_a_run_limited_to_nodes_has_a_summary(cluster: Cluster, grown: str, inventory: Path) -> None:
    run = cluster.slurm(inventory, "--limit", "ctl,compute000003")
    assert run.rc == 0, run.output
    assert "All 2 nodes are configured: compute000003, ctl." in run.summary
    assert set(run.hosts) == {"ctl", "compute000003"}


def test_a_deleted_instance_is_removed_and_running_jobs_continue(cluster: Cluster, grown: str, inventory: Path) -> None:
    cluster.ssh(grown, "sbatch --nodelist=compute-0 --output=/dev/null --wrap 'sleep 300'")
    job = cluster.ssh(grown, "squeue --noheader --format=%i").strip()
    cluster.delete_instances("17")
    run = cluster.slurm(inventory)
    assert run.rc == 0, run.output
    assert set(cluster.nodes(grown)) == {"compute-0", "compute-3"}
    assert cluster.ssh(grown, f"squeue --noheader --jobs={job} --format=%T").strip() == "RUNNING"
    cluster.ssh(grown, f"scancel {job}")


def test_a_new_instance_at_a_reused_address_is_reached(cluster: Cluster, grown: str, inventory: Path) -> None:
    """It has a new host key. The known key is stored for the deleted machine, not for the address."""
    before = set(cluster.instance_ids())
    cluster.set_capacity(3)
    (new,) = set(cluster.instance_ids()) - before
    run = cluster.slurm(inventory)
    assert run.rc == 0, run.output
    assert cluster.nodes(grown)[f"compute-{new}"] == "idle"
