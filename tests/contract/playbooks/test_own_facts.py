# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each host keeps its own facts.

ansible-core 2.21 lets all hosts share one store of facts when a task that registers facts runs once before any were
gathered (https://github.com/ansible/ansible/issues/87148): all hosts then have the facts of the host that answers last.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
REGISTER_FACTS = {f"ansible.builtin.{name}" for name in ("debug", "include_vars", "set_fact")}

HOSTS: dict[str, Any] = {
    "all": {
        "children": {"hpcai_controller": {"hosts": {"ctl": None}}, "hpcai_compute": {"hosts": {"compute-0": None}}},
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
    }
}
GATHER: dict[str, Any] = {
    "hosts": "all",
    "gather_facts": False,
    "environment": {"WHO": "{{ inventory_hostname }}"},
    "tasks": [
        {"ansible.builtin.setup": {"gather_subset": ["!all", "!min", "env"]}},
        {"ansible.builtin.assert": {"that": "ansible_facts['env'].WHO == inventory_hostname"}},
    ],
}


def test_each_host_has_its_own_facts_after_the_check_of_the_inventory(
    tmp_path: pathlib.Path, ansible_playbook: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    check, *_rest = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text(encoding="utf-8"))
    assert check["name"] == "Check the inventory"
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(HOSTS), encoding="utf-8")
    (tmp_path / "tasks").symlink_to(REPOSITORY / "playbooks/tasks")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([check, GATHER]), encoding="utf-8")

    done = ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Report the scale sets" in done.stdout


def tasks_in(content: Any) -> Iterator[dict[str, Any]]:
    """All mappings in plays, blocks and lists of tasks."""
    for entry in content or []:
        yield entry
        for key in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks_in(entry.get(key))


@pytest.mark.parametrize("part", ["playbooks", "roles"])
def test_no_task_that_registers_facts_runs_once(part: str) -> None:
    files = [path for path in (REPOSITORY / part).rglob("*.yml") if part == "playbooks" or path.parent.name == "tasks"]
    tasks = [(path, task) for path in files for task in tasks_in(yaml.safe_load(path.read_text(encoding="utf-8")))]
    assert any(task.get("run_once") for _path, task in tasks)
    assert [f"{path}: {task}" for path, task in tasks if task.get("run_once") and REGISTER_FACTS & task.keys()] == []
