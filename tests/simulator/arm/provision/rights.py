# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what: rights of the caller, policies, locks, registered providers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator import roles
from simulator.arm.context import Context
from simulator.arm.errors import ArmError
from simulator.arm.provision.kinds import Change, references
from simulator.arm.provision.targets import Target
from simulator.resources import Document

LOCKS = "Microsoft.Authorization/locks"
CALLER = "00000000-0000-4000-8000-00000000c11e"
"""The object id of whoever has the token."""
_LINKED = {
    "microsoft.managedidentity/userassignedidentities": "assign",
    **dict.fromkeys(
        (
            "microsoft.network/virtualnetworks",
            "microsoft.network/virtualnetworks/subnets",
            "microsoft.network/networksecuritygroups",
            "microsoft.network/natgateways",
            "microsoft.network/publicipaddresses",
            "microsoft.network/networkinterfaces",
            "microsoft.network/privatednszones",
        ),
        "join",
    ),
}
"""What a caller must be allowed to do with a resource to which its request refers, by the resource's type. Source:
MicrosoftDocs/azure-docs, role-based-access-control/resource-provider-operations."""
_VERBS = {"PUT": "write", "PATCH": "write", "DELETE": "delete", "POST": "action"}


def check_provider(state: Context, kind: str) -> None:
    """Raise ArmError if the subscription is not registered for the provider of a type."""
    namespace = kind.partition("/")[0]
    unregistered = [*state.options.unregistered, *state.model.limits.unregistered]
    if namespace.lower() in [item.lower() for item in unregistered]:
        raise ArmError(
            409,
            "MissingSubscriptionRegistration",
            f"The subscription is not registered to use namespace '{namespace}'. See https://aka.ms/rps-not-found for "
            "how to register subscriptions.",
        )


def action_of(method: str, path: str) -> tuple[str, str]:
    """The action that a request needs, and at which scope; an empty one: at any resource group, or the subscription.

    The URL of an operation is below the subscription. "If you only have permission at the resource level, you can start
    the operation but can't track its status"; a role at the resource group suffices (MicrosoftDocs/azure-docs,
    azure-resource-manager/management/async-operations, "Permission for tracking async status").
    """
    namespace, *parts = path.rpartition("/providers/")[2].strip("/").split("/")
    if "/providers/" not in path:
        namespace, parts = "Microsoft.Resources", [namespace, *parts]
    scope = path[: -len(parts[-1]) - 1] if len(parts) % 2 else path
    if [part.lower() for part in parts[::2]] == ["locations", "operations"]:
        scope = ""
    return "/".join([namespace, *parts[::2], _VERBS.get(method, "read")]), scope


def check_identity(state: Context, principals: frozenset[str], method: str, path: str, expand: str) -> None:
    """Raise ArmError if the roles of a machine's identity do not allow a request.

    Azure does not document whether the list of a set's members needs another right for their instance views; here it
    does.
    """
    action, scope = action_of(method, path)
    needed = [action, action.replace("/read", "/instanceView/read")] if expand.lower() == "instanceview" else [action]
    for one in needed:
        if not roles.identity_allows(state.model, principals, scope, one, "actions"):
            who = next(iter(principals))
            raise ArmError(
                403,
                "AuthorizationFailed",
                f"The client '{who}' with object id '{who}' does not have authorization to perform action '{one}' over "
                f"scope '{scope or path}' or the scope is invalid.",
            )


def check_action(state: Context, action: str, scope: str) -> None:
    """Raise ArmError if the caller has no right to an action."""
    if not roles.allows(roles.permissions_at(state.model, scope), action):
        raise ArmError(
            403,
            "AuthorizationFailed",
            f"The client '{CALLER}' with object id '{CALLER}' does not have authorization to perform action '{action}' "
            f"over scope '{scope}' or the scope is invalid. If access was recently granted, please refresh your "
            "credentials.",
        )


def check_links(state: Context, place: Target, body: Any) -> None:
    """Raise ArmError if the caller has no right to use a resource that the request refers to."""
    for path, azure_id in _links(body):
        namespace, *parts = azure_id.rpartition("/providers/")[2].split("/")
        kind = "/".join([namespace, *parts[::2]])
        verb = _LINKED.get(kind.lower())
        if verb is None or f"{azure_id}/".lower().startswith(f"{place.id}/".lower()):
            continue
        if ".networkAcls." in path:
            verb = "joinViaServiceEndpoint"
        action = f"{kind}/{verb}/action"
        if not roles.allows(roles.permissions_at(state.model, azure_id), action):
            # As in microsoft/planetary-computer-hub pull request 25.
            raise ArmError(
                403,
                "LinkedAuthorizationFailed",
                f"The client '{CALLER}' with object id '{CALLER}' has permission to perform action "
                f"'{place.kind}/write' on scope '{place.id}'; however, it does not have permission to perform action "
                f"'{action}' on the linked scope(s) '{azure_id}' or the linked scope(s) are invalid.",
            )


def _links(body: Any) -> Iterator[tuple[str, str]]:
    """The ids in a request, with their dotted paths."""
    yield from references(body)
    for azure_id in ((body.get("identity") or {}).get("userAssignedIdentities") or {}) if body else ():
        yield "identity", azure_id
    for config in ((body or {}).get("properties") or {}).get("privateDnsZoneConfigs") or []:
        yield "privateDnsZoneConfigs", config["properties"]["privateDnsZoneId"]


def check_policies(change: Change) -> None:
    """Raise ArmError if a policy denies the resource."""
    for policy in change.state.model.limits.policies:
        if policy["type"].lower() != change.target.kind.lower():
            continue
        if policy.get("path") and _at(change.body, policy["path"]) != policy.get("value"):
            continue
        where = f"/subscriptions/{change.state.model.subscription}/providers/Microsoft.Authorization"
        assignment = {"name": policy["name"], "id": f"{where}/policyAssignments/{policy['name']}"}
        identifiers = json.dumps([{"policyAssignment": assignment}])
        raise ArmError(
            403,
            "RequestDisallowedByPolicy",
            f"Resource '{change.target.name}' was disallowed by policy. Policy identifiers: '{identifiers}'.",
        )


def locks_on(state: Context, azure_id: str, *, below: bool = False) -> list[Document]:
    """The locks at a scope and above it, and with ``below`` those on anything in it."""
    wanted = azure_id.lower()
    found: list[Document] = []
    for lock in state.model.documents.of(LOCKS):
        where = lock.id.lower().rpartition("/providers/")[0]
        if wanted == where or wanted.startswith(where + "/") or (below and where.startswith(wanted + "/")):
            found.append(lock)
    return found


def check_locks(state: Context, azure_id: str, kind: str, *, deletes: bool) -> None:
    """Raise ArmError if a lock forbids to write or delete a resource."""
    if kind == LOCKS:
        return
    for lock in locks_on(state, azure_id, below=deletes):
        level = lock.properties["level"]
        if level == "ReadOnly" or (deletes and level == "CanNotDelete"):
            where = lock.id.rpartition("/providers/")[0]
            raise ArmError(
                409,
                "ScopeLocked",
                f"The scope '{azure_id}' cannot perform {'delete' if deletes else 'write'} operation because following "
                f"scope(s) are locked: '{where}'. Please remove the lock and try again.",
            )


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def storage_taken(state: Context, name: str) -> bool:
    """Whether an account of this name exists anywhere."""
    known = [item.name.lower() for item in state.model.documents.of("Microsoft.Storage/storageAccounts")]
    return name.lower() in known or name.lower() in [item.lower() for item in state.model.limits.foreign_names]
