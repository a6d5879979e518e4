# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The munge key stays out of what Ansible prints, compares and keeps, and out of runs that are none of its business."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
TASKS = REPOSITORY / "roles/slurm/tasks"
# What has the key in its arguments or its answer, and what stands for it in a template.
CARRIERS = ("ansible.builtin.copy", "ansible.builtin.slurp")
WORDS = ("/munge/munge.key", "/hpcai/munge.key", "__slurm_key.", "__slurm_credential")
# A drop-in that names the file.
HARMLESS = ("Start munge only if it has a key",)


def tasks_of(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tasks, those in blocks too."""
    found = []
    for task in content:
        found += tasks_of([*task.get("block", []), *task.get("rescue", []), *task.get("always", [])]) or [task]
    return found


def loaded(path: pathlib.Path) -> list[dict[str, Any]]:
    """A file's tasks."""
    return tasks_of(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_no_task_that_carries_the_key_is_logged_or_compared() -> None:
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


def test_no_digest_of_the_key_is_taken() -> None:
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
    """Which part of the role runs on which hosts, in their order."""
    return [
        (play["hosts"], task["ansible.builtin.import_role"]["tasks_from"])
        for play in plays
        for task in play["tasks"]
        if "ansible.builtin.import_role" in task
    ]


def test_slurmctld_rests_before_any_key_is_swapped_and_runs_after_the_last(plays: list[dict[str, Any]]) -> None:
    everybody = "hpcai_controller:hpcai_login:hpcai_compute"
    assert steps_of(plays) == [
        (everybody, "rotate_look"),
        ("hpcai_controller", "rotate_controller"),
        ("hpcai_login:hpcai_compute:hpcai_controller", "rotate_machine"),
        ("hpcai_controller", "rotate_nodes"),
    ]
    rests, *_others = loaded(TASKS / "rotate_controller.yml")
    assert rests["hpcai.azure.daemon"] == {"name": "slurmctld", "state": "stopped", "enabled": True}


def test_a_controller_that_cannot_have_the_key_gets_its_slurmctld_back() -> None:
    (swap,) = yaml.safe_load((TASKS / "rotate_controller.yml").read_text(encoding="utf-8"))
    first, last = swap["rescue"]
    assert first["hpcai.azure.daemon"] == {"name": "slurmctld"}
    assert "ansible.builtin.fail" in last


def test_looking_changes_nothing() -> None:
    for task in loaded(TASKS / "rotate_look.yml"):
        assert task.get("check_mode") is True or "ansible.builtin.assert" in task


def test_slurmctld_is_only_asked_about_nodes_if_there_are_any() -> None:
    starts, _waits, ask, *_others = loaded(TASKS / "rotate_nodes.yml")
    assert starts["hpcai.azure.daemon"] == {"name": "slurmctld"}
    assert ask["when"] == "slurm_keep_out | union(slurm_put_to_work) | length > 0"
