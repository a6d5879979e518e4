# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role assignments of identities, and the actions that they allow."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from simulator.limits import CATALOG
from simulator.model import Model
from simulator.resources import Document, Instance, ScaleSet, now

ASSIGNMENTS = "Microsoft.Authorization/roleAssignments"
DEFINITIONS = "Microsoft.Authorization/roleDefinitions"


def definitions(model: Model) -> list[dict[str, Any]]:
    """All roles: the built-in ones that the simulator knows, and those that a client made."""
    found = [
        {
            "id": f"/subscriptions/{model.subscription}/providers/{DEFINITIONS}/{role['id']}",
            "name": role["id"],
            "type": DEFINITIONS,
            "properties": {
                "roleName": role["name"],
                "type": "BuiltInRole",
                "description": "",
                "assignableScopes": ["/"],
                "permissions": [
                    {key: role.get(key, []) for key in ("actions", "notActions", "dataActions", "notDataActions")}
                ],
            },
        }
        for role in CATALOG["roles"]
    ]
    made = model.documents.of(DEFINITIONS)
    return found + [{"id": item.id, "name": item.name, "type": item.kind, **item.body} for item in made]


def definition(model: Model, azure_id: str) -> dict[str, Any] | None:
    """The role with this id. The scope in the id does not matter."""
    wanted = azure_id.lower().rpartition("/")[2]
    return next((role for role in definitions(model) if role["name"].lower() == wanted), None)


def is_known(model: Model, azure_id: str) -> bool:
    """Whether the role with this id exists, and the server that is asked knows it."""
    name = azure_id.lower().rpartition("/")[2]
    made = [item for item in model.documents.of(DEFINITIONS) if item.name.lower() == name]
    return definition(model, azure_id) is not None and all(has_spread(model, item) for item in made)


def permissions_at(model: Model, scope: str) -> list[dict[str, Any]]:
    """What whoever has the token may do at a scope."""
    return [
        {key: value for key, value in entry.items() if key != "scope"}
        for entry in model.limits.permissions
        if "scope" not in entry or f"{scope}/".lower().startswith(f"{entry['scope']}/".lower())
    ]


def allows(permissions: Iterable[Mapping[str, Any]], action: str, kind: str = "actions") -> bool:
    """Whether permissions allow an action. ``kind`` is actions or dataActions."""
    without = {"actions": "notActions", "dataActions": "notDataActions"}[kind]
    return any(
        _matches(entry.get(kind) or [], action) and not _matches(entry.get(without) or [], action)
        for entry in permissions
    )


def _matches(patterns: Collection[str], action: str) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def has_spread(model: Model, item: Document) -> bool:
    """Whether the server that is asked knows an assignment, a role or an identity.

    "It can take up to 10 minutes for changes to take effect", and not on all servers at once (MicrosoftDocs/azure-docs,
    role-based-access-control/troubleshooting; Azure/bicep issue 9634 for new roles).
    """
    age_s, limits = (now() - item.created).total_seconds(), model.limits
    if age_s < limits.role_delay_s:
        return False
    if age_s >= limits.role_delay_s + limits.role_flap_s:
        return True
    item.asked += 1
    return item.asked % 7 != 1


def identity_allows(
    model: Model, principals: frozenset[str], scope: str, action: str, kind: str = "dataActions"
) -> bool:
    """Whether a role that one of the principals has at a scope or above allows an action.

    An empty scope is any resource group, or the subscription.
    """
    for item in model.documents.of(ASSIGNMENTS):
        if item.properties["principalId"].lower() not in principals or not has_spread(model, item):
            continue
        where = item.properties["scope"].lower()
        inside = (
            scope.lower() == where or scope.lower().startswith(where + "/") if scope else "/providers/" not in where
        )
        if not inside:
            continue
        role = definition(model, item.properties["roleDefinitionId"])
        if role is not None and allows(role["properties"]["permissions"], action, kind):
            return True
    return False


def principals_of(body: Mapping[str, Any] | None, client_id: str = "") -> set[str]:
    """The principal ids of the identity of a machine or scale set, in lower case."""
    identity = (body or {}).get("identity") or {}
    assigned = (identity.get("userAssignedIdentities") or {}).values()
    if client_id:
        return {item["principalId"].lower() for item in assigned if item["clientId"] == client_id}
    own = identity.get("principalId")
    return {own.lower()} if own else {item["principalId"].lower() for item in assigned}


def known_principals(model: Model) -> dict[str, Document | None]:
    """All principals that exist, with the document of the identity for those that have one."""
    found: dict[str, Document | None] = {}
    for item in model.documents.of("Microsoft.ManagedIdentity/userAssignedIdentities"):
        found[item.properties["principalId"].lower()] = item
    holders: list[Instance | ScaleSet] = [*model.machines.values(), *model.scale_sets.values()]
    for machine in holders:
        for principal in principals_of(machine.sent):
            found.setdefault(principal, None)
    return found
