# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates of Azure Resource Manager: literal JSON, readable in a review. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from .desired import TenantIds, desired
from .model import Stack
from .names import Names
from .ownership import Record
from .resource import API_VERSIONS, DEPLOYMENT, GROUP, IDENTITY, MACHINES, SECRET, Resource

_SUBSCRIPTION_SCHEMA = "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#"
SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
SECRET_PARAMETER = "mungeKey"
"""The parameter with the munge key, a text that is used as it is."""
_SECRET_BODY = {"properties": {"value": f"[parameters('{SECRET_PARAMETER}')]", "contentType": "munge key"}}
_HOW_TO_MAKE = "128 letters and digits: tr -dc A-Za-z0-9 </dev/urandom | head -c 128"
_DEPLOY_ONCE = (
    "Deploy this once, into a resource group without this stack. A second deployment sets the capacity of each scale "
    "set to 0, which deletes all its instances with their jobs, stores another munge key, and removes subnets and "
    "rules that others have added."
)


def template(entries: Iterable[tuple[Resource, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the template of resources with these bodies. It contains no expression, with one exception.

    The munge key is a secure parameter, so that the machines can be made after it in one deployment, and its value is
    in no template: Azure stores no value of a secure parameter.

    Dependencies on resources that are not in the template are left out, because these exist.
    """
    entries = list(entries)
    ids = {one.id.lower() for one, _body in entries}
    made = _around([_entry(one, _SECRET_BODY if one.kind == SECRET else body, ids) for one, body in entries])
    if any(one.kind == SECRET for one, _body in entries):
        made["parameters"] = {SECRET_PARAMETER: {"type": "securestring", "metadata": {"description": _HOW_TO_MAKE}}}
    return made


def with_group(group: Resource, body: Mapping[str, Any], inside: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a template for the subscription, which makes a resource group and deploys another template in it.

    :param name: of the deployment in the group.
    """
    nested = {
        "type": DEPLOYMENT,
        "apiVersion": API_VERSIONS[DEPLOYMENT],
        "name": name,
        "resourceGroup": group.name,
        "dependsOn": [group.id],
        "properties": {"mode": "Incremental", "template": dict(inside)},
    }
    entry = {"type": GROUP, "apiVersion": API_VERSIONS[GROUP], "name": group.name, **body}
    return {**_around([entry, nested]), "$schema": _SUBSCRIPTION_SCHEMA}


def record_template(record: Record) -> dict[str, Any]:
    """Return the template of the deployment that only records what the stack made."""
    return {**_around([]), "outputs": record.as_output()}


def export(stack: Stack, tenant: str) -> dict[str, Any]:
    """Return the full template, for teams that deploy themselves.

    Besides literals and the parameter of the munge key it has the ids of the principals of new identities, and their
    client ids, which no one knows before.
    """
    names = Names(stack)
    identities = (names.controller_identity, names.nodes_identity)
    principals = {one: f"[{_reference(one)}.principalId]" for one in identities}
    clients = {one: str(uuid5(NAMESPACE_URL, one.lower())) for one in identities}
    made = template(
        (one, _with_references(one, clients) if one.kind in MACHINES else one.body)
        for one in desired(stack, TenantIds(tenant, principals, clients))
        if not one.adopted and one.kind != GROUP
    )
    return {**made, "metadata": {"description": _DEPLOY_ONCE}}


def _reference(identity: str) -> str:
    return f"reference('{identity}', '{API_VERSIONS[IDENTITY]}')"


def _with_references(machine: Resource, clients: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a machine whose user data gets the client id of its identity when it is deployed.

    :param clients: what stands for the client ids in the user data, by the identities' ids.
    """
    body: dict[str, Any] = deepcopy(dict(machine.body))
    (identity,) = body["identity"]["userAssignedIdentities"]
    properties = body["properties"]
    holder = properties.get("virtualMachineProfile", properties)
    text = base64.b64decode(holder["userData"]).decode().replace("'", "''")
    holder["userData"] = f"[base64(replace('{text}', '{clients[identity]}', {_reference(identity)}.clientId))]"
    return body


def _around(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {"$schema": SCHEMA, "contentVersion": "1.0.0.0", "resources": resources}


def _entry(one: Resource, body: Mapping[str, Any], ids: set[str]) -> dict[str, Any]:
    scope, _slash, provider = one.id.rpartition("/providers/")
    name = "/".join(provider.split("/")[2::2])
    entry: dict[str, Any] = {"type": one.kind, "apiVersion": API_VERSIONS[one.kind], "name": name}
    if "/providers/" in scope:
        entry["scope"] = scope
    entry.update(body)
    needs = [need for need in one.needs if need.lower() in ids]
    if needs:
        entry["dependsOn"] = needs
    return entry
