# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom a check of the deep tier would disturb."""

from __future__ import annotations

import os
import pathlib

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotTell
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import gemm
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import idle

from ..deep_playing import is_idle
from ..playing import context


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> MachineTree:
    """A machine with a GPU, and us on it."""
    is_idle(monkeypatch)
    tree = MachineTree(tmp_path).gpu("0001:00:00.0", 0)
    return tree.process(os.getpid(), "0", "python3", 50).process(50, "0", "bash", 1)


def disturbed(tree: MachineTree, **options: object) -> str:
    """Whom it would disturb, in words; nothing where it may go on."""
    try:
        idle.must_be_idle(context(tree, options={"gemm": options}), gemm.CHECK)
    except CannotTell as error:
        return str(error)
    return ""


def test_where_nobody_computes_nobody_is_disturbed(tree: MachineTree) -> None:
    tree.process(90, "0", "slurmd").process(91, "0", "slurmstepd", command="slurmstepd infinity")
    assert disturbed(tree) == ""


def test_a_job_is_disturbed_unless_it_is_the_one_that_checks(tree: MachineTree) -> None:
    tree.process(50, "0", "slurmstepd", 1, command="slurmstepd: [42.batch]")
    assert disturbed(tree) == ""
    tree.process(60, "0", "slurmstepd", 1, command="slurmstepd: [43.0]", uid=1001)
    assert disturbed(tree) == ""
    tree.process(60, "0", "slurmstepd", 1, command="slurmstepd: [43.0]")
    assert disturbed(tree).startswith("it would disturb job 43.0, which runs here")
    assert disturbed(tree, while_busy=True) == ""


def test_who_computes_on_a_gpu_is_disturbed(tree: MachineTree, monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch, {os.getpid(): ("0001:00:00.0",)})
    assert disturbed(tree) == ""
    is_idle(monkeypatch, dict.fromkeys(range(1, 6), ("0001:00:00.0",)))
    assert "(process 1, 2, 3, 4, 5):" in disturbed(tree)
    is_idle(monkeypatch, dict.fromkeys(range(1, 7), ("0001:00:00.0",)))
    assert "(process 1, 2, 3, 4, 5 and more):" in disturbed(tree)


def test_a_driver_that_does_not_say_is_not_taken_for_an_idle_one(
    tree: MachineTree, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(idle, "compute_processes", lambda _root: None)
    assert disturbed(tree).endswith("cannot be told: the driver does not say")
    assert disturbed(MachineTree(tmp_path / "without_gpus")) == ""
