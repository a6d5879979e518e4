# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which physical hosts had a hardware fault, so that one is noticed when it comes back.

Azure repairs hosts, but an instance that was replaced or redeployed may get the same one again before it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from .errors import InventoryError
from .hardware_faults import TIME, Fault, Machine

SCHEMA = 1
FILE = "hosts.json"
"""Name of the record, in the folder of the report."""
_KEYS = ("check", "code", "device", "summary", "vm_id", "node", "first", "last")


@dataclass(frozen=True)
class Seen:
    """A machine with the hardware faults that it has now."""

    machine: Machine
    faults: tuple[Fault, ...]


def read(text: str | None, name: str) -> dict[str, list[dict[str, str]]]:
    """Return the faults of each host, out of the record's text; None where there is no record yet.

    :raises InventoryError: it cannot be read. It is not begun anew by itself, for then bad hosts would be forgotten.
    """
    if text is None:
        return {}
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise InventoryError(f"{name} has schema {document['schema']}, this collection reads {SCHEMA}.")
        found = {}
        for host, faults in document["hosts"].items():
            found[str(host)] = [{key: str(fault[key]) for key in _KEYS} for fault in faults]
        return found
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InventoryError(f"{name} is no record of physical hosts; mend it, or move it away.") from None


def updated(
    record: Mapping[str, list[dict[str, str]]], seen: Iterable[Seen], keep_days: int
) -> dict[str, list[dict[str, str]]]:
    """Return the record with what is seen now. Pure.

    A fault of the same check, code, device and machine is one that lasts: it keeps its first time. One that was last
    seen longer ago than ``keep_days`` before the newest look is forgotten.
    """
    machines = list(seen)
    hosts = {host: [dict(fault) for fault in faults] for host, faults in record.items()}
    for one in machines:
        for fault in one.faults if one.machine.host else ():
            _add(hosts.setdefault(one.machine.host, []), one, fault)
    newest = max((one.machine.time for one in machines), default="")
    if newest:
        oldest = (datetime.strptime(newest, TIME) - timedelta(days=keep_days)).strftime(TIME)
        hosts = {host: [fault for fault in faults if fault["last"] >= oldest] for host, faults in hosts.items()}
    return {host: hosts[host] for host in sorted(hosts) if hosts[host]}


def _add(faults: list[dict[str, str]], one: Seen, fault: Fault) -> None:
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


def as_text(record: Mapping[str, list[dict[str, str]]]) -> str:
    """Return the record's text."""
    return json.dumps({"schema": SCHEMA, "hosts": record}, indent=1, sort_keys=True) + "\n"


def suspects(record: Mapping[str, list[dict[str, str]]], seen: Iterable[Seen]) -> list[dict[str, Any]]:
    """Return the machines that have no hardware fault now, but run on a host that had one. Pure.

    :param record: as it was before what is seen now came into it.
    """
    found: list[dict[str, Any]] = []
    for one in seen:
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


def dated(record: Mapping[str, list[dict[str, str]]], machine: Machine, fault: Fault) -> Fault:
    """Return the fault with the time when it was first seen on this machine and host. Pure."""
    for known in record.get(machine.host) or []:
        same = (known["check"], known["code"], known["device"]) == (fault.check, fault.code, fault.device)
        if same and known["vm_id"] == machine.vm_id:
            return replace(fault, time=min(known["first"], fault.time))
    return fault
