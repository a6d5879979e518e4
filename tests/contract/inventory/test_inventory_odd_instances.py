# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances and scale sets in unusual states: each instance stays a host, and none is confused with another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleParserError

from .clusters import CLUSTER, UNIFORM
from .lists import INSTANCES, SCALE_SETS
from .reading import Source, facts, failure, members


def test_an_instance_without_interfaces_is_a_host_without_role(source: Source) -> None:
    source.simulator.edit("compute_3", has_interfaces=False)

    inventory = source.read()

    assert "compute000003" in inventory.hosts
    assert "ansible_host" not in facts(inventory, "compute000003")
    assert "compute000003" not in members(inventory, "hpcai_compute")


def test_a_scale_set_without_orchestration_mode_is_uniform(source: Source) -> None:
    # Old scale sets lack this field.
    source.simulator.add_fault(SCALE_SETS, action="strip", fields=["properties.orchestrationMode"])

    inventory = source.read(scale_sets=["compute"])

    assert set(inventory.hosts) == UNIFORM
    assert facts(inventory, "compute000000")["azure_orchestration_mode"] == "Uniform"


@pytest.mark.parametrize("name", ["compute_3", "flex"])
def test_an_instance_without_network_profile_is_a_host(source: Source, name: str) -> None:
    instance = next(item for item in source.simulator.model.instances() if item.name.startswith(name))
    source.simulator.edit(instance.id, has_network_profile=False, has_interfaces=False, provisioning_state="Failed")

    inventory = source.read()

    assert len(inventory.hosts) == 5
    assert members(inventory, "azure_provisioning_failed") == {instance.computer_name}


def test_an_instance_without_address_is_a_host_but_not_ready(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    source.simulator.edit("compute_3", private_ipv4=None)

    inventory = source.read()

    variables = facts(inventory, "compute000003")
    assert variables["azure_private_ipv4"] is None
    assert variables["azure_ready"] is False
    assert variables["azure_power_state"] == "running"
    assert "ansible_host" not in variables
    assert "compute000003" in members(inventory, "azure_power_running")
    assert "compute000003" not in members(inventory, "hpcai_compute")
    assert "5 hosts, 4 ready" in (line := capsys.readouterr().err.replace("\n", " "))
    assert "without address: 1" in line


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"provisioning_state": "Updating"}, "azure_provisioning_updating"),
        ({"provisioning_state": "Failed"}, "azure_provisioning_failed"),
        ({"provisioning_state": "Deleting"}, "azure_provisioning_deleting"),
        ({"power_state": "deallocated"}, "azure_power_deallocated"),
        ({"power_state": None}, "azure_power_unknown"),
    ],
)
def test_an_instance_that_is_not_ready_is_not_in_groups_of_hpcai_roles(
    source: Source, changes: dict[str, Any], group: str
) -> None:
    source.simulator.edit("compute_3", **changes)

    inventory = source.read()

    assert members(inventory, group) == {"compute000003"}
    assert "compute000003" in members(inventory, "azure_vmss_compute")
    assert members(inventory, "hpcai_compute") & UNIFORM == UNIFORM - {"compute000003"}
    assert members(inventory, "azure_role_compute") > UNIFORM


def test_two_instances_with_the_same_name_are_an_error_that_names_both(source: Source) -> None:
    source.simulator.edit("compute_3", computer_name="compute000000")

    error = failure(source)

    assert "two instances have the same host name 'compute000000'" in error
    assert source.simulator.instance("compute_0").id in error
    assert source.simulator.instance("compute_3").id in error


def test_a_duplicate_name_is_no_error_if_one_instance_is_filtered_out(source: Source) -> None:
    source.simulator.edit("compute_3", computer_name="compute000000")

    inventory = source.read(query="azure_instance_id == '0'")

    assert set(inventory.hosts) == {"compute000000"}


def test_instances_with_the_same_name_in_two_sources_are_an_error(simulate: Callable[..., Source]) -> None:
    here, there = simulate(), simulate({**CLUSTER, "virtual_networks": [{"name": "sim", "resource_group": "other"}]})
    group = {**CLUSTER["scale_sets"][0], "resource_group": "other"}
    there = simulate({"scale_sets": [group]})
    inventory = here.read()
    before = set(inventory.hosts)

    with pytest.raises(AnsibleParserError, match="two instances have the same host name 'compute000000'"):
        there.read(into=inventory)

    assert set(inventory.hosts) == before


def test_an_instance_without_computer_name_gets_its_resource_name(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, action="strip", fields=["properties.osProfile"])

    inventory = source.read(scale_sets=["compute"])

    assert set(inventory.hosts) == {"compute_0", "compute_3", "compute_17"}
