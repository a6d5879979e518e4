# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the role slurm tells running nodes to fetch their configuration again."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


def held(**answer: Any) -> dict[str, Any]:
    """What was found where slurmd of a node keeps its configuration."""
    return {"__slurm_held": {"stat": answer}}


NODES = {
    "fresh": held(exists=False),
    "outdated": held(exists=True, checksum="of an older file"),
}


@pytest.mark.parametrize(
    ("put_to_work", "told"),
    [
        (["fresh"], False),
        (["fresh", "outdated"], True),
    ],
)
def test_only_nodes_that_hold_an_older_configuration_are_told(
    ansible_playbook: AnsiblePlaybook, tmp_path: pathlib.Path, put_to_work: list[str], told: bool
) -> None:
    scontrol = tmp_path / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n', encoding="utf-8")
    scontrol.chmod(stat.S_IRWXU)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {"ctl": None, **NODES}, "vars": local}}
    push = {
        "name": "Push",
        "ansible.builtin.include_role": {"name": "hpcai.azure.slurm", "tasks_from": "push"},
        "vars": {"slurm_put_to_work": put_to_work},
    }
    play = {"name": "Push", "hosts": "ctl", "gather_facts": False, "tasks": [push]}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (tmp_path / "push.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    path = f"{scontrol.parent}:{os.environ['PATH']}"
    done = ansible_playbook(tmp_path, "-i", "hosts.yml", "push.yml", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    commands = (tmp_path / "told").read_text(encoding="utf-8") if (tmp_path / "told").exists() else ""
    assert commands == ("reconfigure\n" if told else "")
