# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deletes, moves and replaces instances of scale sets through Azure, without a connection to the machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils._azure import instance_operations
from ..plugin_utils._azure.clients import Clients
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, Get, connect, connections_for
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.targets import SetName, Target, find_targets, make_target

_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "state": {"type": "str", "choices": ["absent", "redeployed", "replaced"], "default": "absent"},
    "instances": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {"azure_id": {"type": "str", "required": True}, "vm_id": {"type": "str", "required": True}},
    },
}


class ActionModule(ActionBase):
    """hpcai.azure.vmss_instances."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Change the instances that exist and still have the given vmId."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(_SPEC)
        try:
            return self._work(options)
        except InventoryError as error:
            raise AnsibleError(str(error)) from None

    def _work(self, options: Mapping[str, Any]) -> dict[str, Any]:
        targets = [make_target(item["azure_id"], item["vm_id"]) for item in options["instances"]]
        state = options["state"]
        if state == "replaced":
            instance_operations.count_by_set(targets)
        deadline = Deadline(options["timeout"])
        doors = [
            (get, [target for target in targets if target.subscription.lower() in subscriptions])
            for get, subscriptions in connections_for(options, {item.subscription for item in targets}, self._loader)
        ]
        present: list[Target] = []
        gone: list[Target] = []
        # Check all instances before any is changed.
        for get, members in doors:
            with connect(get, deadline, only_lists=True) as clients:
                found = find_targets(clients, members)
            present += found.present
            gone += found.gone
        left_alone: list[SetName] = []
        if not self._task.check_mode:
            for get, members in doors:
                members_present = [target for target in members if target in present]
                if members_present:
                    left_alone += _do(state, get, deadline, members_present)
        names = sorted(target.azure_id for target in present)
        lines = "".join(f"{item}\n" for item in names)
        return {
            "changed": bool(present),
            "deleted": [] if state == "redeployed" else names,
            "redeployed": names if state == "redeployed" else [],
            "gone": sorted(target.azure_id for target in gone),
            "capacity_left_alone": [str(scale_set) for scale_set in left_alone],
            "diff": {"before": lines, "after": "" if state == "absent" else f"{state}:\n{lines}" if lines else ""},
        }


def _do(state: str, get: Get, deadline: Deadline, targets: list[Target]) -> list[SetName]:
    """Change the instances, and return the sets whose capacity was not raised because somebody else changed it."""
    with connect(get, deadline, only_lists=False) as clients:
        if state == "redeployed":
            instance_operations.redeploy(clients, targets)
            return []
        if state == "absent":
            instance_operations.delete(clients, targets)
            return []
        return _replace(clients, targets)


def _replace(clients: Clients, targets: list[Target]) -> list[SetName]:
    """Delete the instances and raise the capacity again. Return the sets whose capacity was not raised."""
    gone = instance_operations.count_by_set(targets)
    before = instance_operations.read_capacity(clients, gone)
    failed: InventoryError | None = None
    try:
        instance_operations.delete(clients, targets)
    except InventoryError as error:
        # Other instances may have been deleted, and are still replaced.
        failed = error
    try:
        after = instance_operations.read_capacity(clients, gone)
        mine = instance_operations.sets_to_refill(before, after, gone)
        instance_operations.set_capacity(clients, {scale_set: before[scale_set] for scale_set in mine})
    except InventoryError as error:
        commands = "; ".join(
            f"az vmss scale --subscription {item.subscription} --resource-group {item.group} --name {item.name} "
            f"--new-capacity {before[item]}"
            for item in gone
        )
        first = f"{failed} " if failed else "The instances were deleted, but not replaced: "
        raise InventoryError(f"{first}{error} When Azure allows it, run: {commands}") from None
    if failed:
        fewer = [
            f"{item} has the capacity {after[item]}, and had {before[item]}"
            for item in gone
            if item not in mine and after[item] < before[item]
        ]
        more = f" Some were deleted, but not replaced: {'; '.join(fewer)}." if fewer else ""
        raise InventoryError(f"{failed}{more}")
    return [scale_set for scale_set in gone if scale_set not in mine]
