# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role node_tools writes about a machine: into an image, and on a machine of a cluster."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]
Written = Callable[..., list[dict[str, Any]]]

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles/node_tools"
SIZES = {"Standard_ND2hpcai_v1": {"vcpus": 2}}


def tasks_that_write(name: str) -> list[dict[str, Any]]:
    """The tasks of a phase that write the node's settings."""
    listed = yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text(encoding="utf-8"))
    return [task for task in listed if task.get("ansible.builtin.copy", {}).get("dest") == "/etc/hpcai/node.json"]


@pytest.fixture
def written(ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path) -> Written:
    """Do those tasks of some phases, one after the other, in a folder; what stood there after each."""

    def play(*phases: str, **variables: Any) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = []
        for number, phase in enumerate(phases):
            (task,) = tasks_that_write(phase)
            copy = {**task["ansible.builtin.copy"], "dest": f"{tmp_path}/node.json"}
            copy.pop("owner")
            copy.pop("group")
            tasks.append({**task, "ansible.builtin.copy": copy})
            tasks.append({"ansible.builtin.shell": f"cp {tmp_path}/node.json {tmp_path}/{number} || true"})
        files = [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")]
        node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        text = [{"hosts": "all", "gather_facts": False, "vars_files": files, "vars": variables, "tasks": tasks}]
        (tmp_path / "play.yml").write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
        extra = json.dumps(variables)
        done = ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", "-e", extra)
        assert done.returncode == 0, done.stdout + done.stderr
        copies = [tmp_path / str(number) for number in range(len(phases))]
        return [json.loads(copy.read_text(encoding="utf-8")) if copy.exists() else {} for copy in copies]

    return play


def test_an_image_knows_sizes_described_by_hand_and_not_its_own(written: Written) -> None:
    """The machines that are made of it find their size by the metadata service, and need its description."""
    (baked,) = written("install", node_tools_vm_sizes=SIZES, node_tools_vm_size="Standard_ND2hpcai_v1")
    assert baked == {"schema": 1, "vm_sizes": SIZES}


def test_an_image_without_sizes_described_by_hand_knows_nothing(written: Written) -> None:
    assert written("install", node_tools_vm_sizes={}, node_tools_vm_size="Standard_ND96asr_v4") == [{}]


def test_what_is_configured_is_not_overwritten_by_what_would_be_baked(written: Written) -> None:
    size = "Standard_ND2hpcai_v1"
    after = written("install", "configure", "install", node_tools_vm_sizes=SIZES, node_tools_vm_size=size)
    assert after[1] == after[2] == {"schema": 1, "vm_sizes": SIZES, "vm_size": size}


def test_steps_are_left_out_in_images_and_clusters_alike(written: Written) -> None:
    after = written("install", "configure", node_tools_boot_skip=["fabric"], node_tools_vm_sizes={})
    assert [settings["boot_skip"] for settings in after] == [["fabric"], ["fabric"]]


def test_the_steps_that_can_be_left_out_are_those_there_are() -> None:
    """A misspelt one is refused; one that boot has and the role does not know could not be left out."""
    specs = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    for entry in ("main", "install", "configure"):
        choices = specs[entry]["options"]["node_tools_boot_skip"]["choices"]
        assert tuple(choices) == catalog.NAMES
