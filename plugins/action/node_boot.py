# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the steps of the boot phase with the node's hpcnode, if its code is identical to this collection's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._node.boot.engine import as_result
from ..modules.node_boot import SPEC
from ..plugin_utils._installed import Answer, InstalledAction


class ActionModule(InstalledAction):
    """hpcai.azure.node_boot."""

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        return SPEC

    def words(self, options: Mapping[str, Any]) -> list[str]:
        """``hpcnode boot run``."""
        check = ["--check"] if self._task.check_mode else []
        return ["boot", "run", *check, "--", *(options["steps"] or [])]

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result, a failure if a step keeps slurmd from starting."""
        return as_result(answer.document, answer.problems)
