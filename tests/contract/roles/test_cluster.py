# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role cluster writes settings of their cluster for machines, and refuses invalid settings."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import (
    ClusterSettings,
    cluster_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from .conftest import LOCAL

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
VAULT = {"hpcai_key_source": "key_vault", "hpcai_key_vault": "https://training-keys.vault.azure.net/"}
CLUSTER: dict[str, Any] = {
    "all": {
        "vars": LOCAL,
        "hosts": {"stranger": {}},
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {"azure_private_ipv4": "10.77.0.4", "ansible_host": "203.0.113.4"}}},
            "hpcai_login": {"hosts": {"ctl": {}}},
            "hpcai_compute": {"hosts": {"node": {"azure_tags": {"hpcai_cluster": "golden"}}}},
        },
    }
}
REFUSED = {
    "no url": {**VAULT, "hpcai_key_vault": "training-keys"},
    "no vault": {**VAULT, "hpcai_key_vault": ""},
    "no name": {"hpcai_cluster_name": "two words"},
}


def play(folder: pathlib.Path, name: str, hosts: str, variables: dict[str, Any]) -> dict[str, Any]:
    """A play in which the role writes below FOLDER/NAME/HOST. If it refuses, the next play continues."""
    [task] = yaml.safe_load((REPOSITORY / "roles/cluster/tasks/configure.yml").read_text(encoding="utf-8"))
    copy = task["ansible.builtin.copy"]
    copy["dest"] = f"{folder}/{name}/{{{{ inventory_hostname }}}}{copy['dest']}"
    del copy["owner"], copy["group"]
    for host in ("ctl", "node", "stranger"):
        (folder / name / host / "etc/hpcai").mkdir(parents=True)
    return {
        "name": name,
        "hosts": hosts,
        "gather_facts": False,
        "vars": variables,
        "roles": ["hpcai.azure.cluster"],
        "post_tasks": [{**task, "tags": "write", "ignore_errors": name in REFUSED}],
    }


def write(
    ansible_playbook: AnsiblePlaybook, folder: pathlib.Path, plays: list[dict[str, Any]], inventory: dict[str, Any]
) -> str:
    """Run plays, and return Ansible's output."""
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (folder / "write.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    done = ansible_playbook(folder, "-i", "hosts.yml", "write.yml", "--tags", "write", ANSIBLE_PIPELINING="true")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def written(
    ansible_playbook: AnsiblePlaybook, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pathlib.Path, dict[str, str]]:
    """The folder that the role wrote to, and the error for each refused setting."""
    folder = tmp_path_factory.mktemp("cluster")
    plays = [
        play(folder, "plain", "all", {}),
        play(folder, "vault", "node", VAULT),
        *(play(folder, name, "node", variables) for name, variables in REFUSED.items()),
    ]
    output = write(ansible_playbook, folder, plays, CLUSTER)
    refusals = dict(re.findall(r"^PLAY \[([^]]+)\](?:\n|(?!PLAY).)*?\nfatal: (.*)", output, re.MULTILINE))
    return folder, refusals


Written = tuple[pathlib.Path, dict[str, str]]


def cluster_settings(folder: pathlib.Path) -> dict[str, ClusterSettings]:
    """The cluster settings of each machine."""
    found = {path.parents[2].name: cluster_of(Root(str(path.parents[2]))) for path in folder.glob("*/etc/hpcai/*.json")}
    return {host: cluster for host, cluster in found.items() if cluster}


def test_each_machine_gets_its_functions_and_its_controllers(written: Written) -> None:
    found = cluster_settings(written[0] / "plain")
    assert {host: (cluster.name, cluster.functions, cluster.controllers) for host, cluster in found.items()} == {
        "ctl": ("hpcai", ("controller", "login"), ("10.77.0.4",)),
        "node": ("golden", ("compute",), ("10.77.0.4",)),
        "stranger": ("hpcai", (), ("10.77.0.4",)),
    }
    assert {cluster.key.source for cluster in found.values()} == {"push"}
    file = written[0] / "plain/node/etc/hpcai/cluster.json"
    assert file.stat().st_mode & 0o777 == 0o644
    assert json.loads(file.read_text(encoding="utf-8"))["schema"] == 1


def test_the_settings_contain_the_vault_but_no_secret(written: Written) -> None:
    key = cluster_settings(written[0] / "vault")["node"].key
    assert (key.source, key.vault) == ("key_vault", "https://training-keys.vault.azure.net")


def test_without_a_controller_nothing_is_written(ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path) -> None:
    alone = {"all": {"vars": CLUSTER["all"]["vars"], "hosts": {"stranger": {}}}}
    output = write(ansible_playbook, tmp_path, [play(tmp_path, "alone", "all", {})], alone)
    assert "skipping: [stranger]" in output
    assert cluster_settings(tmp_path / "alone") == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no url", "'training-keys' is not the URL of a key vault"),
        ("no vault", "key lacks vault: key_vault requires the vault's URL"),
        ("no name", "cluster must be a text of letters, digits, '-', '_' and '.', not 'two words'"),
    ],
)
def test_invalid_settings_stop_the_run(written: Written, name: str, message: str) -> None:
    folder, refusals = written
    assert message in refusals[name]
    assert cluster_settings(folder / name) == {}
