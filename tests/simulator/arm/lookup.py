# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the resource of a path in any case, or raise Azure's error for a missing one."""

from __future__ import annotations

from simulator.arm.context import context
from simulator.arm.errors import group_not_found, instance_not_found, resource_not_found
from simulator.resources import COMPUTE, Instance, ScaleSet


def group(name: str | None) -> str | None:
    """The lower-case name of an existing resource group."""
    if name is not None and name.lower() not in context().model.resource_groups:
        raise group_not_found(name)
    return name.lower() if name is not None else None


def scale_set(resource_group: str, name: str) -> ScaleSet:
    """A scale set."""
    model = context().model
    group(resource_group)
    wanted = (
        f"/subscriptions/{model.subscription}/resourcegroups/{resource_group}"
        f"/providers/microsoft.compute/virtualmachinescalesets/{name}"
    ).lower()
    found = model.scale_sets.get(wanted)
    if found is None:
        raise resource_not_found(f"{COMPUTE}/virtualMachineScaleSets", name, resource_group)
    return found


def member(resource_group: str, set_name: str, instance_id: str) -> Instance:
    """An instance of a scale set by its instance id (in a Flexible set: by its name)."""
    found = scale_set(resource_group, set_name).members.get(instance_id.lower())
    if found is None:
        raise instance_not_found(instance_id)
    return found


def machine(resource_group: str, name: str) -> Instance:
    """A stand-alone or Flexible virtual machine."""
    model = context().model
    group(resource_group)
    wanted = (
        f"/subscriptions/{model.subscription}/resourcegroups/{resource_group}"
        f"/providers/microsoft.compute/virtualmachines/{name}"
    ).lower()
    found = model.machines.get(wanted)
    if found is None:
        raise resource_not_found(f"{COMPUTE}/virtualMachines", name, resource_group)
    return found
