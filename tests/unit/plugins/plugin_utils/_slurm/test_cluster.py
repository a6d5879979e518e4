# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes out of the variables of hosts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import (
    ClusterError,
    Node,
    natural,
    node_name,
    nodes_of,
)

from .hosts import ND96, flexible, uniform


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


def test_no_hosts_are_no_nodes() -> None:
    assert nodes_of([], {}) == []
