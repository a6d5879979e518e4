# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role cluster tells machines about their cluster, and what it refuses to tell."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import cluster_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
VAULT = {"hpcai_key_source": "key_vault", "hpcai_key_vault": "https://training-keys.vault.azure.net/"}
CLUSTER: dict[str, Any] = {
    "all": {
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "hosts": {"stranger": {}},
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {"azure_private_ipv4": "10.77.0.4", "ansible_host": "203.0.113.4"}}},
            "hpcai_login": {"hosts": {"ctl": {}}},
            "hpcai_compute": {"hosts": {"node": {"azure_tags": {"hpcai_cluster": "golden"}}}},
        },
    }
}


@pytest.fixture
def written(ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path) -> Callable[..., dict[str, pathlib.Path]]:
    """Have the role write below a folder for each host, and return the folders of those that got a file."""

    def write(variables: dict[str, Any], inventory: Any = None) -> dict[str, pathlib.Path]:
        [task] = yaml.safe_load((REPOSITORY / "roles/cluster/tasks/configure.yml").read_text(encoding="utf-8"))
        copy = task["ansible.builtin.copy"]
        copy["dest"] = f"{tmp_path}/{{{{ inventory_hostname }}}}{copy['dest']}"
        del copy["owner"], copy["group"]
        task["tags"] = "write"
        for host in ("ctl", "node", "stranger"):
            (tmp_path / host / "etc/hpcai").mkdir(parents=True, exist_ok=True)
        play = {
            "name": "Write",
            "hosts": "all",
            "gather_facts": False,
            "vars": variables,
            "roles": ["hpcai.azure.cluster"],
            "post_tasks": [task],
        }
        (tmp_path / "hosts.yml").write_text(
            yaml.safe_dump(CLUSTER if inventory is None else inventory), encoding="utf-8"
        )
        (tmp_path / "write.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
        done = ansible_playbook(tmp_path, "-i", "hosts.yml", "write.yml", "--tags", "write")
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return {path.parents[2].name: path.parents[2] for path in tmp_path.glob("*/etc/hpcai/cluster.json")}

    return write


Written = Callable[..., dict[str, pathlib.Path]]


def test_each_machine_learns_what_it_does_and_where_its_controller_is(written: Written) -> None:
    roots = written({})
    found = {host: cluster_of(Root(str(root))) for host, root in roots.items()}
    assert {
        host: (cluster.name, cluster.functions, cluster.controllers) for host, cluster in found.items() if cluster
    } == {
        "ctl": ("hpcai", ("controller", "login"), ("10.77.0.4",)),
        "node": ("golden", ("compute",), ("10.77.0.4",)),
        "stranger": ("hpcai", (), ("10.77.0.4",)),
    }
    assert {cluster.key.source for cluster in found.values() if cluster} == {"push"}
    file = roots["node"] / "etc/hpcai/cluster.json"
    assert file.stat().st_mode & 0o777 == 0o644
    assert json.loads(file.read_text(encoding="utf-8"))["schema"] == 1


def test_a_vault_is_told_and_no_secret(written: Written) -> None:
    cluster = cluster_of(Root(str(written(VAULT)["node"])))
    assert cluster is not None
    assert (cluster.key.source, cluster.key.vault) == ("key_vault", "https://training-keys.vault.azure.net")


def test_without_a_controller_there_is_no_cluster(written: Written) -> None:
    assert written({}, {"all": {"vars": CLUSTER["all"]["vars"], "hosts": {"stranger": {}}}}) == {}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**VAULT, "hpcai_key_vault": "training-keys"}, "'training-keys' is not the URL of a key vault"),
        ({**VAULT, "hpcai_key_vault": ""}, "is missing: with key_vault it is the vault's URL"),
        ({"hpcai_cluster_name": "two words"}, "cluster of the cluster's settings is 'two words'"),
    ],
)
def test_what_a_node_could_not_use_stops_the_run(written: Written, variables: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        written(variables)
