# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings that the role node_tools writes: in an image, and on a machine of a cluster."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog

from .conftest import LOCAL

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles/node_tools"
SIZES = {"Standard_ND2hpcai_v1": {"vcpus": 2}}
# The phases that a host goes through, and the variables that it has.
HOSTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "by_hand": (["install"], {"node_tools_vm_sizes": SIZES, "node_tools_vm_size": "Standard_ND2hpcai_v1"}),
    "known": (["install"], {"node_tools_vm_sizes": {}, "node_tools_vm_size": "Standard_ND96asr_v4"}),
    "configured": (
        ["install", "configure", "install"],
        {"node_tools_vm_sizes": SIZES, "node_tools_vm_size": "Standard_ND2hpcai_v1"},
    ),
    "skipping": (["install", "configure"], {"node_tools_boot_skip": ["fabric"], "node_tools_vm_sizes": {}}),
}
# Parameters of version 0.1.0. The role still accepts them, and ignores them.
REMOVED = {
    "node_tools_nvml_install": True,
    "node_tools_nvml": {"version": "13.615.71", "sha256": "0" * 64},
    "node_tools_nvml_wheel": "https://mirror.example.com/nvidia_ml_py-13.615.71-py3-none-any.whl",
    "node_tools_cache": "/var/cache/wheels",
}
Written = dict[str, list[dict[str, Any]]]


def tasks_that_write(name: str) -> list[dict[str, Any]]:
    """The tasks of a phase that write the node's settings."""
    listed = yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text(encoding="utf-8"))
    return [task for task in listed if task.get("ansible.builtin.copy", {}).get("dest") == "/etc/hpcai/node.json"]


def play(host: str, folder: pathlib.Path) -> dict[str, Any]:
    """A play that runs these tasks for the host's phases in a folder, and saves the settings after each phase."""
    phases, _variables = HOSTS[host]
    tasks: list[dict[str, Any]] = []
    for number, phase in enumerate(phases):
        (task,) = tasks_that_write(phase)
        copy = {**task["ansible.builtin.copy"], "dest": f"{folder}/{host}/node.json"}
        copy.pop("owner")
        copy.pop("group")
        tasks.append({**task, "ansible.builtin.copy": copy, "tags": "write"})
        keep = {"argv": ["cp", f"{folder}/{host}/node.json", f"{folder}/{host}/{number}"]}
        there = f"'{folder}/{host}/node.json' is exists"
        tasks.append({"ansible.builtin.command": keep, "when": there, "tags": "write"})
    role = {"role": "hpcai.azure.node_tools", **REMOVED}
    return {"hosts": host, "gather_facts": False, "roles": [role], "post_tasks": tasks}


@pytest.fixture(scope="module")
def written(
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Written:
    """The settings of each host after each of its phases."""
    folder = tmp_path_factory.mktemp("node_tools")
    for host in HOSTS:
        (folder / host).mkdir()
    inventory = {"all": {"vars": LOCAL, "hosts": {host: variables for host, (_phases, variables) in HOSTS.items()}}}
    plays = [play(host, folder) for host in HOSTS]
    (folder / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = ansible_playbook(folder, "-i", "hosts.yml", "play.yml", "--tags", "write", ANSIBLE_PIPELINING="true")
    assert done.returncode == 0, done.stdout + done.stderr
    copies = {host: [folder / host / str(number) for number in range(len(HOSTS[host][0]))] for host in HOSTS}
    return {
        host: [json.loads(copy.read_text("utf-8")) if copy.exists() else {} for copy in copies[host]] for host in HOSTS
    }


def test_an_image_has_described_sizes_but_no_size_of_its_own(written: Written) -> None:
    """Machines of this image get their size from the metadata service, and need its description."""
    assert written["by_hand"] == [{"schema": 1, "vm_sizes": SIZES}]


def test_an_image_without_described_sizes_has_no_settings(written: Written) -> None:
    assert written["known"] == [{}]


def test_install_does_not_overwrite_the_configured_size(written: Written) -> None:
    _baked, configured, again = written["configured"]
    assert configured == again == {"schema": 1, "vm_sizes": SIZES, "vm_size": "Standard_ND2hpcai_v1"}


def test_steps_are_skipped_in_images_and_clusters(written: Written) -> None:
    assert [settings["boot_skip"] for settings in written["skipping"]] == [["fabric"], ["fabric"]]


def test_the_steps_that_can_be_skipped_are_the_boot_steps() -> None:
    """Otherwise, the role would accept an unknown step, or refuse to skip an existing one."""
    specs = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    for entry in ("main", "install", "configure"):
        choices = specs[entry]["options"]["node_tools_boot_skip"]["choices"]
        assert tuple(choices) == catalog.NAMES
