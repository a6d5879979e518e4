# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of CPUs, memory and PCIe."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.hardware_errors import (
    BEARABLE_MEMORY,
    BEARABLE_PCIE,
    MACHINE_CHECK,
    PCIE_ERRORS,
)

from ..kernel_log_playing import PlayedLog
from ..playing import NOW

UNCORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: bea0000000000108"
MACHINE_CHECK_CORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9c20400002000175"
EDAC_CORRECTED = (
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x0)"
)


@pytest.mark.parametrize(
    "line",
    [
        UNCORRECTED,
        "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 1: f200000000800400",
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 1: b800000000800400",
        "[Hardware Error]: Uncorrected, software restartable error.",
        "[Hardware Error]: System Fatal error.",
        "{1}[Hardware Error]: event severity: recoverable",
        "{2}[Hardware Error]: event severity: fatal",
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x0)",
        "Memory failure: 0x1840200: recovery action for dirty LRU page: Recovered",
        "Memory failure: 0x1840200: Sending SIGBUS to python:33395 due to hardware memory corruption",
        "MCE: Killing python:1321 due to hardware memory corruption fault at 4631e000",
    ],
)
def test_machine_check_fails_for_uncorrected_errors(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(MACHINE_CHECK).findings
    assert (found.verdict, found.latch, found.cause) == ("fail", True, "node")
    assert (MACHINE_CHECK.action, MACHINE_CHECK.fault) == ("replace", "NHC2001")


def test_machine_check_fails_for_each_memory_controller(log: PlayedLog) -> None:
    log.write("EDAC MC1: 1 UE memory read error", "EDAC MC3: 2 UE memory read error")
    assert [found.device for found in log.look(MACHINE_CHECK).findings] == ["MC1", "MC3"]


@pytest.mark.parametrize(
    "line",
    [
        MACHINE_CHECK_CORRECTED,
        "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9e20400002000175",
        EDAC_CORRECTED,
        "[Hardware Error]: Corrected error, no action required.",
        "[Hardware Error]: Deferred error, no action required.",
        "{1}[Hardware Error]: event severity: corrected",
    ],
)
def test_machine_check_passes_a_few_corrected_errors_and_warns_of_more(log: PlayedLog, line: str) -> None:
    log.write(*[line] * BEARABLE_MEMORY)
    answer = log.look(MACHINE_CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [BEARABLE_MEMORY])
    assert not log.look(MACHINE_CHECK).findings
    log.write(line)
    (found,) = log.look(MACHINE_CHECK).findings
    assert (found.verdict, found.action) == ("warn", "observe")


def test_machine_check_an_error_logged_in_two_formats_counts_once(log: PlayedLog) -> None:
    log.write(*[MACHINE_CHECK_CORRECTED, "[Hardware Error]: Corrected error, no action required."] * BEARABLE_MEMORY)
    assert not log.look(MACHINE_CHECK).findings
    log.write(MACHINE_CHECK_CORRECTED, "[Hardware Error]: Corrected error, no action required.")
    assert [found.verdict for found in log.look(MACHINE_CHECK).findings] == ["warn"]


def test_machine_check_corrected_errors_count_within_a_day(log: PlayedLog) -> None:
    log.write(*[MACHINE_CHECK_CORRECTED] * (BEARABLE_MEMORY + 5), later_s=24 * 3600 / BEARABLE_MEMORY + 1)
    assert not log.look(MACHINE_CHECK).findings
    log.write(*[MACHINE_CHECK_CORRECTED] * BEARABLE_MEMORY, later_s=24 * 3600 / BEARABLE_MEMORY)
    assert [found.verdict for found in log.look(MACHINE_CHECK).findings] == ["warn"]


def test_machine_check_passes_if_nothing_was_logged(log: PlayedLog) -> None:
    log.write(
        "mce: CPU0 supports 32 MCE banks", "EDAC MC: Ver: 3.0.0", "python[3]: [Hardware Error]: System Fatal error."
    )
    answer = log.look(MACHINE_CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def controller(log: PlayedLog, number: int = 0, **counts: int) -> None:
    """Set the error counts of a memory controller."""
    folder = Path(log.root.at(f"/sys/devices/system/edac/mc/mc{number}"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in counts.items():
        (folder / name).write_text(f"{count}\n", encoding="ascii")


def test_machine_check_fails_for_an_error_that_is_only_counted(log: PlayedLog) -> None:
    controller(log, 0, ce_count=0, ue_count=0)
    controller(log, 1, ce_count=0, ue_count=2)
    answer = log.look(MACHINE_CHECK)
    (found,) = answer.findings
    assert (found.verdict, found.device, found.latch) == ("fail", "MC1", True)
    assert found.summary == "memory controller MC1 had an uncorrected error"
    assert [(one.device, one.value) for one in answer.readings if one.name == "memory_uncorrected"] == [
        ("MC0", 0),
        ("MC1", 2),
    ]


def test_machine_check_an_error_logged_and_counted_is_reported_once(log: PlayedLog) -> None:
    controller(log, 1, ce_count=0, ue_count=1)
    log.write("EDAC MC1: 1 UE memory read error")
    assert len(log.look(MACHINE_CHECK).findings) == 1


def test_machine_check_fails_to_pass_with_many_corrected_errors_per_day(log: PlayedLog) -> None:
    day = 24 * 3600.0
    controller(log, ce_count=BEARABLE_MEMORY, ue_count=0)
    assert not log.look(MACHINE_CHECK).findings, "the limit is not exceeded since the boot two hours ago"
    controller(log, ce_count=BEARABLE_MEMORY + 1, ue_count=0)
    (found,) = log.look(MACHINE_CHECK, now=NOW + day / 2).findings
    assert (found.verdict, found.action) == ("warn", "observe")
    controller(log, ce_count=2 * BEARABLE_MEMORY, ue_count=0)
    assert not log.look(MACHINE_CHECK, now=NOW + 2 * day).findings, "few of them are from today"
    controller(log, ce_count=3, ue_count=0)
    assert not log.look(MACHINE_CHECK, now=NOW + 3.5 * day).findings, "the driver was loaded again: only three are new"


def test_machine_check_old_corrected_errors_are_only_a_reading(log: PlayedLog) -> None:
    Path(log.root.at("/proc/uptime")).write_text("90000.00 1.00\n", encoding="ascii")
    controller(log, ce_count=500, ue_count=0)
    answer = log.look(MACHINE_CHECK)
    assert not answer.findings
    assert [one.value for one in answer.readings if one.name == "memory_corrected"] == [500]
    controller(log, ce_count=500 + BEARABLE_MEMORY + 1, ue_count=0)
    assert [found.verdict for found in log.look(MACHINE_CHECK).findings] == ["warn"]


def test_machine_check_passes_and_names_its_sources(log: PlayedLog) -> None:
    assert log.look(MACHINE_CHECK).good.endswith("from the kernel's log only (EDAC shows no memory controller)")
    controller(log, ce_count=0, ue_count=0)
    controller(log, 1, ce_count=1, ue_count=0)
    answer = log.look(MACHINE_CHECK)
    assert not answer.findings
    assert answer.good.endswith("from the kernel's log and 2 memory controllers")


def test_machine_check_cannot_measure_a_controller_without_counts(log: PlayedLog) -> None:
    controller(log, 0, ce_count=1)
    controller(log, 1, ue_count=0)
    found = log.look(MACHINE_CHECK).findings
    assert [(one.verdict, one.device) for one in found] == [("unknown", "MC0"), ("unknown", "MC1")]


def test_machine_check_without_the_log_the_controllers_still_count(log: PlayedLog) -> None:
    log.remove()
    controller(log, ce_count=0, ue_count=1)
    assert [found.verdict for found in log.look(MACHINE_CHECK).findings] == ["unknown", "fail"]


def test_machine_check_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(MACHINE_CHECK) == ["unknown", "unknown"]


PCIE_ERRORS_CORRECTED = "nvme 0005:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0008",
        "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "nvme 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)",
    ],
)
def test_pcie_errors_fails_for_a_fatal_error(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(PCIE_ERRORS).findings
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
def test_pcie_errors_warns_of_errors_that_are_not_fatal(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(PCIE_ERRORS).findings
    assert (found.verdict, found.device, found.action) == ("warn", "0001:00:00.0", "observe")


def test_pcie_errors_passes_a_few_corrected_errors_and_warns_of_more(log: PlayedLog) -> None:
    log.write(*[PCIE_ERRORS_CORRECTED] * BEARABLE_PCIE)
    assert not log.look(PCIE_ERRORS).findings
    log.write(PCIE_ERRORS_CORRECTED.replace("0005", "0006"))
    assert not log.look(PCIE_ERRORS).findings
    log.write(PCIE_ERRORS_CORRECTED)
    assert [(found.verdict, found.device) for found in log.look(PCIE_ERRORS).findings] == [("warn", "0005:00:00.0")]


def test_pcie_errors_passes_corrected_errors_at_a_low_rate(log: PlayedLog) -> None:
    log.write(*[PCIE_ERRORS_CORRECTED] * 100, later_s=60 / BEARABLE_PCIE + 0.1)
    answer = log.look(PCIE_ERRORS)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [100])


def test_pcie_errors_passes_if_nothing_was_logged(log: PlayedLog) -> None:
    log.write("pcieport 0000:00:01.0: AER: enabled with IRQ 24", "nvme nvme0: pci function 0005:00:00.0")
    answer = log.look(PCIE_ERRORS)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_pcie_errors_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(PCIE_ERRORS) == ["unknown", "unknown"]
