# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights, roles, role assignments and locks, at every scope."""

from __future__ import annotations

from flask import Blueprint, Response

from simulator import roles
from simulator.arm.context import context, many, one
from simulator.arm.documents import encode, encode_item, path
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.paging import query
from simulator.arm.provision import rights

blueprint = Blueprint("authorization", __name__)
SUBSCRIPTION = "/subscriptions/<subscription>"
AUTHORIZATION = "/providers/microsoft.authorization"


def _scope(kind: str) -> str:
    return path().rstrip("/")[: -len(f"{AUTHORIZATION}/{kind}")]


@blueprint.get(f"{SUBSCRIPTION}{AUTHORIZATION}/permissions")
@blueprint.get(f"{SUBSCRIPTION}/<path:rest>{AUTHORIZATION}/permissions")
def list_permissions(subscription: str, rest: str = "") -> Response:
    """The caller's rights at a scope."""
    return many([encode(item) for item in roles.permissions_at(context().model, _scope("permissions"))], None)


@blueprint.get(f"{SUBSCRIPTION}{AUTHORIZATION}/roledefinitions")
@blueprint.get(f"{SUBSCRIPTION}/<path:rest>{AUTHORIZATION}/roledefinitions")
def list_roles(subscription: str, rest: str = "") -> Response:
    """All roles, or with a filter the role of a name."""
    found = roles.definitions(context().model)
    text = query().get("$filter") or ""
    if text:
        key, equals, name = text.partition(" eq ")
        if key.strip().lower() != "rolename" or not equals:
            raise bad_parameter("$filter", f"'{text}' is not supported: roleName eq '<name>'")
        found = [item for item in found if item["properties"]["roleName"].lower() == name.strip().strip("'").lower()]
    return many([encode(item) for item in found], None)


@blueprint.get(f"{SUBSCRIPTION}{AUTHORIZATION}/roledefinitions/<name>")
@blueprint.get(f"{SUBSCRIPTION}/<path:rest>{AUTHORIZATION}/roledefinitions/<name>")
def show_role(subscription: str, name: str, rest: str = "") -> Response:
    """One role."""
    found = roles.definition(context().model, f"/{name}")
    if found is None:
        raise ArmError(
            404, "RoleDefinitionDoesNotExist", f"The specified role definition with ID '{name}' does not exist."
        )
    return one(encode(found))


@blueprint.get(f"{SUBSCRIPTION}{AUTHORIZATION}/roleassignments")
@blueprint.get(f"{SUBSCRIPTION}/<path:rest>{AUTHORIZATION}/roleassignments")
def list_assignments(subscription: str, rest: str = "") -> Response:
    """The role assignments at a scope, above it, and without the filter atScope() below it."""
    scope = _scope("roleassignments").lower()
    text = (query().get("$filter") or "").strip()
    principal = text.partition(" eq ")[2].strip("' ").lower()
    if text and text != "atScope()" and not text.lower().startswith(("principalid eq ", "assignedto(")):
        raise bad_parameter("$filter", f"'{text}' is not supported: atScope() or principalId eq '<id>'")
    found = []
    for item in context().model.documents.of(roles.ASSIGNMENTS):
        where = item.properties["scope"].lower()
        inside = where.startswith(scope + "/") and text != "atScope()"
        if (where == scope or scope.startswith(where + "/") or inside) and (
            not principal or item.properties["principalId"].lower() == principal
        ):
            found.append(item)
    return many([encode_item(item) for item in found], None)


@blueprint.get(f"{SUBSCRIPTION}{AUTHORIZATION}/locks")
@blueprint.get(f"{SUBSCRIPTION}/<path:rest>{AUTHORIZATION}/locks")
def list_locks(subscription: str, rest: str = "") -> Response:
    """The locks at a scope, above and below it."""
    found = rights.locks_on(context(), _scope("locks"), below=True)
    return many([encode_item(item) for item in found], None)
