# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From an empty subscription to a job, and back: the installed archive makes, configures and deletes a cluster.

The tests depend on the order in this file. Each continues with the cluster that the one before it left.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.node import wait_for
from simulated.ops_repository import OpsRepository
from simulated.own_cluster import simulated
from simulator.scenario import SUBSCRIPTION

NAME, PORT, NETWORK, CONTROLLER = "provisioned", 8472, "10.65.0.0/24", "10.65.0.4"
ACCOUNT = "hpcaisimdata"
BOOT_S = 60
KEY_STEP_S = 60
CONFIRMED = ("-e", json.dumps({"teardown_confirm": True, "teardown_data": [ACCOUNT]}))
HOST = "localhost.yml"
"""An inventory of only the machine on which Ansible runs: before the first run of provision there is no other."""
SETTINGS = REPOSITORY / "inventories/simulated/group_vars"


def description(cluster: Cluster) -> dict[str, Any]:
    """The content of stack.yml."""
    subnets = {
        "cluster": "10.65.0.0/26",
        "compute": "10.65.0.64/26",
        "endpoints": "10.65.0.128/28",
        "bastion": "10.65.0.192/26",
    }
    compute = {"vm_size": "Standard_ND96asr_v4", "max": 4, "image": "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025041101"}
    stack = {
        "name": "sim",
        "location": "southcentralus",
        "ssh_public_keys": [(cluster.state / "id_ed25519.pub").read_text(encoding="utf-8").strip()],
        "group": {"name": "hpcai-sim"},
        "network": {"address_space": [NETWORK], "subnets": subnets, "ssh_from": ["192.0.2.0/24"]},
        "storage": {"name": ACCOUNT},
        "shared_home": {"source": "none"},
        "login": {"count": 0},
        "scale_sets": [compute],
    }
    azure = {
        "subscription_id": SUBSCRIPTION,
        "endpoint": cluster.endpoint,
        "auth_source": "token",
        "token": "simulated-token",
    }
    return {"hpcai_stack": stack, "hpcai_azure": azure, "provision_inventory": "inventory"}


class Operator:
    """A user's repository with stack.yml, and runs of the playbooks of the installed collection in it."""

    def __init__(self, path: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.repository = OpsRepository(path, cluster)
        self.repository.install(REPOSITORY)
        (path / "ansible.cfg").write_text("", encoding="utf-8")
        (path / "stack.yml").write_text(yaml.safe_dump(description(cluster)), encoding="utf-8")
        local = {"all": {"hosts": {"localhost": {"ansible_connection": "local"}}}}
        (path / HOST).write_text(yaml.safe_dump(local), encoding="utf-8")

    def complete_inventory(self) -> None:
        """Add what nodes in containers need to the inventory that provision wrote, but not what follows from it."""
        hosts = yaml.safe_load((SETTINGS / "azure_hosts.yml").read_text(encoding="utf-8"))
        kept = {key: value for key, value in hosts.items() if not key.startswith("hpcai_key_")}
        variables = self.repository.path / "inventory/group_vars"
        # The image has what containers need; here it would only cost time.
        kept["hpcai_containers"] = False
        (variables / "azure_hosts.yml").write_text(yaml.safe_dump(kept), encoding="utf-8")
        (variables / "all/simulated.yml").symlink_to(SETTINGS / "all.yml")

    def run(self, playbook: str, *arguments: str, inventory: str = "inventory") -> Recap:
        """Run one of the collection's playbooks."""
        # provision writes no secret into the inventory.
        return self.repository.playbook(
            f"hpcai.azure.{playbook}",
            "-e",
            "@stack.yml",
            *arguments,
            inventory=inventory,
            HPCAI_AZURE_TOKEN="simulated-token",
        )

    def sent(self) -> list[str]:
        """All requests so far that could change something."""
        asked = requests.get(f"{self.cluster.endpoint}/_simulator/requests", timeout=10).json()["requests"]
        questions = ("/validate", "/whatif", "/checknameavailability")
        return [
            f"{one['method']} {one['path']}"
            for one in asked
            if one["method"] != "GET" and not one["path"].lower().endswith(questions)
        ]

    def forget_requests(self) -> None:
        """Clear the list of requests."""
        requests.delete(f"{self.cluster.endpoint}/_simulator/requests", timeout=10)

    def delay_roles(self, seconds: float) -> None:
        """Let role assignments take effect only this long after they were made."""
        url = f"{self.cluster.endpoint}/_simulator/limits"
        requests.patch(url, json={"role_delay_s": seconds}, timeout=10).raise_for_status()

    def machines(self) -> list[str]:
        """The names of all machines of Resource Manager."""
        state = requests.get(f"{self.cluster.endpoint}/_simulator/state", timeout=10).json()
        return [one["name"] for one in state["instances"]]


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator with an empty subscription."""
    with simulated(NAME, PORT, NETWORK, "empty") as cluster:
        yield Operator(tmp_path_factory.mktemp("provisioned"), cluster)


def answers(address: str) -> bool:
    """Whether a machine answers at the port of ssh."""
    try:
        socket.create_connection((address, 22), timeout=2).close()
    except OSError:
        return False
    return True


def words(run: Recap) -> str:
    """The output on one line."""
    return " ".join(run.output.split())


def test_provision_makes_the_cluster_and_a_second_run_sends_nothing(operator: Operator) -> None:
    checked = operator.run("preflight", inventory=HOST)
    assert checked.rc == 0, checked.output
    assert operator.sent() == []

    # In Azure it can take minutes. Here it takes until the controller has booted, however fast that is.
    operator.delay_roles(3600)
    first = operator.run("provision", inventory=HOST)
    assert first.rc == 0, first.output
    assert operator.machines() == ["sim-controller"]
    operator.forget_requests()
    second = operator.run("provision", inventory=HOST)
    assert (second.rc, second.changed) == (0, 0), second.output
    assert operator.sent() == []


def key_service(operator: Operator) -> str:
    """What systemd says about the boot step of the munge key on the controller."""
    return operator.cluster.ssh(CONTROLLER, "systemctl is-failed hpcai-key.service", check=False).strip()


def test_the_first_boot_reports_a_role_that_has_not_taken_effect(operator: Operator) -> None:
    """The secret and the role exist before the machine, but the vault does not know the role yet."""
    # The step waits for the role until its timeout.
    wait_for(lambda: key_service(operator) == "failed", BOOT_S + KEY_STEP_S, lambda: key_service(operator))
    status = operator.cluster.ssh(CONTROLLER, "sudo hpcnode boot status", check=False)
    assert "this machine's identity may not read secret munge-key of key vault" in status
    assert operator.cluster.ssh(CONTROLLER, "sudo ls /etc/munge", check=False).split().count("munge.key") == 0
    operator.delay_roles(0)


def test_site_configures_it_and_a_job_runs(operator: Operator) -> None:
    operator.complete_inventory()
    operator.cluster.set_capacity(2)
    run = operator.run("site")
    assert run.rc == 0, run.output
    # The role has taken effect by now. The nodes got the key at their first boot.
    assert key_service(operator) != "failed"
    key = operator.cluster.host(CONTROLLER).file("/etc/munge/munge.key")
    assert (key.user, key.mode, key.size) == ("munge", 0o400, 128)
    names = operator.cluster.run_job(CONTROLLER, "hostname", "--nodes=2").split()
    assert len(set(names)) == 2
    assert all(name.startswith("compute") for name in names)

    again = operator.run("site")
    assert (again.rc, again.changed) == (0, 0), again.output
    operator.forget_requests()
    # The capacity belongs to whoever grew the set.
    provision = operator.run("provision")
    assert (provision.rc, provision.changed) == (0, 0), provision.output
    assert operator.sent() == []


def test_teardown_is_refused_while_a_job_runs_or_is_pending(operator: Operator) -> None:
    cluster = operator.cluster
    job = cluster.ssh(CONTROLLER, "sbatch --parsable --output=/dev/null --wrap 'sleep 600'").strip()
    held = cluster.ssh(CONTROLLER, "sbatch --parsable --hold --output=/dev/null --wrap true").strip()
    operator.forget_requests()
    refused = operator.run("teardown", *CONFIRMED)
    assert refused.rc != 0
    named = rf"Nothing was deleted, because jobs run: {job} .*; and jobs are pending: {held}\b"
    assert re.search(named, words(refused)), refused.output
    assert operator.sent() == []
    assert cluster.ssh(CONTROLLER, f"squeue --noheader --jobs={job} --format=%T").strip() in ("RUNNING", "PENDING")
    cluster.ssh(
        CONTROLLER, f"scancel {job} {held}; while squeue --noheader --jobs={job},{held} | grep -q .; do sleep 1; done"
    )


def test_teardown_leaves_nothing(operator: Operator) -> None:
    listed = operator.run("teardown")
    assert "Nothing was deleted. The list above shows what would be." in words(listed)
    assert len(operator.machines()) == 3
    assert answers(CONTROLLER)

    done = operator.run("teardown", *CONFIRMED)
    assert done.rc == 0, done.output
    assert operator.machines() == []
    groups = f"{operator.cluster.endpoint}/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=2022-09-01"
    answer = requests.get(groups, headers={"Authorization": "Bearer simulated-token"}, timeout=10).json()
    assert answer["value"] == []
    assert not answers(CONTROLLER)

    operator.forget_requests()
    second = operator.run("teardown", *CONFIRMED, inventory=HOST)
    assert (second.rc, second.changed) == (0, 0), second.output
    assert operator.sent() == []
