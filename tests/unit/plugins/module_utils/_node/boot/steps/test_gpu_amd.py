# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step gpu for AMD GPUs, which reads only sysfs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.gpu import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

AMD, ACCELERATOR = 0x1002, 0x1200


class Node:
    """An ND96isr_MI300X_v5."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loading = Result(("modprobe",), 0, "", "")
        self.ran: list[list[str]] = []
        tree = MachineTree(path)
        tree.write("/etc/hpcai/node.json", json.dumps({"schema": 1, "vm_size": "Standard_ND96isr_MI300X_v5"}))
        for number in range(1, 9):
            tree.device(f"000{number}:00:00.0", ACCELERATOR, AMD, 0)

    def drive(self, *numbers: int) -> None:
        """Bind GPUs to the driver amdgpu."""
        (self.path / "sys/module/amdgpu").mkdir(parents=True, exist_ok=True)
        for number in numbers:
            device = self.path / f"sys/bus/pci/devices/000{number}:00:00.0"
            (device / "driver").symlink_to("../../../bus/pci/drivers/amdgpu")

    def run(self, command: Sequence[str]) -> Result:
        """Load the driver, which binds all GPUs."""
        self.ran.append(list(command))
        if self.loading.rc == 0:
            self.drive(*range(1, 9))
        return self.loading

    def perform(self, check: bool = False) -> Outcome:
        """Perform the step."""
        return STEP.perform(Context(Root(str(self.path)), self.run, check, STEP.limit_s))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node on which sleep() returns at once."""
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(naps))
    return Node(tmp_path)


def test_eight_gpus_with_the_driver_pass(node: Node) -> None:
    node.drive(*range(1, 9))
    outcome = node.perform()
    assert (outcome.verdict, outcome.summary, node.ran) == ("pass", "8 GPUs use the driver amdgpu", [])


def test_loads_a_driver_that_is_not_loaded(node: Node) -> None:
    checked = node.perform(check=True)
    assert (checked.verdict, checked.changes, node.ran) == ("warn", ("modprobe amdgpu",), [])
    outcome = node.perform()
    assert (outcome.verdict, outcome.changes) == ("pass", ("modprobe amdgpu",))
    assert node.ran == [["modprobe", "amdgpu"]]


def test_a_driver_that_does_not_load_fails(node: Node) -> None:
    words = "modprobe: FATAL: Module amdgpu not found in directory /lib/modules/6.8.0-1010-azure"
    node.loading = Result(("modprobe",), 1, "", words)
    outcome = node.perform()
    assert (outcome.verdict, outcome.summary) == ("fail", f"AMD's driver is not loaded: {words}")


def test_missing_gpus_and_gpus_without_driver_are_named(node: Node) -> None:
    node.drive(1, 2, 3, 5, 6, 7)
    shutil.rmtree(node.path / "sys/bus/pci/devices/0008:00:00.0")
    outcome = node.perform()
    assert outcome.verdict == "fail"
    assert [found["summary"] for found in outcome.details["findings"]] == [
        "7 of 8 GPUs: no more on the PCI bus (Standard_ND96isr_MI300X_v5)",
        "6 of 8 GPUs: 0004:00:00.0 without the driver amdgpu",
    ]


def test_warns_of_more_gpus_than_expected(node: Node) -> None:
    MachineTree(node.path).device("0009:00:00.0", ACCELERATOR, AMD, 0)
    node.drive(*range(1, 10))
    assert node.perform().verdict == "warn"
