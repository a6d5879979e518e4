# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with GPUs, simulated on this machine: its namespaces hide the real /sys, /etc and network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from stand_ins.sized_machine import SizedMachine

REPOSITORY = Path(__file__).resolve().parents[2]

# Writes below these folders go to a file system in memory, which disappears with the namespace.
_ENTER = """\
set -e
mount -t tmpfs tmpfs "$1/above"
for folder in etc opt run usr/local var/lib; do
    above="$1/above/$folder"
    mkdir -p "$above/upper" "$above/work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$above/upper,workdir=$above/work" "/$folder"
done
mount --bind "$1/sys" /sys
rm -rf /etc/hpcai /etc/nccl.conf /etc/enroot /var/lib/hpcai /run/hpcai
echo ready
exec sleep 600
"""
_HPCNODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from _node.cli.main import main; sys.exit(main())"


class PlayedNode:
    """The node, on which commands and playbooks run."""

    def __init__(self, folder: Path, size: str, role: str) -> None:
        self.folder, self.role = folder, role
        self.environment: dict[str, str] = {}
        # Whether to gather the facts that site.yml gathers; most roles need none.
        self.minimal_facts = False
        self.tree = SizedMachine.of_size(folder, size)
        (folder / "above").mkdir()
        # The node has no network, so it cannot reach a real metadata service.
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", _ENTER, "node", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout
        if self._holder.stdout.readline() != "ready\n":
            self.end()
            pytest.skip("this machine cannot mount an overlay in a namespace")

    def end(self) -> None:
        """End the node."""
        self._holder.kill()
        self._holder.communicate()

    def run(self, *command: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the node."""
        return subprocess.run(
            ["nsenter", "--target", str(self._holder.pid), "--mount", "--net", f"--wd={self.folder}", *command],
            env={**os.environ, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )

    def hpcnode(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Run hpcnode on the node and return its exit status and output."""
        core = str(REPOSITORY / "plugins/module_utils")
        done = self.run(sys.executable, "-I", "-c", _HPCNODE, core, *arguments, "--json", check=False)
        return done.returncode, json.loads(done.stdout)

    def play(self, entry_point: str, *options: str, **variables: Any) -> dict[str, int]:
        """Run the role on the node, which must succeed, and return Ansible's counts."""
        done = self.try_to_play(entry_point, *options, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        counts = done.stdout[done.stdout.rindex("node ") :].split()[2:]
        return {name: int(number) for name, _equals, number in (count.partition("=") for count in counts)}

    def try_to_play(self, entry_point: str, *options: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run the role on the node and return the finished process."""
        imported = {"name": f"hpcai.azure.{self.role}", "tasks_from": entry_point}
        task = {"name": "Role", "ansible.builtin.import_role": imported}
        facts = {"gather_facts": self.minimal_facts, "gather_subset": ["min"]}
        play = {"name": "Role", "hosts": "node", **facts, "tasks": [task]}
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"all": {"hosts": {"node": {**local, **variables}}}}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        (self.folder / "ansible.cfg").touch()
        return self.run(
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            "hosts.yml",
            "play.yml",
            *options,
            check=False,
            ANSIBLE_CONFIG=str(self.folder / "ansible.cfg"),
            ANSIBLE_COLLECTIONS_PATH=str(REPOSITORY / ".collections"),
            ANSIBLE_HOME=str(self.folder / ".ansible"),
            ANSIBLE_NOCOLOR="1",
        )

    def text(self, path: str) -> str | None:
        """Return a file's content, or None if there is no such file."""
        done = self.run("cat", path, check=False)
        return done.stdout if done.returncode == 0 else None

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"', "write", path, text)

    def files(self) -> dict[str, str]:
        """Return the digests of all files written on the node, by path."""
        above = self.run("find", str(self.folder / "above"), "-path", "*/upper/*", "-type", "f", "-size", "+0")
        paths = [path for path in above.stdout.split("\n") if path and ".ansible" not in path]
        digests = self.run("sha256sum", *paths).stdout.splitlines() if paths else []
        return {line.split("/above/", 1)[1].replace("/upper", "", 1): line.split()[0] for line in digests}
