# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's configuration files for a cluster."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import (
    ClusterError,
    Node,
    in_order,
    spare_names,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import (
    FileOptions,
    files_of,
    plugstack_lines,
    switch_lines,
)

PYXIS = "/usr/lib/hpcai/pyxis/spank_pyxis.so"
ROLE = [f"required {PYXIS} runtime_path=/scratch/pyxis"]


def test_plugstack_lines_of_the_role_come_first_unchanged() -> None:
    assert plugstack_lines(ROLE, {}) == ROLE
    assert plugstack_lines([], {}) == []
    plugins = {"/opt/a.so": {"args": ["x=1", 2]}, "/opt/b.so": {"required": False}}
    assert plugstack_lines(ROLE, plugins) == [*ROLE, "required /opt/a.so x=1 2", "optional /opt/b.so"]


def test_the_user_can_replace_or_remove_a_plugin_of_the_role() -> None:
    assert plugstack_lines(ROLE, {PYXIS: {"args": "runtime_path=/x"}}) == [f"required {PYXIS} runtime_path=/x"]
    assert plugstack_lines(ROLE, {PYXIS: None}) == []


@pytest.mark.parametrize(
    ("of_role", "by_hand", "words"),
    [
        ([], {"/a.so": "required"}, r"slurm_plugstack\['/a.so'\] must be null, or a mapping"),
        ([], {"/a.so": {"arguments": []}}, r"slurm_plugstack\['/a.so'\] must be null, or a mapping"),
        # Slurm does not send included files to the nodes.
        ([], {"plugstack.conf.d/*": {}}, "must be the absolute path of a plugin"),
        ([], {"/a.so": {"args": ["x\nrequired /evil.so"]}}, "must be the absolute path of a plugin .*, on one line"),
        (["include /etc/slurm/plugstack.conf.d/*"], {}, "must be 'required' or 'optional'"),
    ],
)
def test_refuses_an_invalid_plugin(of_role: list[str], by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plugstack_lines(of_role, by_hand)


SIZE = SIZES["Standard_ND96asr_v4"]
NODES = in_order(Node(f"{name}-{number}", "", name, SIZE) for name in ("b", "a") for number in range(12))


def test_each_scale_set_has_a_switch_and_none_connects_them() -> None:
    assert switch_lines(NODES, {}, {}) == [
        {"SwitchName": "a", "Nodes": "a-[0-11]"},
        {"SwitchName": "b", "Nodes": "b-[0-11]"},
    ]
    assert switch_lines([], {}, {}) == []


def test_switches_of_fallback_sets_come_first() -> None:
    # Slurm 22.05 has no weights for powered-down nodes. It takes the last of the switches.
    for weights, expected in (({"a": 10}, ["a", "b"]), ({"b": 10}, ["b", "a"]), ({"a": 10, "b": 20}, ["b", "a"])):
        assert [line["SwitchName"] for line in switch_lines(NODES, weights, {})] == expected


def test_the_users_switches_add_replace_and_delete() -> None:
    by_hand: dict[str, Any] = {"a": {"LinkSpeed": 200}, "b": None, "root": {"Switches": ["a"]}}
    assert switch_lines(NODES, {}, by_hand) == [
        {"SwitchName": "a", "Nodes": "a-[0-11]", "LinkSpeed": 200},
        {"SwitchName": "root", "Switches": ["a"]},
    ]
    assert switch_lines(NODES, {}, {"a": None, "b": None}) == []


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ({"root": {}}, "^switch root of slurm_topology has neither Nodes nor Switches"),
        ({"a": {"Nodes": None}}, "^switch a of slurm_topology has neither Nodes nor Switches"),
        ({"a": "a-[0-1]"}, "^slurm_topology.a must be a mapping"),
    ],
)
def test_an_invalid_switch_is_an_error_with_the_reason(by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        switch_lines(NODES, {}, by_hand)


ND96 = "Standard_ND96asr_v4"
H100 = "Standard_ND96isr_H100_v5"


def cluster(count: int) -> list[dict[str, Any]]:
    """Two scale sets with half of the nodes each."""
    return [
        {
            "inventory_hostname": f"{name}{number:06}",
            "azure_vmss": name,
            "azure_instance_id": str(number),
            "azure_vm_size": size,
            "azure_private_ipv4": f"10.{network}.{(number + 4) // 256}.{(number + 4) % 256}",
        }
        for network, (name, size) in enumerate((("a100", ND96), ("h100", H100)))
        for number in range(count // 2)
    ]


def lines_of(count: int) -> dict[str, int]:
    """The number of lines of each file."""
    hosts = cluster(count)
    files = files_of(hosts, FileOptions(release="24.11", spares=spare_names(hosts, 32, {})))
    return {name: len(text.splitlines()) for name, text in files.items()}


def test_600_and_2000_nodes_need_as_few_lines_as_4() -> None:
    small = lines_of(4)
    # slurm.conf: settings, nodes of both sets and their spare nodes, partitions. gres.conf: two lines per VM size.
    assert small == {
        "slurm.conf": 3 + 4 + 2,
        "cgroup.conf": 0,
        "gres.conf": 4,
        "topology.conf": 2,
        "plugstack.conf": 0,
        "job_container.conf": 0,
    }
    assert lines_of(600) == small
    assert lines_of(2000) == small


def test_nodes_without_gpus_have_no_gres() -> None:
    hosts = [{**host, "azure_vm_size": "X2"} for host in cluster(4)]
    files = files_of(hosts, FileOptions(release="24.11", vm_sizes={"X2": {"vcpus": 2, "memory_mib": 1000}}))
    assert files["gres.conf"] == ""
    assert "Gres" not in files["slurm.conf"]


def test_tree_width_and_private_data_are_set_only_for_cloud_nodes() -> None:
    assert "TreeWidth" not in files_of(cluster(4), FileOptions(release="22.05"))["slurm.conf"]
    cloud = files_of(cluster(4), FileOptions(release="22.05", node_state="cloud"))["slurm.conf"]
    assert "TreeWidth=65533" in cloud
    assert "PrivateData=cloud" in cloud


def test_without_switches_topology_plugin_is_not_set() -> None:
    files = files_of(cluster(4), FileOptions(release="22.05", topology={"a100": None, "h100": None}))
    assert files["topology.conf"] == ""
    assert "TopologyPlugin" not in files["slurm.conf"]


def test_the_users_base_path_alone_enables_job_container() -> None:
    options: dict[str, Any] = {"job_container_conf": {"BasePath": "/scratch/tmp"}}
    assert "JobContainerType=job_container/tmpfs" in files_of([], FileOptions(release="24.11", **options))["slurm.conf"]
    assert "NamespaceType=namespace/tmpfs" in files_of([], FileOptions(release="25.11", **options))["slurm.conf"]


@pytest.mark.parametrize(
    "options",
    [
        {"conf": {"MetricsType": "x"}},
        {"layers": [{"NamespaceType": "x"}]},
        {"cgroup_conf": {"SystemdTimeout": 1}},
        {"job_container_conf": {"BasePath": "/a", "Shared": True}},
    ],
)
def test_a_key_that_the_release_does_not_support_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"was added in Slurm 2.* slurm_release is 22\.05: remove it"):
        files_of(cluster(4), FileOptions(release="22.05", **options))


@pytest.mark.parametrize("given", [["node_reg_mem_percent=90"], "node_reg_mem_percent=90", None])
def test_the_users_parameters_must_keep_configless(given: Any) -> None:
    """Otherwise slurmctld gives no files to the nodes, whose slurmds then do not start."""
    options = FileOptions(release="22.05", layers=[{"SlurmctldParameters": ["enable_configless"]}])
    with pytest.raises(ConfigError, match="add enable_configless to the list"):
        files_of([], dataclasses.replace(options, conf={"slurmctldparameters": given}))
    both = dataclasses.replace(options, conf={"SlurmctldParameters": ["node_reg_mem_percent=90", "enable_configless"]})
    assert "SlurmctldParameters=node_reg_mem_percent=90,enable_configless" in files_of([], both)["slurm.conf"]


def test_a_cluster_without_nodes_still_has_its_settings() -> None:
    assert files_of([], FileOptions(release="22.05", layers=[{"ClusterName": "x"}]))["slurm.conf"] == "ClusterName=x\n"
