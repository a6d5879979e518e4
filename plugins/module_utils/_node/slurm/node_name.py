# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What Slurm calls a node: the rule by which the inventory and the node itself come to the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def node_name_of(scale_set: str | None, instance_id: str | None, computer_name: str) -> str:
    """Return the NodeName of a machine.

    An instance of a Uniform scale set is ``<set>-<instance id>``, which gives short host lists. Everything else goes by
    its computer name.

    :param instance_id: its id in the set, decimal; instances of Flexible sets have none.
    """
    if scale_set and instance_id is not None and instance_id.isdecimal() and instance_id.isascii():
        return f"{scale_set}-{instance_id}"
    return computer_name


def own_node_name(compute: Mapping[str, Any]) -> str | None:
    """Return the NodeName of the machine that the metadata service described; None if it did not name it.

    :param compute: the service's ``compute`` document. An instance of a Uniform set is called ``SET_ID`` there. So may
        one of a Flexible set be, ``SET_`` and eight hexadecimal digits; its resource id tells the two apart.
    """
    name, scale_set = str(compute.get("name") or ""), str(compute.get("vmScaleSetName") or "")
    profile = compute.get("osProfile")
    computer_name = str((profile.get("computerName") if isinstance(profile, Mapping) else "") or name)
    instance_id = None
    resource_id = str(compute.get("resourceId") or "")
    if scale_set and (not resource_id or "/virtualmachinescalesets/" in resource_id.lower()):
        set_in_name, underscore, number = name.rpartition("_")
        if underscore and set_in_name.lower() == scale_set.lower():
            scale_set, instance_id = set_in_name, number
    return node_name_of(scale_set, instance_id, computer_name) or None
