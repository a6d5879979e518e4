# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs health checks with the node's hpcnode, if its code is identical to this collection's.

The tier ``deep`` takes minutes, so it runs as a module in the background, and Ansible shows which check is running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._node.health.check import DEEP
from ..module_utils._node.health.perform import as_result
from ..modules.node_health_info import SPEC
from ..plugin_utils._background import Background
from ..plugin_utils._installed import Answer, InstalledAction


class ActionModule(InstalledAction):
    """hpcai.azure.node_health_info."""

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        return SPEC

    def words(self, options: Mapping[str, Any]) -> list[str] | None:
        """``hpcnode health run``, or None for a run that takes minutes."""
        if self._is_long(options):
            return None
        only = [f"--only={name}" for name in options["only"]]
        return ["health", "run", options["tier"], *only]

    def module(self, options: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the module, in the background if it takes minutes."""
        if self._is_long(options):
            return Background(self, task_vars, "health").run()
        return super().module(options, task_vars)

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result, a failure if the verdict is one of fail_on."""
        return as_result(answer.document, options["fail_on"])

    def _is_long(self, options: Mapping[str, Any]) -> bool:
        return options["tier"] == DEEP and not self._task.check_mode and not self._task.async_val
