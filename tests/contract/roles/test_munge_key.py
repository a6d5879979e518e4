# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible neither prints, compares nor stores the munge key, and the steps of its rotation are in the right order."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
TASKS = REPOSITORY / "roles/slurm/tasks"
# Modules that have the key in their arguments or results, and words that refer to it in a task.
CARRIERS = ("ansible.builtin.copy", "ansible.builtin.slurp")
WORDS = ("/munge/munge.key", "/hpcai/munge.key", "__slurm_key.", "__slurm_credential")
# This task writes a drop-in that only contains the path.
HARMLESS = ("Start munge only if it has a key",)


def tasks_of(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tasks, including those in blocks."""
    found = []
    for task in content:
        found += tasks_of([*task.get("block", []), *task.get("rescue", []), *task.get("always", [])]) or [task]
    return found


def loaded(path: pathlib.Path) -> list[dict[str, Any]]:
    """A file's tasks."""
    return tasks_of(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_no_task_with_the_key_is_logged_or_compared() -> None:
    carrying = [
        task
        for path in TASKS.glob("*.yml")
        for task in loaded(path)
        if any(name in task for name in CARRIERS)
        and any(word in str(task) for word in WORDS)
        and task["name"] not in HARMLESS
    ]
    assert len(carrying) >= 4
    assert [task["name"] for task in carrying if task.get("no_log") is not True] == []
    assert [task["name"] for task in carrying if "ansible.builtin.copy" in task and task.get("diff") is not False] == []


def test_no_task_computes_a_digest_of_the_key() -> None:
    for path in TASKS.glob("*.yml"):
        for task in loaded(path):
            assert not ("ansible.builtin.stat" in task and "munge.key" in str(task)), task["name"]


@pytest.fixture(scope="module")
def plays() -> list[dict[str, Any]]:
    """The plays of the rotation."""
    content: list[dict[str, Any]] = yaml.safe_load(
        (REPOSITORY / "playbooks/rotate_munge_key.yml").read_text(encoding="utf-8")
    )
    return content


def steps_of(plays: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The hosts and the tasks file of the role in each step, in order."""
    return [
        (play["hosts"], task["ansible.builtin.import_role"]["tasks_from"])
        for play in plays
        for task in play["tasks"]
        if "ansible.builtin.import_role" in task
    ]


def test_slurmctld_is_stopped_while_keys_are_replaced(plays: list[dict[str, Any]]) -> None:
    everybody = "hpcai_controller:hpcai_login:hpcai_compute"
    assert steps_of(plays) == [
        (everybody, "rotate_look"),
        ("hpcai_controller", "rotate_controller"),
        ("hpcai_login:hpcai_compute:hpcai_controller", "rotate_machine"),
        ("hpcai_controller", "rotate_nodes"),
    ]
    rests, *_others = loaded(TASKS / "rotate_controller.yml")
    assert rests["hpcai.azure.daemon"] == {"name": "slurmctld", "state": "stopped", "enabled": True}


def test_if_the_controllers_key_fails_slurmctld_starts_again() -> None:
    (swap,) = yaml.safe_load((TASKS / "rotate_controller.yml").read_text(encoding="utf-8"))
    first, last = swap["rescue"]
    assert first["hpcai.azure.daemon"] == {"name": "slurmctld"}
    assert "ansible.builtin.fail" in last


def test_the_first_step_of_a_rotation_changes_nothing() -> None:
    for task in loaded(TASKS / "rotate_look.yml"):
        assert task.get("check_mode") is True or "ansible.builtin.assert" in task


def test_slurmctld_is_queried_only_if_there_are_nodes() -> None:
    starts, _waits, ask, *_others = loaded(TASKS / "rotate_nodes.yml")
    assert starts["hpcai.azure.daemon"] == {"name": "slurmctld"}
    assert ask["when"] == "slurm_keep_out | union(slurm_put_to_work) | length > 0"
