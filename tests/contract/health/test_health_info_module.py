# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module on a node, packed by AnsiballZ: a check that was not packed would be missing."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

from stand_ins.played_node import REPOSITORY, PlayedNode

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog


def play(node: PlayedNode, tasks: list[dict[str, Any]]) -> str:
    """Run the tasks on the node, and return what Ansible shows, with each command."""
    (node.folder / "health.yml").write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), encoding="utf-8"
    )
    (node.folder / "ansible.cfg").touch()
    done = node.run(
        str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
        *("-vvv", "-i", "localhost,", "-c", "local"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "health.yml"),
        check=False,
        ANSIBLE_CONFIG=str(node.folder / "ansible.cfg"),
        ANSIBLE_COLLECTIONS_PATH=str(REPOSITORY / ".collections"),
        ANSIBLE_HOME=str(node.folder / ".ansible"),
        ANSIBLE_ASYNC_DIR=str(node.folder / ".ansible_async"),
        ANSIBLE_NOCOLOR="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_check_of_every_short_tier_is_packed_and_run(node: PlayedNode, tmp_path: pathlib.Path) -> None:
    tiers = ("prolog", "periodic", "epilog", "boot")
    results = {tier: tmp_path / f"{tier}.json" for tier in tiers}
    tasks: list[dict[str, Any]] = []
    for tier, file in results.items():
        tasks += [
            {"hpcai.azure.node_health_info": {"tier": tier}, "register": "checked"},
            {"ansible.builtin.copy": {"content": "{{ checked.health | to_json }}", "dest": str(file), "mode": "0600"}},
        ]
    shown = play(node, tasks)
    assert "localhost: check" not in shown
    for tier, file in results.items():
        health = json.loads(file.read_text(encoding="utf-8"))
        chosen = {check.name: check for check in catalog.select_checks(tier)}
        assert [check["name"] for check in health["checks"]] == list(chosen)
        defects = [check["summary"] for check in health["checks"] if "defect" in check["summary"]]
        assert defects == []


def test_the_deep_tier_shows_which_check_is_running(node: PlayedNode, tmp_path: pathlib.Path) -> None:
    node.write("/opt/dcgmi", '#!/bin/sh\nsleep 12\necho \'{"error": "no host engine"}\'\n')
    node.run("chmod", "755", "/opt/dcgmi")
    # Jobs of other tests may run on this machine.
    settings = {"schema": 1, "options": {"dcgm": {"program": "/opt/dcgmi", "while_busy": True}}}
    node.write("/etc/hpcai/health.json", json.dumps(settings))
    file = tmp_path / "deep.json"
    shown = play(
        node,
        [
            {"hpcai.azure.node_health_info": {"tier": "deep", "only": ["vm_size", "dcgm"]}, "register": "checked"},
            {"ansible.builtin.copy": {"content": "{{ checked | to_json }}", "dest": str(file), "mode": "0600"}},
        ],
    )
    assert shown.count("localhost: check 2 of 2: dcgm\n") == 1
    checked = json.loads(file.read_text(encoding="utf-8"))
    verdicts = {check["name"]: (check["verdict"], check["summary"]) for check in checked["health"]["checks"]}
    assert verdicts["vm_size"][0] == "pass"
    assert verdicts["dcgm"] == ("unknown", "dcgmi diag could not run: no host engine")
    assert {"changed", "failed", "health"} <= set(checked) <= {"changed", "failed", "health", "invocation", "warnings"}
    # The commands that read the progress name the folder.
    [folder] = set(re.findall(r"/tmp/hpcai-health-[0-9a-f]{32}\b", shown))
    assert not pathlib.Path(folder).exists()
