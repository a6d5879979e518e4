# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts, variables and groups of a resource group without faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import InstanceFacts

from .clusters import CLUSTER, COMPUTE, TAGS, UNIFORM
from .reading import Source, facts, members, report

SCHEMA = set(InstanceFacts.__annotations__)


def azure_variables(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith("azure_")}


def test_instances_of_both_kinds_and_stand_alone_vms_are_hosts(source: Source) -> None:
    inventory = source.read(include_vms="tagged")

    flexible = members(inventory, "azure_vmss_flex")
    assert len(flexible) == 2
    assert set(inventory.hosts) == UNIFORM | flexible | {"ctl"}


def test_every_kind_of_instance_has_the_same_variables(source: Source) -> None:
    inventory = source.read(include_vms="tagged")

    for host in inventory.hosts:
        assert set(azure_variables(facts(inventory, host))) == SCHEMA


def test_a_uniform_instance_has_the_values_of_azure(source: Source) -> None:
    instance = source.simulator.instance("compute00000H")
    group_id = f"/subscriptions/{source.simulator.subscription_id}/resourceGroups/hpcai-sim/providers"
    scale_set_id = f"{group_id}/Microsoft.Compute/virtualMachineScaleSets/compute"

    inventory = source.read()

    assert azure_variables(facts(inventory, "compute00000H")) == {
        "azure_id": f"{scale_set_id}/virtualMachines/17",
        "azure_vm_id": instance.vm_id,
        "azure_name": "compute_17",
        "azure_vmss": "compute",
        "azure_vmss_id": scale_set_id,
        "azure_instance_id": "17",
        "azure_orchestration_mode": "Uniform",
        "azure_vm_size": "Standard_ND96asr_v4",
        "azure_location": "southcentralus",
        "azure_zone": "1",
        "azure_fault_domain": 0,
        "azure_placement_group": instance.placement_group,
        "azure_computer_name": "compute00000H",
        "azure_admin_username": "azureuser",
        "azure_os_type": "Linux",
        "azure_ephemeral_os_disk": False,
        "azure_power_state": "running",
        "azure_provisioning_state": "Succeeded",
        "azure_health_state": None,
        "azure_latest_model": True,
        "azure_priority": None,
        "azure_image": {
            "id": None,
            "publisher": "microsoft-dsvm",
            "offer": "ubuntu-hpc",
            "sku": "2204",
            "version": "latest",
            "exact_version": "22.04.2025091101",
        },
        "azure_tags": COMPUTE,
        "azure_roles": ["compute"],
        "azure_ready": True,
        "azure_private_ipv4": instance.private_ipv4,
        "azure_public_ipv4": None,
        "azure_subnet": f"{group_id}/Microsoft.Network/virtualNetworks/sim/subnets/nodes",
        "azure_virtual_network": f"{group_id}/Microsoft.Network/virtualNetworks/sim",
        "azure_accelerated_networking": True,
        "azure_resource_group": "hpcai-sim",
        "azure_subscription_id": source.simulator.subscription_id,
    }
    assert facts(inventory, "compute00000H")["ansible_host"] == instance.private_ipv4


def test_a_flexible_instance_has_neither_model_nor_instance_id(source: Source) -> None:
    inventory = source.read()

    for host in members(inventory, "azure_vmss_flex"):
        variables = facts(inventory, host)
        assert variables["azure_orchestration_mode"] == "Flexible"
        assert variables["azure_vmss"] == "flex"
        assert variables["azure_power_state"] == "running"
        assert variables["azure_latest_model"] is None
        assert variables["azure_instance_id"] is None


def test_a_stand_alone_vm_has_a_power_state_but_no_scale_set(source: Source) -> None:
    variables = facts(source.read(include_vms="tagged"), "ctl")

    assert variables["azure_vmss"] is None
    assert variables["azure_orchestration_mode"] is None
    assert variables["azure_power_state"] == "running"
    assert variables["azure_roles"] == ["controller", "login"]


def test_hosts_are_in_the_default_groups(source: Source) -> None:
    inventory = source.read(include_vms="tagged")
    flexible = members(inventory, "azure_vmss_flex")
    everyone = UNIFORM | flexible | {"ctl"}
    placement = source.simulator.instance("compute_0").placement_group

    assert placement is not None
    groups = {name: members(inventory, name) for name in inventory.groups if name not in ("all", "ungrouped")}
    assert groups == {
        "azure_hosts": everyone,
        "azure_vmss_compute": UNIFORM,
        "azure_vmss_flex": flexible,
        "azure_size_standard_nd96asr_v4": UNIFORM,
        "azure_size_standard_hb120rs_v3": flexible,
        "azure_size_standard_d4s_v5": {"ctl"},
        "azure_location_southcentralus": everyone,
        "azure_zone_southcentralus_1": UNIFORM,
        f"azure_placement_group_{placement.replace('-', '_')}": UNIFORM,
        "azure_power_running": everyone,
        "azure_provisioning_succeeded": everyone,
        "azure_role_compute": UNIFORM | flexible,
        "azure_role_controller": {"ctl"},
        "azure_role_login": {"ctl"},
        "hpcai_compute": UNIFORM | flexible,
        "hpcai_controller": {"ctl"},
        "hpcai_login": {"ctl"},
    }


def test_instances_with_an_outdated_model_are_in_a_group(source: Source) -> None:
    source.simulator.scale_set("compute").model_version += 1

    inventory = source.read()

    assert members(inventory, "azure_model_outdated") == UNIFORM
    assert facts(inventory, "compute000000")["azure_latest_model"] is False


def test_sizes_in_any_spelling_are_one_group(simulate: Callable[..., Source]) -> None:
    inventory = simulate(
        {
            "scale_sets": [
                {"name": "a", "capacity": 1, "vm_size": "standard_nd96asr_V4"},
                {"name": "b", "capacity": 1, "vm_size": "Standard_ND96asr_v4"},
            ]
        }
    ).read()

    assert members(inventory, "azure_size_standard_nd96asr_v4") == set(inventory.hosts)
    assert {facts(inventory, host)["azure_vm_size"] for host in inventory.hosts} == {"Standard_ND96asr_v4"}


def test_facts_of_a_vm_size_are_variables_of_its_group(source: Source) -> None:
    inventory = source.read()

    known = inventory.groups["azure_size_standard_nd96asr_v4"].vars["azure_sku"]
    assert (known["vcpus"], known["gpu_model"], known["ib_rate_gbps"]) == (96, "A100-SXM4-40GB", 200)
    # A printed inventory repeats this for each host, so it has no nested and no unknown values.
    assert all(isinstance(value, (str, int)) for value in known.values())
    assert "azure_sku" not in facts(inventory, "compute000000")


def test_the_group_of_an_unknown_vm_size_has_no_facts(source: Source) -> None:
    source.simulator.scale_set("compute").vm_size = "Standard_HB120rs_v3"

    group = source.read().groups["azure_size_standard_hb120rs_v3"]

    assert "azure_sku" not in group.vars


def test_a_uniform_instance_has_the_priority_of_its_scale_set(simulate: Callable[..., Source]) -> None:
    spot = {"name": "spot", "capacity": 1, "priority": "Spot"}
    inventory = simulate({"scale_sets": [spot, {**spot, "name": "flex", "orchestration_mode": "Flexible"}]}).read()

    assert [facts(inventory, host)["azure_priority"] for host in inventory.hosts] == ["Spot", "Spot"]


def test_tags_of_the_scale_set_apply_unless_the_instance_has_them(source: Source) -> None:
    source.simulator.edit("compute_3", tags={"HPCAI_ROLE": "login"})

    inventory = source.read()

    assert members(inventory, "hpcai_login") == {"compute000003"}
    assert facts(inventory, "compute000003")["azure_tags"] == {"HPCAI_ROLE": "login", "hpcai_cluster": "sim"}


def test_a_scale_set_of_zero_is_a_group_without_hosts(simulate: Callable[..., Source]) -> None:
    source = simulate({**CLUSTER, "scale_sets": [*CLUSTER["scale_sets"], {"name": "empty", "tags": TAGS}]})

    inventory = source.read()

    assert members(inventory, "azure_vmss_empty") == set()
    assert inventory.groups["azure_vmss_empty"].vars["azure_scale_set"]["found"] == 0
    assert set(inventory.hosts) > UNIFORM


def test_an_empty_subscription_gives_a_complete_empty_inventory(simulate: Callable[..., Source]) -> None:
    inventory = simulate({}).read(include_vms="all")

    assert not inventory.hosts
    assert report(inventory)["complete"] is True


def test_the_report_contains_the_data_for_the_guard_play(source: Source) -> None:
    inventory = source.read(include_vms="tagged")

    summary = report(inventory)
    network = facts(inventory, "ctl")["azure_virtual_network"]
    assert inventory.groups["all"].vars["azure_inventory"]["complete"] is True
    assert summary["source"] == str(source.path)
    assert summary["hosts"] == 6
    assert summary["left_out"] == {}
    assert summary["errors"] == []
    assert summary["from_cache"] is False
    assert summary["virtual_networks"] == [{"id": network, "address_prefixes": ["10.77.0.0/24"]}]
    uniform, flexible = summary["scale_sets"]
    assert uniform == (
        "compute: 3 of 3 Standard_ND96asr_v4, Uniform, single placement group yes, accelerated networking yes"
    )
    assert flexible.startswith("flex: ")
    assert inventory.groups["azure_vmss_compute"].vars["azure_scale_set"] == {
        "vm_size": "Standard_ND96asr_v4",
        "capacity": 3,
        "found": 3,
        "single_placement_group": True,
        "accelerated_networking": True,
    }


def test_two_scale_sets_with_the_same_name_are_two_groups(simulate: Callable[..., Source]) -> None:
    inventory = simulate(
        {
            "scale_sets": [
                {"name": "gpu", "capacity": 1, "resource_group": "blue", "computer_name_prefix": "b"},
                {"name": "gpu", "capacity": 1, "resource_group": "green", "computer_name_prefix": "g"},
            ]
        }
    ).read()

    assert members(inventory, "azure_vmss_gpu_blue") == {"b000000"}
    assert members(inventory, "azure_vmss_gpu_green") == {"g000000"}
    assert "azure_vmss_gpu" not in inventory.groups


def test_hosts_are_ordered_by_instance_id(simulate: Callable[..., Source]) -> None:
    source = simulate({"scale_sets": [{"name": "compute", "capacity": 130, "single_placement_group": False}]})

    inventory = source.read()

    numbers = [int(facts(inventory, host)["azure_instance_id"]) for host in inventory.hosts]
    assert numbers == sorted(numbers)
    assert len(numbers) == 130


def test_a_summary_line_counts_hosts_and_requests(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.read()

    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.replace("\n", " ").strip()
    assert line.startswith(f"{source.path}: 5 hosts, 5 ready; 6 requests in ")
