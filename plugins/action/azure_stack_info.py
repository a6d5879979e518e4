# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads which resources of a stack exist, without changing anything."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._stack import apply, site
from ..plugin_utils._stack.ownership import unique_of
from ..plugin_utils._stack.plan import assignments_to_request
from ..plugin_utils._stack.session import SPEC, Session, session


class ActionModule(ActionBase):
    """hpcai.azure.azure_stack_info."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read the stack."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(SPEC)
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        try:
            with session(options, self._loader, host) as opened:
                return _read(opened)
        except InventoryError as error:
            raise AnsibleError(str(error)) from None


def _read(opened: Session) -> dict[str, Any]:
    stack = opened.stack
    azure = apply.look(stack, opened.arm)
    resources = []
    for one in azure.resources:
        found = azure.found.get(one.id.lower())
        resources.append(
            {
                "id": one.id,
                "type": one.kind,
                "exists": found is not None,
                "adopted": one.adopted,
                "recorded": azure.record is not None and azure.record.has(one.id),
                "unique_id": unique_of(one.kind, found or {}),
                "state": str(((found or {}).get("properties") or {}).get("provisioningState") or ""),
            }
        )
    return {
        "changed": False,
        "owner": stack.owner,
        "resources": resources,
        "deployment": azure.deployment,
        "role_assignments": assignments_to_request(stack, azure.known),
        "endpoints": site.endpoints_of(stack, azure.found),
        "inventory": site.inventory_of(stack, opened.connection),
        "variables": site.variables_of(stack, azure.found),
        "requests": opened.requests,
    }
