# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading Azure resource ids. Their case is not reliable: Azure compares them without it."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def segment(resource_id: str | None, kind: str) -> str | None:
    """Return what follows ``kind`` in a resource id, such as ``a`` in ``/subscriptions/s/resourceGroups/a``."""
    if not resource_id:
        return None
    parts = resource_id.split("/")
    wanted = kind.lower()
    for position in range(len(parts) - 1):
        if parts[position].lower() == wanted:
            return parts[position + 1] or None
    return None


def resource_group_of(resource_id: str | None) -> str | None:
    """Return the resource group of a resource id."""
    return segment(resource_id, "resourceGroups")


def subscription_of(resource_id: str | None) -> str | None:
    """Return the subscription of a resource id."""
    return segment(resource_id, "subscriptions")


def name_of(resource_id: str) -> str:
    """Return the last part of a resource id."""
    return resource_id.rstrip("/").rsplit("/", 1)[-1]


def virtual_network_of(subnet_id: str | None) -> str | None:
    """Return the id of the virtual network that a subnet belongs to."""
    if not subnet_id:
        return None
    position = subnet_id.lower().rfind("/subnets/")
    return subnet_id[:position] if position > 0 else None


def in_natural_order(resource_id: str) -> list[str | int]:
    """Return a key to sort by in which instance 3 comes before 17."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(resource_id)]
