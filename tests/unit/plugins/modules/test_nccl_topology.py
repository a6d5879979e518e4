# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_topology on temporary folders: files, result, check mode, a second run, and state absent."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from stand_ins import topology_files
from stand_ins.nccl_node import Node, RunModule

BEGIN, END = "# BEGIN hpcai.azure nccl_topology\n", "# END hpcai.azure nccl_topology\n"


@pytest.fixture
def node(tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Node:
    """An ND A100 v4 without any of the module's files."""
    return Node(tmp_path, run_module, monkeypatch)


def test_writes_the_topology_the_block_and_the_drop_ins(node: Node) -> None:
    answer = node.run()
    assert (answer["_exit"], answer["changed"]) == (0, True)
    assert ElementTree.fromstring(node.topology.read_text()).tag == "system"
    assert answer["topology"] == node.topology.read_text()
    assert node.conf.read_text() == (
        f"{BEGIN}NCCL_IB_PCI_RELAXED_ORDERING=1\nNCCL_IGNORE_CPU_AFFINITY=1\nNCCL_SOCKET_IFNAME=eth0\n"
        f"NCCL_TOPO_FILE={node.topology}\n{END}"
    )
    options = "none x-create=file,bind,ro,nosuid,nodev,noexec,private,nofail 0 -1"
    assert node.mounts.read_text().splitlines()[1:] == [
        f"{node.topology} {node.topology} {options}",
        f"{node.conf} /etc/nccl.conf {options}",
    ]
    assert node.environment.read_text().splitlines()[1:] == [f"NCCL_TOPO_FILE={node.topology}"]
    assert {file.stat().st_mode & 0o7777 for file in (node.topology, node.conf, node.mounts, node.environment)} == {
        0o644
    }
    assert answer["files"] == [str(node.topology), str(node.conf), str(node.mounts), str(node.environment)]


def test_returns_what_it_wrote_and_the_source_of_the_size(node: Node) -> None:
    answer = node.run()
    assert (answer["vm_size"], answer["vm_size_from"], answer["family"]) == ("Standard_ND96asr_v4", "given", "ndv4")
    assert [gpu["numa_node"] for gpu in answer["gpus"]] == [1, 1, 0, 0, 3, 3, 2, 2]
    assert answer["gpus"][7]["hcas"] == [{"name": "mlx5_ib7", "busid": "0108:00:00.0"}]
    assert answer["environment"]["NCCL_TOPO_FILE"] == str(node.topology)
    assert (answer["verified"], answer["mismatches"], answer["unknown"]) == (True, [], [])
    assert (answer["replaced"], answer["overridden"], answer["foreign_topologies"]) == (None, [], [])
    assert answer["_warned"] == ""


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.run()
    before = node.files()
    answer = node.run()
    assert (answer["changed"], answer["diff"], answer["files"]) == (False, [], [])
    assert node.files() == before


def test_check_mode_returns_the_same_result_and_writes_nothing(node: Node) -> None:
    node.conf.write_text("NCCL_DEBUG=INFO\n")
    before = node.files()
    foretold = node.run(check_mode=True)
    assert node.files() == before
    done = node.run()
    assert foretold == done
    after = {entry["after_header"].split()[0]: entry["after"] for entry in foretold["diff"]}
    assert after == {str(file): file.read_text() for file in (node.topology, node.conf, node.mounts, node.environment)}
    assert [entry["before"] for entry in foretold["diff"]] == ["", "NCCL_DEBUG=INFO\n", "", ""]


def test_overrides_lines_of_the_hpc_images_and_reports_them(node: Node) -> None:
    old = node.tree.path / "opt/microsoft/ndv4/topo.xml"
    label = "ndv4, before 2025-02: affinity masks wrong"
    node.tree.write("opt/microsoft/ndv4/topo.xml", topology_files.broken()[label][1])
    foreign = b"NCCL_IB_PCI_RELAXED_ORDERING=1\r\nNCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\nNCCL_X=\xe9"
    node.conf.write_bytes(foreign)
    answer = node.run()
    assert node.conf.read_bytes().endswith(END.encode() + foreign)
    assert answer["environment"]["NCCL_TOPO_FILE"] == str(node.topology)
    assert answer["overridden"] == ["NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml"]
    assert answer["foreign_topologies"] == [
        {"path": "/opt/microsoft/ndv4/topo.xml", "named_by": str(node.conf), "known": label, "broken": True}
    ]
    assert "the line has no effect" in answer["_warned"]
    assert old.exists()


def test_reports_lines_that_are_not_utf_8(node: Node) -> None:
    node.conf.write_bytes(b"NCCL_SOCKET_IFNAME=\xe9\nNCCL_TOPO_FILE=/\xe9.xml\nNCCL_\xe9=1\n")
    answer = node.run()
    # Ansible refuses a result that is not UTF-8.
    assert json.dumps(answer, ensure_ascii=False).encode()
    assert answer["overridden"] == ["NCCL_SOCKET_IFNAME=\ufffd", "NCCL_TOPO_FILE=/\ufffd.xml"]
    assert answer["environment"]["NCCL_\ufffd"] == "1"
    assert b"NCCL_SOCKET_IFNAME=\xe9\n" in node.conf.read_bytes()


def test_warns_of_settings_that_override_the_block(node: Node) -> None:
    node.tree.write("etc/environment", 'PATH=/bin\nNCCL_TOPO_FILE="/opt/microsoft/ndv5-topo.xml"')
    (node.enroot / "environ.d").mkdir(parents=True)
    (node.enroot / "environ.d/90-site.env").write_text("NCCL_TOPO_FILE=/site.xml\n")
    answer = node.run()
    assert [(one["named_by"], one["path"]) for one in answer["foreign_topologies"]] == [
        ("/etc/environment", "/opt/microsoft/ndv5-topo.xml"),
        (str(node.enroot / "environ.d/90-site.env"), "/site.xml"),
    ]
    assert answer["_warned"].count("which overrides nccl.conf") == 2
    assert node.run()["changed"] is False


def test_writes_the_users_settings_and_null_removes_one(node: Node) -> None:
    answer = node.run(settings={"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None, "NCCL_CHECKS": True})
    assert answer["environment"] == {
        "NCCL_CHECKS": "1",
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_TOPO_FILE": str(node.topology),
    }
    assert "NCCL_DEBUG" not in node.environment.read_text()


def test_containers_get_a_users_topology_file(node: Node) -> None:
    node.run(settings={"NCCL_TOPO_FILE": "/site/topo.xml"})
    assert "NCCL_TOPO_FILE=/site/topo.xml\n" in node.conf.read_text()
    assert "/site/topo.xml /site/topo.xml none" in node.mounts.read_text()
    assert node.environment.read_text().endswith("\nNCCL_TOPO_FILE=/site/topo.xml\n")


@pytest.mark.parametrize("nothing", ["", None])
def test_without_a_topology_file_containers_get_only_the_variables(node: Node, nothing: str | None) -> None:
    node.run()
    answer = node.run(settings={"NCCL_TOPO_FILE": nothing})
    assert answer["environment"].get("NCCL_TOPO_FILE") == nothing
    assert len(node.mounts.read_text().splitlines()) == 2
    assert not node.environment.exists()


@pytest.mark.parametrize("none", ["", "none"])
def test_without_enroot_dir_it_writes_no_drop_ins(node: Node, none: str) -> None:
    node.run(enroot_dir=none)
    assert set(node.files()) == {"topo.xml", "nccl.conf"}


def test_a_size_without_topology_gets_only_variables(node: Node) -> None:
    answer = node.run(vm_size="nc24ads_a100_v4", settings={"NCCL_DEBUG": "WARN"})
    assert (answer["topology"], answer["family"], answer["gpus"], answer["verified"]) == (None, None, [], None)
    assert "one GPU has no peer" in answer["topology_reason"]
    assert set(node.files()) == {"nccl.conf", "enroot/mounts.d/60-hpcai-nccl.fstab"}
    assert answer["environment"] == {"NCCL_DEBUG": "WARN"}


def test_a_size_without_topology_and_variables_gets_no_files(node: Node) -> None:
    answer = node.run(vm_size="nc24ads_a100_v4")
    assert (answer["changed"], node.files()) == (False, {})


def test_a_change_to_a_size_without_topology_removes_the_file(node: Node) -> None:
    node.run()
    answer = node.run(vm_size="nc40ads_h100_v5")
    assert answer["changed"] is True
    assert node.files() == {}
    node.topology.write_text("somebody's")
    answer = node.run(vm_size="nc40ads_h100_v5")
    assert answer["changed"] is False
    assert "was left unchanged" in answer["_warned"]


def test_accepts_a_size_that_the_user_describes(node: Node) -> None:
    answer = node.run(vm_size="simulated", vm_sizes={"Standard_Simulated": {"vcpus": 2}})
    assert (answer["_exit"], answer["vm_size"], answer["topology"]) == (0, "Standard_Simulated", None)


def test_absent_removes_everything_but_lines_of_others(node: Node) -> None:
    foreign = b"NCCL_DEBUG=INFO\r\nno end"
    node.conf.write_bytes(foreign)
    node.run()
    foretold = node.run(check_mode=True, state="absent")
    answer = node.run(state="absent")
    assert foretold == answer
    assert answer["changed"] is True
    assert answer["files"] == [str(node.mounts), str(node.environment), str(node.conf), str(node.topology)]
    assert node.files() == {"nccl.conf": foreign}
    again = node.run(state="absent")
    assert (again["changed"], again["vm_size"]) == (False, None)


def test_absent_needs_no_size_and_removes_files_that_become_empty(node: Node) -> None:
    node.run()
    assert node.run(state="absent", vm_size=None)["changed"] is True
    assert node.files() == {}


def test_absent_keeps_files_that_the_module_did_not_write(node: Node) -> None:
    node.topology.write_text(topology_files.right()["Standard_ND96asr_v4"])
    node.conf.write_text("")
    answer = node.run(state="absent")
    assert (answer["changed"], set(node.files())) == (False, {"topo.xml", "nccl.conf"})
    assert "nccl_topology did not write it" in answer["_warned"]
