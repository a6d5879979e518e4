# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory that users copy works after they have set their subscription, resource group and cluster."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from .reading import REPOSITORY, Finished, Source, ansible

SHIPPED = REPOSITORY / "inventories" / "azure"
NAMES = ("ansible_ssh_common_args", "ansible_host", "ansible_user", "hpcai_jump_host")
PLACEHOLDER = "00000000-0000-0000-0000-000000000000"


def copy_of_shipped(folder: Path, subscription: str, cluster: str) -> Path:
    """A copy in which only these three settings are changed."""
    shutil.copytree(SHIPPED, folder)
    path = folder / "azure_vmss.yml"
    text = path.read_text(encoding="utf-8")
    assert text.count(PLACEHOLDER) == 1
    assert text.count("hpcai_cluster: training") == 1
    assert text.count("resource_groups:\n  - training\n") == 1
    text = text.replace("  - training\n", "  - hpcai-sim\n")
    text = text.replace(PLACEHOLDER, subscription)
    path.write_text(text.replace("hpcai_cluster: training", f"hpcai_cluster: {cluster}"), encoding="utf-8")
    return folder


@pytest.fixture
def ops(source: Source, tmp_path: Path) -> Path:
    """A user's repository."""
    return copy_of_shipped(tmp_path / "ops", source.simulator.subscription_id, "sim")


def variables(ops: Path, source: Source, **extra: str) -> dict[str, dict[str, str]]:
    """The connection variables of each host, as a task evaluates them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(source).items():
            patch.setenv(name, value)
        loader = DataLoader()
        inventory = InventoryManager(loader, sources=[str(ops / "azure_vmss.yml")])
    manager = VariableManager(loader, inventory)
    manager._extra_vars = extra
    HostVars(inventory, manager, loader)
    found = {}
    for host in inventory.get_hosts("azure_hosts"):
        templar = Templar(loader, variables=manager.get_vars(host=host))
        found[host.name] = {name: templar.template(trust_as_template(f"{{{{ {name} }}}}")) for name in NAMES}
    return found


def environment(source: Source) -> dict[str, str]:
    return {"HPCAI_AZURE_ENDPOINT": source.simulator.endpoint, "HPCAI_AZURE_TOKEN": source.simulator.token}


def run(ops: Path, source: Source, program: str, *arguments: str) -> Finished:
    return ansible(program, "-i", "azure_vmss.yml", *arguments, cwd=ops, env=environment(source))


def ssh_settings(arguments: str, host: str) -> dict[str, str]:
    """The settings that ssh derives from the arguments."""
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("no ssh client on this machine")
    done = subprocess.run(
        [ssh, "-G", "-F", "none", *shlex.split(arguments), host], capture_output=True, text=True, check=True
    )
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in done.stdout.splitlines() if " " in line}


def test_the_inventory_contains_only_the_cluster(ops: Path, source: Source) -> None:
    source.simulator.scale_set("flex").tags["hpcai_cluster"] = "other"

    finished = run(ops, source, "ansible-inventory", "--list")

    assert finished.hosts == {"ctl", "compute000000", "compute000003", "compute00000H"}
    groups = finished.json
    assert groups["hpcai_controller"]["hosts"] == ["ctl"]
    assert groups["hpcai_login"]["hosts"] == ["ctl"]
    assert len(groups["hpcai_compute"]["hosts"]) == 3


def test_the_unchanged_inventory_says_what_to_change(source: Source, tmp_path: Path) -> None:
    folder = tmp_path / "unchanged"
    shutil.copytree(SHIPPED, folder)

    finished = run(folder, source, "ansible-inventory", "--list")

    assert "subscription_ids: 00000000-0000-0000-0000-000000000000 is a placeholder" in " ".join(
        finished.stderr.split()
    )
    assert source.simulator.requests() == []


def test_other_nodes_are_reached_through_the_login_node(ops: Path, source: Source) -> None:
    login = source.simulator.instance("ctl")
    node = source.simulator.instance("compute00000H")

    hosts = variables(ops, source)

    assert len(hosts) == 6
    direct, private = hosts["ctl"], hosts["compute00000H"]
    assert direct["ansible_host"] == login.public_ipv4
    assert private["ansible_host"] == node.private_ipv4
    assert direct["ansible_user"] == private["ansible_user"] == "azureuser"
    settings = ssh_settings(direct["ansible_ssh_common_args"], direct["ansible_host"])
    assert settings["hostkeyalias"] == login.vm_id
    assert settings["stricthostkeychecking"] == "accept-new"
    assert settings["userknownhostsfile"] == str(Path.home() / ".ssh/hpcai_known_hosts_sim")
    assert "proxycommand" not in settings
    settings = ssh_settings(private["ansible_ssh_common_args"], private["ansible_host"])
    assert settings["hostkeyalias"] == node.vm_id
    proxy = settings["proxycommand"]
    assert proxy.startswith("ssh -W %h:%p ")
    assert proxy.endswith(f" azureuser@{login.public_ipv4}")
    assert f"HostKeyAlias={login.vm_id}" in proxy
    assert "UserKnownHostsFile=~/.ssh/hpcai_known_hosts_sim" in proxy
    assert "StrictHostKeyChecking=accept-new" in proxy


def test_if_verified_keys_are_required_ssh_accepts_no_new_key(ops: Path, source: Source) -> None:
    hosts = variables(ops, source, hpcai_verify_host_keys="required")

    settings = ssh_settings(hosts["compute00000H"]["ansible_ssh_common_args"], "10.0.0.1")
    assert settings["stricthostkeychecking"] == "true"
    assert "StrictHostKeyChecking=yes" in settings["proxycommand"]


@pytest.mark.parametrize("chosen", ["", "compute000003"])
def test_the_jump_host_can_be_set(ops: Path, source: Source, chosen: str) -> None:
    hosts = variables(ops, source, hpcai_jump_host=chosen)

    settings = ssh_settings(hosts["compute000000"]["ansible_ssh_common_args"], "10.0.0.1")
    if chosen:
        assert settings["proxycommand"].endswith(f"@{source.simulator.instance(chosen).private_ipv4}")
    else:
        assert "proxycommand" not in settings
    assert "proxycommand" not in ssh_settings(hosts["compute000003"]["ansible_ssh_common_args"], "10.0.0.1")


def test_the_private_key_is_used_for_the_jump_host_too(ops: Path, source: Source) -> None:
    hosts = variables(ops, source, ansible_ssh_private_key_file="/keys/admin")

    proxy = ssh_settings(hosts["compute000000"]["ansible_ssh_common_args"], "10.0.0.1")["proxycommand"]
    assert " -i /keys/admin " in proxy


def test_without_a_login_node_there_is_no_jump_host(ops: Path, source: Source) -> None:
    source.simulator.edit("ctl", tags={"hpcai_cluster": "sim", "hpcai_role": "controller"})

    hosts = variables(ops, source)

    assert hosts["compute000000"]["hpcai_jump_host"] == ""
    assert "ProxyCommand" not in hosts["compute000000"]["ansible_ssh_common_args"]


def test_a_cluster_name_cannot_add_options_to_ssh(ops: Path, source: Source) -> None:
    hostile = "sim -o ProxyCommand=touch"
    for item in source.simulator.model.instances():
        source.simulator.edit(item.id, tags={**item.tags, "hpcai_cluster": hostile})
    for name in ("compute", "flex"):
        source.simulator.scale_set(name).tags["hpcai_cluster"] = hostile
    path = ops / "azure_vmss.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("hpcai_cluster: sim", f"hpcai_cluster: {hostile}"), encoding="utf-8")

    arguments = variables(ops, source)["ctl"]["ansible_ssh_common_args"]

    assert ssh_settings(arguments, "10.0.0.1")["userknownhostsfile"].endswith("sim_-o_ProxyCommand_touch")
    assert "proxycommand" not in ssh_settings(arguments, "10.0.0.1")
