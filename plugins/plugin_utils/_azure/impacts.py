# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports of hardware faults to Azure's Guest Health Reporting, as workload impacts of Microsoft.Impact.

https://learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-report
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .clients import Clients
from .errors import Asking, InventoryError, UnreadableAnswer, explain, is_gone
from .hardware_faults import Fault, Machine
from .targets import Target

API_VERSION = "2025-01-01-preview"
"""The version that the page above requires."""
_PREFIX = "Resource.Hpc.Unhealthy."
GENERIC = f"{_PREFIX}HpcGenericFailure"
"""For faults without another category."""
OTHER_XID = f"{_PREFIX}GpuXIDError"
_XID_CHECK = "gpu_xid"
# azurehpc-health-checks, triggerGHR/config/nhc_fault_dictionary.cfg. NHC2023 (NVMe count) is not in it.
CATEGORIES = {
    "NHC2001": GENERIC,
    "NHC2002": f"{_PREFIX}MissingIB",
    "NHC2003": f"{_PREFIX}IBPerformance",
    "NHC2004": f"{_PREFIX}IBPortDown",
    "NHC2005": f"{_PREFIX}IBPortFlapping",
    "NHC2006": f"{_PREFIX}HpcGpuDcgmDiagFailure",
    "NHC2007": f"{_PREFIX}HpcRowRemapFailure",
    "NHC2008": f"{_PREFIX}HpcInforomCorruption",
    "NHC2009": f"{_PREFIX}HpcMissingGpu",
    "NHC2010": f"{_PREFIX}ManualInvestigation",
    "NHC2011": f"{_PREFIX}XID95UncontainedECCError",
    "NHC2012": f"{_PREFIX}XID94ContainedECCError",
    "NHC2013": f"{_PREFIX}XID79FallenOffBus",
    "NHC2014": f"{_PREFIX}XID48DoubleBitECC",
    "NHC2015": f"{_PREFIX}UnhealthyGPUNvidiasmi",
    "NHC2016": f"{_PREFIX}NvLink",
    "NHC2017": f"{_PREFIX}HpcDcgmiThermalReport",
    "NHC2018": f"{_PREFIX}ECCPageRetirementTableFull",
    "NHC2019": f"{_PREFIX}DBEOverLimit",
    "NHC2020": f"{_PREFIX}HpcGpuDcgmDiagFailure",
    "NHC2021": f"{_PREFIX}GPUMemoryBWFailure",
    "NHC2022": f"{_PREFIX}CPUPerformance",
}
# Reports of these categories concern one GPU and identify it. All others concern the machine.
_OF_A_GPU = frozenset(
    CATEGORIES[f"NHC{number}"]
    for number in (2006, 2007, 2008, 2009, 2011, 2012, 2013, 2014, 2015, 2016, 2017, 2018, 2019, 2021)
) | {OTHER_XID}
NO_HOST = "its physical host is unknown, and Azure requires it in a report; check that hypervkvpd runs on the node"
_LONGEST = 1000
"""Most characters of a description. This is our own limit."""
# The page says "alphanumeric".
_HOST = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True)
class Impact:
    """One report to Azure.

    :ivar name: always the same for the same fault of the same machine on the same host, to avoid duplicate reports.
    :ivar node: the node's name.
    :ivar subscription: subscription of the machine.
    :ivar body: body of the request.
    :ivar lacks: why it cannot be sent. Empty if it can.
    """

    name: str
    node: str
    subscription: str
    body: dict[str, Any]
    lacks: str = ""

    @property
    def path(self) -> str:
        """Path of the report, relative to the endpoint of Resource Manager."""
        return f"/subscriptions/{self.subscription}/providers/Microsoft.Impact/workloadImpacts/{self.name}"

    def prepared(self) -> dict[str, Any]:
        """Return the report as written to the file, with the request that any client of Azure can send."""
        request = f"PUT {self.path}?api-version={API_VERSION}"
        return {"name": self.name, "node": self.node, "request": request, "body": self.body, "lacks": self.lacks}


def category_of(fault: Fault) -> str:
    """Return Azure's category of a fault."""
    category = CATEGORIES.get(fault.code, GENERIC)
    return OTHER_XID if category == GENERIC and fault.check == _XID_CHECK else category


def impacts_of(target: Target, machine: Machine, faults: Iterable[Fault]) -> list[Impact]:
    """Return the reports about a machine. Pure.

    There is one report per category, or per category and GPU if the category concerns a GPU.

    :param target: the machine's instance, from the inventory.
    """
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        category = category_of(fault)
        groups.setdefault((category, fault.device if category in _OF_A_GPU else ""), []).append(fault)
    return [_impact(target, machine, category, device, members) for (category, device), members in groups.items()]


def _impact(target: Target, machine: Machine, category: str, device: str, faults: list[Fault]) -> Impact:
    more: dict[str, Any] = {"PhysicalHostName": machine.host, "VmUniqueId": target.vm_id}
    if device:
        facts = {key: value for fault in faults for key, value in fault.facts.items()}
        model = facts.get("model", "")
        more["Manufacturer"] = "Nvidia" if model.upper().startswith("NVIDIA") else ""
        more |= {"SerialNumber": facts.get("serial", ""), "ModelNumber": model, "Location": device}
    words = "; ".join(_words(fault) for fault in faults)
    return Impact(
        name=_name(target, machine, category, device),
        node=machine.name,
        subscription=target.subscription,
        body={
            "properties": {
                "startDateTime": min(fault.time for fault in faults),
                "impactedResourceId": target.azure_id,
                "impactCategory": category,
                "impactDescription": words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…",
                "additionalProperties": {key: value for key, value in more.items() if value},
            }
        },
        lacks="" if _HOST.fullmatch(machine.host) else NO_HOST,
    )


def _words(fault: Fault) -> str:
    code = f" [{fault.code}]" if fault.code else ""
    return f"{fault.check}: {fault.summary}{code}"


def _name(target: Target, machine: Machine, category: str, device: str) -> str:
    """Return the report's name. The API allows letters, digits, - and :, and requires a letter or digit at the end."""
    key = "\n".join((target.vm_id.lower(), machine.host, category, device))
    short = category.removeprefix(_PREFIX)
    return f"hpcai-{target.vm_id.lower()}-{short}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


_ROLE = "the role Azure Impact Reporter"
_NOT_REGISTERED = "MissingSubscriptionRegistration"
_ONBOARDING = (
    "Register the resource provider Microsoft.Impact in the subscription, and ask Azure to admit the subscription to "
    "Guest Health Reporting."
)


@dataclass(frozen=True)
class SentImpacts:
    """Which reports Azure already has.

    :ivar known: names of the reports that it has.
    :ivar new: the reports that it does not have.
    """

    known: list[str] = field(default_factory=list)
    new: list[Impact] = field(default_factory=list)


def find_sent(clients: Clients, impacts: Iterable[Impact]) -> SentImpacts:
    """Return which reports Azure already has.

    :raises InventoryError: a request failed.
    """
    looked = SentImpacts()
    for impact in impacts:
        asking = Asking(f"look for the report {impact.name}", "Microsoft.Impact/workloadImpacts/read", _ROLE)
        try:
            exists = _exists(clients, impact)
        except Exception as error:
            raise InventoryError(_explain(error, asking)) from None
        if exists:
            looked.known.append(impact.name)
        else:
            looked.new.append(impact)
    return looked


def send_impacts(clients: Clients, impacts: Iterable[Impact]) -> list[str]:
    """Send reports and return their names. If one fails, the others are still sent.

    :raises InventoryError: some could not be sent. The message names all of them.
    """
    sent: list[str] = []
    errors: list[str] = []
    for impact in impacts:
        asking = Asking(f"report {impact.name}", "Microsoft.Impact/workloadImpacts/write", _ROLE)
        try:
            _put(clients, impact)
            sent.append(impact.name)
        except Exception as error:
            errors.append(_explain(error, asking))
    if errors:
        raise InventoryError(" ".join([*errors, f"Sent: {', '.join(sent) or 'none'}."]))
    return sent


def _exists(clients: Clients, impact: Impact) -> bool:
    from azure.core.exceptions import HttpResponseError

    try:
        return _request(clients, "GET", impact) == impact.name.lower()
    except HttpResponseError as error:
        if is_gone(error):
            return False
        raise


def _put(clients: Clients, impact: Impact) -> None:
    try:
        if _request(clients, "PUT", impact, impact.body) != impact.name.lower():
            raise UnreadableAnswer("the answer belongs to another report.")
    except Exception:
        # Azure accepts each name once, and the report may have arrived although its answer was lost.
        if not _arrived(clients, impact):
            raise


def _arrived(clients: Clients, impact: Impact) -> bool:
    with contextlib.suppress(Exception):
        return _exists(clients, impact)
    return False


def _request(clients: Clients, method: str, impact: Impact, body: Any = None) -> str:
    """Return the name of the report in Azure's answer."""
    from azure.core.rest import HttpRequest

    manager = clients.resource_manager()
    more = {} if body is None else {"json": body}
    url = manager.format_url(impact.path)
    response = manager.send_request(HttpRequest(method, url, params={"api-version": API_VERSION}, **more))
    response.raise_for_status()
    return _named(response)


def _named(response: Any) -> str:
    try:
        return str(response.json()["name"]).lower()
    except (ValueError, LookupError, TypeError):
        raise UnreadableAnswer("the answer is not a report, so it may not come from Azure.") from None


def _explain(error: BaseException, asking: Asking) -> str:
    words = explain(error, asking)
    code = str(getattr(getattr(error, "error", None), "code", None) or "")
    return f"{words} {_ONBOARDING}" if code in (_NOT_REGISTERED, "InvalidResourceType") else words
