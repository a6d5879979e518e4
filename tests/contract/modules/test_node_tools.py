# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_tools as Ansible sends it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES, all_commands

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("pipelining", [True, False])
def test_as_ansible_sends_it(ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path, pipelining: bool) -> None:
    """From AnsiballZ's zip file on the ansible-core at hand; what it installs is what a clone has, and it works."""
    root = tmp_path / "root"
    root.mkdir()
    task = {"hpcai.azure.node_tools": {"root": str(root)}, "register": "answer"}
    show = {"content": "{{ answer | to_json }}", "mode": "0600"}
    tasks = [task, {"ansible.builtin.copy": {**show, "dest": f"{tmp_path}/first"}}]
    tasks += [task, {"ansible.builtin.copy": {**show, "dest": f"{tmp_path}/second"}}]
    play = {"hosts": "node", "gather_facts": False, "tasks": tasks}
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    done = ansible_playbook(
        tmp_path,
        "-i",
        "hosts.yml",
        "play.yml",
        ANSIBLE_PIPELINING=str(pipelining),
        ANSIBLE_KEEP_REMOTE_FILES=str(not pipelining),
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("first", "second"))
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["commands"] == list(NAMES)
    installed, core = root / "usr/lib/hpcai/lib/hpcai_node", REPOSITORY / "plugins/module_utils/_node"
    assert {path.relative_to(installed): path.read_bytes() for path in installed.rglob("*.py")} == {
        path.relative_to(core): path.read_bytes() for path in core.rglob("*.py")
    }
    environment = {"PATH": "/usr/bin:/bin"}

    def hpcnode(*words: str) -> str:
        command = [str(root / "usr/bin/hpcnode"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert all(command.summary[:20] in hpcnode("--help") for command in all_commands())
    assert json.loads(hpcnode("sku", "ND96asr_v4", "--json"))["vm_size"] == "Standard_ND96asr_v4"
