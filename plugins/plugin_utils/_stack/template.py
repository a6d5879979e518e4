# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates of Azure Resource Manager: literal JSON, readable in a review. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .data import assignments
from .desired import Known, desired
from .model import Stack
from .names import Names
from .ownership import Record
from .resource import API_VERSIONS, GROUP, IDENTITY, SECRET, Resource

SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
_SECRET_PARAMETER = "mungeKey"


def template(entries: Iterable[tuple[Resource, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the template of resources with these bodies. It contains no expression.

    Dependencies on resources that are not in the template are left out, because these exist.
    """
    entries = list(entries)
    ids = {one.id.lower() for one, _body in entries}
    return _around([_entry(one, body, ids) for one, body in entries])


def record_template(record: Record) -> dict[str, Any]:
    """Return the template of the deployment that only records what the stack made."""
    return {**_around([]), "outputs": record.as_output()}


def export(stack: Stack, tenant: str) -> dict[str, Any]:
    """Return the full template, for teams that deploy themselves.

    Besides literals it has two things that no one knows before: the ids of the principals of new identities, and the
    munge key, which is a parameter, so that it is in no file.
    """
    names = Names(stack)
    principals = {
        one.identity: f"[reference('{one.identity}', '{API_VERSIONS[IDENTITY]}').principalId]"
        for one in assignments(stack, names)
    }
    entries: list[tuple[Resource, Mapping[str, Any]]] = []
    for one in desired(stack, Known(tenant, principals)):
        if one.adopted or one.kind == GROUP:
            continue
        entries.append((one, secret_body(f"[parameters('{_SECRET_PARAMETER}')]") if one.kind == SECRET else one.body))
    made = template(entries)
    if any(one.kind == SECRET for one, _body in entries):
        made["parameters"] = {
            _SECRET_PARAMETER: {
                "type": "securestring",
                "metadata": {"description": "128 letters and digits: tr -dc A-Za-z0-9 </dev/urandom | head -c 128"},
            }
        }
    return made


def secret_body(value: str) -> dict[str, Any]:
    """Return the body of the secret with the munge key.

    :param value: the key, a text that is used as it is.
    """
    return {"properties": {"value": value, "contentType": "munge key"}}


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
