# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsing of Azure resource ids and tags. Azure ignores case in ids and in tag names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_DIGITS = re.compile(r"(\d+)")


def segment(resource_id: str | None, kind: str) -> str | None:
    """Return what follows ``kind`` in a resource id, such as ``a`` in ``/subscriptions/s/resourceGroups/a``."""
    if not resource_id:
        return None
    segments = resource_id.split("/")
    lowered = kind.lower()
    for position in range(len(segments) - 1):
        if segments[position].lower() == lowered:
            return segments[position + 1] or None
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
    """Return a sort key that puts instance 3 before instance 17."""
    return [int(piece) if piece.isdigit() else piece for piece in _DIGITS.split(resource_id)]


TagFilter = Mapping[str, Sequence[str] | None]


def effective_tags(instance_tags: Mapping[str, str] | None, scale_set: Mapping[str, str] | None) -> dict[str, str]:
    """Return the tags of an instance: its own, and those of the scale set that it does not have itself."""
    tags = {str(name): "" if value is None else str(value) for name, value in (instance_tags or {}).items()}
    if scale_set:
        names = {name.lower() for name in tags}
        for name, value in scale_set.items():
            if name.lower() not in names:
                tags[name] = value
    return tags


def tag_value(tags: Mapping[str, str], name: str) -> str | None:
    """Return the value of a tag, or None."""
    if name in tags:
        return tags[name]
    lowered = name.lower()
    return next((value for key, value in tags.items() if key.lower() == lowered), None)


def tags_match(tags: Mapping[str, str], required: TagFilter) -> bool:
    """Say whether each required tag exists and has one of its required values. None means any value."""
    for name, values in required.items():
        value = tag_value(tags, name)
        if value is None or (values is not None and value not in values):
            return False
    return True


def roles_of(tags: Mapping[str, str], role_tag: str) -> list[str]:
    """Return the roles in the role tag, in lower case, in order, without duplicates."""
    value = tag_value(tags, role_tag) or ""
    return list(dict.fromkeys(role for item in value.split(",") if (role := item.strip().lower())))
