# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory knows of a scale set, made from the SDK's object."""

from __future__ import annotations

from typing import Any, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import canonical_size

from .identifiers import name_of, resource_group_of, subscription_of, virtual_network_of

UNIFORM = "Uniform"
FLEXIBLE = "Flexible"


class ScaleSetFacts(TypedDict):
    """One scale set; None where the payload carries nothing.

    ``capacity`` is how many instances were ordered, ``found`` how many were listed.
    """

    id: str
    name: str
    resource_group: str
    subscription_id: str
    location: str | None
    orchestration_mode: str
    vm_size: str | None
    capacity: int | None
    found: int
    single_placement_group: bool | None
    accelerated_networking: bool | None
    virtual_networks: list[str]
    priority: str | None
    tags: dict[str, str]


def from_scale_set(scale_set: Any) -> ScaleSetFacts:
    """Return the facts of a scale set (`virtual_machine_scale_sets.list_all`)."""
    resource_id = str(scale_set.id)
    mode = scale_set.orchestration_mode
    sku = scale_set.sku
    size = sku.name if sku else None
    profile = scale_set.virtual_machine_profile
    priority = profile.priority if profile else None
    network = profile.network_profile if profile else None
    interfaces = (network.network_interface_configurations if network else None) or []
    single = scale_set.single_placement_group
    location = scale_set.location
    return {
        "id": resource_id,
        "name": str(scale_set.name or name_of(resource_id)),
        "resource_group": resource_group_of(resource_id) or "",
        "subscription_id": subscription_of(resource_id) or "",
        "location": str(location).replace(" ", "").lower() if location else None,
        # Scale sets from before there was a choice do not say what they are; all of those are Uniform.
        "orchestration_mode": FLEXIBLE if _plain(mode) == FLEXIBLE else UNIFORM,
        "vm_size": canonical_size(str(size)) if size else None,
        "capacity": sku.capacity if sku else None,
        "found": 0,
        "single_placement_group": None if single is None else bool(single),
        "accelerated_networking": _accelerated(interfaces),
        "virtual_networks": _virtual_networks(interfaces),
        "priority": _plain(priority),
        "tags": {str(key): str(value) for key, value in (scale_set.tags or {}).items()},
    }


def _accelerated(interfaces: list[Any]) -> bool | None:
    """Return what the primary interface of the model says; a set of one interface need not call it primary."""
    for interface in sorted(interfaces, key=lambda candidate: not candidate.primary):
        enabled = interface.enable_accelerated_networking
        return None if enabled is None else bool(enabled)
    return None


def _virtual_networks(interfaces: list[Any]) -> list[str]:
    found: dict[str, str] = {}
    for interface in interfaces:
        for configuration in interface.ip_configurations or ():
            subnet = configuration.subnet
            network = virtual_network_of(str(subnet.id)) if subnet and subnet.id else None
            if network:
                found.setdefault(network.lower(), network)
    return list(found.values())


def _plain(value: Any) -> str | None:
    return None if value is None else str(getattr(value, "value", value))
