# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action node_tools: when it calls the node's hpcnode instead of the module, with which arguments and Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.action.node_tools import ActionModule
from ansible_collections.hpcai.azure.plugins.plugin_utils._installed import Answer


class Action(ActionModule):
    """The action of a task with these options."""

    def __init__(self, delegate_to: str = "", **options: str) -> None:
        self._task: Any = SimpleNamespace(args=options, delegate_to=delegate_to)
        self._templar: Any = SimpleNamespace(template=lambda text: text)

    def arguments(self) -> list[str] | None:
        """The arguments with which it would call hpcnode."""
        return self.words({"state": "present", **self._task.args})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["tools", "check"]),
        ({"root": "/"}, ["tools", "check"]),
        ({"interpreter": "/opt/python"}, ["tools", "check", "--interpreter=/opt/python"]),
        # Passed on unchanged: only the node can expand the variable.
        ({"interpreter": "$HOME/python"}, ["tools", "check", "--interpreter=$HOME/python"]),
        ({"state": "absent"}, None),
        ({"root": "/mnt/image"}, None),
        ({"root": "//"}, None),
    ],
)
def test_calls_hpcnode_only_for_the_running_machine(options: dict[str, str], words: list[str] | None) -> None:
    assert Action(**options).arguments() == words


@pytest.mark.parametrize(
    ("chosen", "discovered", "python"),
    [
        ("/opt/python", "/usr/bin/python3.11", "/opt/python"),
        ("auto", "/usr/bin/python3.11", "/usr/bin/python3.11"),
        ("auto_silent", "/usr/bin/python3.11", "/usr/bin/python3.11"),
        (None, "/usr/bin/python3.11", "/usr/bin/python3.11"),
        ("auto", None, None),
        ("/usr/bin/env python3", None, None),
        ("python3", None, None),
    ],
)
def test_calls_hpcnode_with_the_modules_python(chosen: str | None, discovered: str | None, python: str | None) -> None:
    facts = {"discovered_interpreter_python": discovered} if discovered else {}
    task_vars: dict[str, Any] = {"ansible_facts": facts}
    if chosen:
        task_vars["ansible_python_interpreter"] = chosen
    assert Action().python(task_vars) == python
    # A delegated task has the variables of another host.
    assert Action(delegate_to="other").python(task_vars) is None


def test_the_module_runs_if_something_would_change() -> None:
    document = {"schema": 1, "command": "tools", "status": 1, "changed": True, "written": ["/usr/bin/hpcnode"]}
    assert Action().result(Answer(document, []), {}) is None
