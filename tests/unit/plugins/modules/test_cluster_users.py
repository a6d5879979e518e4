# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules cluster_users and compute_access: Ansible's side of them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import pam
from ansible_collections.hpcai.azure.plugins.modules import cluster_users, compute_access

from ..module_utils._node.setup.access.test_access import COMMON_SESSION, DEBIAN, LIBRARIES, no_output
from ..module_utils._node.setup.users.machine import Machine

RunModule = Callable[..., dict[str, Any]]
ALICE = {"name": "alice", "uid": 4001}


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with an ssh server, where an admin runs the module through sudo."""
    played = Machine(tmp_path)
    played.file("etc/pam.d/sshd", DEBIAN)
    played.file("etc/pam.d/common-session", COMMON_SESSION)
    for name in ("pam_listfile.so", "pam_slurm_adopt.so"):
        played.file(f"{LIBRARIES}/{name}", "")
    monkeypatch.setattr(cluster_users, "Root", lambda _path: played.root)
    monkeypatch.setattr(cluster_users, "run", played.run)
    monkeypatch.setattr(compute_access, "Root", lambda _path: played.root)
    monkeypatch.setattr(compute_access, "run", no_output)
    monkeypatch.setenv("SUDO_USER", "azureuser")
    return played


def test_creates_users_once_and_check_mode_predicts_it(machine: Machine, run_module: RunModule) -> None:
    options: dict[str, Any] = {"users": [ALICE], "homes": "never"}
    foreseen = run_module(cluster_users.main, check_mode=True, **options)
    assert machine.commands == []
    done = run_module(cluster_users.main, **options)
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert done["diff"]["after"].splitlines() == done["actions"]
    again = run_module(cluster_users.main, **options)
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], {})


def test_a_uid_conflict_fails_in_one_line(machine: Machine, run_module: RunModule) -> None:
    failed = run_module(cluster_users.main, users=[{"name": "carol", "uid": 1000}])
    assert failed["failed"] is True
    assert failed["msg"] == ("uid 1000 of user carol already belongs to user azureuser. Set another uid")
    assert machine.commands == []


def test_restricts_access_once_and_removes_the_restriction(machine: Machine, run_module: RunModule) -> None:
    options: dict[str, Any] = {"admins": ["azureuser"], "node_name": "compute-17"}
    foreseen = run_module(compute_access.main, check_mode=True, **options)
    assert machine.text("etc/pam.d/sshd") == DEBIAN
    done = run_module(compute_access.main, **options)
    assert (done["changed"], done["files"]) == (True, foreseen["files"])
    assert done["diff"] == foreseen["diff"]
    assert "action_adopt_failure=deny" in machine.text("etc/pam.d/sshd")
    assert run_module(compute_access.main, **options)["changed"] is False
    assert run_module(compute_access.main, state="absent")["changed"] is True
    assert machine.text("etc/pam.d/sshd") == DEBIAN
    assert run_module(compute_access.main, state="absent")["changed"] is False


def test_refuses_to_lock_out_the_user_who_runs_it(
    machine: Machine, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "carol")
    failed = run_module(compute_access.main, admins=["azureuser"])
    assert failed["failed"] is True
    assert "carol, who runs this, could not log in again" in failed["msg"]
    assert not (machine.folder / pam.ADMINS.lstrip("/")).exists()
