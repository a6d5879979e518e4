# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Slurm calls a node: the inventory and the node come to the same name."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_name import own_node_name
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import node_name

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"


def uniform(scale_set: str, instance_id: str, computer_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An instance of a Uniform scale set, as the metadata service and as the inventory have it."""
    compute = {
        "name": f"{scale_set}_{instance_id}",
        "vmScaleSetName": scale_set,
        "resourceId": f"{GROUP}/virtualMachineScaleSets/{scale_set}/virtualMachines/{instance_id}",
        "osProfile": {"computerName": computer_name},
    }
    return compute, {
        "azure_vmss": scale_set,
        "azure_instance_id": instance_id,
        "azure_computer_name": computer_name,
        "inventory_hostname": computer_name,
    }


def machine(name: str, scale_set: str, computer_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine of a Flexible set or of none."""
    compute = {
        "name": name,
        "vmScaleSetName": scale_set,
        "resourceId": f"{GROUP}/virtualMachines/{name}",
        "osProfile": {"computerName": computer_name},
    }
    return compute, {
        "azure_vmss": scale_set or None,
        "azure_instance_id": None,
        "azure_computer_name": computer_name or None,
        "inventory_hostname": name,
    }


@pytest.mark.parametrize(
    ("described", "name"),
    [
        (uniform("compute", "17", "compute00000H"), "compute-17"),
        (uniform("compute", "0", "compute000000"), "compute-0"),
        (uniform("my_gpu_set", "4", "mygpuset000004"), "my_gpu_set-4"),
        (uniform("GPU-Set", "12", "gpu-set00000C"), "GPU-Set-12"),
        (uniform("set_3", "3", "set000003"), "set_3-3"),
        (machine("flex_a1b2c3d4", "flex", "flexa1b2c3d4"), "flexa1b2c3d4"),
        # All its hexadecimal digits happen to be decimal ones.
        (machine("flex_12345678", "flex", "flexQ7"), "flexQ7"),
        (machine("login", "", "login-host"), "login-host"),
        (machine("ctl_1", "", "ctl"), "ctl"),
        (machine("vm", "", ""), "vm"),
    ],
)
def test_inventory_and_node_come_to_the_same_name(described: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    compute, hostvars = described
    assert own_node_name(compute) == name
    assert node_name(hostvars) == name


def test_the_name_alone_tells_where_the_service_gives_no_resource_id() -> None:
    compute, _hostvars = uniform("compute", "17", "compute00000H")
    del compute["resourceId"]
    assert own_node_name(compute) == "compute-17"


@pytest.mark.parametrize("name", ["other_17", "compute_", "compute", "compute_x", "compute_-1", "compute_\u0663"])
def test_a_name_that_is_no_instance_of_its_set_gives_way_to_the_computer_name(name: str) -> None:
    compute = {"name": name, "vmScaleSetName": "compute", "osProfile": {"computerName": "host"}}
    assert own_node_name(compute) == "host"


@pytest.mark.parametrize("compute", [{}, {"name": "", "osProfile": None}, {"name": None, "osProfile": {}}])
def test_a_machine_without_a_name_has_no_node_name(compute: dict[str, Any]) -> None:
    assert own_node_name(compute) is None
