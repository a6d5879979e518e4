# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role slurm makes running nodes fetch their configuration again only if it is outdated."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from .conftest import LOCAL

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


PRESENT = {"slurm.conf": "the present one", "gres.conf": "the present one"}


def holding(**files: str) -> dict[str, Any]:
    """The result of the module slurmd for a node with these files."""
    return {"__slurm_slurmd": {"node": {"held": files}}}


NODES = {
    "fresh": holding(),
    "present": holding(**PRESENT),
    "outdated": holding(**{**PRESENT, "gres.conf": "an older one"}),
    "lacking": holding(**{"slurm.conf": "the present one"}),
    # The module slurmd did not run on it: it is no compute node of this run.
    "unseen": {"__slurm_slurmd": {"skipped": True}},
}


PUT_TO_WORK = {
    "nothing older": ["fresh", "present", "unseen"],
    "one outdated": ["fresh", "outdated"],
    "one lacking": ["lacking"],
}


def push(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """A play for a case, whose scontrol logs its arguments to a file with the case's name."""
    task = {
        "name": "Push",
        "ansible.builtin.include_role": {"name": "hpcai.azure.slurm", "tasks_from": "push"},
        "vars": {"slurm_put_to_work": PUT_TO_WORK[name], "slurm_controller": "ctl"},
    }
    # As if the controller had registered it.
    facts = {"__slurm_slurmctld": {"for_slurmd": {"files": PRESENT}}}
    return {
        "name": name,
        "hosts": "ctl",
        "gather_facts": False,
        "environment": {"LOG": f"{folder}/{name}"},
        "tasks": [{"name": "Remember", "ansible.builtin.set_fact": facts}, task],
    }


@pytest.fixture(scope="module")
def scontrol_calls(ansible_playbook: AnsiblePlaybook, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The arguments of scontrol in each case."""
    folder = tmp_path_factory.mktemp("push")
    scontrol = folder / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text('#!/bin/sh\necho "$@" >> "$LOG"\n', encoding="utf-8")
    scontrol.chmod(stat.S_IRWXU)
    inventory = {"all": {"hosts": {"ctl": None, **NODES}, "vars": LOCAL}}
    plays = [push(name, folder) for name in PUT_TO_WORK]
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (folder / "push.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
    path = f"{scontrol.parent}:{os.environ['PATH']}"
    done = ansible_playbook(folder, "-i", "hosts.yml", "push.yml", PATH=path, ANSIBLE_PIPELINING="true")
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: (folder / name).read_text("utf-8") for name in PUT_TO_WORK if (folder / name).exists()}


def test_only_nodes_with_an_older_configuration_cause_a_reconfigure(scontrol_calls: dict[str, str]) -> None:
    assert scontrol_calls == {"one outdated": "reconfigure\n", "one lacking": "reconfigure\n"}
