# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_topology: what it replaces, refuses and warns of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stand_ins import topology_files
from stand_ins.nccl_node import Node, RunModule
from stand_ins.sized_machine import GPU_CLASS, NVIDIA

from ansible_collections.hpcai.azure.plugins.modules import nccl_topology

BEGIN = "# BEGIN hpcai.azure nccl_topology\n"


@pytest.fixture
def node(tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Node:
    """An ND A100 v4 without any of the module's files."""
    return Node(tmp_path, run_module, monkeypatch)


def test_warns_of_existing_lines_that_nccl_ignores(node: Node) -> None:
    node.conf.write_text("NCCL_DEBUG=WARNING\nnccl_ib_disable=1\n")
    warnings = node.run()["_warned"]
    assert "NCCL_DEBUG is 'WARNING', which NCCL ignores. Valid values are VERSION, WARN" in warnings
    assert "nccl_ib_disable has no effect, because names are case-sensitive. Write NCCL_IB_DISABLE." in warnings


def test_refuses_a_folder_as_topology_path_in_one_line(node: Node) -> None:
    node.topology.unlink(missing_ok=True)
    node.topology.mkdir(parents=True)
    answer = node.run()
    assert answer["msg"] == f"topology_path must be a file, but {node.topology} is a folder. Set a file in it."


def test_refuses_a_missing_root_in_one_line(node: Node, tmp_path: Path) -> None:
    answer = node.run(root=f"{tmp_path}/none")
    assert answer["msg"] == f"root {tmp_path}/none: there is no such folder"


@pytest.mark.parametrize("label", list(topology_files.broken()))
def test_replaces_each_broken_file_of_the_hpc_images(
    tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    size, text = topology_files.broken()[label]
    node = Node(tmp_path, run_module, monkeypatch, size)
    node.topology.write_text(text)
    answer = node.run()
    assert (answer["changed"], answer["replaced"]) == (True, label)
    assert node.topology.read_text() == answer["topology"]
    again = node.run()
    assert (again["changed"], again["replaced"]) == (False, None)
    assert not list(node.topology.parent.glob("*.saved"))


@pytest.mark.parametrize("size", list(topology_files.right()))
def test_keeps_a_file_with_the_same_topology(
    tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    node = Node(tmp_path, run_module, monkeypatch, size)
    text = topology_files.right()[size]
    node.topology.write_text(text)
    node.topology.chmod(0o644)
    answer = node.run()
    assert node.topology.read_text() == text
    assert str(node.topology) not in answer["files"]
    assert answer["replaced"] is None


def test_makes_a_correct_file_readable(node: Node) -> None:
    node.run()
    node.topology.chmod(0o600)
    assert node.run()["files"] == [str(node.topology)]
    assert node.topology.stat().st_mode & 0o7777 == 0o644


def test_refuses_a_topology_file_of_unknown_origin(node: Node) -> None:
    node.topology.write_text("<system version='1'><cpu numaid='0'/></system>")
    before = node.files()
    answer = node.run()
    assert answer["failed"] is True
    assert "neither ours nor a file that the HPC images ever shipped" in answer["msg"]
    assert str(node.topology) in answer["msg"]
    assert node.files() == before


def test_force_replaces_a_file_of_unknown_origin_and_saves_it(node: Node) -> None:
    node.topology.write_text("my own")
    answer = node.run(force=True)
    assert (answer["changed"], answer["replaced"]) == (True, "a file of unknown origin")
    saved = list(node.topology.parent.glob("topo.xml.*.saved"))
    assert [file.read_text() for file in saved] == ["my own"]
    assert node.run(force=True)["changed"] is False


def test_saves_a_copy_of_a_known_file_that_was_edited(node: Node) -> None:
    tuned = topology_files.right()["Standard_ND96asr_v4"].replace('link_width="16"', 'link_width="8"', 1)
    node.topology.write_text(tuned)
    answer = node.run()
    assert answer["replaced"] == "ndv4, right, with other attributes"
    assert [file.read_text() for file in node.topology.parent.glob("*.saved")] == [tuned]


def test_replaces_its_own_file_for_another_size_or_release(node: Node) -> None:
    node.run()
    text = node.topology.read_text()
    for older in (text.replace('link_width="16"', 'link_width="4"'), text.split("\n")[0] + "\n<system version='1'/>"):
        node.topology.write_text(older)
        assert node.run()["files"] == [str(node.topology)]
        assert node.topology.read_text() == text
    assert not list(node.topology.parent.glob("*.saved"))


def test_verify_strict_fails_on_a_mismatch_before_writing(node: Node) -> None:
    node.tree.on_numa_node("0001:00:00.0", 0)
    answer = node.run()
    assert answer["failed"] is True
    assert answer["msg"] == (
        "This machine does not match the topology of Standard_ND96asr_v4, so nothing was written: GPU 0001:00:00.0: "
        "expected NUMA node 1, found NUMA node 0. Check vm_size, or set verify to warn to write the file anyway."
    )
    assert answer["mismatches"] == [
        {"what": "GPU 0001:00:00.0", "kind": "numa_node", "expected": "NUMA node 1", "found": "NUMA node 0"}
    ]
    assert node.files() == {}
    assert node.run(check_mode=True)["failed"] is True


def test_verify_strict_fails_on_a_machine_without_gpus(node: Node) -> None:
    node.tree.without_devices()
    answer = node.run()
    assert answer["failed"] is True
    assert (
        "GPUs: expected 8, found none on this machine; HCAs: expected 8, found none on this machine." in answer["msg"]
    )
    assert node.files() == {}


def test_a_long_list_of_mismatches_is_shortened_in_the_message_only(node: Node) -> None:
    for busid in ("0001", "0002", "0003", "0004", "000b"):
        node.tree.on_numa_node(f"{busid}:00:00.0", 2)
    answer = node.run()
    assert "; and 2 more." in answer["msg"]
    assert len(answer["mismatches"]) == 5


def test_verify_warn_writes_and_warns(node: Node) -> None:
    node.tree.device("000f:00:00.0", GPU_CLASS, NVIDIA, 3)
    answer = node.run(verify="warn")
    assert (answer["changed"], answer["verified"]) == (True, False)
    assert [one["kind"] for one in answer["mismatches"]] == ["unexpected"]
    assert "The topology does not match this machine: GPU 000f:00:00.0" in answer["_warned"]
    assert node.topology.exists()


def test_verify_omit_removes_a_wrong_topology_and_writes_the_rest(node: Node) -> None:
    node.run()
    node.tree.on_numa_node("0001:00:00.0", 0)
    foretold = node.run(verify="omit", check_mode=True)
    answer = node.run(verify="omit")
    assert (answer["changed"], answer["verified"], answer["topology"]) == (True, False, None)
    assert foretold == answer
    assert answer["topology_reason"].startswith("No topology file is written, because this machine does not match")
    assert not node.topology.exists()
    # Set to an empty value instead of left out, so that no later line sets another file.
    assert answer["environment"]["NCCL_TOPO_FILE"] == ""
    assert answer["environment"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert node.run(verify="omit")["changed"] is False
    node.tree.on_numa_node("0001:00:00.0", 1)
    assert node.run(verify="omit")["verified"] is True
    assert node.topology.exists()


@pytest.mark.parametrize("mine", ["/site/topo.xml", None])
def test_verify_omit_keeps_a_users_topology_file(node: Node, mine: str | None) -> None:
    node.tree.on_numa_node("0001:00:00.0", 0)
    answer = node.run(verify="omit", settings={"NCCL_TOPO_FILE": mine})
    assert answer["environment"].get("NCCL_TOPO_FILE") == mine


def test_verify_ignore_does_not_check_the_machine(node: Node) -> None:
    node.tree.without_devices()
    answer = node.run(verify="ignore")
    assert (answer["changed"], answer["verified"], answer["mismatches"]) == (True, None, [])


def test_an_unknown_numa_node_is_not_a_failure(node: Node) -> None:
    node.tree.on_numa_node("0001:00:00.0", -1)
    answer = node.run()
    assert (answer["changed"], answer["verified"], len(answer["unknown"])) == (True, None, 1)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_refuses_a_file_whose_block_is_broken(node: Node, state: str) -> None:
    node.conf.write_text(f"NCCL_DEBUG=INFO\n{BEGIN}NCCL_X=1\n")
    before = node.files()
    answer = node.run(state=state)
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"{node.conf}: line 2 begins the block")
    assert answer["msg"].endswith("Remove the lines of that block manually.")
    assert node.files() == before


def test_warns_of_a_missing_interface(node: Node) -> None:
    answer = node.run(settings={"NCCL_SOCKET_IFNAME": "=eth"})
    assert "matches none of this machine's interfaces (eth0, lo)" in answer["_warned"]
    for fine in ("eth", "=eth0", "ib,eth0", "^docker,lo"):
        assert node.run(settings={"NCCL_SOCKET_IFNAME": fine})["_warned"] == "", fine


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vm_size": "nd96asrx_v4"}, "nearest known sizes are Standard_ND96asr_v4"),
        ({"vm_size": None}, "is not the running machine, so the metadata service was not asked"),
        ({"topology_path": "relative.xml"}, "topology_path must be an absolute path"),
        ({"topology_path": "/a b.xml"}, "topology_path must be an absolute path"),
        ({"enroot_dir": "/etc/$HOME"}, "enroot_dir must be an absolute path"),
        ({"settings": {"NCCL_TOPO_FILE": "/a b"}}, "settings.NCCL_TOPO_FILE must be an absolute path"),
        ({"settings": {"NCCL X": "1"}}, "'NCCL X' is not a valid variable name"),
        ({"verify": "perhaps"}, "value of verify must be one of"),
        ({"state": "gone"}, "value of state must be one of"),
        ({"persistent": True}, "persistent is for the running machine only"),
    ],
)
def test_refuses_invalid_options(node: Node, options: dict[str, Any], words: str) -> None:
    answer = node.run(**options)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert "\n" not in answer["msg"]
    assert node.files() == {}


@pytest.mark.parametrize("option", ["topology_path", "conf_path", "enroot_dir"])
def test_another_root_needs_all_paths_to_be_set(node: Node, run_module: RunModule, option: str) -> None:
    elsewhere = {
        "topology_path": str(node.topology),
        "conf_path": str(node.conf),
        "enroot_dir": str(node.enroot),
    }
    del elsewhere[option]
    given = {"vm_size": node.size, "root": str(node.tree.path), **elsewhere}
    answer = run_module(nccl_topology.main, **given)
    assert answer["failed"] is True
    assert f"{option} would be files of this machine" in answer["msg"]
    assert node.files() == {}
    assert run_module(nccl_topology.main, check_mode=True, **given)["_exit"] == 0


def test_names_a_file_that_cannot_be_written(node: Node) -> None:
    node.topology.mkdir()
    answer = node.run()
    assert answer["failed"] is True
    assert str(node.topology) in answer["msg"]
