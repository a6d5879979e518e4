# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml refuses a harmful inventory before it contacts any host, even with an empty ansible.cfg."""

from __future__ import annotations

import copy
import dataclasses
import pathlib
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

GOOD: dict[str, Any] = {
    "all": {
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {"azure_tags": {"hpcai_cluster": "sim"}}}},
            "hpcai_compute": {"hosts": {"compute-0": {"azure_tags": {"hpcai_cluster": "sim"}}}},
        },
        "vars": {"hpcai_connect_timeout": 1},
    }
}
SOURCE: dict[str, Any] = {
    "source": "azure_vmss.yml",
    "scope": {"subscription_ids": ["s"], "resource_groups": ["hpcai"], "scale_sets": []},
    "complete": True,
    "from_cache": False,
    "age_seconds": 0,
    "errors": [],
    "scale_sets": [],
    "virtual_networks": [],
}


@dataclasses.dataclass
class OpsRepository:
    """A user's repository with an empty ansible.cfg, and an ssh that only records that it was called."""

    folder: pathlib.Path
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]]

    def __post_init__(self) -> None:
        ssh = self.folder / "ssh"
        ssh.write_text(f"#!/bin/sh\ntouch '{self.folder}/contacted'\nexit 255\n", encoding="utf-8")
        ssh.chmod(stat.S_IRWXU)

    @property
    def contacted(self) -> bool:
        """Whether a host was contacted."""
        return (self.folder / "contacted").exists()

    def write(self, name: str, content: Any) -> None:
        """Add an inventory source."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def run_site(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run site.yml."""
        return self.run("hpcai.azure.site", *arguments)

    def run(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook."""
        ssh = str(self.folder / "ssh")
        return self.ansible_playbook(self.folder, playbook, *arguments, ANSIBLE_SSH_EXECUTABLE=ssh)


@pytest.fixture
def ops(tmp_path: pathlib.Path, ansible_playbook: Callable[..., subprocess.CompletedProcess[str]]) -> OpsRepository:
    """A user's repository for one test."""
    return OpsRepository(tmp_path, ansible_playbook)


def assert_refused(ops: OpsRepository, done: subprocess.CompletedProcess[str], words: str) -> None:
    """Check that the guard ended the run for this reason, before any host was contacted."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())
    assert "Reach the nodes" not in done.stdout
    assert not ops.contacted


def without(role: str) -> dict[str, Any]:
    """The good inventory without a group."""
    inventory = copy.deepcopy(GOOD)
    del inventory["all"]["children"][f"hpcai_{role}"]
    return inventory


def two_clusters() -> dict[str, Any]:
    """The good inventory with a node of another cluster."""
    inventory = copy.deepcopy(GOOD)
    inventory["all"]["children"]["hpcai_compute"]["hosts"]["other-0"] = {"azure_tags": {"hpcai_cluster": "other"}}
    return inventory


def with_report(**changes: Any) -> dict[str, Any]:
    """The good inventory with a report of the inventory plugin, which has these changes."""
    inventory = copy.deepcopy(GOOD)
    sources = [{**SOURCE, **changes}]
    inventory["all"]["vars"]["azure_inventory"] = {"version": 1, "complete": False, "sources": sources}
    return inventory


def vm(group: str, name: str) -> dict[str, Any]:
    """The plugin's variables of a stand-alone VM."""
    return {
        "azure_id": f"/subscriptions/s/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}",
        "azure_vmss_id": None,
        "azure_tags": {"hpcai_cluster": "sim"},
    }


def with_attacker(role: str = "controller", group: str = "lab", **changes: Any) -> dict[str, Any]:
    """The good inventory, and a VM of somebody else that has a role by its tag."""
    inventory = with_report(**changes)
    children = inventory["all"]["children"]
    children["hpcai_controller"]["hosts"]["ctl"] = vm("hpcai", "ctl")
    children["hpcai_compute"]["hosts"]["compute-0"] = vm("hpcai", "compute-0")
    children.setdefault(f"hpcai_{role}", {"hosts": {}})["hosts"]["a-attacker"] = vm(group, "a-attacker")
    return inventory


NO_GROUPS = {"subscription_ids": ["s"], "resource_groups": [], "scale_sets": []}
OVERLAPPING = [{"id": "/x/virtualNetworks/hpc", "address_prefixes": ["172.16.8.0/21"]}]


@pytest.mark.daily(3)
@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        pytest.param(without("controller"), "No host is in the group hpcai_controller", id="no controller"),
        pytest.param(without("compute"), "No host is in the group hpcai_compute", id="no compute node"),
        pytest.param({"all": {"hosts": {"ctl": None}}}, "in the group hpcai_controller", id="no group at all"),
        pytest.param(two_clusters(), "The inventory contains several clusters: 'other' (other-0)", id="two clusters"),
        pytest.param(
            with_report(virtual_networks=OVERLAPPING),
            "(172.16.8.0/21) overlaps 172.16.0.0/16",
            id="overlapping network",
        ),
        pytest.param(
            with_report(complete=False, errors=["403 on compute"]),
            "The inventory of azure_vmss.yml is partial (403 on compute)",
            id="partial",
        ),
        pytest.param(
            with_attacker(),
            "Host a-attacker is in the group hpcai_controller, but belongs to resource group lab of subscription s",
            id="a controller of another resource group",
        ),
        pytest.param(
            with_attacker("login"),
            "Host a-attacker is in the group hpcai_login, but belongs to resource group lab",
            id="a login node of another resource group",
        ),
        pytest.param(
            with_attacker(group="HPCAI"),
            "The variable hpcai_controllers does not list a-attacker, ctl.",
            id="a second controller",
        ),
        pytest.param(
            with_attacker(scope=NO_GROUPS),
            "Add this line to it, and keep only groups that you trust: resource_groups: [hpcai, lab]",
            id="no resource groups",
        ),
    ],
)
def test_a_harmful_inventory_is_refused(ops: OpsRepository, inventory: dict[str, Any], words: str) -> None:
    ops.write("hosts.yml", inventory)
    assert_refused(ops, ops.run_site("-i", "hosts.yml"), words)


def test_a_failed_source_stops_the_run(ops: OpsRepository) -> None:
    ops.write("inventory/hosts.yml", GOOD)
    ops.write("inventory/azure_vmss.yml", {"plugin": "hpcai.azure.azure_vmss", "auth_source": "nonsense"})
    done = ops.run_site("-i", "inventory")
    assert_refused(ops, done, f"The inventory source {ops.folder}/inventory/azure_vmss.yml could not be read")


def test_a_limit_does_not_disable_the_guard(ops: OpsRepository) -> None:
    ops.write("hosts.yml", two_clusters())
    assert_refused(ops, ops.run_site("-i", "hosts.yml", "--limit", "hpcai_controller"), "contains several clusters")


@pytest.mark.daily(2)
@pytest.mark.parametrize(
    ("playbook", "arguments"),
    [
        ("retire", ("-e", "retire=compute-0")),
        ("replace", ()),
        ("rotate_munge_key", ()),
        ("uninstall", ("-e", "uninstall_confirm=true")),
        ("health_check", ()),
        ("health_pairs", ("-e", "hpcai_pairs=compute-0")),
        ("benchmark", ("-e", "hpcai_benchmark=gemm", "-e", "hpcai_benchmark_nodes=compute-0")),
        ("container_check", ("-e", "container_check_image=docker://alpine")),
    ],
)
def test_no_playbook_contacts_a_controller_of_another_resource_group(
    ops: OpsRepository, playbook: str, arguments: tuple[str, ...]
) -> None:
    ops.write("hosts.yml", with_attacker())
    done = ops.run(f"hpcai.azure.{playbook}", "-i", "hosts.yml", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Host a-attacker is in the group hpcai_controller" in " ".join(done.stdout.split())
    assert not ops.contacted


def test_no_image_is_baked_from_a_machine_of_another_resource_group(ops: OpsRepository) -> None:
    ops.write("hosts.yml", with_attacker("image"))
    done = ops.run("hpcai.azure.image", "-i", "hosts.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Host a-attacker is in the group hpcai_image, but belongs to resource group lab" in " ".join(
        done.stdout.split()
    )
    assert not ops.contacted


def test_several_controllers_are_accepted_if_the_user_lists_them(ops: OpsRepository) -> None:
    ops.write("hosts.yml", with_attacker(group="hpcai"))
    done = ops.run_site("-i", "hosts.yml", "-e", '{"hpcai_controllers": ["ctl", "a-attacker"]}')
    assert ops.contacted, done.stdout + done.stderr


def test_hosts_of_a_good_inventory_are_contacted(ops: OpsRepository) -> None:
    ops.write("hosts.yml", GOOD)
    done = ops.run_site("-i", "hosts.yml")
    assert ops.contacted, done.stdout + done.stderr
    assert "Reach the nodes" in done.stdout
    assert done.returncode != 0
