# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware faults of nodes, out of what their health checks answered.

Only what another machine would mend: a check that failed by the node's own fault, with the action ``replace``. What a
user's job left behind, what a restart mends and what could not be measured is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .errors import InventoryError

SCHEMA = 1
"""Of the documents of ``hpcnode health run``."""
TIME = "%Y-%m-%dT%H:%M:%SZ"
_FAIL, _REPLACE, _NODE = "fail", "replace", "node"
GPU_FACTS = {"gpu_serial": "serial", "gpu_model": "model"}
"""Readings that tell which GPU it is, and what they are called in a fault."""


@dataclass(frozen=True)
class Machine:
    """Which machine a document is of.

    :ivar name: the node's name in Slurm, or in the inventory where that is not known.
    :ivar vm_id: its vmId.
    :ivar host: the physical host that it runs on, as the host calls itself; empty where it does not.
    :ivar time: when the checks were run, in UTC.
    """

    name: str
    vm_id: str
    host: str
    time: str


@dataclass(frozen=True)
class Fault:
    """A hardware fault.

    :ivar check: name of the check that found it.
    :ivar code: AzNHC's code, e.g. ``NHC2009``; empty where it has none.
    :ivar summary: what is wrong, one line.
    :ivar device: the device, e.g. the PCI address of a GPU; empty where it is the machine.
    :ivar time: when it was seen, in UTC.
    :ivar facts: what identifies the device, by GPU_FACTS' values.
    """

    check: str
    code: str
    summary: str
    device: str
    time: str
    facts: Mapping[str, str] = field(default_factory=dict)


def machine_of(document: Mapping[str, Any], name: str) -> Machine:
    """Return which machine a document is of.

    :param name: what it is called where the document does not say.
    :raises InventoryError: it is no document of a health run, or of a newer form.
    """
    node = document.get("node")
    if document.get("command") != "health" or not isinstance(node, Mapping):
        raise InventoryError(f"{name}: this is no result of 'hpcnode health run'; give what node_health_info returned.")
    if document.get("schema") != SCHEMA:
        raise InventoryError(
            f"{name}: the health result has schema {document.get('schema')}, this collection reads {SCHEMA}; bring the "
            "node and the controller to the same version."
        )
    when = str(document.get("time"))
    try:
        datetime.strptime(when, TIME)
    except ValueError:
        raise InventoryError(f"{name}: the health result is of no time ({when}).") from None
    # Azure wants the bare name. One pool of the host tells it with the domain, another without.
    host = str(node.get("host") or "").split(".", maxsplit=1)[0]
    return Machine(_plain(node.get("name") or name), _plain(node.get("vm_id")), _plain(host).upper(), when)


def faults_of(document: Mapping[str, Any]) -> list[Fault]:
    """Return the hardware faults that a document tells of, each device of a check once."""
    found: dict[tuple[str, str, str], Fault] = {}
    checks = document.get("checks") or []
    devices = _facts_of_devices(checks)
    for check in checks:
        # A site that wants to be warned only has taken back the verdict of the whole check.
        if check.get("verdict") != _FAIL:
            continue
        for finding in check.get("findings") or [check]:
            action, code = finding.get("action"), finding.get("fault")
            action = check.get("action") if action is None else action
            code = check.get("fault") if code is None else code
            if finding.get("verdict") != _FAIL or action != _REPLACE or finding.get("cause", _NODE) != _NODE:
                continue
            device = _plain(finding.get("device"))
            fault = Fault(
                check=_plain(check["name"]),
                code=_plain(code),
                summary=_plain(finding.get("summary") or check.get("summary")),
                device=device,
                time=str(document.get("time") or ""),
                facts=devices.get(device, {}),
            )
            found.setdefault((fault.check, fault.code, device), fault)
    return list(found.values())


def _plain(text: Any) -> str:
    """Return the text as one line without characters that would command a terminal: nodes write what they like."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(str(text or "").split()))


def _facts_of_devices(checks: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return what the readings of all checks say of each device."""
    devices: dict[str, dict[str, str]] = {}
    for check in checks:
        for reading in check.get("readings") or []:
            called = GPU_FACTS.get(str(reading.get("name")))
            if called and reading.get("device") and reading.get("value"):
                devices.setdefault(_plain(reading["device"]), {})[called] = _plain(reading["value"])
    return devices
