# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_topology on temporary folders: its arguments and result, check mode and a second run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stand_ins.nccl_node import Node

from ansible_collections.hpcai.azure.plugins.modules import nccl_topology

Run = Callable[..., dict[str, Any]]
BEGIN, END = "# BEGIN hpcai.azure nccl_topology\n", "# END hpcai.azure nccl_topology\n"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An ND A100 v4 without any of the module's files."""
    return Node(tmp_path)


@pytest.fixture
def run(node: Node, run_module: Run) -> Run:
    """Run the module on the node."""
    return lambda **options: run_module(nccl_topology.main, **{**node.given, **options})


def test_writes_the_topology_the_block_and_the_drop_ins_and_returns_them(
    node: Node, run: Run, warned: list[str]
) -> None:
    answer = run()
    assert (answer["_exit"], answer["changed"], warned) == (0, True, [])
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
    written = (node.topology, node.conf, node.mounts, node.environment)
    assert {file.stat().st_mode & 0o7777 for file in written} == {0o644}
    assert answer["files"] == [str(file) for file in written]
    assert (answer["vm_size"], answer["vm_size_from"], answer["family"]) == ("Standard_ND96asr_v4", "given", "ndv4")
    assert [gpu["numa_node"] for gpu in answer["gpus"]] == [1, 1, 0, 0, 3, 3, 2, 2]
    assert answer["gpus"][7]["hcas"] == [{"name": "mlx5_ib7", "busid": "0108:00:00.0"}]
    assert answer["environment"]["NCCL_TOPO_FILE"] == str(node.topology)
    assert (answer["verified"], answer["mismatches"], answer["unknown"]) == (True, [], [])
    assert (answer["replaced"], answer["overridden"], answer["foreign_topologies"]) == (None, [], [])


def test_a_second_run_changes_nothing(node: Node, run: Run) -> None:
    run()
    before = node.files()
    answer = run()
    assert (answer["changed"], answer["diff"], answer["files"]) == (False, [], [])
    assert node.files() == before


def test_check_mode_returns_the_same_result_and_writes_nothing(node: Node, run: Run, warned: list[str]) -> None:
    node.conf.write_text("NCCL_DEBUG=WARNING\n")
    before = node.files()
    foretold = run(check_mode=True)
    assert node.files() == before
    (warning,) = warned
    assert "NCCL_DEBUG is 'WARNING', which NCCL ignores" in warning
    done = run()
    assert foretold == done
    assert warned == [warning, warning]
    after = {entry["after_header"].split()[0]: entry["after"] for entry in foretold["diff"]}
    assert after == {str(file): file.read_text() for file in (node.topology, node.conf, node.mounts, node.environment)}
    assert [entry["before"] for entry in foretold["diff"]] == ["", "NCCL_DEBUG=WARNING\n", "", ""]


def test_fails_on_a_mismatch_before_writing(node: Node, run: Run) -> None:
    node.tree.on_numa_node("0001:00:00.0", 0)
    answer = run()
    assert answer["failed"] is True
    assert answer["msg"] == (
        "This machine does not match the topology of Standard_ND96asr_v4, so nothing was written: GPU 0001:00:00.0: "
        "expected NUMA node 1, found NUMA node 0. Check vm_size, or set verify to warn to write the file anyway."
    )
    assert answer["mismatches"] == [
        {"what": "GPU 0001:00:00.0", "kind": "numa_node", "expected": "NUMA node 1", "found": "NUMA node 0"}
    ]
    assert node.files() == {}
    assert run(check_mode=True)["failed"] is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vm_size": "nd96asrx_v4"}, "nearest known sizes are Standard_ND96asr_v4"),
        ({"root": "/there/is/none"}, "root /there/is/none: there is no such folder"),
        ({"topology_path": "relative.xml"}, "topology_path must be an absolute path"),
        ({"topology_path": "/a b.xml"}, "topology_path must be an absolute path"),
        ({"enroot_dir": "/etc/$HOME"}, "enroot_dir must be an absolute path"),
        ({"settings": {"NCCL X": "1"}}, "'NCCL X' is not a valid variable name"),
        ({"verify": "perhaps"}, "value of verify must be one of"),
        ({"state": "gone"}, "value of state must be one of"),
        # A file that cannot be read.
        ({"conf_path": "/dev/null/nccl.conf"}, "'/dev/null/nccl.conf'"),
    ],
)
def test_refuses_invalid_options(node: Node, run: Run, options: dict[str, Any], words: str) -> None:
    answer = run(**options)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert "\n" not in answer["msg"]
    assert node.files() == {}
