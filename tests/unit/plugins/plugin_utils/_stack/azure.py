# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Azure's answers about a stack, made from what the stack sends: with what Azure adds, and what others add."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.desired import TenantIds, desired
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record, unique_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import Resource

TENANT = "00000000-0000-4000-8000-0000000000aa"
NODES, CONTROLLER = "00000000-0000-4000-8000-0000000000bb", "00000000-0000-4000-8000-0000000000cc"
"""Client ids of the identities."""
FOREIGN_RULE = {
    "name": "backup-agent",
    "etag": 'W/"7"',
    "properties": {"priority": 300, "access": "Allow", "provisioningState": "Succeeded"},
}

Answers = dict[str, dict[str, Any] | None]


def known(stack: Stack) -> TenantIds:
    """What is known about a stack whose identities exist."""
    names = Names(stack)
    return TenantIds(
        TENANT,
        {names.nodes_identity: "principal-nodes", names.controller_identity: "principal-controller"},
        {names.nodes_identity: NODES, names.controller_identity: CONTROLLER},
    )


def resources_of(stack: Stack) -> tuple[Resource, ...]:
    """The resources of a stack whose identities exist."""
    return desired(stack, known(stack))


def answers(stack: Stack) -> Answers:
    """What Azure answers about a stack that was provisioned without an error."""
    return {one.id.lower(): answer(stack, one) for one in resources_of(stack)}


def answer(stack: Stack, one: Resource) -> dict[str, Any]:
    """Azure's answer about one resource."""
    body = copy.deepcopy(dict(one.body))
    body |= {"id": one.id.upper(), "name": one.name, "type": one.kind, "etag": 'W/"1"'}
    if body.get("location") == stack.location:
        body["location"] = "Sweden Central"
    if one.kind not in kinds.UNTAGGED and not one.adopted:
        body["tags"] = {**body.get("tags", {}), "costCentre": "4711"}
    properties = body.setdefault("properties", {})
    properties["provisioningState"] = "Succeeded"
    if one.kind in kinds.UNIQUE:
        properties[kinds.UNIQUE[one.kind]] = f"unique-{one.name}"
    if one.kind == kinds.SCALE_SET:
        body["sku"]["capacity"] = 40
    if one.kind == kinds.IDENTITY:
        properties["principalId"] = known(stack).principals[one.id]
        properties["clientId"] = known(stack).clients[one.id]
    if one.kind == kinds.NSG:
        properties["securityRules"].append(copy.deepcopy(FOREIGN_RULE))
        properties["defaultSecurityRules"] = [{"name": "DenyAllInBound"}]
    if one.kind == kinds.VNET and not one.adopted:
        for subnet in properties["subnets"]:
            subnet["id"] = f"{one.id}/subnets/{subnet['name']}"
            subnet["properties"]["ipConfigurations"] = []
        properties["subnets"].append({"name": "peering", "properties": {"addressPrefix": "10.42.100.0/24"}})
        properties["addressSpace"]["addressPrefixes"].append("10.99.0.0/16")
    return body


def record_of(stack: Stack) -> Record:
    """The record of a stack that was provisioned without an error."""
    found = answers(stack)
    return Record(
        stack.owner,
        {one.id: unique_of(one.kind, found[one.id.lower()] or {}) for one in resources_of(stack) if not one.adopted},
    )


def at(found: Answers, resource_id: str) -> dict[str, Any]:
    """The answer about one resource, to change it."""
    answer = found[resource_id.lower()]
    assert answer is not None
    return answer
