# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_tools is sent to a node only if it has something to do there."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_ins import own_folders

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES, all_commands

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.thorough
@pytest.mark.parametrize("pipelining", [True, False])
def test_the_sent_module_installs_the_same_files_as_the_clone(
    ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path, pipelining: bool
) -> None:
    """From AnsiballZ's zip file, the module installs the same files as in the clone, and hpcnode works."""
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


CORE, UNITS, ENABLED = "/usr/lib/hpcai/lib/hpcai_node", "/usr/lib/systemd/system", "/etc/systemd/system"
OTHER_PYTHON = "/usr/lib/other-python"
IGNORED_CHANGES = [
    "echo '{}' > /etc/hpcai/node.json",
    f"ln -s /dev/null {ENABLED}/hpcai-scratch.service",
]
"""Changes by others that the module ignores."""
DAMAGES = [
    f"echo >> {CORE}/cli/main.py",
    f"rm {CORE}/health/engine.py",
    f"touch {CORE}/more.py",
    f"touch {CORE}/note.txt",
    f"chmod 0600 {CORE}/version.py",
    f"chown 1 {CORE}/version.py",
    f"rm -r {CORE}/__pycache__",
    "echo '{}' > /usr/lib/hpcai/lib/manifest.json",
    'cd /usr/lib/hpcai && ln -sfn "$(readlink -f lib)" lib',
    "mkdir /usr/lib/hpcai/wheels",
    "sed -i '1 s/ -I/ -I -s/' /usr/bin/hpcnode",
    "chmod 0700 /usr/bin/hpcnode",
    "rm /usr/bin/hpcnode",
    f"rm {UNITS}/hpcai-scratch.service",
    f"echo >> {UNITS}/hpcai-boot.target",
    f"rm {ENABLED}/hpcai-boot.target.wants/hpcai-scratch.service",
    f"ln -s {UNITS}/hpcai-boot.target {ENABLED}/slurmd.service.requires",
    "rm /usr/libexec/hpcai/prolog",
    "rm -r /etc/hpcai/prolog.d",
    "rm /usr/share/man/man1/hpcnode-stage.1",
    "echo >> /usr/share/bash-completion/completions/hpcnode",
]
"""Changes that the module repairs."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_the_module_is_sent_only_if_it_has_something_to_do(tmp_path: pathlib.Path) -> None:
    """Ansible's output names the module file that it uses; if there is none, the node's hpcnode has answered."""
    if os.geteuid():
        # The test mounts file systems over /etc, /usr and /var/lib.
        pytest.skip("only root can mount a file system over /usr")
    tasks: list[dict[str, Any]] = [{"ansible.builtin.raw": f"cp -L {sys.executable} {OTHER_PYTHON}"}]
    sent: list[bool] = []

    def task(is_sent: bool, damage: str = "", options: dict[str, str] | None = None, **keywords: Any) -> None:
        if damage:
            tasks.append({"ansible.builtin.raw": damage})
        tasks.append({"hpcai.azure.node_tools": options or {}, "register": f"answer{len(sent)}", **keywords})
        sent.append(is_sent)

    for is_first in (True, False):
        task(is_first)
    for change in IGNORED_CHANGES:
        task(False, change)
    for damage in DAMAGES:
        task(True, damage)
    # Two runs in check mode do not repair the damage, so the run after them must.
    for damage, check in (("echo >> /usr/bin/hpcnode", True), ("", True), ("", False)):
        task(True, damage, check_mode=check)
    task(False, check_mode=True)
    # Change the Python and back, with an option and with a variable; both select the Python and its bytecode.
    for options in ({"interpreter": OTHER_PYTHON}, {}):
        task(True, options=options)
    task(True, vars={"ansible_python_interpreter": OTHER_PYTHON})
    task(False, vars={"ansible_python_interpreter": OTHER_PYTHON})
    for options in ({}, {"state": "absent"}):
        task(True, options=options)

    answers = [f"answer{number}" for number in range(len(sent))]
    content = "{{ [" + ", ".join(answers) + "] | to_json }}"
    tasks.append({"ansible.builtin.copy": {"content": content, "dest": f"{tmp_path}/answers", "mode": "0600"}})
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
    play = {"hosts": "node", "gather_facts": False, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    # With -vvv, the output names the module files.
    done = own_folders.ansible_playbook(tmp_path, "-vvv", "-i", "hosts.yml", "play.yml", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "answers").read_text(encoding="utf-8"))
    shown = done.stdout.split("TASK [hpcai.azure.node_tools]")[1:]
    used = [re.search(r"^Using module file .*/node_tools[.]py$", words, re.MULTILINE) is not None for words in shown]
    assert list(zip(used, [result["changed"] for result in results], strict=True)) == [(one, one) for one in sent]
    first, again = results[:2]
    assert again == {
        **first,
        "changed": False,
        "written": [],
        "diff": {"before": "", "after": ""},
    }
