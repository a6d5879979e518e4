# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Local NVMe disks: their number, controllers and health."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nvme import NVME_COUNT, NVME_SMART
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize

from ...setup.scratch.node import Disk, Node
from ..playing import ND_A100, context, no_run


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with eight local disks."""
    return Node(tmp_path)


def measure(node: Node, history: History | None = None, size: str | VmSize | None = ND_A100) -> Answer:
    """Check the number of disks."""
    return NVME_COUNT.measure(context(root=node.root, history=history, size=size))


def put_controller(node: Node, number: int, state: str) -> None:
    """Add a controller in this state."""
    folder = node.folder / f"sys/class/nvme/nvme{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(f"{state}\n", encoding="ascii")
    (folder / "address").write_text(f"c05b:00:0{number}.0\n", encoding="ascii")


def test_nvme_count_passes_with_all_disks(node: Node) -> None:
    put_controller(node, 0, "live")
    node.disks["nvme8n1"] = Disk("MSFT NVMe Accelerator v1.0", "OS")
    node.write()
    put_controller(node, 0, "live")
    answer = measure(node)
    assert (answer.findings, answer.good) == ((), "there are 8 local NVMe disks")
    assert answer.limit == "8 (Standard_ND96asr_v4)"


def test_nvme_count_fails_with_a_missing_disk_and_names_it_if_known(node: Node) -> None:
    history = History()
    measure(node, history)
    del node.disks["nvme5n1"]
    node.write()
    (found,) = measure(node, history).findings
    assert (found.verdict, NVME_COUNT.fault, NVME_COUNT.action) == ("fail", "NHC2023", "replace")
    assert found.summary == "there are 7 of 8 local NVMe disks; missing since the boot: SN5"
    (found,) = measure(node, history).findings
    assert found.summary.endswith("SN5"), "it is named in later runs too"
    (found,) = measure(node).findings
    assert found.summary == "there are 7 of 8 local NVMe disks; present: SN0, SN1, SN2, SN3, SN4, SN6, SN7"


def test_nvme_count_fails_if_a_controller_is_dead_or_does_not_recover(node: Node) -> None:
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


def test_nvme_count_fails_if_a_controller_has_no_driver(node: Node) -> None:
    tree = MachineTree(node.folder)
    tree.device("c05b:00:00.0", 0x0108, 0x1414, 0)
    (found,) = measure(node).findings
    assert (found.verdict, found.action) == ("fail", "reboot")
    assert found.summary == "NVMe controller c05b:00:00.0 is on the PCI bus, but has no driver"
    tree.write("/sys/bus/pci/devices/c05b:00:00.0/nvme/nvme0/state", "live\n")
    assert measure(node).findings == ()


def test_nvme_count_warns_of_more_than_expected(node: Node) -> None:
    node.disks["nvme8n1"] = Disk(serial="SN8")
    node.write()
    (found,) = measure(node).findings
    assert (found.verdict, found.summary) == (
        "warn",
        "there are 9 local NVMe disks, but Standard_ND96asr_v4 says 8",
    )


def test_nvme_count_the_settings_win_over_the_size(node: Node) -> None:
    file = node.folder / "etc/hpcai/scratch.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"schema": 1, "devices": ["/dev/nvme1n1", "/dev/nvme9n1"]}), encoding="ascii")
    (found,) = measure(node).findings
    assert found.summary.startswith("there are 1 of 2 local NVMe disks")


def test_nvme_count_is_skipped_if_none_are_expected(node: Node) -> None:
    assert measure(node, size=None).skipped == "the expected number of disks is not known"
    assert measure(node, size="Standard_ND40rs_v2").skipped == "no local NVMe disks are expected"


def test_nvme_count_cannot_measure_without_sysfs(tmp_path: Path) -> None:
    (found,) = NVME_COUNT.measure(context(root=tmp_path)).findings
    assert (found.verdict, found.summary) == ("unknown", "sysfs shows no block device")


GOOD_LOG = {"critical_warning": 0, "temperature": 310, "avail_spare": 100, "spare_thresh": 10, "percent_used": 1}


class Disks:
    """A node whose disks answer with health logs."""

    def __init__(self, folder: Path) -> None:
        self.node, self.history = Node(folder), History()
        self.logs: dict[str, Any] = {f"/dev/nvme{n}n1": {**GOOD_LOG, "media_errors": 0} for n in range(8)}
        self.asked: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        """Answer as nvme-cli does."""
        assert list(command[:3]) == ["nvme", "smart-log", "--output-format=json"]
        self.asked.append(command[3])
        log = self.logs[command[3]]
        if isinstance(log, tuple):
            return Result(tuple(command), log[0], "", log[1])
        return Result(tuple(command), 0, log if isinstance(log, str) else json.dumps(log), "")

    def measure(self) -> Answer:
        """Check the health of all disks."""
        return NVME_SMART.measure(context(root=self.node.root, run=self.run, history=self.history))


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    """Eight healthy disks."""
    return Disks(tmp_path)


def test_nvme_smart_passes_with_healthy_disks(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["percent_used"] = 99
    answer = disks.measure()
    assert (answer.findings, answer.good) == ((), "8 NVMe disks report no problem")
    assert disks.asked == list(disks.logs), "the system's disk is not asked"
    assert len(answer.readings) == 24


@pytest.mark.parametrize(
    ("warning", "words"),
    [
        (1, "spare blocks are below their threshold"),
        (8, "its media are read-only"),
        (6, "its temperature is out of range, its reliability is degraded by many media errors"),
        (128, "an unknown warning"),
        ({"value": 4, "nvm_subsystem_reliability": 1}, "its reliability is degraded by many media errors"),
    ],
)
def test_nvme_smart_fails_with_a_critical_warning(disks: Disks, warning: object, words: str) -> None:
    disks.logs["/dev/nvme2n1"]["critical_warning"] = warning
    (found,) = disks.measure().findings
    assert (found.verdict, found.summary) == ("fail", f"NVMe disk nvme2n1 (SN2) warns: {words}")


def test_nvme_smart_warns_of_a_worn_disk(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["percent_used"] = 100
    (found,) = disks.measure().findings
    assert (found.verdict, found.device) == ("warn", "nvme2n1")
    assert "100 %" in found.summary


def test_nvme_smart_warns_of_new_media_errors(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["media_errors"] = "7"
    assert disks.measure().findings == ()
    disks.logs["/dev/nvme2n1"]["media_errors"] = 9
    (found,) = disks.measure().findings
    assert (found.verdict, found.summary) == ("warn", "NVMe disk nvme2n1 (SN2) has 2 new media errors")
    assert disks.measure().findings == ()


def test_nvme_smart_cannot_measure_without_the_tool(disks: Disks) -> None:
    (found,) = NVME_SMART.measure(context(root=disks.node.root, run=no_run)).findings
    assert (found.verdict, found.summary) == ("unknown", "the tool nvme is not installed")


@pytest.mark.parametrize("log", [(124, "no answer within 5 s"), (1, "No such device"), "usage: nvme", "{}", "[]", ""])
def test_nvme_smart_cannot_measure_a_disk_that_gives_no_log(disks: Disks, log: Any) -> None:
    disks.logs["/dev/nvme2n1"] = log
    (found,) = disks.measure().findings
    assert (found.verdict, found.device) == ("unknown", "nvme2n1")


def test_nvme_smart_disks_without_a_health_log_are_left_out(disks: Disks, tmp_path: Path) -> None:
    disks.logs["/dev/nvme2n1"] = (1, "NVMe status: Invalid Command Opcode: not supported(0x2001)")
    assert disks.measure().good == "7 NVMe disks report no problem"
    disks.logs = dict.fromkeys(disks.logs, (1, "NVMe status: INVALID_OPCODE(2001)"))
    assert disks.measure().skipped == "these disks have no health log"


def test_nvme_smart_only_nvme_disks_are_asked(disks: Disks) -> None:
    settings = Path(disks.node.root.at("/etc/hpcai/scratch.json"))
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"schema": 1, "devices": ["/dev/sda", "/dev/nvme2n1"]}), encoding="ascii")
    assert disks.measure().good == "1 NVMe disks report no problem"
    assert disks.asked == ["/dev/nvme2n1"]


def test_nvme_smart_is_skipped_if_there_are_no_such_disks(tmp_path: Path) -> None:
    assert NVME_SMART.measure(context(root=Node(tmp_path, disks=0).root)).skipped.startswith(
        "there is no local NVMe disk"
    )
