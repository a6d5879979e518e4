# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports of hardware faults to Azure: workload impacts of Microsoft.Impact, for its Guest Health Reporting.

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
"""The one that the page above asks for."""
_PREFIX = "Resource.Hpc.Unhealthy."
GENERIC = f"{_PREFIX}HpcGenericFailure"
"""For what falls into no other category."""
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
# Such a report is of one GPU, and its fields name it; all others are of the machine.
_OF_A_GPU = frozenset(
    CATEGORIES[f"NHC{number}"]
    for number in (2006, 2007, 2008, 2009, 2011, 2012, 2013, 2014, 2015, 2016, 2017, 2018, 2019, 2021)
) | {OTHER_XID}
NO_HOST = "its physical host is not known, and Azure takes no report without it; see that hypervkvpd runs there"
_LONGEST = 1000
"""Characters of a description; a limit of ours."""
# "alphanumeric", says the page.
_HOST = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True)
class Impact:
    """One report to Azure.

    :ivar name: the same for the same fault of the same machine on the same host, so that nothing is reported twice.
    :ivar node: the node's name.
    :ivar subscription: where it is reported.
    :ivar body: what is sent.
    :ivar lacks: why it cannot be sent; empty if it can.
    """

    name: str
    node: str
    subscription: str
    body: dict[str, Any]
    lacks: str = ""

    @property
    def path(self) -> str:
        """Where it is put below the endpoint of Resource Manager."""
        return f"/subscriptions/{self.subscription}/providers/Microsoft.Impact/workloadImpacts/{self.name}"

    def prepared(self) -> dict[str, Any]:
        """Return it as it stands in the file, ready to be sent by anything that speaks to Azure."""
        request = f"PUT {self.path}?api-version={API_VERSION}"
        return {"name": self.name, "node": self.node, "request": request, "body": self.body, "lacks": self.lacks}


def category_of(fault: Fault) -> str:
    """Return Azure's category of a fault."""
    category = CATEGORIES.get(fault.code, GENERIC)
    return OTHER_XID if category == GENERIC and fault.check == _XID_CHECK else category


def impacts_of(target: Target, machine: Machine, faults: Iterable[Fault]) -> list[Impact]:
    """Return what there is to report of a machine. Pure.

    One report for each category, and for each GPU where the category is of one.

    :param target: the instance that the machine is, as the inventory has it.
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
    """The pattern of the API takes letters, digits, hyphens and colons, and wants letters or digits at the end."""
    key = "\n".join((target.vm_id.lower(), machine.host, category, device))
    short = category.removeprefix(_PREFIX)
    return f"hpcai-{target.vm_id.lower()}-{short}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


_ROLE = "the role Azure Impact Reporter"
_NOT_REGISTERED = "MissingSubscriptionRegistration"
_ONBOARDING = (
    "Register the resource provider Microsoft.Impact there, and have the subscription admitted to Guest Health "
    "Reporting by Azure."
)


@dataclass(frozen=True)
class SentImpacts:
    """What Azure has of the reports.

    :ivar known: names of those that it has.
    :ivar new: those that it does not have.
    """

    known: list[str] = field(default_factory=list)
    new: list[Impact] = field(default_factory=list)


def find_sent(clients: Clients, impacts: Iterable[Impact]) -> SentImpacts:
    """Return which reports Azure has already.

    :raises InventoryError: it could not be asked.
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
    """Send reports and return their names. One that fails does not keep the others from it.

    :raises InventoryError: it names all that could not be sent.
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
            raise UnreadableAnswer("the answer is of another report.")
    except Exception:
        # Azure takes a name once: the report may have arrived by an attempt whose answer was lost.
        if not _arrived(clients, impact):
            raise


def _arrived(clients: Clients, impact: Impact) -> bool:
    with contextlib.suppress(Exception):
        return _exists(clients, impact)
    return False


def _request(clients: Clients, method: str, impact: Impact, body: Any = None) -> str:
    """Return the name of the report that Azure answers with."""
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
        raise UnreadableAnswer("the answer is no report, so something else than Azure may have given it.") from None


def _explain(error: BaseException, asking: Asking) -> str:
    words = explain(error, asking)
    code = str(getattr(getattr(error, "error", None), "code", None) or "")
    return f"{words} {_ONBOARDING}" if code in (_NOT_REGISTERED, "InvalidResourceType") else words
