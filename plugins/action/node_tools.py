# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends the node core to a node only if the installed hpcnode differs from what the module would install."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants as C

from ..module_utils._node.cli.main import NAMES
from ..modules.node_tools import SPEC
from ..plugin_utils._installed import Answer, InstalledAction


class ActionModule(InstalledAction):
    """hpcai.azure.node_tools."""

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        return SPEC

    def words(self, options: Mapping[str, Any]) -> list[str] | None:
        """``hpcnode tools check``. It checks the running machine only, so it is not used for an image below root."""
        # The arguments as written in the task, because a path with ~ or a variable differs between node and controller.
        given = self._task.args
        if options["state"] != "present" or given.get("root", "/") != "/":
            return None
        return ["tools", "check", *([f"--interpreter={given['interpreter']}"] if given.get("interpreter") else [])]

    def python(self, task_vars: Mapping[str, Any]) -> str | None:
        """Return the Python that would run the module, because the module installs hpcnode for it by default."""
        if self._task.delegate_to:
            return None
        setting = C.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        python = str(self._templar.template(setting) or "auto")
        if python.startswith("auto"):
            python = str(task_vars.get("ansible_facts", {}).get("discovered_interpreter_python") or "")
        return python if python.startswith("/") and not any(letter.isspace() for letter in python) else None

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result if nothing has to change, or None."""
        found = {name: value for name, value in answer.document.items() if name not in ("schema", "command", "status")}
        return None if found["changed"] else {**found, "commands": list(NAMES)}
