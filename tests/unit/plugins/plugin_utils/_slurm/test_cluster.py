# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm nodes from the inventory, and names of spare nodes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import (
    ClusterError,
    Node,
    in_order,
    natural,
    node_name,
    nodes_of,
    spare_names,
    spare_nodes,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.lines import node_groups, partition_lines

from .hosts import H100, ND96, flexible, uniform


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
def test_the_node_name_comes_from_the_first_variable_that_is_set(hostvars: dict[str, Any], name: str) -> None:
    assert node_name(hostvars) == name


def test_a_node_has_its_address_partition_and_size() -> None:
    assert nodes_of([uniform("compute", 3)], {}) == [Node("compute-3", "10.77.0.3", "compute", SIZES[ND96])]


@pytest.mark.parametrize(
    ("hostvars", "address"),
    [
        ({"azure_private_ipv4": "10.0.0.4", "ansible_host": "20.1.2.3"}, "10.0.0.4"),
        ({"azure_private_ipv4": None, "ansible_host": "gpu1.example"}, "gpu1.example"),
        ({}, "gpu1"),
    ],
)
def test_the_address_is_the_private_one_if_there_is_one(hostvars: dict[str, Any], address: str) -> None:
    [made] = nodes_of([{"inventory_hostname": "gpu1", "azure_vm_size": ND96, **hostvars}], {})
    assert made.address == address
    assert made.partition == "compute"


def test_nodes_are_in_natural_order_of_partition_and_name() -> None:
    hosts = [uniform(name, number) for name in ("gpu", "cpu") for number in (10, 9, 100, 0)]
    random.Random(1).shuffle(hosts)
    assert [made.name for made in nodes_of(hosts, {})] == [
        *("cpu-0", "cpu-9", "cpu-10", "cpu-100"),
        *("gpu-0", "gpu-9", "gpu-10", "gpu-100"),
    ]


def test_natural_order_compares_numbers_as_numbers() -> None:
    assert sorted(["b", "a10", "a9", "10", "9a", "a"], key=natural) == ["9a", "10", "a", "a9", "a10", "b"]


def test_the_error_names_both_hosts_with_the_same_node_name() -> None:
    same = [uniform("compute", 3), {**uniform("compute", 3), "inventory_hostname": "other"}]
    with pytest.raises(ClusterError) as caught:
        nodes_of(same, {})
    assert str(caught.value) == ("hosts compute000003 and other would both be node compute-3: set slurm_node_name.")


@pytest.mark.parametrize("size", [None, ""])
def test_the_error_names_a_host_without_a_size(size: str | None) -> None:
    with pytest.raises(ClusterError, match=r"^host compute000003 has no azure_vm_size: set it, and describe"):
        nodes_of([uniform("compute", 3, azure_vm_size=size)], {})


def test_an_unknown_size_is_an_error() -> None:
    with pytest.raises(UnknownVmSize, match="Standard_ND96asr_v5"):
        nodes_of([uniform("compute", 3, size="Standard_ND96asr_v5")], {})


def test_uses_a_size_that_the_user_describes() -> None:
    [made] = nodes_of([uniform("compute", 3)], {ND96: {"vcpus": 2}})
    assert (made.size.vcpus, made.size.memory_mib) == (2, None)


def test_no_hosts_give_no_nodes() -> None:
    assert nodes_of([], {}) == []


COMPUTE = [uniform("compute", 0), uniform("compute", 3)]


def spare_of(hosts: list[dict[str, Any]], requested: Any, **highest_ids: int) -> dict[str, str]:
    """The spare names of each set as host lists."""
    return {found["set"]: found["nodes"] for found in spare_names(hosts, requested, highest_ids)}


def test_spare_names_are_those_of_the_next_ids_and_of_lower_ids_without_an_instance() -> None:
    assert spare_of(COMPUTE, 32) == {"compute": "compute-[1-2,4-35]"}
    assert spare_of(COMPUTE, 1) == {"compute": "compute-[1-2,4]"}


def test_azure_may_give_the_id_of_a_deleted_instance_again() -> None:
    assert spare_of(COMPUTE, 2, compute=17) == {"compute": "compute-[1-2,4-19]"}
    [found] = spare_names(COMPUTE, 2, {"compute": 17})
    assert found["highest"] == 17
    [found] = spare_names([*COMPUTE, uniform("compute", 20)], 2, {"compute": 17})
    assert found["highest"] == 20


def test_each_scale_set_has_its_own_spare_nodes() -> None:
    hosts = [*COMPUTE, uniform("gpu", 9, H100)]
    assert spare_of(hosts, 2) == {"compute": "compute-[1-2,4-5]", "gpu": "gpu-[0-8,10-11]"}
    assert spare_of(hosts, {"gpu": 1}) == {"compute": "compute-[1-2,4-35]", "gpu": "gpu-[0-8,10]"}
    assert spare_of(hosts, {"gpu": {"count": 2, "first": 100}, "compute": 0}) == {
        "compute": "",
        "gpu": "gpu-[100-101]",
    }


def test_zero_spare_nodes_still_records_the_highest_id() -> None:
    [found] = spare_names(COMPUTE, 0, {})
    assert (found["names"], found["highest"]) == ([], 3)


def test_a_number_as_text_is_accepted() -> None:
    assert spare_of(COMPUTE, "2") == {"compute": "compute-[1-2,4-5]"}


def test_the_user_can_declare_a_set_without_instances() -> None:
    requested = {"new": {"count": 4, "vm_size": H100}}
    assert spare_of([], requested) == {"new": "new-[0-3]"}
    assert spare_of([], requested, new=6) == {"new": "new-[0-10]"}
    assert spare_of([], {"new": {"count": 4, "vm_size": H100, "first": 5}}, new=6) == {"new": "new-[5-10]"}
    assert spare_of([], {"new": 4}) == {}


def test_only_uniform_scale_sets_have_spare_names() -> None:
    flexible = uniform("flex", 1, azure_instance_id=None, azure_computer_name="flex_0a1b")
    assert spare_of([flexible, {"inventory_hostname": "alone", "azure_vm_size": ND96}], 32) == {}


def test_a_name_that_a_host_already_has_is_skipped() -> None:
    hosts = [*COMPUTE, {"inventory_hostname": "other", "slurm_node_name": "compute-5", "azure_vm_size": ND96}]
    assert spare_of(hosts, 3) == {"compute": "compute-[1-2,4,6]"}


def test_of_many_lower_ids_the_highest_have_names() -> None:
    [found] = spare_names([uniform("compute", 70000)], 10, {})
    assert (len(found["names"]), found["names"][-1]) == (5000, "compute-70010")


@pytest.mark.parametrize(
    ("facts", "requested", "size"),
    [
        ({}, 1, H100),
        ({"azure_scale_set": {"vm_size": ND96}}, 1, ND96),
        ({"azure_scale_set": {"vm_size": ND96}}, {"compute": {"vm_size": H100}}, H100),
        ({"azure_scale_set": {}}, 1, H100),
    ],
)
def test_the_size_comes_from_the_user_the_model_or_the_newest_instance(
    facts: dict[str, Any], requested: Any, size: str
) -> None:
    hosts = [uniform("compute", 10, H100, **facts), uniform("compute", 9, ND96, **facts)]
    [found] = spare_names(hosts, requested, {})
    assert found["vm_size"] == size


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        (-1, "slurm_spare_nodes must be a whole number from 0 to 5000, not -1"),
        (True, "slurm_spare_nodes must be .*, not True"),
        (1.5, "slurm_spare_nodes must be .*, not 1.5"),
        (None, "slurm_spare_nodes must be .*, not None"),
        (5001, "from 0 to 5000"),
        ({"compute": "many"}, "slurm_spare_nodes.compute must be .*, not 'many'"),
        (
            {"compute": {"number": 3}},
            "spare_nodes.compute has unknown keys number; known are count, vm_size, first",
        ),
        ({"compute": {"count": -3}}, "slurm_spare_nodes.compute.count must be .*, not -3"),
    ],
)
def test_refuses_invalid_values(requested: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        spare_names(COMPUTE, requested, {})


def test_the_error_names_a_set_without_a_size() -> None:
    with pytest.raises(ClusterError, match="scale set compute has no VM size"):
        spare_names([uniform("compute", 0, None)], 1, {})


def test_spare_nodes_have_one_line_and_are_in_their_partition() -> None:
    hosts = [*COMPUTE, uniform("compute", 1, H100), uniform("gpu", 0, H100)]
    spare = spare_nodes(spare_names(hosts, {"gpu": 0}, {}), {})
    nodes = in_order(nodes_of(hosts, {}) + spare)
    groups = node_groups(nodes, 5)
    lines = [line for line, _members in groups]
    assert [(line["NodeName"], line["NodeAddr"], line["State"]) for line in lines] == [
        ("compute-[0,3]", "10.77.0.[0,3]", "UNKNOWN"),
        ("compute-1", "10.77.0.1", "UNKNOWN"),
        ("gpu-0", "10.77.0.0", "UNKNOWN"),
        ("compute-[2,4-35]", "127.0.0.1", "CLOUD"),
    ]
    assert {key: lines[3][key] for key in ("CPUs", "RealMemory", "Feature")} == {
        key: lines[0][key] for key in ("CPUs", "RealMemory", "Feature")
    }
    assert [line["Nodes"] for line in partition_lines(groups, {})] == ["compute-[0-35]", "gpu-0"]


def test_the_error_names_an_unknown_size() -> None:
    with pytest.raises(UnknownVmSize, match="Standard_X1"):
        spare_nodes(spare_names([], {"new": {"vm_size": "Standard_X1"}}, {}), {})
