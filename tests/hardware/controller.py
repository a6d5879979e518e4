# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs Ansible tasks on the emulated machine, and returns their results."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hardware.vm import HOST, Machine

REPOSITORY = Path(__file__).resolve().parents[2]
CALLBACKS = REPOSITORY / "tests/callback"
LIMIT_S = 240


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a module."""

    failed: bool
    changed: bool
    msg: str
    data: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """A value that the module returned."""
        return self.data[name]


@dataclasses.dataclass(frozen=True)
class Task:
    """A module with its options."""

    module: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    check: bool = False
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def play(machine: Machine, *tasks: Task) -> list[Result]:
    """Run tasks in one play, with diff, continuing after failures; returns one result per task.

    :raises RuntimeError: not all tasks ran.
    :raises EmulatorCrashed: the machine's emulator crashed meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="hpcai-play-") as name:
        folder = Path(name)
        steps = [
            {
                "name": f"Task {number}",
                f"hpcai.azure.{task.module}" if "." not in task.module else task.module: dict(task.options),
                "check_mode": task.check,
                "environment": dict(task.environment),
                "diff": True,
                "ignore_errors": True,
            }
            for number, task in enumerate(tasks)
        ]
        # Ansible reads YAML, and JSON is valid YAML.
        (folder / "play.yml").write_text(json.dumps([{"hosts": HOST, "gather_facts": False, "tasks": steps}]))
        (folder / "hosts.ini").write_text(f"{HOST} ansible_python_interpreter=/usr/bin/python3\n", encoding="utf-8")
        results = folder / "results"
        results.touch()
        callbacks = {
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "results",
            "HPCAI_RESULTS": str(results),
        }
        done = _ansible_playbook(machine, folder, LIMIT_S * len(tasks), callbacks)
        answers = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    if len(answers) != len(tasks) or any(answer["verdict"] == "unreachable" for answer in answers):
        machine.check()
        raise RuntimeError(
            f"Ansible ran {len(answers)} of {len(tasks)} tasks: {done.stdout[-3000:]}{done.stderr[-2000:]}"
        )
    return [_result(answer) for answer in answers]


def run_roles(machine: Machine, groups: Iterable[str], variables: Mapping[str, Any], *roles: str) -> str:
    """Apply roles, each as ``name`` or ``name/entry point``, as site.yml does; returns Ansible's output.

    :param groups: groups of the inventory that the machine is in.
    :raises RuntimeError: a task failed.
    :raises EmulatorCrashed: the machine's emulator crashed meanwhile.
    """
    tasks: list[dict[str, Any]] = [{"ansible.builtin.setup": {"gather_subset": ["min"]}}]
    for role in roles:
        name, _slash, entry = role.partition("/")
        tasks.append({"ansible.builtin.import_role": {"name": f"hpcai.azure.{name}", "tasks_from": entry or "main"}})
    with tempfile.TemporaryDirectory(prefix="hpcai-roles-") as name:
        folder = Path(name)
        play_of_roles = {"hosts": HOST, "gather_facts": False, "tasks": tasks}
        (folder / "play.yml").write_text(json.dumps([play_of_roles]), encoding="utf-8")
        # Host variables, as the inventory plugin sets them: roles read variables of other hosts, too.
        (folder / "host_vars").mkdir()
        (folder / f"host_vars/{HOST}.yml").write_text(json.dumps(dict(variables)), encoding="utf-8")
        lines = [f"{HOST} ansible_python_interpreter=/usr/bin/python3"]
        for group in groups:
            lines += [f"[{group}]", HOST]
        (folder / "hosts.ini").write_text("\n".join([*lines, ""]), encoding="utf-8")
        done = _ansible_playbook(machine, folder, 2 * LIMIT_S * len(roles), {})
    if done.returncode:
        machine.check()
        raise RuntimeError(f"Ansible ended with {done.returncode}: {done.stdout[-6000:]}{done.stderr[-2000:]}")
    return done.stdout


def _ansible_playbook(
    machine: Machine, folder: Path, limit_s: float, more: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the play.yml of a folder on the machine, with the hosts.ini of the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".collections"),
        "ANSIBLE_SSH_ARGS": f"-F {machine.ssh_config}",
        "ANSIBLE_SSH_RETRIES": "0",
        "ANSIBLE_TIMEOUT": "60",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
        **more,
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return subprocess.run(
        [program, "-i", str(folder / "hosts.ini"), str(folder / "play.yml")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=limit_s,
        check=False,
    )


def module(machine: Machine, name: str, /, *, check: bool = False, **options: Any) -> Result:
    """Run one module."""
    return play(machine, Task(name, options, check))[0]


def _result(answer: Mapping[str, Any]) -> Result:
    data = answer["result"]
    return Result(
        failed=answer["verdict"] == "failed",
        changed=bool(data.get("changed")),
        msg=str(data.get("msg", "")),
        data=data,
    )
