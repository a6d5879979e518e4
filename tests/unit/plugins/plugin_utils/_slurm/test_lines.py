# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of slurm.conf for nodes and partitions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import lines as under_test
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import ClusterError, Node, nodes_of

from .hosts import H100, ND96, flexible, uniform


def node(name: str, partition: str = "compute", size: VmSize = SIZES[ND96], address: str = "10.0.0.1") -> Node:
    """A node of the cluster."""
    return Node(name, address, partition, size)


def cpu_node(name: str, partition: str) -> Node:
    """A node whose size has no facts."""
    return node(name, partition, VmSize("Standard_X"))


def node_lines(nodes: Iterable[Node], margin: float, **more: Any) -> list[dict[str, Any]]:
    """Node lines without their nodes."""
    return [line for line, _members in under_test.node_groups(nodes, margin, **more)]


def partition_lines(nodes: Iterable[Node], partitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Partitions of these nodes."""
    return under_test.partition_lines(under_test.node_groups(nodes, 5), partitions)


def test_600_nodes_of_one_set_are_one_line_in_any_order() -> None:
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
            "Gres": "gpu:a100:8",
            "Feature": ["nd96asr_v4", "a100", "ib200", "nvme"],
            "State": "UNKNOWN",
        }
    ]


def test_names_and_addresses_are_in_the_same_order() -> None:
    hosts = [
        uniform("compute", 0, azure_private_ipv4="10.0.0.9"),
        uniform("compute", 3, azure_private_ipv4="10.0.0.4"),
        uniform("compute", 17, azure_private_ipv4="10.0.0.5"),
    ]
    [line] = node_lines(nodes_of(hosts, {}), 5)
    assert (line["NodeName"], line["NodeAddr"]) == ("compute-[0,3,17]", "10.0.0.[9,4-5]")


def test_a_set_of_mixed_sizes_has_one_line_per_size() -> None:
    hosts = [flexible(f"flex_{number}", (ND96, H100)[number % 2]) for number in range(6)]
    lines = node_lines(nodes_of(hosts, {}), 5)
    assert [(line["NodeName"], line["Feature"][0]) for line in lines] == [
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
def test_real_memory_is_the_sizes_memory_minus_the_margin(margin: float, memory: int) -> None:
    [line] = node_lines([node("a", size=VmSize("Standard_X", memory_mib=1000))], margin)
    assert line["RealMemory"] == memory


def test_unknown_facts_of_a_size_are_omitted() -> None:
    [line] = node_lines([node("a", size=VmSize("Standard_X"))], 5)
    assert line == {"NodeName": "a", "NodeAddr": "10.0.0.1", "Feature": ["x"], "State": "UNKNOWN"}


def test_each_set_is_a_partition_and_the_first_is_the_default() -> None:
    lines = partition_lines([cpu_node("a-0", "a"), cpu_node("a-1", "a"), cpu_node("b-0", "b")], {})
    assert lines == [
        {"PartitionName": "a", "Nodes": "a-[0-1]", "MaxTime": "INFINITE", "State": "UP", "Default": "YES"},
        {"PartitionName": "b", "Nodes": "b-0", "MaxTime": "INFINITE", "State": "UP"},
    ]


def test_the_users_settings_add_and_replace_keys_of_a_partition() -> None:
    [line] = partition_lines([cpu_node("a-0", "a")], {"a": {"MaxTime": "24:00:00", "PriorityTier": 10}})
    assert line == {
        "PartitionName": "a",
        "Nodes": "a-0",
        "MaxTime": "24:00:00",
        "State": "UP",
        "PriorityTier": 10,
        "Default": "YES",
    }


def test_the_users_default_partition_is_the_only_default() -> None:
    lines = partition_lines([cpu_node("a-0", "a"), cpu_node("b-0", "b")], {"b": {"Default": True}})
    assert [line.get("Default") for line in lines] == [None, True]


def test_null_removes_a_partition() -> None:
    lines = partition_lines([cpu_node("a-0", "a"), cpu_node("b-0", "b")], {"a": None})
    assert [line["PartitionName"] for line in lines] == ["b"]
    assert lines[0]["Default"] == "YES"


def test_a_users_own_partition_comes_last() -> None:
    lines = partition_lines([cpu_node("a-0", "a")], {"all": {"Nodes": "ALL"}})
    assert [(line["PartitionName"], line["Nodes"]) for line in lines] == [("a", "a-0"), ("all", "ALL")]
    assert "Default" not in lines[1]


@pytest.mark.parametrize("by_user", [{}, {"Nodes": ""}, {"Nodes": None}, {"MaxTime": "1:00"}])
def test_the_error_names_a_partition_without_nodes(by_user: dict[str, Any]) -> None:
    with pytest.raises(ClusterError) as caught:
        partition_lines([cpu_node("a-0", "a")], {"debug": by_user})
    assert str(caught.value) == ("partition debug of slurm_partitions has no Nodes, and no scale set has that name.")


def test_no_hosts_give_no_lines() -> None:
    assert node_lines([], 5) == []
    assert partition_lines([], {}) == []


def test_features_are_size_gpu_infiniband_and_nvme() -> None:
    sizes = {
        "Standard_ND96isr_H100_v5": ["nd96isr_h100_v5", "h100", "ib400", "nvme"],
        "Standard_ND96is_H100_v5": ["nd96is_h100_v5", "h100"],
        "Standard_NC96ads_A100_v4": None,
    }
    for name, features in sizes.items():
        [line] = node_lines([node("a", size=SIZES[name])], 5)
        assert features is None or line["Feature"] == features
        assert "ib" not in "".join(line["Feature"][1:]) or SIZES[name].hca_count


def test_keys_of_the_set_override_the_sizes_and_null_deletes() -> None:
    by_hand = {"nd96asr_v4": {"Weight": 1, "MemSpecLimit": 1024, "Gres": None}, "compute": {"Weight": 2}}
    [line] = node_lines([node("compute-0")], 5, by_hand=by_hand)
    assert (line["Weight"], line["MemSpecLimit"], "Gres" in line) == (2, 1024, False)


@pytest.mark.parametrize("name", ["Standard_ND96asr_v4", "nd96asr_v4", "ND96ASR_v4"])
def test_keys_for_a_size_match_any_spelling(name: str) -> None:
    [line] = node_lines([node("compute-0")], 5, by_hand={name: {"Weight": 3}})
    assert line["Weight"] == 3


def test_keys_for_a_known_but_unused_size_are_accepted() -> None:
    [line] = node_lines([node("compute-0")], 5, by_hand={"nd96isr_h100_v5": {"Weight": 3}})
    assert "Weight" not in line


def test_spare_nodes_are_always_cloud_and_others_on_request() -> None:
    spare = Node("compute-9", "", "compute", SIZES[ND96], is_spare=True)
    by_hand = {"compute": {"State": "FUTURE"}}
    assert [line["State"] for line in node_lines([node("compute-0"), spare], 5, state="CLOUD")] == ["CLOUD", "CLOUD"]
    assert [line["State"] for line in node_lines([node("compute-0"), spare], 5, by_hand=by_hand)] == ["FUTURE", "CLOUD"]


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ({"comptue": {"Weight": 1}}, r"^slurm_node_conf.comptue: .* known VM size .* cluster, which has compute\.$"),
        ({"compute": ["Weight"]}, "^slurm_node_conf.compute must be a mapping"),
        ({"compute": {"NodeAddr": "x"}}, "^slurm_node_conf.compute sets NodeAddr: it comes from azure_private_ipv4"),
        ({"compute": {"nodename": "x"}}, "^slurm_node_conf.compute sets nodename: it comes from slurm_node_name"),
    ],
)
def test_invalid_keys_of_the_user_are_an_error_with_the_reason(by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        node_lines([node("compute-0")], 5, by_hand=by_hand)


def test_the_defaults_give_a_job_its_share_of_a_node() -> None:
    [line] = partition_lines([node("compute-0")], {})
    assert (line["DefMemPerCPU"], line["DefCpuPerGPU"]) == (861733 // 96, 12)


def test_the_default_share_is_that_of_the_smallest_node() -> None:
    [line] = partition_lines([node("a", size=SIZES[H100]), node("b", size=SIZES[ND96])], {})
    assert line["DefMemPerCPU"] == 861733 // 96
    small = VmSize("Standard_X", vcpus=2, memory_mib=1000)
    [line] = partition_lines([node("a", size=SIZES[H100]), node("b", size=small)], {})
    assert (line["DefMemPerCPU"], "DefCpuPerGPU" in line) == (475, False)


@pytest.mark.parametrize("key", ["DefMemPerNode", "DefMemPerGPU"])
def test_another_default_of_memory_replaces_def_mem_per_cpu(key: str) -> None:
    [line] = partition_lines([node("compute-0")], {"compute": {key: 1000}})
    assert "DefMemPerCPU" not in line


@pytest.mark.parametrize(
    ("by_hand", "key", "expected"),
    [
        ({}, "Feature", ["nd96asr_v4", "a100", "ib200", "nvme", "beeond"]),
        ({"compute": {"Feature": "own,old"}}, "Feature", ["own", "old", "beeond"]),
        ({"compute": {"Feature": None, "Features": ["own", "beeond"]}}, "Features", ["own", "beeond"]),
        ({"compute": {"Feature": None}}, "Feature", ["beeond"]),
    ],
)
def test_common_features_are_added_to_those_of_the_user(by_hand: dict[str, Any], key: str, expected: list[str]) -> None:
    [line] = node_lines([node("compute-0")], 5, by_hand=by_hand, features=["beeond"])
    assert line[key] == expected
    assert len([name for name in line if name.lower().startswith("feature")]) == 1
