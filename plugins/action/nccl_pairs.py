# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module in the background, and shows how many pairs of nodes are done."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils._background import Background


class ActionModule(ActionBase):
    """hpcai.azure.nccl_pairs."""

    TRANSFERS_FILES = False
    _supports_async = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start the module, and look how far it is until it ends."""
        base_result = super().run(tmp, task_vars)
        variables = task_vars or {}
        if self._task.check_mode or self._task.async_val:
            return {**base_result, **self._execute_module(task_vars=variables, wrap_async=self._task.async_val)}
        return {**base_result, **Background(self, variables, "nccl-pairs").run()}
