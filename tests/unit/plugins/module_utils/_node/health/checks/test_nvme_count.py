# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Local NVMe disks: all there, one gone, too many, a controller dead, none to be seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nvme_count import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize

from ...setup.scratch.node import Disk, Node
from ..playing import ND_A100, context


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with eight local disks."""
    return Node(tmp_path)


def measure(node: Node, history: History | None = None, size: str | VmSize | None = ND_A100) -> Answer:
    """Count."""
    return CHECK.measure(context(root=node.root, history=history, size=size))


def put_controller(node: Node, number: int, state: str) -> None:
    """A controller in a state."""
    folder = node.folder / f"sys/class/nvme/nvme{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(f"{state}\n", encoding="ascii")
    (folder / "address").write_text(f"c05b:00:0{number}.0\n", encoding="ascii")


def test_passes_with_all_disks(node: Node) -> None:
    put_controller(node, 0, "live")
    node.disks["nvme8n1"] = Disk("MSFT NVMe Accelerator v1.0", "OS")
    node.write()
    put_controller(node, 0, "live")
    answer = measure(node)
    assert (answer.findings, answer.good) == ((), "8 local NVMe disks are there")
    assert answer.limit == "8 (Standard_ND96asr_v4)"


def test_fails_with_one_less_and_names_it_where_it_was_seen(node: Node) -> None:
    history = History()
    measure(node, history)
    del node.disks["nvme5n1"]
    node.write()
    (found,) = measure(node, history).findings
    assert (found.verdict, CHECK.fault, CHECK.action) == ("fail", "NHC2023", "replace")
    assert found.summary == "7 of 8 local NVMe disks are there; gone since the boot: SN5"
    (found,) = measure(node, history).findings
    assert found.summary.endswith("SN5"), "it is named in later runs too"
    (found,) = measure(node).findings
    assert found.summary == "7 of 8 local NVMe disks are there; there are SN0, SN1, SN2, SN3, SN4, SN6, SN7"


def test_fails_where_a_controller_is_dead_or_stays_away(node: Node) -> None:
    history = History()
    put_controller(node, 3, "dead")
    put_controller(node, 4, "resetting")
    findings = measure(node, history).findings
    assert [(found.verdict, found.device) for found in findings] == [("fail", "nvme3"), ("warn", "nvme4")]
    assert findings[0].summary == "NVMe controller nvme3 (c05b:00:03.0) is dead"
    put_controller(node, 3, "live")
    put_controller(node, 4, "connecting")
    assert [(found.verdict, found.device) for found in measure(node, history).findings] == [("fail", "nvme4")]
    put_controller(node, 4, "live")
    assert measure(node, history).findings == ()


def test_fails_where_no_driver_has_a_controller(node: Node) -> None:
    tree = MachineTree(node.folder)
    tree.device("c05b:00:00.0", 0x0108, 0x1414, 0)
    (found,) = measure(node).findings
    assert (found.verdict, found.action) == ("fail", "reboot")
    assert found.summary == "NVMe controller c05b:00:00.0 is on the PCI bus, and no driver has it"
    tree.write("/sys/bus/pci/devices/c05b:00:00.0/nvme/nvme0/state", "live\n")
    assert measure(node).findings == ()


def test_more_than_promised_is_worth_a_warning(node: Node) -> None:
    node.disks["nvme8n1"] = Disk(serial="SN8")
    node.write()
    (found,) = measure(node).findings
    assert (found.verdict, found.summary) == (
        "warn",
        "there are 9 local NVMe disks, and Standard_ND96asr_v4 says 8",
    )


def test_the_settings_go_before_the_size(node: Node) -> None:
    file = node.folder / "etc/hpcai/scratch.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"schema": 1, "devices": ["/dev/nvme1n1", "/dev/nvme9n1"]}), encoding="ascii")
    (found,) = measure(node).findings
    assert found.summary.startswith("1 of 2 local NVMe disks are there")


def test_is_skipped_where_nobody_promises_any(node: Node) -> None:
    assert measure(node, size=None).skipped == "nobody says how many disks there are"
    assert measure(node, size="Standard_ND40rs_v2").skipped == "no local NVMe disks are promised"


def test_cannot_measure_without_sysfs(tmp_path: Path) -> None:
    (found,) = CHECK.measure(context(root=tmp_path)).findings
    assert (found.verdict, found.summary) == ("unknown", "sysfs shows no block device at all")
