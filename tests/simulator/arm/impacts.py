# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of workload impacts (Microsoft.Impact), as Azure's Guest Health Reporting accepts them.

Which reports are refused, and with which status, follows the documentation (learn.microsoft.com,
azure-impact-reporting, "guest-health-impact-report" and "guest-health-impact-categories"). The messages of Azure's
errors are not known.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, request

from simulator.arm.compute_payloads import timestamp
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError
from simulator.arm.paging import query

blueprint = Blueprint("impacts", __name__)
NAMESPACE = "Microsoft.Impact"
ALL = "/subscriptions/<subscription>/providers/microsoft.impact/workloadimpacts"
VERSIONS = ("2023-12-01-preview", "2024-05-01-preview", "2025-01-01-preview", "2025-02-01-preview")
# The pattern from the API's description.
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-:]*[a-zA-Z0-9]{3,120}")
CATEGORIES = frozenset(
    {"Resource.Hpc.Healthy", "Resource.Hpc.Reset", "Resource.Hpc.Reboot", "Resource.Hpc.Investigate.NVLink"}
    | {
        f"Resource.Hpc.Unhealthy.{name}"
        for name in [
            "HpcMissingGpu",
            "MissingIB",
            "IBPerformance",
            "IBPortDown",
            "IBPortFlapping",
            "HpcGpuDcgmDiagFailure",
            "HpcRowRemapFailure",
            "HpcInforomCorruption",
            "HpcGenericFailure",
            "ManualInvestigation",
            "XID95UncontainedECCError",
            "XID94ContainedECCError",
            "XID79FallenOffBus",
            "XID48DoubleBitECC",
            "UnhealthyGPUNvidiasmi",
            "NvLink",
            "HpcDcgmiThermalReport",
            "ECCPageRetirementTableFull",
            "DBEOverLimit",
            "GpuXIDError",
            "AmdGpuResetFailed",
            "EROTFailure",
            "GPUMemoryBWFailure",
            "CPUPerformance",
        ]
    }
)
REQUIRED = ("startDateTime", "impactCategory", "impactDescription", "impactedResourceId")


@blueprint.before_request
def check() -> None:
    """Refuse requests if the resource provider is not registered or does not have the API version."""
    model = context().model
    if NAMESPACE in context().options.unregistered:
        raise ArmError(
            409,
            "MissingSubscriptionRegistration",
            f"The subscription is not registered to use namespace '{NAMESPACE}'. See "
            "https://aka.ms/rps-not-found for how to register subscriptions.",
        )
    if query()["api-version"] not in VERSIONS:
        raise ArmError(
            400,
            "NoRegisteredProviderFound",
            f"No registered resource provider found for API version '{query()['api-version']}' for type "
            f"'workloadImpacts' in subscription '{model.subscription}'.",
        )


@blueprint.get(ALL)
def list_impacts(subscription: str) -> Response:
    """All reports."""
    return many([context().encode("workload_impact", item) for item in context().model.impacts.values()], None)


@blueprint.get(f"{ALL}/<name>")
def show(subscription: str, name: str) -> Response:
    """One report."""
    found = context().model.impacts.get(name)
    if found is None:
        raise ArmError(404, "ResourceNotFound", f"The Resource '{NAMESPACE}/workloadImpacts/{name}' was not found.")
    return one(context().encode("workload_impact", found))


@blueprint.put(f"{ALL}/<name>")
def create(subscription: str, name: str) -> Response:
    """Accept a report. Its name must be new."""
    path: str = request.environ["simulator.path"]
    written = path.rstrip("/").rsplit("/", 1)[1]
    if not NAME.fullmatch(written):
        raise _bad(f"The resource name '{written}' does not match {NAME.pattern}.")
    properties = _properties(request.get_json(silent=True))
    model = context().model
    with model.lock:
        if name in model.impacts:
            raise ArmError(409, "Conflict", f"A workload impact '{written}' exists already.")
        model.impacts[name] = payload(model.subscription, written, properties, model.identities.uuid())
    return one(context().encode("workload_impact", model.impacts[name]))


def payload(subscription: str, name: str, properties: dict[str, Any], unique_id: str) -> dict[str, Any]:
    """A report in Azure's format."""
    return {
        "id": f"/subscriptions/{subscription}/providers/{NAMESPACE}/workloadImpacts/{name}",
        "name": name,
        "type": f"{NAMESPACE}/workloadImpacts",
        "properties": {
            **properties,
            "impactUniqueId": unique_id,
            "reportedTimeUtc": timestamp(datetime.now(UTC)),
            "provisioningState": "Succeeded",
        },
    }


def _properties(body: Any) -> dict[str, Any]:
    """The properties of a report, after the checks that Azure makes."""
    properties = body.get("properties") if isinstance(body, dict) else None
    if not isinstance(properties, dict):
        raise ArmError(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized.")
    for field in REQUIRED:
        if not isinstance(properties.get(field), str) or not properties[field]:
            raise _bad(f"properties.{field} is required.")
    try:
        datetime.fromisoformat(properties["startDateTime"].replace("Z", "+00:00"))
    except ValueError:
        raise _bad("properties.startDateTime is not a valid time.") from None
    category = properties["impactCategory"]
    if category not in CATEGORIES:
        raise _bad(f"The impact category '{category}' is not supported.")
    more = properties.get("additionalProperties") or {}
    host = str(more.get("PhysicalHostName") or "")
    if not re.fullmatch(r"[A-Za-z0-9]+", host) and not category.startswith("Resource.Hpc.Investigate."):
        raise _bad("additionalProperties.PhysicalHostName is required and must be alphanumeric.")
    if context().model.find_instance(properties["impactedResourceId"]) is None:
        raise ArmError(404, "NotFound", f"The resource '{properties['impactedResourceId']}' was not found.")
    return dict(properties)


def _bad(message: str) -> ArmError:
    return ArmError(400, "BadRequest", message)
