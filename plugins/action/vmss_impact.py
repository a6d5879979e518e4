# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prepares reports of hardware faults for Azure, sends them if requested, and records faulty physical hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._node.machine.atomic import write_file
from ..plugin_utils._azure import hardware_faults
from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.connection import CONNECTION, Get, connect, connections_for
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.hardware_faults import MachineFaults, faults_of, machine_of
from ..plugin_utils._azure.impacts import Impact, find_sent, impacts_of, send_impacts
from ..plugin_utils._azure.targets import Target, make_target
from ..plugin_utils._report.gather import registered

_SPEC: dict[str, dict[str, Any]] = {
    **CONNECTION,
    "nodes": {
        "type": "list",
        "elements": "dict",
        "options": {
            "azure_id": {"type": "str", "required": True},
            "vm_id": {"type": "str", "required": True},
            "health": {"type": "dict", "required": True},
        },
    },
    "hosts": {"type": "list", "elements": "str"},
    "variable": {"type": "str"},
    "path": {"type": "path", "required": True},
    "send": {"type": "bool", "default": False},
    "keep_days": {"type": "int", "default": 90},
}
_SCHEMA = 1
IMPACTS, HOSTS = "impacts.json", hardware_faults.RECORD_FILE


class ActionModule(ActionBase):
    """hpcai.azure.vmss_impact."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Prepare the reports, update the record, and send the reports that Azure does not have yet."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            _SPEC, required_together=[["hosts", "variable"]], required_one_of=[["nodes", "hosts"]]
        )
        try:
            nodes, left_out = _of_hosts(options, (task_vars or {}).get("hostvars") or {})
            return {**self._work(options, [*(options["nodes"] or []), *nodes]), "left_out": left_out}
        except InventoryError as error:
            raise AnsibleError(str(error)) from None
        except OSError as error:
            raise AnsibleError(f"{error.filename or options['path']}: {error.strerror or error}") from None

    def _work(self, options: Mapping[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
        looked_at = [_look(node) for node in nodes]
        machines = [one for _target, one in looked_at]
        files = {name: Path(options["path"]) / name for name in (IMPACTS, HOSTS)}
        before = {name: file.read_text("utf-8") if file.exists() else None for name, file in files.items()}
        record = hardware_faults.read_record(before[HOSTS], str(files[HOSTS]))
        after = hardware_faults.update_record(record, machines, options["keep_days"])
        impacts = [
            impact
            for target, one in looked_at
            for impact in impacts_of(
                target,
                one.machine,
                [hardware_faults.with_first_time(after, one.machine, fault) for fault in one.faults],
            )
        ]
        texts = {IMPACTS: _as_text(impacts), HOSTS: hardware_faults.record_text(after)}
        # If no node has a result, the files of the last run stay.
        changed = [name for name in files if before[name] != texts[name]] if looked_at else []
        # Written before anything is sent, so that nothing is lost if Azure does not answer.
        for name in [] if self._task.check_mode else changed:
            write_file(str(files[name]), texts[name])
        suspects = hardware_faults.suspects(record, machines)
        known, sent = self._send(options, impacts) if options["send"] else ([], [])
        return {
            "changed": bool(changed or sent),
            "impacts": [impact.prepared() for impact in impacts],
            "known": known,
            "sent": sent,
            "not_sent": {impact.name: impact.lacks for impact in impacts if impact.lacks} if options["send"] else {},
            "suspects": suspects,
            "unknown_hosts": sorted(one.machine.name for one in machines if not one.machine.host),
            "warnings": [suspect["warning"] for suspect in suspects],
            "diff": [
                {"before_header": str(files[name]), "after_header": str(files[name])}
                | {"before": before[name] or "", "after": texts[name]}
                for name in changed
            ],
        }

    def _send(self, options: Mapping[str, Any], impacts: list[Impact]) -> tuple[list[str], list[str]]:
        """Return the names of the reports that Azure already has, and of those that were sent."""
        sendable = [impact for impact in impacts if not impact.lacks]
        deadline = Deadline(options["timeout"])
        known: list[str] = []
        new: list[tuple[Get, list[Impact]]] = []
        # Look for all reports before any is sent.
        for get, subscriptions in connections_for(options, {impact.subscription for impact in sendable}, self._loader):
            with connect(get, deadline, only_lists=True) as clients:
                looked = find_sent(
                    clients, [impact for impact in sendable if impact.subscription.lower() in subscriptions]
                )
            known += looked.known
            new.append((get, looked.new))
        sent: list[str] = []
        for get, members in new:
            if self._task.check_mode:
                sent += [impact.name for impact in members]
            elif members:
                with connect(get, deadline, only_lists=False) as clients:
                    sent += send_impacts(clients, members)
        return known, sent


def _of_hosts(options: Mapping[str, Any], hostvars: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the hosts as nodes, and the hosts that are not instances or have no health result."""
    nodes: list[dict[str, Any]] = []
    left_out: list[str] = []
    for host in map(str, options["hosts"] or []):
        # For an unknown host, hostvars returns a value that is not a mapping.
        known: Any = {}
        if host in hostvars:
            known = hostvars[host]
        result = registered(hostvars, host, options["variable"]) or {}
        health = result.get("health") if isinstance(result, Mapping) else None
        if health and known.get("azure_id") and known.get("azure_vm_id"):
            nodes.append({"azure_id": known["azure_id"], "vm_id": known["azure_vm_id"], "health": health})
        else:
            left_out.append(host)
    return nodes, left_out


def _look(node: Mapping[str, Any]) -> tuple[Target, MachineFaults]:
    """Return the instance of a node, with its faults.

    :raises InventoryError: the health result is invalid or belongs to another machine.
    """
    target = make_target(node["azure_id"], node["vm_id"])
    machine = machine_of(node["health"], target.name)
    if machine.vm_id.lower() not in ("", target.vm_id.lower()):
        raise InventoryError(
            f"{machine.name}: the health result belongs to the machine {machine.vm_id}, but in the inventory "
            f"{target.azure_id} is the machine {target.vm_id}. Refresh the inventory (--flush-cache)."
        )
    return target, MachineFaults(replace(machine, vm_id=target.vm_id), tuple(faults_of(node["health"])))


def _as_text(impacts: list[Impact]) -> str:
    return json.dumps({"schema": _SCHEMA, "impacts": [impact.prepared() for impact in impacts]}, indent=1) + "\n"
