# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builders of facts about instances and scale sets, and of the SDK's objects for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import (
    Instance,
    InstanceFacts,
    Interface,
    ScaleSetFacts,
    from_scale_set,
    from_virtual_machine,
)

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/cluster"


class Nothing(SimpleNamespace):
    """An object of the SDK: attributes that were not set are None, as in all its releases."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def make_facts(**changes: Any) -> InstanceFacts:
    """Facts of a running stand-alone VM named `vm`, with changes. The names of changes omit `azure_`."""
    vm = Nothing(id=f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines/vm", name="vm")
    facts = from_virtual_machine(vm, None)
    ready = {"power_state": "running", "provisioning_state": "Succeeded", **changes}
    return cast(InstanceFacts, {**facts, **{f"azure_{name}": value for name, value in ready.items()}})


def make_interface(**changes: Any) -> Interface:
    """An interface without addresses, with changes."""
    interface: Interface = {
        "name": "nic",
        "primary": True,
        "accelerated_networking": None,
        "subnet": None,
        "private_ipv4": [],
        "public_ipv4": [],
    }
    return cast(Interface, {**interface, **changes})


def make_instance(*interfaces: Interface, **changes: Any) -> Instance:
    """An instance with interfaces."""
    return {"facts": make_facts(**changes), "interfaces": list(interfaces)}


def make_scale_set(
    name: str = "set", group: str = "cluster", subscription: str = SUBSCRIPTION, **sdk: Any
) -> ScaleSetFacts:
    """A scale set with an id and a name, and these attributes of the SDK's object."""
    prefix = f"/subscriptions/{subscription}/resourceGroups/{group}/providers"
    return from_scale_set(Nothing(id=f"{prefix}/Microsoft.Compute/virtualMachineScaleSets/{name}", name=name, **sdk))
