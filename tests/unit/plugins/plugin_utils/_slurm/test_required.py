# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role slurm lists all missing variables at once."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.required import FACTS, missing

from .hosts import uniform

GATHERED = {"group_names": ["hpcai_compute"], "ansible_facts": dict.fromkeys(FACTS, "x")}


def node(number: int, **changes: Any) -> dict[str, Any]:
    """A compute node with all variables, with changes."""
    return {**uniform("compute", number), **GATHERED, **changes}


def test_a_complete_cluster_lacks_nothing() -> None:
    hosts = [node(0), {**node(1), "slurm_node_name": "compute-1"}]
    assert missing(hosts, hosts, "ctl", {}) == []


def test_all_missing_variables_are_listed_at_once() -> None:
    hosts = [node(number, azure_vm_size=None, group_names=[], ansible_facts={}) for number in range(5)]
    lines = missing([*hosts, node(7, azure_vm_size="Standard_X1")], hosts, "", {})
    assert [line.split(" ", 1)[0] for line in lines] == [
        "slurm_controller:",
        "azure_vm_size",
        "azure_vm_size:",
        "slurm_functions",
        "ansible_facts",
    ]
    assert "is not set on compute000000, compute000001, compute000002 and 2 more hosts." in lines[1]
    assert "'Standard_X1' is not known" in lines[2]
    assert "hpcai_vm_sizes" in lines[2]
    assert "lack architecture, distribution" in lines[4]


def test_a_size_that_the_user_describes_is_known() -> None:
    assert missing([node(0, azure_vm_size="bare-metal")], [], "ctl", {"bare-metal": {"vcpus": 8}}) == []


def test_two_hosts_with_the_same_node_name_are_reported() -> None:
    [line] = missing([node(0), {**node(0), "inventory_hostname": "twin"}], [], "ctl", {})
    assert line.startswith("slurm_node_name: hosts compute000000 and twin would both be node compute-0")


def test_a_host_gets_its_function_from_a_group_or_a_variable() -> None:
    by_group = node(0)
    by_variable = node(1, group_names=[], slurm_functions=["login"])
    accounting = node(2, group_names=[], slurm_accounting_host="compute000002")
    controller = node(3, group_names=[])
    assert missing([], [by_group, by_variable, accounting, controller], "compute000003", {}) == []


def test_a_single_missing_fact_is_reported_with_its_hosts() -> None:
    facts = {fact: "x" for fact in FACTS if fact != "pkg_mgr"}
    [line] = missing([], [node(0), node(1, ansible_facts=facts)], "ctl", {})
    assert line.startswith("ansible_facts lack pkg_mgr on compute000001.")
