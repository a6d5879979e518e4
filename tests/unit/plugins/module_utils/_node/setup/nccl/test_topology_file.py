# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology file: which existing file is replaced, and what happens if it does not match the machine."""

from __future__ import annotations

from typing import Any

import pytest
from stand_ins import topology_files
from stand_ins.nccl_node import Node
from stand_ins.sized_machine import GPU_CLASS, NVIDIA

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.plan import Refused

RIGHT = topology_files.right()["Standard_ND96asr_v4"]


def saved(node: Node) -> list[str]:
    """The copies of replaced files."""
    return [file.read_text() for file in node.topology.parent.glob("topo.xml.*.saved")]


def test_a_broken_file_of_the_hpc_images_is_replaced(node: Node) -> None:
    label = "ndv4, before 2025-02: affinity masks wrong"
    node.topology.write_text(topology_files.broken()[label][1])
    answer = node.ensure()
    assert (answer["changed"], answer["replaced"]) == (True, label)
    assert node.topology.read_text() == answer["topology"]
    again = node.ensure()
    assert (again["changed"], again["replaced"], saved(node)) == (False, None, [])


def test_a_file_with_the_same_topology_is_kept_and_made_readable(node: Node) -> None:
    node.topology.write_text(RIGHT)
    node.topology.chmod(0o600)
    answer = node.ensure()
    assert (answer["replaced"], str(node.topology) in answer["files"]) == (None, True)
    assert (node.topology.read_text(), node.topology.stat().st_mode & 0o7777) == (RIGHT, 0o644)
    assert node.ensure()["changed"] is False


@pytest.mark.parametrize("text", ["my own", "<system version='1'><cpu numaid='0'/></system>"])
def test_a_file_of_unknown_origin_is_refused_and_with_force_replaced_and_saved(node: Node, text: str) -> None:
    node.topology.write_text(text)
    before = node.files()
    with pytest.raises(Refused, match="neither ours nor a file that the HPC images ever shipped") as caught:
        node.ensure()
    assert str(node.topology) in str(caught.value)
    assert node.files() == before
    answer = node.ensure(force=True)
    assert (answer["changed"], answer["replaced"], saved(node)) == (True, "a file of unknown origin", [text])
    assert node.ensure(force=True)["changed"] is False


def test_an_edited_file_of_the_hpc_images_is_replaced_and_saved(node: Node) -> None:
    tuned = RIGHT.replace('link_width="16"', 'link_width="8"', 1)
    node.topology.write_text(tuned)
    assert node.ensure()["replaced"] == "ndv4, right, with other attributes"
    assert saved(node) == [tuned]


def test_our_own_file_of_another_size_or_release_is_replaced(node: Node) -> None:
    node.ensure()
    text = node.topology.read_text()
    for older in (text.replace('link_width="16"', 'link_width="4"'), text.split("\n")[0] + "\n<system version='1'/>"):
        node.topology.write_text(older)
        assert node.ensure()["files"] == [str(node.topology)]
        assert (node.topology.read_text(), saved(node)) == (text, [])


def test_an_empty_file_is_written(node: Node) -> None:
    node.topology.write_text("\n")
    assert node.ensure()["replaced"] is None
    assert node.topology.read_text().strip()


def test_with_strict_a_mismatch_is_refused_and_only_the_message_is_shortened(node: Node) -> None:
    for domain in ("0001", "0002", "0003", "0004", "000b"):
        node.tree.on_numa_node(f"{domain}:00:00.0", 2)
    shown = r"nothing was written: GPU 0003:.*; GPU 0004:.*; GPU 0001:[^;]*; and 2 more\."
    with pytest.raises(Refused, match=shown) as caught:
        node.ensure()
    assert len(caught.value.mismatches) == 5
    assert node.files() == {}


def test_with_warn_a_topology_with_a_mismatch_is_written_with_a_warning(node: Node) -> None:
    node.tree.device("000f:00:00.0", GPU_CLASS, NVIDIA, 3)
    answer = node.ensure(verify="warn")
    assert (answer["changed"], answer["verified"]) == (True, False)
    assert [one["kind"] for one in answer["mismatches"]] == ["unexpected"]
    assert "The topology does not match this machine: GPU 000f:00:00.0" in answer["warnings"][0]
    assert node.topology.exists()


def test_with_omit_a_topology_with_a_mismatch_is_removed_and_the_rest_written(node: Node) -> None:
    node.ensure()
    node.tree.on_numa_node("0001:00:00.0", 0)
    foretold = node.ensure(verify="omit", check_mode=True)
    answer = node.ensure(verify="omit")
    assert (answer["changed"], answer["verified"], answer["topology"]) == (True, False, None)
    assert foretold == answer
    assert answer["topology_reason"].startswith("No topology file is written, because this machine does not match")
    assert not node.topology.exists()
    # Set to an empty value instead of left out, so that no later line sets another file.
    assert answer["environment"]["NCCL_TOPO_FILE"] == ""
    assert answer["environment"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert node.ensure(verify="omit")["changed"] is False
    node.tree.on_numa_node("0001:00:00.0", 1)
    assert node.ensure(verify="omit")["verified"] is True
    assert node.topology.exists()


@pytest.mark.parametrize("mine", ["/site/topo.xml", None])
def test_with_omit_a_users_topology_file_is_kept(node: Node, mine: str | None) -> None:
    node.tree.on_numa_node("0001:00:00.0", 0)
    answer = node.ensure(verify="omit", settings={"NCCL_TOPO_FILE": mine})
    assert answer["environment"].get("NCCL_TOPO_FILE") == mine


def test_with_ignore_the_machine_is_not_compared(node: Node) -> None:
    node.tree.without_devices()
    answer = node.ensure(verify="ignore")
    assert (answer["changed"], answer["verified"], answer["mismatches"]) == (True, None, [])


def test_an_unknown_numa_node_is_no_mismatch(node: Node) -> None:
    node.tree.on_numa_node("0001:00:00.0", -1)
    answer = node.ensure()
    assert (answer["changed"], answer["verified"], len(answer["unknown"])) == (True, None, 1)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"vm_size": "nc24ads_a100_v4"}, "Standard_NC24ads_A100_v4"),
        ({"vm_size": "simulated", "vm_sizes": {"Standard_Simulated": {"vcpus": 2}}}, "Standard_Simulated"),
    ],
)
def test_a_size_without_topology_gets_only_the_users_variables(node: Node, options: dict[str, Any], size: str) -> None:
    answer = node.ensure(**options)
    assert (answer["changed"], answer["vm_size"], node.files()) == (False, size, {})
    answer = node.ensure(**options, settings={"NCCL_DEBUG": "WARN"})
    assert (answer["topology"], answer["family"], answer["gpus"], answer["verified"]) == (None, None, [], None)
    assert f"No topology file is generated for {size}" in answer["topology_reason"]
    assert set(node.files()) == {"nccl.conf", "enroot/mounts.d/60-hpcai-nccl.fstab"}
    assert answer["environment"] == {"NCCL_DEBUG": "WARN"}


def test_after_a_change_to_a_size_without_topology_only_our_file_is_removed(node: Node) -> None:
    node.ensure()
    assert node.ensure(vm_size="nc40ads_h100_v5")["changed"] is True
    assert node.files() == {}
    node.topology.write_text("somebody's")
    answer = node.ensure(vm_size="nc40ads_h100_v5")
    assert answer["changed"] is False
    assert answer["warnings"] == [f"{node.topology} was left unchanged, because nccl_topology did not write it."]
