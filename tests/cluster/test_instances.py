# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effects of the Azure SDK's operations on an instance: on the node's disks, its identity and its services."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from azure.mgmt.compute.operations import VirtualMachineScaleSetVMsOperations

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster

NODE, ADDRESS, INSTANCE = "compute-3", "10.79.0.6", "3"
SYSTEM_DISK, LOCAL_DISK = "/var/tmp/kept-by-the-system-disk", "/mnt/kept-by-the-local-disk"


@pytest.fixture
def marked(cluster: Cluster, controller: str) -> str:
    """Create a file on each of the node's disks; returns its machine-id."""
    cluster.ssh(ADDRESS, f"sudo touch {SYSTEM_DISK} {LOCAL_DISK}")
    return cluster.ssh(ADDRESS, "cat /etc/machine-id").strip()


def kept(cluster: Cluster) -> list[str]:
    """Which of the two files still exist."""
    return cluster.ssh(ADDRESS, f"ls -U {SYSTEM_DISK} {LOCAL_DISK} 2>/dev/null", check=False).split()


def machine_id(cluster: Cluster) -> str:
    """The node's machine-id."""
    return cluster.ssh(ADDRESS, "cat /etc/machine-id").strip()


def host_key(address: str) -> str:
    """The node's public host key."""
    command = ["ssh-keyscan", "-T", "10", "-t", "ed25519", address]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def instances(cluster: Cluster) -> VirtualMachineScaleSetVMsOperations:
    """The SDK's operations on instances of scale sets."""
    return cluster.sdk().virtual_machine_scale_set_vms


def test_a_restart_keeps_both_disks_and_slurmd_returns(cluster: Cluster, marked: str, controller: str) -> None:
    instances(cluster).begin_restart(RESOURCE_GROUP, SCALE_SET, INSTANCE).result()
    assert kept(cluster) == [SYSTEM_DISK, LOCAL_DISK]
    assert machine_id(cluster) == marked
    assert cluster.run_job(controller, "hostname", f"--nodelist={NODE}").strip() == "compute000003"


def test_a_deallocated_node_is_drained_and_loses_only_its_local_disk(
    cluster: Cluster, marked: str, controller: str, inventory: Path
) -> None:
    instances(cluster).begin_deallocate(RESOURCE_GROUP, SCALE_SET, INSTANCE).result()
    with pytest.raises(subprocess.CalledProcessError):
        cluster.ssh(ADDRESS, "true")
    run = cluster.slurm(inventory)
    assert run.rc == 0, run.output
    assert cluster.nodes(controller)[NODE].startswith("drain")
    instances(cluster).begin_start(RESOURCE_GROUP, SCALE_SET, INSTANCE).result()
    assert kept(cluster) == [SYSTEM_DISK]
    assert machine_id(cluster) == marked
    run = cluster.slurm(inventory)
    assert run.rc == 0, run.output
    assert cluster.nodes(controller)[NODE] == "idle"


def test_a_redeployment_erases_only_the_local_disk(cluster: Cluster, marked: str) -> None:
    instances(cluster).begin_redeploy(RESOURCE_GROUP, SCALE_SET, INSTANCE).result()
    assert kept(cluster) == [SYSTEM_DISK]
    assert machine_id(cluster) == marked


def test_a_reimaged_node_has_a_new_identity_and_site_yml_restores_it(
    cluster: Cluster, marked: str, controller: str, inventory: Path
) -> None:
    key = host_key(ADDRESS)
    vm_id = instances(cluster).get(RESOURCE_GROUP, SCALE_SET, INSTANCE).vm_id
    instances(cluster).begin_reimage(RESOURCE_GROUP, SCALE_SET, INSTANCE).result()
    assert SYSTEM_DISK not in kept(cluster)
    assert machine_id(cluster) != marked
    assert host_key(ADDRESS) != key
    # It has the same vmId and another host key: the operator must remove the old key, or an impostor would be accepted.
    refused = cluster.slurm(inventory, "-e", "hpcai_connect_timeout=5")
    assert refused.rc != 0
    assert "HOST IDENTIFICATION HAS CHANGED" in refused.output
    subprocess.run(["ssh-keygen", "-R", str(vm_id), "-f", str(cluster.state / "known_hosts")], check=True)
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    cluster.wait_for_nodes(controller, {"compute-0": "idle", NODE: "idle"})
