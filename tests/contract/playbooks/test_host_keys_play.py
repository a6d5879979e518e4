# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every playbook checks the inventory and verifies host keys before it contacts a host."""

from __future__ import annotations

import pathlib
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

PLAYBOOKS = sorted((pathlib.Path(__file__).resolve().parents[3] / "playbooks").glob("*.yml"))
# They ask Azure only, and contact no machine.
WITHOUT_MACHINES = ("preflight.yml", "provision.yml")
STEP = "tasks/before_contact.yml"
INVENTORY: dict[str, Any] = {
    "all": {
        "children": {"hpcai_controller": {"hosts": {"ctl": None}}, "hpcai_compute": {"hosts": {"compute-0": None}}},
        "vars": {"hpcai_connect_timeout": 1},
    }
}


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: str(path.name))
def test_the_step_comes_before_the_first_contact(playbook: pathlib.Path) -> None:
    plays = yaml.safe_load(playbook.read_text(encoding="utf-8"))
    if playbook.name in WITHOUT_MACHINES:
        assert {play["hosts"] for play in plays} == {"localhost"}
        return
    first = plays[0]
    assert first["gather_facts"] is False
    assert not {"roles", "pre_tasks"} & first.keys()
    before = []
    for task in first["tasks"]:
        if task.get("ansible.builtin.import_tasks") == STEP:
            break
        before.append(task)
    else:
        pytest.fail(f"{playbook.name} does not import {STEP}")
    step = yaml.safe_load((playbook.parent / STEP).read_text(encoding="utf-8"))
    assert "hpcai.azure.vm_host_keys" in step[-1]
    # An assert contacts no host.
    assert len(step) > 1
    assert all("ansible.builtin.assert" in task for task in [*before, *step[:-1]])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("yes", "hpcai_verify_host_keys must be available, required or never, not yes."),
        ("required", "hpcai_known_hosts, so their keys cannot be verified: compute-0, ctl."),
    ],
)
def test_no_host_is_contacted_if_keys_cannot_be_verified_as_required(
    tmp_path: pathlib.Path,
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]],
    value: str,
    words: str,
) -> None:
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(INVENTORY), encoding="utf-8")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch '{tmp_path}/contacted'\nexit 255\n", encoding="utf-8")
    ssh.chmod(stat.S_IRWXU)

    done = ansible_playbook(
        *(tmp_path, "-i", "hosts.yml", "hpcai.azure.site", "-e", f"hpcai_verify_host_keys={value}"),
        ANSIBLE_SSH_EXECUTABLE=str(ssh),
    )

    assert done.returncode == 2, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())
    assert not (tmp_path / "contacted").exists()
