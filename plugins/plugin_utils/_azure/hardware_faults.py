# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware faults of nodes from their health results, and the record of the physical hosts that had faults.

A hardware fault is a failed check whose cause is the node and whose action is ``replace``. Leftovers of a user's job,
faults that a restart fixes, and failed measurements are not hardware faults.

Azure repairs faulty hosts, but a replaced or redeployed instance may get the same host again before the repair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from .errors import InventoryError, printable

SCHEMA = 1
"""Schema of the output of ``hpcnode health run``."""
TIME = "%Y-%m-%dT%H:%M:%SZ"
_FAIL, _REPLACE, _NODE = "fail", "replace", "node"
GPU_FACTS = {"gpu_serial": "serial", "gpu_model": "model"}
"""Readings that identify a GPU, and their names in a fault."""


@dataclass(frozen=True)
class Machine:
    """The machine of a health result.

    :ivar name: the node's name in Slurm, or its name in the inventory if that is unknown.
    :ivar vm_id: its vmId.
    :ivar host: name of its physical host, as the host reports it. Empty if it does not.
    :ivar time: time of the checks, in UTC.
    """

    name: str
    vm_id: str
    host: str
    time: str


@dataclass(frozen=True)
class Fault:
    """A hardware fault.

    :ivar check: name of the check that found it.
    :ivar code: AzNHC's code, e.g. ``NHC2009``. Empty if it has none.
    :ivar summary: what is wrong, one line.
    :ivar device: the device, e.g. the PCI address of a GPU. Empty if the fault concerns the machine.
    :ivar time: when it was found, in UTC.
    :ivar facts: values that identify the device, by the names in GPU_FACTS.
    """

    check: str
    code: str
    summary: str
    device: str
    time: str
    facts: Mapping[str, str] = field(default_factory=dict)


def machine_of(document: Mapping[str, Any], name: str) -> Machine:
    """Return the machine of a health result.

    :param name: name to use if the document does not contain one.
    :raises InventoryError: it is not the document of a health run, or has another schema.
    """
    node = document.get("node")
    if document.get("command") != "health" or not isinstance(node, Mapping):
        raise InventoryError(f"{name}: not a result of 'hpcnode health run'; pass the result of node_health_info.")
    if document.get("schema") != SCHEMA:
        raise InventoryError(
            f"{name}: the health result has schema {document.get('schema')}, this collection reads {SCHEMA}; install "
            "the same version on the node and the controller."
        )
    when = str(document.get("time"))
    try:
        datetime.strptime(when, TIME)
    except ValueError:
        raise InventoryError(f"{name}: the health result has an invalid time ({when}).") from None
    # Azure requires the name without a domain. Only one of the host's key-value pools contains the domain.
    host = str(node.get("host") or "").split(".", maxsplit=1)[0]
    return Machine(printable(node.get("name") or name), printable(node.get("vm_id")), printable(host).upper(), when)


def faults_of(document: Mapping[str, Any]) -> list[Fault]:
    """Return the hardware faults in a document, at most one per check and device."""
    found: dict[tuple[str, str, str], Fault] = {}
    checks = document.get("checks") or []
    devices = _facts_of_devices(checks)
    for check in checks:
        # If a site sets a check to warn_only, the verdict of the check is warn although findings fail.
        if check.get("verdict") != _FAIL:
            continue
        for finding in check.get("findings") or [check]:
            action, code = finding.get("action"), finding.get("fault")
            action = check.get("action") if action is None else action
            code = check.get("fault") if code is None else code
            if finding.get("verdict") != _FAIL or action != _REPLACE or finding.get("cause", _NODE) != _NODE:
                continue
            device = printable(finding.get("device"))
            fault = Fault(
                check=printable(check["name"]),
                code=printable(code),
                summary=printable(finding.get("summary") or check.get("summary")),
                device=device,
                time=str(document.get("time") or ""),
                facts=devices.get(device, {}),
            )
            found.setdefault((fault.check, fault.code, device), fault)
    return list(found.values())


def _facts_of_devices(checks: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the identifying readings of each device, from all checks."""
    devices: dict[str, dict[str, str]] = {}
    for check in checks:
        for reading in check.get("readings") or []:
            called = GPU_FACTS.get(str(reading.get("name")))
            if called and reading.get("device") and reading.get("value"):
                devices.setdefault(printable(reading["device"]), {})[called] = printable(reading["value"])
    return devices


RECORD_SCHEMA = 1
RECORD_FILE = "hosts.json"
"""File name of the record, in the folder of the report."""
_KEYS = ("check", "code", "device", "summary", "vm_id", "node", "first", "last")


@dataclass(frozen=True)
class MachineFaults:
    """A machine with its current hardware faults."""

    machine: Machine
    faults: tuple[Fault, ...]


def read_record(text: str | None, name: str) -> dict[str, list[dict[str, str]]]:
    """Return the faults of each host from the record's text.

    :param text: content of the file, or None if there is no record yet.
    :raises InventoryError: it cannot be read. It is not replaced automatically, because faulty hosts would be lost.
    """
    if text is None:
        return {}
    try:
        document = json.loads(text)
        if document["schema"] != RECORD_SCHEMA:
            raise InventoryError(f"{name} has schema {document['schema']}, this collection reads {RECORD_SCHEMA}.")
        found = {}
        for host, faults in document["hosts"].items():
            found[str(host)] = [{key: str(fault[key]) for key in _KEYS} for fault in faults]
        return found
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InventoryError(f"{name} is not a valid record of physical hosts; repair it, or move it away.") from None


def update_record(
    record: Mapping[str, list[dict[str, str]]], observed: Iterable[MachineFaults], keep_days: int
) -> dict[str, list[dict[str, str]]]:
    """Return the record with the current faults added. Pure.

    A fault with the same check, code, device and machine is the same fault, and keeps its first time. A fault is
    removed if it was last seen more than ``keep_days`` before the newest result.
    """
    machines = list(observed)
    hosts = {host: [dict(fault) for fault in faults] for host, faults in record.items()}
    for one in machines:
        for fault in one.faults if one.machine.host else ():
            _add(hosts.setdefault(one.machine.host, []), one, fault)
    newest = max((one.machine.time for one in machines), default="")
    if newest:
        oldest = (datetime.strptime(newest, TIME) - timedelta(days=keep_days)).strftime(TIME)
        hosts = {host: [fault for fault in faults if fault["last"] >= oldest] for host, faults in hosts.items()}
    return {host: hosts[host] for host in sorted(hosts) if hosts[host]}


def _add(faults: list[dict[str, str]], one: MachineFaults, fault: Fault) -> None:
    new = {
        "check": fault.check,
        "code": fault.code,
        "device": fault.device,
        "summary": fault.summary,
        "vm_id": one.machine.vm_id,
        "node": one.machine.name,
        "first": one.machine.time,
        "last": one.machine.time,
    }
    for known in faults:
        if all(known[key] == new[key] for key in ("check", "code", "device", "vm_id")):
            known.update(new, first=min(known["first"], new["first"]), last=max(known["last"], new["last"]))
            return
    faults.append(new)


def record_text(record: Mapping[str, list[dict[str, str]]]) -> str:
    """Return the record's text."""
    return json.dumps({"schema": RECORD_SCHEMA, "hosts": record}, indent=1, sort_keys=True) + "\n"


def suspects(record: Mapping[str, list[dict[str, str]]], observed: Iterable[MachineFaults]) -> list[dict[str, Any]]:
    """Return the machines without a current hardware fault that run on a host that had one. Pure.

    :param record: the record before the current faults were added.
    """
    found: list[dict[str, Any]] = []
    for one in observed:
        faults = record.get(one.machine.host) or []
        if one.faults or not faults:
            continue
        worst = max(faults, key=lambda fault: fault["last"])
        stayed = all(fault["vm_id"].lower() == one.machine.vm_id.lower() for fault in faults)
        came = "is still on" if stayed else "came up on"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        found.append(
            {
                "node": one.machine.name,
                "vm_id": one.machine.vm_id,
                "host": one.machine.host,
                "faults": faults,
                "warning": f"{one.machine.name} {came} the physical host {one.machine.host}, which had a hardware "
                f"fault on {worst['last']}: {worst['check']}: {worst['summary']}{more}. Watch it, or replace it.",
            }
        )
    return found


def with_first_time(record: Mapping[str, list[dict[str, str]]], machine: Machine, fault: Fault) -> Fault:
    """Return the fault with the time when it was first found on this machine and host. Pure."""
    for known in record.get(machine.host) or []:
        same = (known["check"], known["code"], known["device"]) == (fault.check, fault.code, fault.device)
        if same and known["vm_id"] == machine.vm_id:
            return replace(fault, time=min(known["first"], fault.time))
    return fault
