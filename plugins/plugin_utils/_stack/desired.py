# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All resources of a stack, each after those that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import resource as kinds
from .data import assignment_resources, data_resources
from .machines import machine_resources
from .model import TAG, Stack
from .names import Names
from .network import network_resources
from .resource import Resource


@dataclass(frozen=True)
class TenantIds:
    """What is read from Azure before the resources can be written down.

    :ivar tenant: id of the directory that the subscription trusts.
    :ivar principals: ids of the identities' principals, by the identities' ids. New identities have none yet.
    :ivar clients: the identities' client ids, likewise.
    """

    tenant: str
    principals: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)


def tenant_ids(stack: Stack, tenant: str, found: Mapping[str, Mapping[str, Any] | None]) -> TenantIds:
    """Return what is known about the stack's identities.

    :param found: Azure's answers by lower-case id.
    """
    names = Names(stack)
    answers = {
        one: (found.get(one.lower()) or {}).get("properties") or {}
        for one in (names.controller_identity, names.nodes_identity)
    }
    principals, clients = (
        {one: str(properties[key]) for one, properties in answers.items() if properties.get(key)}
        for key in ("principalId", "clientId")
    )
    return TenantIds(tenant, principals, clients)


def desired(stack: Stack, known: TenantIds) -> tuple[Resource, ...]:
    """Return all resources of the stack, each after those that it needs. Pure."""
    names = Names(stack)
    common = {"location": stack.location, "tags": {**stack.tags, TAG: stack.owner}}
    vault_url = f"https://{stack.key_vault.name.lower()}.{stack.suffixes.vault}"
    return in_order(
        [
            *first(stack),
            *network_resources(stack, names, common),
            *data_resources(stack, names, common, known.tenant),
            *assignment_resources(stack, names, known.principals),
            *machine_resources(stack, names, common, vault_url, known.clients),
        ]
    )


def first(stack: Stack) -> tuple[Resource, ...]:
    """Return the group and the identities, which must exist before the others can be written down."""
    names = Names(stack)
    common = {"location": stack.location, "tags": {**stack.tags, TAG: stack.owner}}
    group = Resource(stack.group_id, kinds.GROUP, {} if stack.group.adopt else common, adopted=bool(stack.group.adopt))
    return (
        group,
        *(
            Resource(identity, kinds.IDENTITY, {} if adopt else common, (group.id,), adopted=bool(adopt))
            for identity, adopt in (
                (names.controller_identity, stack.identities.controller),
                (names.nodes_identity, stack.identities.nodes),
            )
        ),
    )


def in_order(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """Return the resources, each after those that it needs."""
    waiting = list(resources)
    ids = {one.id.lower() for one in waiting}
    done: list[Resource] = []
    placed: set[str] = set()
    while waiting:
        ready = [one for one in waiting if {need.lower() for need in one.needs} & ids <= placed]
        if not ready:
            raise ValueError(f"these resources need each other: {', '.join(one.label for one in waiting)}")
        done += ready
        placed |= {one.id.lower() for one in ready}
        waiting = [one for one in waiting if one.id.lower() not in placed]
    return tuple(done)
