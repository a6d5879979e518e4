# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A new instance and a restarted one join the cluster automatically. All data that they need is in their image, in the
metadata service and in the key vault. No playbook runs before the last test of this file. The new instance stays.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.mgmt.compute.operations import VirtualMachineScaleSetVMsOperations

from simulated.cluster import OWN_SETTINGS, RESOURCE_GROUP, SCALE_SET, Cluster
from simulated.node import SECRET, VAULT, Node, admin, run_mpi, wait_for
from simulator.backends.containers import images
from simulator.backends.containers.podman import Podman
from simulator.scan import scan

CONTROLLER = "10.78.0.4"
NEW = "17"
"""The id that the simulator gives to the next instance."""
JOIN_S = 60
"""Seconds from the call that raises the capacity until a job has run on the new instance. Measured on two CPUs: 3.4 on
an almost idle machine, 13.5 and 26 at a load of 20."""
SILENT_S = 240
"""The same for a start without the metadata service: three steps wait for it until their timeout."""
SCRATCH = "findmnt --noheadings --output TARGET,SOURCE /scratch && find /scratch -maxdepth 1 -printf '%u %m %p\\n'"
GOOD = {"pass", "warn", "skip"}


@pytest.fixture(scope="module")
def old(node: Callable[[str], Node]) -> Node:
    """A node that site.yml has configured."""
    return node("0")


class Joined:
    """The new instance, after a job has run on it."""

    def __init__(self, azure: Cluster, node: Callable[[str], Node]) -> None:
        self.runs_before = node("0").ansible_runs()
        began = time.monotonic()
        azure.set_capacity(3)
        self.made_s = time.monotonic() - began
        self.node = node(NEW)
        wait_for(self.node.runs_a_job, 3 * JOIN_S, lambda: (self.node.boot(), self.node.state()))
        self.seconds = time.monotonic() - began


@pytest.fixture(scope="module")
def joined(azure: Cluster, node: Callable[[str], Node]) -> Joined:
    """The new instance, created once for all tests."""
    return Joined(azure, node)


@pytest.fixture(scope="module")
def new(joined: Joined) -> Node:
    """The new node."""
    return joined.node


def test_a_new_instance_runs_a_job_in_time(joined: Joined) -> None:
    print(f"the instance was made after {joined.made_s:.1f} s, a job had run on it after {joined.seconds:.1f} s")
    assert joined.seconds < JOIN_S


def test_the_new_instance_has_its_own_identity(new: Node, old: Node) -> None:
    one, other = old.identity(), new.identity()
    assert (other.instance_id, other.computer_name) == (NEW, "compute00000H")
    for field in ("instance_id", "computer_name", "vm_id", "machine_id", "host_key"):
        assert getattr(one, field) != getattr(other, field), field


def test_the_new_instance_joins_without_an_ansible_run(joined: Joined, new: Node, old: Node) -> None:
    assert joined.runs_before > 0
    assert old.ansible_runs() == joined.runs_before
    assert new.ansible_runs() == 0


def test_users_without_a_job_cannot_log_in_to_the_new_node(new: Node) -> None:
    key = "rm -rf ~/.ssh && mkdir -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519"
    as_alice = "sudo --login --user=alice sh -c"
    new.sh(f"{as_alice} {shlex.quote(key + ' && cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys')}")
    # Node.sh itself logs in over ssh as the admin.
    log_in = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null localhost id 2>&1"
    answer = new.sh(f"{as_alice} {shlex.quote(log_in)}", check=False)
    assert "Access denied by pam_slurm_adopt: you have no active jobs on this node" in answer
    assert "uid=4001" not in answer


def test_every_step_of_the_boot_phase_succeeds(new: Node) -> None:
    status = new.boot()
    assert status["state"] == "ready"
    assert {"instance", "key", "scratch", "directories", "join"} <= set(new.verdicts())
    assert set(new.verdicts().values()) <= GOOD
    assert new.sh("systemctl is-system-running").strip() == "running"


def test_the_start_of_slurmd_is_recorded(new: Node) -> None:
    """With the record, the next run of site.yml, below, restarts slurmd only for a change that needs it."""
    record = json.loads(new.sh("cat /run/hpcai/slurmd.taken.json"))
    assert record["process"].split("@")[0] == new.sh("systemctl show slurmd --property=MainPID --value").strip()


def test_an_mpi_job_runs_on_an_old_and_the_new_node(azure: Cluster, new: Node, old: Node) -> None:
    assert run_mpi(azure, CONTROLLER, old, new) == [old.host_name, new.host_name]


def test_the_new_node_stays_when_slurmctld_restarts(azure: Cluster, new: Node, old: Node) -> None:
    azure.ssh(CONTROLLER, "sudo systemctl restart slurmctld")
    wait_for(new.runs_a_job, 30, new.state)
    assert run_mpi(azure, CONTROLLER, old, new) == [old.host_name, new.host_name]


def test_the_new_node_returns_after_a_reboot(azure: Cluster, new: Node) -> None:
    _instances(azure).begin_restart(RESOURCE_GROUP, SCALE_SET, new.instance_id).result()
    wait_for(new.runs_a_job, JOIN_S, lambda: (new.boot(), new.state()))
    assert new.boot()["state"] == "ready"


def test_the_scratch_is_created_again_after_a_redeploy(azure: Cluster, new: Node) -> None:
    before = new.sh(SCRATCH)
    new.sh("touch /mnt/gone-with-the-disk")
    _instances(azure).begin_redeploy(RESOURCE_GROUP, SCALE_SET, new.instance_id).result()
    wait_for(new.runs_a_job, JOIN_S, lambda: (new.boot(), new.state()))
    new.sh("test ! -e /mnt/gone-with-the-disk")
    after = new.sh(SCRATCH)
    assert after == before


@pytest.mark.thorough
def test_a_boot_without_metadata_service_uses_stored_settings(azure: Cluster, new: Node) -> None:
    reach = f"reach{new.azure_id}"
    admin(azure, "post", reach, {"imds": "blackhole"})
    try:
        _instances(azure).begin_restart(RESOURCE_GROUP, SCALE_SET, new.instance_id).result()
        wait_for(new.runs_a_job, SILENT_S, lambda: (new.boot(), new.state()))
        assert new.verdicts()["instance"] == "warn"
        assert new.verdicts()["key"] == "warn"
    finally:
        admin(azure, "post", reach, {"imds": "normal"})


@pytest.mark.parametrize(("how", "error"), [("refused", "ConnectionRefusedError"), ("blackhole", "TimeoutError")])
def test_a_blocked_service_refuses_or_drops_connections(azure: Cluster, old: Node, how: str, error: str) -> None:
    """This tests the simulator, because the tests of unreachable services depend on it."""
    reach = f"reach{old.azure_id}"
    hosts = {"imds": "169.254.169.254", "vault": f"{VAULT}.vault.azure.net"}
    admin(azure, "post", reach, dict.fromkeys(hosts, how))
    try:
        for port, host in ((80, hosts["imds"]), (443, hosts["vault"])):
            connect = f"import socket; socket.create_connection(('{host}', {port}), timeout=2)"
            # As root, because other users cannot reach the metadata service.
            output = azure.ssh(old.address, f'sudo python3 -c "{connect}" 2>&1', check=False)
            assert output.splitlines()[-1].startswith(error)
    finally:
        admin(azure, "post", reach, dict.fromkeys(hosts, "normal"))


def _instances(azure: Cluster) -> VirtualMachineScaleSetVMsOperations:
    return azure.sdk().virtual_machine_scale_set_vms


@pytest.fixture
def remove_added(azure: Cluster, new: Node) -> Iterator[None]:
    """Remove the instances and the faults that a test has added."""
    yield
    admin(azure, "delete", "faults")
    added = [number for number in azure.instance_ids() if number not in ("0", "3", new.instance_id)]
    if added:
        azure.delete_instances(*added)


def _add(azure: Cluster, node: Callable[[str], Node]) -> Node:
    before = set(azure.instance_ids())
    azure.set_capacity(4)
    (number,) = set(azure.instance_ids()) - before
    return node(number)


@pytest.mark.usefixtures("remove_added")
@pytest.mark.thorough
def test_a_node_joins_although_the_metadata_service_fails_at_first(azure: Cluster, node: Callable[[str], Node]) -> None:
    admin(
        azure,
        "post",
        "faults",
        {
            "match": "metadata/(instance/compute|identity)",
            "action": "status",
            "status": 500,
            "service": "imds",
            "times": 4,
        },
    )
    added = _add(azure, node)
    wait_for(added.runs_a_job, JOIN_S, lambda: (added.boot(), added.state()))
    asked = admin(azure, "get", "requests?service=imds")["requests"]
    assert [item for item in asked if item["status"] == 500 and item["caller"] == f"compute_{added.instance_id}"]


@pytest.mark.usefixtures("remove_added")
@pytest.mark.thorough
def test_a_missing_secret_keeps_slurmd_from_starting_and_is_reported(
    azure: Cluster, node: Callable[[str], Node], old: Node
) -> None:
    key = old.sh("cat /etc/munge/munge.key")
    admin(azure, "delete", f"secrets/{VAULT}/{SECRET}")
    try:
        added = _add(azure, node)
        wait_for(lambda: added.boot()["state"] == "blocked", JOIN_S, added.boot)
        assert added.boot()["blocking"] == ["key"]
        status = added.sh("hpcnode boot status", check=False)
        assert "slurmd does not start because of key" in status
        assert f"has no secret {SECRET}" in status
        assert f"has no secret {SECRET}" in added.sh("journalctl --no-pager -u hpcai-key.service")
        assert added.slurmd() == "inactive"
        assert "idle" not in added.state()
    finally:
        admin(azure, "put", f"secrets/{VAULT}/{SECRET}", {"value": key})
    added.sh("systemctl start slurmd")
    wait_for(added.runs_a_job, JOIN_S, lambda: (added.boot(), added.state()))
    assert key not in added.sh("journalctl --no-pager")


def test_neither_image_nor_logs_contain_the_key(azure: Cluster, old: Node, new: Node) -> None:
    key = old.sh("cat /etc/munge/munge.key").strip()
    assert len(key) >= 32
    podman, image = Podman(), images.prepare(print)
    try:
        root = Path(podman.run("image", "mount", image).strip())
        assert scan(root, [key.encode()]) == []
    finally:
        podman.run("image", "unmount", image, check=False)
    logs = [(azure.state / name).read_text(encoding="utf-8") for name in ("simulator.log", "state.json")]
    logs += [str(admin(azure, "get", f"requests?service={service}")) for service in ("arm", "imds", "vault")]
    logs += [node.sh("journalctl --no-pager; cat /var/log/slurm/* /run/hpcai/boot/*") for node in (old, new)]
    assert not [text for text in logs if key in text]


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_site_yml_changes_at_most_three_tasks_on_the_new_node(
    azure: Cluster, inventory_source: Path, new: Node, old: Node
) -> None:
    """The node gets the addresses of the inventory and the settings of the playbook; no service restarts."""
    # From Slurm 23.11 on, a slurmd that is reconfigured starts a new process, and its unit stays active.
    started = "systemctl show slurmd munge --property=ActiveEnterTimestampMonotonic --value"
    before = new.sh(started)
    run = azure.site(inventory_source)
    assert run.rc == 0, run.output
    assert new.sh(started) == before
    assert run.changed_tasks(new.host_name) <= OWN_SETTINGS, run.output
    assert run.changed_tasks(old.host_name) == set()
    assert new.state() == "idle"
    again = azure.site(inventory_source)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
