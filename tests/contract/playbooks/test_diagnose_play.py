# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""diagnose.yml: the archives of the incident's nodes and of the controller become one, also if a node does not answer.

The machines' Python is a script that prints recorded results for the modules that would look at this machine, and runs
all other modules.
"""

from __future__ import annotations

import json
import pathlib
import shlex
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.archive import make_bundle
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.collect import Entry
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.item import Item, command

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]
Play = Callable[..., subprocess.CompletedProcess[str]]
FAULTY = {"compute-1": "hpcai: health: gpu_count: 7 of 8", "compute-2": "Not responding"}
SCRIPT = """\
#!/bin/sh
case "$*" in
*AnsiballZ_node_diag*) printf '%s' {diag} ;;
*AnsiballZ_command*) printf '%s' {command} ;;
*) exec {python} "$@" ;;
esac
"""


@pytest.fixture
def play(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> Play:
    """Run the playbook on a controller and three nodes, of which compute-2 does not answer and compute-3 is healthy."""
    hosts: dict[str, dict[str, Any]] = {}
    for name in ("ctl", "compute-1", "compute-2", "compute-3"):
        hosts[name] = {"ansible_connection": "local"}
        if name == "compute-2":
            hosts[name] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
            continue
        item = Item("cpu", "Processors", command("lscpu"))
        bundle = make_bundle(name, [Entry(item, f"text of {name}\n", 0, redacted=2)], 0.0, False, 1.0)
        archive = tmp_path / f"{bundle.name}.tar.gz"
        archive.write_bytes(bundle.data)
        made = {"changed": True, "path": str(archive), "names": {name: f"host-of-{name}"}, **bundle.summary()}
        answer = {"rc": 0, "changed": True, "stdout": json.dumps({"schema": 1, "status": 0, "nodes": FAULTY})}
        python = tmp_path / f"python-of-{name}"
        words = {"diag": json.dumps(made), "command": json.dumps(answer), "python": sys.executable}
        python.write_text(SCRIPT.format(**{key: shlex.quote(value) for key, value in words.items()}), encoding="utf-8")
        python.chmod(stat.S_IRWXU)
        hosts[name]["ansible_python_interpreter"] = str(python)
    children = {
        "hpcai_controller": {"hosts": {"ctl": hosts.pop("ctl")}},
        "hpcai_compute": {"hosts": hosts},
    }
    inventory = {"all": {"children": children, "vars": {"ansible_become": False}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        return ansible_playbook(
            tmp_path, "-i", "hosts.yml", "hpcai.azure.diagnose", "-e", json.dumps(variables), *arguments
        )

    return run


def archive_in(tmp_path: pathlib.Path) -> dict[str, str]:
    """The texts of the only archive, without its folder."""
    (path,) = (tmp_path / "diagnostics").glob("hpcai-incident-*.tar.gz")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as opened:
        files = {one.name.partition("/")[2]: opened.extractfile(one) for one in opened}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def test_the_nodes_of_the_incident_and_the_controller_are_in_one_archive(play: Play, tmp_path: pathlib.Path) -> None:
    done = play()
    # A node did not answer, so the archive is incomplete.
    assert done.returncode == 2, done.stdout + done.stderr
    parts = archive_in(tmp_path)
    assert parts["ctl/items/cpu.txt"] == "text of ctl\n"
    assert parts["compute-1/items/cpu.txt"] == "text of compute-1\n"
    assert not [name for name in parts if name.startswith("compute-3")]
    machines = json.loads(parts["index.json"])["machines"]
    assert machines["compute-1"]["reason"] == FAULTY["compute-1"]
    assert machines["compute-2"]["problem"] == "it could not be reached"
    assert 'href="compute-1/index.html"' in parts["index.html"]
    output = " ".join(done.stdout.split())
    assert "Step 3 of 3: join the archives" in output
    assert "compute-2: it could not be reached" in output
    # The archives on the machines are removed, and nothing else is left.
    assert not list(tmp_path.glob("hpcai-diag-c*[lt1]-1970*.tar.gz"))


def test_a_run_that_cannot_ask_slurmctld_says_so(play: Play, tmp_path: pathlib.Path) -> None:
    python = tmp_path / "python-of-ctl"
    answer = json.dumps({"rc": 1, "stdout": json.dumps({"schema": 1, "status": 1, "error": "slurmctld is down"})})
    lines = python.read_text(encoding="utf-8").splitlines()
    [asked] = [number for number, line in enumerate(lines) if "AnsiballZ_command" in line]
    lines[asked] = f"*AnsiballZ_command*) printf '%s' {shlex.quote(answer)} ;;"
    python.write_text("\n".join(lines), encoding="utf-8")
    done = play()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ctl/items/cpu.txt" in archive_in(tmp_path)
    output = " ".join(done.stdout.split())
    assert "only the controller was examined (slurmctld is down). To examine nodes, name them" in output


def test_named_machines_are_collected_and_names_stay_out(play: Play, tmp_path: pathlib.Path) -> None:
    done = play(hpcai_diagnose="compute-3", hpcai_diagnose_pseudonyms=True)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = archive_in(tmp_path)
    assert "compute-3/items/cpu.txt" in parts
    assert not [name for name in parts if name.startswith("compute-1")]
    (names,) = (tmp_path / "diagnostics").glob("*.names.json")
    assert json.loads(names.read_text())["compute-3"] == "host-of-compute-3"


def test_an_unknown_machine_is_refused(play: Play, tmp_path: pathlib.Path) -> None:
    done = play(hpcai_diagnose=["compute-9"])
    assert done.returncode == 2
    assert "there is no machine compute-9 in the inventory" in " ".join(done.stdout.split())
    assert not (tmp_path / "diagnostics").exists()
