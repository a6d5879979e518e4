# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of nodes that are not there yet."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import (
    ClusterError,
    in_order,
    nodes_of,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.lines import node_groups, partition_lines
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.spares import spare_names, spare_nodes

from .hosts import H100, ND96, uniform

COMPUTE = [uniform("compute", 0), uniform("compute", 3)]


def spare_of(hosts: list[dict[str, Any]], wanted: Any, **seen: int) -> dict[str, str]:
    """The spare names of each set as host lists."""
    return {found["set"]: found["nodes"] for found in spare_names(hosts, wanted, seen)}


def test_names_follow_the_highest_id_and_leave_gaps_alone() -> None:
    assert spare_of(COMPUTE, 32) == {"compute": "compute-[4-35]"}
    assert spare_of(COMPUTE, 1) == {"compute": "compute-4"}


def test_ids_of_instances_that_are_gone_do_not_come_back() -> None:
    assert spare_of(COMPUTE, 2, compute=17) == {"compute": "compute-[18-19]"}
    [found] = spare_names(COMPUTE, 2, {"compute": 17})
    assert found["highest"] == 17
    [found] = spare_names([*COMPUTE, uniform("compute", 20)], 2, {"compute": 17})
    assert found["highest"] == 20


def test_each_set_has_its_own() -> None:
    hosts = [*COMPUTE, uniform("gpu", 9, H100)]
    assert spare_of(hosts, 2) == {"compute": "compute-[4-5]", "gpu": "gpu-[10-11]"}
    assert spare_of(hosts, {"gpu": 1}) == {"compute": "compute-[4-35]", "gpu": "gpu-10"}
    assert spare_of(hosts, {"gpu": {"count": 2, "first": 100}, "compute": 0}) == {
        "compute": "",
        "gpu": "gpu-[100-101]",
    }


def test_none_switches_it_off_and_still_remembers_the_ids() -> None:
    [found] = spare_names(COMPUTE, 0, {})
    assert (found["names"], found["highest"]) == ([], 3)


def test_a_number_from_the_command_line_is_one() -> None:
    assert spare_of(COMPUTE, "2") == {"compute": "compute-[4-5]"}


def test_a_set_without_instances_is_declared_by_hand() -> None:
    wanted = {"new": {"count": 4, "vm_size": H100}}
    assert spare_of([], wanted) == {"new": "new-[0-3]"}
    assert spare_of([], wanted, new=6) == {"new": "new-[7-10]"}
    assert spare_of([], {"new": 4}) == {}


def test_only_uniform_sets_have_names_that_are_known_ahead() -> None:
    flexible = uniform("flex", 1, azure_instance_id=None, azure_computer_name="flex_0a1b")
    assert spare_of([flexible, {"inventory_hostname": "alone", "azure_vm_size": ND96}], 32) == {}


def test_a_name_that_a_host_has_is_not_spare() -> None:
    hosts = [*COMPUTE, {"inventory_hostname": "other", "slurm_node_name": "compute-5", "azure_vm_size": ND96}]
    assert spare_of(hosts, 3) == {"compute": "compute-[4,6]"}


@pytest.mark.parametrize(
    ("facts", "wanted", "size"),
    [
        ({}, 1, H100),
        ({"azure_scale_set": {"vm_size": ND96}}, 1, ND96),
        ({"azure_scale_set": {"vm_size": ND96}}, {"compute": {"vm_size": H100}}, H100),
        ({"azure_scale_set": {}}, 1, H100),
    ],
)
def test_size_is_the_users_else_the_models_else_the_newest_instances(
    facts: dict[str, Any], wanted: Any, size: str
) -> None:
    hosts = [uniform("compute", 10, H100, **facts), uniform("compute", 9, ND96, **facts)]
    [found] = spare_names(hosts, wanted, {})
    assert found["vm_size"] == size


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (-1, "slurm_spare_nodes is -1: it must be a whole number"),
        (True, "slurm_spare_nodes is True"),
        (1.5, "slurm_spare_nodes is 1.5"),
        (None, "slurm_spare_nodes is None"),
        (5001, "from 0 to 5000"),
        ({"compute": "many"}, "slurm_spare_nodes.compute is 'many'"),
        ({"compute": {"number": 3}}, "slurm_spare_nodes.compute has unknown keys: number"),
        ({"compute": {"count": -3}}, "slurm_spare_nodes.compute.count is -3"),
    ],
)
def test_refuses_other_forms(wanted: Any, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        spare_names(COMPUTE, wanted, {})


def test_says_which_set_has_no_size() -> None:
    with pytest.raises(ClusterError, match="scale set compute has no VM size"):
        spare_names([uniform("compute", 0, None)], 1, {})


def test_one_line_for_all_of_a_set_and_a_place_in_its_partition() -> None:
    hosts = [*COMPUTE, uniform("compute", 1, H100), uniform("gpu", 0, H100)]
    spare = spare_nodes(spare_names(hosts, {"gpu": 0}, {}), {})
    nodes = in_order(nodes_of(hosts, {}) + spare)
    groups = node_groups(nodes, 5)
    lines = [line for line, _members in groups]
    assert [(line["NodeName"], line["NodeAddr"], line["State"]) for line in lines] == [
        ("compute-[0,3]", "10.77.0.[0,3]", "UNKNOWN"),
        ("compute-1", "10.77.0.1", "UNKNOWN"),
        ("gpu-0", "10.77.0.0", "UNKNOWN"),
        ("compute-[4-35]", "127.0.0.1", "CLOUD"),
    ]
    assert {key: lines[3][key] for key in ("CPUs", "RealMemory", "Feature")} == {
        key: lines[0][key] for key in ("CPUs", "RealMemory", "Feature")
    }
    assert [line["Nodes"] for line in partition_lines(groups, {})] == ["compute-[0-1,3-35]", "gpu-0"]


def test_size_that_nobody_knows_is_named() -> None:
    with pytest.raises(UnknownVmSize, match="Standard_X1"):
        spare_nodes(spare_names([], {"new": {"vm_size": "Standard_X1"}}, {}), {})
