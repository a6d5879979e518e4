# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes and partitions out of the variables of hosts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, UnknownVmSize, VmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import (
    ClusterError,
    Node,
    natural,
    node_lines,
    node_name,
    nodes_of,
    partition_lines,
)

ND96 = "Standard_ND96asr_v4"
H100 = "Standard_ND96isr_H100_v5"


def uniform(scale_set: str, instance_id: int, size: str = ND96, **more: Any) -> dict[str, Any]:
    """An instance of a Uniform scale set, as the inventory plugin describes it."""
    return {
        "inventory_hostname": f"{scale_set}{instance_id:06}",
        "azure_vmss": scale_set,
        "azure_instance_id": str(instance_id),
        "azure_computer_name": f"{scale_set}{instance_id:06}",
        "azure_vm_size": size,
        "azure_private_ipv4": f"10.77.{instance_id // 256}.{instance_id % 256}",
        **more,
    }


def flexible(name: str, size: str = ND96, **more: Any) -> dict[str, Any]:
    """An instance of a Flexible scale set: it has no instance id."""
    return uniform("flex", 4, size, azure_instance_id=None, azure_computer_name=name, inventory_hostname=name, **more)


def node(name: str, partition: str = "compute", size: VmSize = SIZES[ND96], address: str = "10.0.0.1") -> Node:
    """A node of the cluster."""
    return Node(name, address, partition, size)


@pytest.mark.parametrize(
    ("hostvars", "name"),
    [
        (uniform("compute", 17), "compute-17"),
        (uniform("compute", 0), "compute-0"),
        ({**uniform("compute", 17), "azure_instance_id": 17}, "compute-17"),
        (flexible("flex_1f3a9c02"), "flex_1f3a9c02"),
        ({**uniform("compute", 17), "azure_instance_id": "flex_1f3a9c02"}, "compute000017"),
        ({"inventory_hostname": "a", "azure_computer_name": "b"}, "b"),
        ({"inventory_hostname": "a", "azure_computer_name": None}, "a"),
        ({"inventory_hostname": "a", "azure_instance_id": "3"}, "a"),
        ({"inventory_hostname": "a"}, "a"),
        ({**uniform("compute", 17), "slurm_node_name": "gpu1"}, "gpu1"),
        ({**uniform("compute", 17), "slurm_node_name": ""}, "compute-17"),
    ],
)
def test_names_a_host_for_slurm(hostvars: dict[str, Any], name: str) -> None:
    assert node_name(hostvars) == name


def test_a_node_knows_its_address_partition_and_size() -> None:
    assert nodes_of([uniform("compute", 3)], {}) == [Node("compute-3", "10.77.0.3", "compute", SIZES[ND96])]


@pytest.mark.parametrize(
    ("hostvars", "address"),
    [
        ({"azure_private_ipv4": "10.0.0.4", "ansible_host": "20.1.2.3"}, "10.0.0.4"),
        ({"azure_private_ipv4": None, "ansible_host": "gpu1.example"}, "gpu1.example"),
        ({}, "gpu1"),
    ],
)
def test_the_private_address_is_what_nodes_reach_each_other_by(hostvars: dict[str, Any], address: str) -> None:
    [made] = nodes_of([{"inventory_hostname": "gpu1", "azure_vm_size": ND96, **hostvars}], {})
    assert made.address == address
    assert made.partition == "compute"


def test_nodes_come_in_natural_order_of_partition_and_name() -> None:
    hosts = [uniform(name, number) for name in ("gpu", "cpu") for number in (10, 9, 100, 0)]
    random.Random(1).shuffle(hosts)
    assert [made.name for made in nodes_of(hosts, {})] == [
        *("cpu-0", "cpu-9", "cpu-10", "cpu-100"),
        *("gpu-0", "gpu-9", "gpu-10", "gpu-100"),
    ]


def test_natural_order_compares_numbers_as_numbers_and_mixes_with_text() -> None:
    assert sorted(["b", "a10", "a9", "10", "9a", "a"], key=natural) == ["9a", "10", "a", "a9", "a10", "b"]


def test_two_hosts_of_one_node_name_are_an_error_that_names_both() -> None:
    same = [uniform("compute", 3), {**uniform("compute", 3), "inventory_hostname": "other"}]
    with pytest.raises(ClusterError) as caught:
        nodes_of(same, {})
    assert str(caught.value) == ("hosts compute000003 and other would both be node compute-3: set slurm_node_name.")


@pytest.mark.parametrize("size", [None, ""])
def test_a_host_without_size_is_an_error_that_names_it(size: str | None) -> None:
    with pytest.raises(ClusterError, match=r"^host compute000003 has no azure_vm_size: set it, and describe"):
        nodes_of([uniform("compute", 3, azure_vm_size=size)], {})


def test_a_size_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnknownVmSize, match="Standard_ND96asr_v5"):
        nodes_of([uniform("compute", 3, size="Standard_ND96asr_v5")], {})


def test_a_size_described_by_hand_is_used() -> None:
    [made] = nodes_of([uniform("compute", 3)], {ND96: {"vcpus": 2}})
    assert (made.size.vcpus, made.size.memory_mib) == (2, None)


def test_600_nodes_of_one_set_are_one_line_whatever_their_order() -> None:
    hosts = [uniform("compute", number) for number in range(600)]
    random.Random(2).shuffle(hosts)
    assert node_lines(nodes_of(hosts, {}), 5) == [
        {
            "NodeName": "compute-[0-599]",
            "NodeAddr": "10.77.0.[0-255],10.77.1.[0-255],10.77.2.[0-87]",
            "CPUs": 96,
            "Sockets": 2,
            "CoresPerSocket": 48,
            "ThreadsPerCore": 1,
            "RealMemory": 861733,
            "Feature": "nd96asr_v4",
            "State": "UNKNOWN",
        }
    ]


def test_names_and_addresses_of_a_line_are_paired_by_position() -> None:
    hosts = [
        uniform("compute", 0, azure_private_ipv4="10.0.0.9"),
        uniform("compute", 3, azure_private_ipv4="10.0.0.4"),
        uniform("compute", 17, azure_private_ipv4="10.0.0.5"),
    ]
    [line] = node_lines(nodes_of(hosts, {}), 5)
    assert (line["NodeName"], line["NodeAddr"]) == ("compute-[0,3,17]", "10.0.0.[9,4-5]")


def test_a_set_of_mixed_sizes_is_one_line_for_each_size() -> None:
    hosts = [flexible(f"flex_{number}", (ND96, H100)[number % 2]) for number in range(6)]
    lines = node_lines(nodes_of(hosts, {}), 5)
    assert [(line["NodeName"], line["Feature"]) for line in lines] == [
        ("flex_[0,2,4]", "nd96asr_v4"),
        ("flex_[1,3,5]", "nd96isr_h100_v5"),
    ]


def test_two_spellings_of_a_size_are_one_line() -> None:
    hosts = [uniform("compute", 0, ND96), uniform("compute", 1, ND96.lower())]
    assert [line["NodeName"] for line in node_lines(nodes_of(hosts, {}), 5)] == ["compute-[0-1]"]


def test_the_same_size_in_two_sets_is_two_lines() -> None:
    hosts = [uniform("b", 0), uniform("a", 0)]
    assert [line["NodeName"] for line in node_lines(nodes_of(hosts, {}), 5)] == ["a-0", "b-0"]


@pytest.mark.parametrize(("margin", "memory"), [(0, 1000), (5, 950), (2.5, 975), (0.05, 999)])
def test_slurm_gives_less_memory_to_jobs_than_the_size_has(margin: float, memory: int) -> None:
    [line] = node_lines([node("a", size=VmSize("Standard_X", memory_mib=1000))], margin)
    assert line["RealMemory"] == memory


def test_what_is_not_known_of_a_size_is_left_to_slurm() -> None:
    [line] = node_lines([node("a", size=VmSize("Standard_X"))], 5)
    assert line == {"NodeName": "a", "NodeAddr": "10.0.0.1", "Feature": "x", "State": "UNKNOWN"}


def test_each_set_is_a_partition_and_the_first_one_the_default() -> None:
    lines = partition_lines([node("a-0", "a"), node("a-1", "a"), node("b-0", "b")], {})
    assert lines == [
        {"PartitionName": "a", "Nodes": "a-[0-1]", "MaxTime": "INFINITE", "State": "UP", "Default": "YES"},
        {"PartitionName": "b", "Nodes": "b-0", "MaxTime": "INFINITE", "State": "UP"},
    ]


def test_the_users_settings_add_to_a_partition_and_replace() -> None:
    [line] = partition_lines([node("a-0", "a")], {"a": {"MaxTime": "24:00:00", "PriorityTier": 10}})
    assert line == {
        "PartitionName": "a",
        "Nodes": "a-0",
        "MaxTime": "24:00:00",
        "State": "UP",
        "PriorityTier": 10,
        "Default": "YES",
    }


def test_a_partition_that_the_user_makes_the_default_is_the_only_one() -> None:
    lines = partition_lines([node("a-0", "a"), node("b-0", "b")], {"b": {"Default": True}})
    assert [line.get("Default") for line in lines] == [None, True]


def test_a_null_leaves_a_partition_out() -> None:
    lines = partition_lines([node("a-0", "a"), node("b-0", "b")], {"a": None})
    assert [line["PartitionName"] for line in lines] == ["b"]
    assert lines[0]["Default"] == "YES"


def test_a_partition_of_the_users_own_comes_last_with_its_nodes() -> None:
    lines = partition_lines([node("a-0", "a")], {"all": {"Nodes": "ALL"}})
    assert [(line["PartitionName"], line["Nodes"]) for line in lines] == [("a", "a-0"), ("all", "ALL")]
    assert "Default" not in lines[1]


@pytest.mark.parametrize("by_user", [{}, {"Nodes": ""}, {"Nodes": None}, {"MaxTime": "1:00"}])
def test_a_partition_without_nodes_is_an_error_that_names_it(by_user: dict[str, Any]) -> None:
    with pytest.raises(ClusterError) as caught:
        partition_lines([node("a-0", "a")], {"debug": by_user})
    assert str(caught.value) == ("partition debug of slurm_partitions has no Nodes, and no scale set has that name.")


def test_no_hosts_are_no_lines() -> None:
    assert nodes_of([], {}) == []
    assert node_lines([], 5) == []
    assert partition_lines([], {}) == []
