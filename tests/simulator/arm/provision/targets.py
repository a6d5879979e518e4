# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ids of resources, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.arm.errors import ArmError

GROUPS = "Microsoft.Resources/resourceGroups"
DEPLOYMENTS = "Microsoft.Resources/deployments"
PREFIX = re.compile(r"/subscriptions/(?P<subscription>[^/]+)(?:/resourcegroups/(?P<group>[^/]+))?", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """One resource, which need not exist."""

    id: str
    """With the type as Azure writes it."""
    kind: str
    group: str
    """The resource group, or "" at the level of the subscription."""
    name: str
    parent: str
    """The id of the resource above, or "" without one."""
    scope: str
    """The id of the resource, group or subscription that it belongs to."""


def target(path: str, kinds: dict[str, str]) -> Target | None:
    """The resource of a path. None if the path names a list. ``kinds`` are the known types by lower-case name."""
    path = path.rstrip("/")
    found = PREFIX.match(path)
    if found is None:
        raise _unknown(path)
    group = found["group"] or ""
    if found.end() == len(path):
        return Target(_group_id(found["subscription"], group), GROUPS, group, group, "", "") if group else None
    start = path.lower().rfind("/providers/")
    if start < 0:
        raise _unknown(path)
    scope, parts = path[:start], path[start + len("/providers/") :].split("/")
    if len(parts) % 2 == 0:
        return None
    kind = kinds.get("/".join([parts[0], *parts[1::2]]).lower())
    if kind is None:
        raise _unknown("/".join([parts[0], *parts[1::2]]))
    scope = _canonical_scope(scope, kinds)
    words = kind.split("/")
    ids = [f"{scope}/providers/{words[0]}"]
    for word, name in zip(words[1:], parts[2::2], strict=True):
        ids.append(f"{ids[-1]}/{word}/{name}")
    return Target(ids[-1], kind, group, parts[-1], ids[-2] if len(ids) > 2 else "", scope)


def _canonical_scope(scope: str, kinds: dict[str, str]) -> str:
    found = PREFIX.match(scope)
    if found is not None and found.end() == len(scope):
        return _group_id(found["subscription"], found["group"] or "")
    above = target(scope, kinds)
    if above is None:
        raise _unknown(scope)
    return above.id


def _group_id(subscription: str, group: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{group}" if group else f"/subscriptions/{subscription}"


def _unknown(path: str) -> ArmError:
    return ArmError(404, "InvalidResourceType", f"The resource type could not be found: {path}")
