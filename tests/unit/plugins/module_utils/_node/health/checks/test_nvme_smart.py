# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVMe disks say of their health: well, warning, worn, silent, in words that are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nvme_smart import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from ...setup.scratch.node import Node
from ..playing import context, no_run

WELL = {"critical_warning": 0, "temperature": 310, "avail_spare": 100, "spare_thresh": 10, "percent_used": 1}


class Disks:
    """A node whose disks are asked."""

    def __init__(self, folder: Path) -> None:
        self.node, self.history = Node(folder), History()
        self.logs: dict[str, Any] = {f"/dev/nvme{n}n1": {**WELL, "media_errors": 0} for n in range(8)}
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
        """Look at all of them."""
        return CHECK.measure(context(root=self.node.root, run=self.run, history=self.history))


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    """Eight disks that are well."""
    return Disks(tmp_path)


def test_passes_where_all_are_well(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["percent_used"] = 99
    answer = disks.measure()
    assert (answer.findings, answer.good) == ((), "8 NVMe disks say that they are well")
    assert disks.asked == list(disks.logs), "the system's disk is not asked"
    assert len(answer.readings) == 24


@pytest.mark.parametrize(
    ("warning", "words"),
    [
        (1, "spare blocks are below their threshold"),
        (8, "its media can only be read"),
        (6, "its temperature is out of range, its reliability is degraded by many media errors"),
        (128, "a warning of unknown meaning"),
        ({"value": 4, "nvm_subsystem_reliability": 1}, "its reliability is degraded by many media errors"),
    ],
)
def test_fails_with_a_critical_warning(disks: Disks, warning: object, words: str) -> None:
    disks.logs["/dev/nvme2n1"]["critical_warning"] = warning
    (found,) = disks.measure().findings
    assert (found.verdict, found.summary) == ("fail", f"NVMe disk nvme2n1 (SN2) warns: {words}")


def test_a_worn_disk_is_worth_a_warning(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["percent_used"] = 100
    (found,) = disks.measure().findings
    assert (found.verdict, found.device) == ("warn", "nvme2n1")
    assert "100 %" in found.summary


def test_media_errors_count_where_they_grow(disks: Disks) -> None:
    disks.logs["/dev/nvme2n1"]["media_errors"] = "7"
    assert disks.measure().findings == ()
    disks.logs["/dev/nvme2n1"]["media_errors"] = 9
    (found,) = disks.measure().findings
    assert (found.verdict, found.summary) == ("warn", "NVMe disk nvme2n1 (SN2) has 2 new media errors")
    assert disks.measure().findings == ()


def test_cannot_measure_without_the_tool(disks: Disks) -> None:
    (found,) = CHECK.measure(context(root=disks.node.root, run=no_run)).findings
    assert (found.verdict, found.summary) == ("unknown", "the tool nvme is not installed")


@pytest.mark.parametrize("log", [(124, "no answer within 5 s"), (1, "No such device"), "usage: nvme", "{}", "[]", ""])
def test_cannot_measure_a_disk_that_gives_no_log(disks: Disks, log: Any) -> None:
    disks.logs["/dev/nvme2n1"] = log
    (found,) = disks.measure().findings
    assert (found.verdict, found.device) == ("unknown", "nvme2n1")


def test_disks_that_keep_no_log_are_left_out(disks: Disks, tmp_path: Path) -> None:
    disks.logs["/dev/nvme2n1"] = (1, "NVMe status: Invalid Command Opcode: not supported(0x2001)")
    assert disks.measure().good == "7 NVMe disks say that they are well"
    disks.logs = dict.fromkeys(disks.logs, (1, "NVMe status: INVALID_OPCODE(2001)"))
    assert disks.measure().skipped == "these disks keep no health log"


def test_disks_of_another_kind_are_not_asked(disks: Disks) -> None:
    settings = Path(disks.node.root.at("/etc/hpcai/scratch.json"))
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"schema": 1, "devices": ["/dev/sda", "/dev/nvme2n1"]}), encoding="ascii")
    assert disks.measure().good == "1 NVMe disks say that they are well"
    assert disks.asked == ["/dev/nvme2n1"]


def test_is_skipped_where_there_are_no_such_disks(tmp_path: Path) -> None:
    assert CHECK.measure(context(root=Node(tmp_path, disks=0).root)).skipped.startswith("there is no local NVMe disk")
