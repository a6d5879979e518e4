# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where machines may get a role: what the inventory file names, which no tag can change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypedDict

from .identifiers import name_of, resource_group_of, subscription_of


class Scope(TypedDict):
    """What a source names: subscriptions, resource groups in them, and scale sets as GROUP/NAME."""

    subscription_ids: list[str]
    resource_groups: list[str]
    scale_sets: list[str]


def make_scope(subscription_ids: Iterable[str], resource_groups: Iterable[str], scale_sets: Iterable[str]) -> Scope:
    """Return the scope of a source's options.

    A scale set without its group does not count: whoever can make a resource group can make a set of that name.
    """
    return {
        "subscription_ids": list(subscription_ids),
        "resource_groups": list(resource_groups),
        "scale_sets": [pattern for pattern in scale_sets if "/" in pattern],
    }


def names_any_place(scope: Scope) -> bool:
    """Say whether a scope is less than whole subscriptions."""
    return bool(scope["resource_groups"] or scope["scale_sets"])


def covers(scope: Scope, host: Mapping[str, str | None]) -> bool:
    """Say whether a host lies in a resource group or scale set of the scope, by the ids that Azure gave it."""
    azure_id = host.get("azure_id")
    if (subscription_of(azure_id) or "").lower() not in [item.lower() for item in scope["subscription_ids"]]:
        return False
    if (resource_group_of(azure_id) or "").lower() in [group.lower() for group in scope["resource_groups"]]:
        return True
    vmss_id = host.get("azure_vmss_id")
    return bool(vmss_id) and is_named(str(resource_group_of(vmss_id)), name_of(str(vmss_id)), scope["scale_sets"])


def is_named(resource_group: str, name: str, patterns: Iterable[str]) -> bool:
    """Say whether a scale set matches one of the patterns: NAME, or GROUP/NAME; only NAME may hold wildcards."""
    for pattern in patterns:
        group, slash, wanted = pattern.lower().rpartition("/")
        if fnmatchcase(name.lower(), wanted) and (not slash or group == resource_group.lower()):
            return True
    return False
