# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups that come by themselves: what an instance is and in which state, and its roles while it is ready."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from .instance_facts import InstanceFacts
from .scale_set_facts import ScaleSetFacts

EVERYONE = "azure_hosts"
MODEL_OUTDATED = "azure_model_outdated"
ROLE_PREFIX = "hpcai_"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")


def safe(name: str) -> str:
    """Return ``name`` as a part of a group name: Azure's names have hyphens, and no case that counts."""
    return _NOT_IN_NAMES.sub("_", name.lower())


def scale_set_groups(scale_sets: Sequence[ScaleSetFacts]) -> dict[str, str]:
    """Return the group of each scale set, by its id in lower case.

    Where two sets would share a group, the resource group and then the subscription tell them apart.
    """
    groups: dict[str, str] = {}
    by_name: dict[str, list[ScaleSetFacts]] = {}
    for scale_set in scale_sets:
        by_name.setdefault(f"azure_vmss_{safe(scale_set['name'])}", []).append(scale_set)
    for group, members in by_name.items():
        for scale_set in members:
            name = group
            if len(members) > 1:
                name = f"{group}_{safe(scale_set['resource_group'])}"
                if len({member["resource_group"].lower() for member in members}) < len(members):
                    name = f"{name}_{safe(scale_set['subscription_id'])}"
            groups[scale_set["id"].lower()] = name
    return groups


def groups_of(facts: InstanceFacts, scale_set_group: str | None) -> list[str]:
    """Return the groups of one instance."""
    groups = [
        EVERYONE,
        *_state_groups(
            facts["azure_vm_size"],
            facts["azure_location"],
            facts["azure_zone"],
            facts["azure_placement_group"],
            facts["azure_power_state"],
            facts["azure_provisioning_state"],
            facts["azure_latest_model"],
        ),
    ]
    if scale_set_group:
        groups.append(scale_set_group)
    for role in facts["azure_roles"]:
        # What an instance is meant for does not change with its state: one that is stopped stays a node of its cluster.
        groups.append(f"azure_role_{safe(role)}")
        if facts["azure_ready"]:
            groups.append(role_group(role))
    return groups


def size_group(vm_size: str) -> str:
    """Return the group of a VM size."""
    return f"azure_size_{safe(vm_size)}"


def role_group(role: str) -> str:
    """Return the group of a role."""
    return ROLE_PREFIX + safe(role)


# Thousands of instances share a handful of these.
@lru_cache(maxsize=1024)
def _state_groups(
    vm_size: str | None,
    location: str | None,
    zone: str | None,
    placement_group: str | None,
    power: str | None,
    provisioning: str | None,
    latest_model: bool | None,
) -> tuple[str, ...]:
    groups = [f"azure_power_{safe(power or 'unknown')}", f"azure_provisioning_{safe(provisioning or 'unknown')}"]
    if vm_size:
        groups.append(size_group(vm_size))
    if location:
        groups.append(f"azure_location_{safe(location)}")
    if location and zone:
        groups.append(f"azure_zone_{safe(location)}_{safe(zone)}")
    if placement_group:
        groups.append(f"azure_placement_group_{safe(placement_group)}")
    if latest_model is False:
        groups.append(MODEL_OUTDATED)
    return tuple(groups)
