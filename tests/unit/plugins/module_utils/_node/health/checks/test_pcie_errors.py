# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors on PCI Express: fatal, not fatal, corrected now and then, corrected all the time."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.pcie_errors import BEARABLE, CHECK

from ..kernel_log_playing import PlayedLog

CORRECTED = "nvme 0005:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0008",
        "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "nvme 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)",
    ],
)
def test_fails_for_a_fatal_one(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.latch) == ("fail", "0000:00:01.0", True)
    assert found.summary == "PCIe device 0000:00:01.0 had a fatal error"


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0001:00:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
        "igb 0001:00:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer",
        "mlx5_core 0001:00:00.0: mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).",
    ],
)
def test_what_is_not_fatal_warns(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.action) == ("warn", "0001:00:00.0", "observe")


def test_passes_a_few_corrected_ones_and_warns_of_one_more(log: PlayedLog) -> None:
    log.write(*[CORRECTED] * BEARABLE)
    assert not log.look(CHECK).findings
    log.write(CORRECTED.replace("0005", "0006"))
    assert not log.look(CHECK).findings
    log.write(CORRECTED)
    assert [(found.verdict, found.device) for found in log.look(CHECK).findings] == [("warn", "0005:00:00.0")]


def test_passes_corrected_ones_that_come_slowly(log: PlayedLog) -> None:
    log.write(*[CORRECTED] * 100, later_s=60 / BEARABLE + 0.1)
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [100])


def test_passes_where_nothing_was_logged(log: PlayedLog) -> None:
    log.write("pcieport 0000:00:01.0: AER: enabled with IRQ 24", "nvme nvme0: pci function 0005:00:00.0")
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
