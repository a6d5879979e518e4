# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs as Slurm's generic resources, and the lines of gres.conf."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize, find_size
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import ClusterError, Node
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.gres import (
    device_lines,
    gpu_type,
    gres_lines,
    gres_of,
    gres_types,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.lines import NodeGroup, node_groups

ND96 = "Standard_ND96asr_v4"
H100 = "Standard_ND96isr_H100_v5"
# The size of the simulated cluster: it has stand-ins for device files, and its affinity is unknown.
STAND_IN = find_size("X2", {"X2": {"vcpus": 2, "memory_mib": 2048, "gpu_count": 2, "gpu_model": "A100-SXM4-40GB"}})


def groups_of(*nodes: Node, **more: Any) -> list[NodeGroup]:
    """Node lines with their nodes."""
    return node_groups(nodes, 5, **more)


def node(name: str, size: VmSize = SIZES[ND96], is_spare: bool = False) -> Node:
    """A node of the scale set that is the first part of its name."""
    return Node(name, "10.0.0.1", name.partition("-")[0], size, is_spare)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("A100-SXM4-40GB", "a100"),
        ("A100-PCIe-80GB", "a100"),
        ("H100-NVL", "h100"),
        ("H200-SXM5-141GB", "h200"),
        ("V100-SXM2-32GB", "v100"),
        ("B200", "b200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla T4", "t4"),
        ("stand-in", "stand"),
        (None, None),
    ],
)
def test_the_type_is_a_part_of_the_drivers_model_name(model: str | None, kind: str | None) -> None:
    assert gpu_type(VmSize("Standard_X", gpu_model=model, gpu_count=1)) == kind


def test_every_size_with_nvidia_gpus_has_a_type_and_lines() -> None:
    sizes = 0
    for size in SIZES.values():
        lines = device_lines(size)
        if gres_of(size) is None:
            assert lines == []
            continue
        sizes += 1
        assert gres_of(size) == f"gpu:{gpu_type(size)}:{size.gpu_count}"
        assert 1 <= len(lines) <= 2
    assert sizes > 10


@pytest.mark.parametrize(
    ("size", "lines"),
    [
        (ND96, [("/dev/nvidia[0-3]", "0-47"), ("/dev/nvidia[4-7]", "48-95")]),
        (H100, [("/dev/nvidia[0-3]", "0-47"), ("/dev/nvidia[4-7]", "48-95")]),
        ("Standard_ND40rs_v2", [("/dev/nvidia[0-3]", "0-19"), ("/dev/nvidia[4-7]", "20-39")]),
        ("Standard_NC96ads_A100_v4", [("/dev/nvidia[0-1]", "0-47"), ("/dev/nvidia[2-3]", "48-95")]),
        # One socket: all cores are equally near.
        ("Standard_NC48ads_A100_v4", [("/dev/nvidia[0-1]", None)]),
        ("Standard_NC24ads_A100_v4", [("/dev/nvidia0", None)]),
    ],
)
def test_gpus_are_bound_to_the_cores_of_their_socket(size: str, lines: list[tuple[str, str | None]]) -> None:
    assert [(line["File"], line.get("Cores")) for line in device_lines(SIZES[size])] == lines


def test_a_socket_can_have_gpus_that_are_not_consecutive() -> None:
    described = {
        "vcpus": 8,
        "sockets": 2,
        "cores_per_socket": 4,
        "threads_per_core": 1,
        "numa_nodes": [{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4-7"}],
        "gpus": [{"busid": f"000{number}:00:00.0", "numa_node": number % 2} for number in range(4)],
    }
    lines = device_lines(find_size("X8", {"X8": described}))
    assert [(line["File"], line["Cores"]) for line in lines] == [
        ("/dev/nvidia[0,2]", "0-3"),
        ("/dev/nvidia[1,3]", "4-7"),
    ]
    # With two threads per core, Linux and Slurm number CPUs differently, so no cores are set.
    nodes = [{"id": number, "cpus": f"{2 * number}-{2 * number + 1}"} for number in range(4)]
    gpus = [{"busid": f"000{number}:00:00.0", "numa_node": number} for number in range(4)]
    described |= {"threads_per_core": 2, "cores_per_socket": 2, "numa_nodes": nodes, "gpus": gpus}
    [line] = device_lines(find_size("X8", {"X8": described}))
    assert "Cores" not in line


def test_a_size_that_the_user_describes_needs_no_affinity() -> None:
    assert gres_of(STAND_IN) == "gpu:a100:2"
    assert device_lines(STAND_IN) == [{"Name": "gpu", "Type": "a100", "File": "/dev/nvidia[0-1]"}]


def test_gpus_of_other_vendors_get_no_lines() -> None:
    size = SIZES["Standard_ND96isr_MI300X_v5"]
    assert gres_of(size) is None
    assert gres_lines(groups_of(node("a-0", size)), {}, "", (24, 11)) == []


def test_a_size_has_two_lines_for_any_number_of_nodes_and_sets() -> None:
    nodes = [node(f"{name}-{number}", is_spare=number > 90) for name in ("a", "b") for number in range(100)]
    lines = gres_lines(groups_of(*nodes), {}, "", (22, 5))
    assert [line["NodeName"] for line in lines] == ["a-[0-99],b-[0-99]"] * 2


def test_autodetect_is_set_for_static_nodes_but_not_for_cloud_nodes() -> None:
    groups = groups_of(node("a-0"), node("a-1", is_spare=True))
    lines = gres_lines(groups, {}, "nvidia", (24, 11))
    assert lines[0] == {"NodeName": "a-0", "AutoDetect": "nvidia"}
    assert [line["NodeName"] for line in lines[1:]] == ["a-1", "a-1"]
    cloud = groups_of(node("a-0"), state="CLOUD")
    assert all("AutoDetect" not in line for line in gres_lines(cloud, {}, "nvidia", (24, 11)))


@pytest.mark.parametrize(("value", "release"), [("nvidia", (24, 5)), ("rsmi", (25, 11)), ("off", (24, 11))])
def test_refuses_an_autodetect_value_that_the_release_lacks(value: str, release: tuple[int, int]) -> None:
    with pytest.raises(ClusterError, match=rf"^slurm_gpu_autodetect is '{value}': Slurm .* knows .*nvml"):
        gres_lines(groups_of(node("a-0")), {}, value, release)


def test_the_users_lines_replace_those_of_a_size_and_null_removes_them() -> None:
    groups = groups_of(node("a-0"), node("b-0", SIZES[H100]))
    line = {"Name": "gpu", "Count": 8}
    assert gres_lines(groups, {ND96: line, "nd96isr_h100_v5": None}, "", (24, 11)) == [{"NodeName": "a-0", **line}]
    lines = gres_lines(groups, {"nics": [{"NodeName": "a-0", "Name": "nic", "Count": 8}]}, "", (24, 11))
    assert len(lines) == 5
    assert lines[4] == {"NodeName": "a-0", "Name": "nic", "Count": 8}


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ({"nics": {"Name": "nic"}}, "^slurm_gres.nics has no NodeName, and no node has a VM size"),
        ({"nics": ["nic"]}, "^slurm_gres.nics must be a mapping"),
    ],
)
def test_an_invalid_line_of_the_user_is_an_error_with_the_reason(by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        gres_lines(groups_of(node("a-0")), by_hand, "", (24, 11))


def test_nodes_with_gres_of_the_user_get_no_derived_lines() -> None:
    groups = groups_of(node("a-0"), node("b-0"), by_hand={"b": {"Gres": "gpu:2"}})
    assert {line["NodeName"] for line in gres_lines(groups, {}, "", (24, 11))} == {"a-0"}


def test_gres_types_are_those_of_nodes_and_lines() -> None:
    assert gres_types([{"Gres": "gpu:a100:8,shard:2"}, {"Gres": ["nic:8"]}, {}], [{"Name": "mps"}, {}]) == [
        *("gpu", "mps", "nic", "shard"),
    ]
    assert gres_types([{"NodeName": "a"}], []) == []
