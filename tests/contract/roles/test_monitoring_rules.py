# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role monitoring gives Prometheus the rules of the inventory, and removes all others.

The tasks run on this machine in a mount namespace, where changes go to a file system in memory.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from stand_ins import own_folders
from stand_ins.monitor import program

from .conftest import LOCAL

FOLDER = "/etc/hpcai/monitoring/rules"
FACTS = {"architecture": "x86_64", "pkg_mgr": "apt", "distribution": "Debian", "distribution_major_version": "13"}
RULES = {"groups": [{"name": "own", "rules": [{"alert": "Own", "expr": "vector(1)"}]}]}

Play = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Play:
    """Set up these rules one after the other, show the folder after each, and return what Ansible printed."""
    promtool = program("promtool")

    def run(*given: Sequence[str]) -> subprocess.CompletedProcess[str]:
        tasks: list[dict[str, Any]] = [
            {"ansible.builtin.group": {"name": "prometheus"}},
            {"ansible.builtin.file": {"path": FOLDER, "state": "directory"}},
        ]
        for rules in given:
            for rule in rules:
                (tmp_path / rule).parent.mkdir(exist_ok=True)
                (tmp_path / rule).write_text(yaml.safe_dump(RULES), encoding="utf-8")
            included = {"name": "hpcai.azure.monitoring", "tasks_from": "rules.yml"}
            paths = [str(tmp_path / rule) for rule in rules]
            tasks += [
                {"ansible.builtin.include_role": included, "vars": {"monitoring_rules": paths}},
                {"ansible.builtin.command": {"argv": ["ls", FOLDER]}, "register": "found", "changed_when": False},
                {"ansible.builtin.debug": {"msg": "FOUND {{ found.stdout_lines | join(' ') }} END"}},
            ]
        content = [{"hosts": "node", "gather_facts": False, "tasks": tasks}]
        (tmp_path / "play.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        node = {**LOCAL, "ansible_facts": FACTS}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
        (tmp_path / "more.yml").write_text(
            yaml.safe_dump({"__monitoring_programs": {"promtool": promtool}}), encoding="utf-8"
        )
        return own_folders.ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", "-e", "@more.yml")

    return run


def test_rules_that_left_the_inventory_are_removed(play: Play) -> None:
    done = play(["site.yml", "own/more.yml"], ["site.yml"], ["site.yml"])
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [part.partition(" END")[0] for part in done.stdout.split("FOUND ")[1:]]
    own = "hpcai-health.rules.yml hpcai.rules.yml"
    assert shown == [f"{own} more.yml site.yml", f"{own} site.yml", f"{own} site.yml"]
    again = done.stdout.split("FOUND ")[2]
    assert "changed: [node]" not in again, "the third run changes nothing"


@pytest.mark.parametrize(
    "rules",
    [["site.yaml"], ["site.rules"], [".site.yml"], ["hpcai.rules.yml"], ["a/site.yml", "b/site.yml"]],
    ids=["yaml", "rules", "hidden", "ours", "twice"],
)
def test_a_file_that_prometheus_would_not_read_is_refused(play: Play, rules: list[str]) -> None:
    done = play(rules)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "The names of the files must end in .yml" in " ".join(done.stdout.split())
    assert "Copy the rules" not in done.stdout
