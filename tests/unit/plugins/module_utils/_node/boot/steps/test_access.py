# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step access: on a compute node, only admins and users with a job can log in."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.access import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.vm_size import remember
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.options import AccessOptions
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import slurmd_env

from ...setup.users.machine import Machine

SSHD = "@include common-auth\n@include common-account\n@include common-session\n"
OPTIONS = AccessOptions(admin_groups=("sudo",), options=("action_no_jobs=deny",))


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    """A node that has joined, from an image that restricts logins."""
    machine = Machine(tmp_path)
    machine.file("etc/pam.d/sshd", SSHD)
    for name in ("pam_listfile.so", "pam_slurm_adopt.so"):
        machine.file(f"usr/lib/x86_64-linux-gnu/security/{name}", "")
    machine.file("etc/hpcai/slurmd.env", slurmd_env("compute-17", ["10.0.0.4"]))
    apply_all(plan.plan_for_boot(machine.root, OPTIONS).files)
    machine.file("etc/group", "nobody:x:65534:\nazureuser:x:1000:\n")
    remember(machine.root, {"vmSize": "Standard_ND96asr_v4", "osProfile": {"adminUsername": "azureuser"}})
    return machine


def perform(machine: Machine, check: bool = False) -> Outcome:
    """Do the step."""
    return STEP.perform(Context(machine.root, lambda command: Result(tuple(command), 0, "", ""), check))


def test_pam_slurm_adopt_gets_the_slurm_node_name(node: Machine) -> None:
    foreseen = perform(node, check=True)
    assert node.text("etc/pam.d/sshd") == SSHD
    done = perform(node)
    assert (done.verdict, done.changes) == (PASS, foreseen.changes)
    assert done.changes
    assert "pam_slurm_adopt.so nodename=compute-17 action_no_jobs=deny" in node.text("etc/pam.d/sshd")
    assert perform(node).changes == ()


def test_only_root_may_use_cron_and_at(node: Machine) -> None:
    perform(node)
    assert [node.text(f"etc/{name}.allow") for name in ("cron", "at")] == ["", ""]
    node.file("etc/cron.allow", "backup\n")
    perform(node)
    assert node.text("etc/cron.allow") == "backup\n"
    removed = plan.plan(
        node.root, dataclasses.replace(OPTIONS, present=False), lambda command: Result(tuple(command), 0, "", ""), False
    )
    apply_all(removed.files)
    assert node.text("etc/cron.allow") == "backup\n"
    assert not (node.folder / "etc/at.allow").exists()


def test_the_vm_admin_may_log_in_without_an_admin_group(node: Machine) -> None:
    perform(node)
    assert node.text("etc/hpcai/ssh_admins") == "azureuser\n"


@pytest.mark.parametrize("compute", [{}, {"osProfile": {"adminUsername": "notyet"}}])
def test_without_an_admin_the_step_fails_and_sshd_stays_unchanged(node: Machine, compute: dict[str, object]) -> None:
    # root does not count as an admin: nobody logs in to an Azure machine as root.
    apply_all(plan.plan_for_boot(node.root, dataclasses.replace(OPTIONS, admins=("root",))).files)
    remember(node.root, {"vmSize": "Standard_ND96asr_v4", **compute})
    done = perform(node)
    assert done.verdict == FAIL
    assert "users without a job could log in here" in done.summary
    assert node.text("etc/pam.d/sshd") == SSHD
    assert STEP.blocking


def test_a_login_node_is_skipped(node: Machine) -> None:
    settings = {"cluster": "a", "functions": ["login", "compute"], "controllers": ["10.0.0.4"], "key": None}
    node.file("etc/hpcai/cluster.json", as_config(settings))
    assert perform(node).verdict == SKIP
    node.file("etc/hpcai/cluster.json", as_config({**settings, "functions": ["compute"]}))
    assert perform(node).verdict == PASS


def test_is_skipped_without_settings_or_slurmd_env(node: Machine) -> None:
    (node.folder / "etc/hpcai/access.json").unlink()
    assert perform(node).verdict == SKIP
    (node.folder / "etc/hpcai/slurmd.env").unlink()
    assert perform(node).verdict == SKIP
    assert node.text("etc/pam.d/sshd") == SSHD
