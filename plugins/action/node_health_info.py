# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs health checks with the node's hpcnode, if its code is identical to this collection's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils._node.health.perform import as_result
from ..modules.node_health_info import SPEC
from ..plugin_utils._installed import Answer, InstalledAction


class ActionModule(InstalledAction):
    """hpcai.azure.node_health_info."""

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        return SPEC

    def words(self, options: Mapping[str, Any]) -> list[str]:
        """``hpcnode health run``."""
        only = [f"--only={name}" for name in options["only"]]
        return ["health", "run", options["tier"], *only]

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result, a failure if the verdict is one of fail_on."""
        return as_result(answer.document, options["fail_on"])
