# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that cannot be reached, or that fails, does not affect the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster, Recap

# A test includes two runs of site.yml, and the first one waits for a node that does not answer.
pytestmark = pytest.mark.timeout(900)

CONTROLLER, ALIVE, DEAD = "10.78.0.4", "10.78.0.5", "10.78.0.6"


@pytest.fixture(scope="module")
def run_with_dead_node(azure: Cluster, inventory_source: Path) -> Recap:
    """A run in which every node needs changes, and one of three does not answer ssh."""
    azure.ssh(CONTROLLER, "sudo rm /etc/slurm/cgroup.conf")
    for address in (ALIVE, DEAD):
        azure.ssh(address, "sudo rm /etc/hpcai/prolog.d/15-hosts")
    # Unchecked, because the command ends its own connection.
    azure.ssh(DEAD, "sudo systemctl stop ssh.socket ssh.service; sudo pkill -f 'sshd: .*'", check=False)
    return azure.slurm(inventory_source, "-e", "hpcai_connect_timeout=10")


def revive(azure: Cluster) -> None:
    """Restart the dead instance, as an operator would through Azure."""
    azure.sdk().virtual_machine_scale_set_vms.begin_restart("hpcai-sim", "compute", "3").result()


def test_an_unreachable_node_fails_the_run(run_with_dead_node: Recap) -> None:
    assert run_with_dead_node.rc != 0


def test_the_other_nodes_are_configured(azure: Cluster, run_with_dead_node: Recap) -> None:
    for host in ("ctl", "compute000000"):
        assert run_with_dead_node.hosts[host]["failed"] == run_with_dead_node.hosts[host]["unreachable"] == 0
        assert run_with_dead_node.hosts[host]["changed"] > 0
    assert azure.run_job(CONTROLLER, "hostname", "--nodes=1").split() == ["compute000000"]


def test_the_summary_names_the_unreachable_node(run_with_dead_node: Recap) -> None:
    assert "2 of 3 nodes are configured. These are not: compute000003." in run_with_dead_node.summary


@pytest.mark.thorough
def test_a_limited_run_blames_only_the_unreachable_node(
    azure: Cluster, inventory_source: Path, run_with_dead_node: Recap
) -> None:
    """The limit excludes localhost, so another node reports the failure, and must not count as failed itself."""
    run = azure.slurm(inventory_source, "--limit", "ctl,compute000003", "-e", "hpcai_connect_timeout=5")
    assert run.rc != 0
    assert "1 of 2 nodes are configured. These are not: compute000003." in run.summary
    assert run.hosts["ctl"]["failed"] == 0


def test_the_unreachable_node_is_drained(azure: Cluster, run_with_dead_node: Recap) -> None:
    assert azure.nodes(CONTROLLER)["compute-3"].startswith("drain")
    (reason,) = azure.reasons(CONTROLLER)
    assert reason.startswith("hpcai: site:")


def test_the_next_run_resumes_the_node(azure: Cluster, inventory_source: Path, run_with_dead_node: Recap) -> None:
    revive(azure)
    run = azure.slurm(inventory_source)
    assert run.rc == 0, run.output
    azure.wait_for_nodes(CONTROLLER, {"compute-0": "idle", "compute-3": "idle"})


@pytest.fixture(scope="module")
def run_with_failing_node(azure: Cluster, inventory_source: Path) -> Iterator[Recap]:
    """A run in which a node fails midway."""
    azure.ssh(DEAD, "sudo systemctl mask --now munge")
    yield azure.slurm(inventory_source)
    azure.ssh(DEAD, "sudo systemctl unmask munge")


@pytest.mark.thorough
def test_a_node_that_fails_midway_does_not_block_the_others(azure: Cluster, run_with_failing_node: Recap) -> None:
    assert run_with_failing_node.rc != 0
    assert run_with_failing_node.hosts["compute000003"]["failed"] == 1
    assert run_with_failing_node.hosts["compute000000"]["failed"] == run_with_failing_node.hosts["ctl"]["failed"] == 0
    assert azure.nodes(CONTROLLER)["compute-3"].startswith("drain")


@pytest.mark.thorough
def test_the_next_run_does_a_missed_restart_and_keeps_operators_drains(
    azure: Cluster, inventory_source: Path, run_with_failing_node: Recap
) -> None:
    """A file changed, and the host was lost before the restart. With handlers, no later run would restart.

    The same run resumes the node that failed, and keeps the drain of an operator.
    """
    azure.ssh(DEAD, "sudo systemctl unmask munge")
    azure.ssh(CONTROLLER, "sudo scontrol update NodeName=compute-0 State=DRAIN Reason='bad fan, ticket 4711'")
    azure.ssh(ALIVE, "sudo touch /etc/hpcai/slurmd.env")
    started = "systemctl show slurmd --property=ExecMainStartTimestampMonotonic --value"
    before = {address: int(azure.ssh(address, started)) for address in (ALIVE, DEAD)}
    run = azure.slurm(inventory_source)
    assert run.rc == 0, run.output
    assert run.hosts["compute000000"]["changed"] == 1
    assert int(azure.ssh(ALIVE, started)) > before[ALIVE]
    assert int(azure.ssh(DEAD, started)) == before[DEAD]
    azure.wait_for_nodes(CONTROLLER, {"compute-0": "drained", "compute-3": "idle"})
    assert azure.reasons(CONTROLLER) == ["bad fan, ticket 4711"]
    azure.ssh(CONTROLLER, "sudo scontrol update NodeName=compute-0 State=RESUME")
