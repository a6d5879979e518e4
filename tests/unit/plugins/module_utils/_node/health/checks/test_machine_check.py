# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of CPUs and memory: not corrected, corrected now and then, corrected all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.machine_check import BEARABLE, CHECK

from ..kernel_log_playing import PlayedLog
from ..playing import NOW

UNCORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: bea0000000000108"
CORRECTED = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9c20400002000175"
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
def test_fails_for_what_was_not_corrected(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.latch, found.cause) == ("fail", True, "node")
    assert (CHECK.action, CHECK.fault) == ("replace", "NHC2001")


def test_fails_by_memory_controller(log: PlayedLog) -> None:
    log.write("EDAC MC1: 1 UE memory read error", "EDAC MC3: 2 UE memory read error")
    assert [found.device for found in log.look(CHECK).findings] == ["MC1", "MC3"]


@pytest.mark.parametrize(
    "line",
    [
        CORRECTED,
        "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9e20400002000175",
        EDAC_CORRECTED,
        "[Hardware Error]: Corrected error, no action required.",
        "[Hardware Error]: Deferred error, no action required.",
        "{1}[Hardware Error]: event severity: corrected",
    ],
)
def test_passes_a_few_corrected_ones_and_warns_of_one_more(log: PlayedLog, line: str) -> None:
    log.write(*[line] * BEARABLE)
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [BEARABLE])
    assert not log.look(CHECK).findings
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.action) == ("warn", "observe")


def test_one_error_told_in_two_forms_counts_once(log: PlayedLog) -> None:
    log.write(*[CORRECTED, "[Hardware Error]: Corrected error, no action required."] * BEARABLE)
    assert not log.look(CHECK).findings
    log.write(CORRECTED, "[Hardware Error]: Corrected error, no action required.")
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_corrected_ones_count_within_a_day(log: PlayedLog) -> None:
    log.write(*[CORRECTED] * (BEARABLE + 5), later_s=24 * 3600 / BEARABLE + 1)
    assert not log.look(CHECK).findings
    log.write(*[CORRECTED] * BEARABLE, later_s=24 * 3600 / BEARABLE)
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_passes_where_nothing_was_logged(log: PlayedLog) -> None:
    log.write(
        "mce: CPU0 supports 32 MCE banks", "EDAC MC: Ver: 3.0.0", "python[3]: [Hardware Error]: System Fatal error."
    )
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def controller(log: PlayedLog, number: int = 0, **counts: int) -> None:
    """Let the kernel have counted errors of a memory controller."""
    folder = Path(log.root.at(f"/sys/devices/system/edac/mc/mc{number}"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in counts.items():
        (folder / name).write_text(f"{count}\n", encoding="ascii")


def test_fails_for_an_uncorrected_error_that_was_counted_and_not_logged(log: PlayedLog) -> None:
    controller(log, 0, ce_count=0, ue_count=0)
    controller(log, 1, ce_count=0, ue_count=2)
    answer = log.look(CHECK)
    (found,) = answer.findings
    assert (found.verdict, found.device, found.latch) == ("fail", "MC1", True)
    assert found.summary == "memory controller MC1 had an uncorrected error"
    assert [(one.device, one.value) for one in answer.readings if one.name == "memory_uncorrected"] == [
        ("MC0", 0),
        ("MC1", 2),
    ]


def test_what_is_logged_and_counted_is_found_once(log: PlayedLog) -> None:
    controller(log, 1, ce_count=0, ue_count=1)
    log.write("EDAC MC1: 1 UE memory read error")
    assert len(log.look(CHECK).findings) == 1


def test_fails_to_be_good_when_more_corrected_ones_are_counted_within_a_day(log: PlayedLog) -> None:
    day = 24 * 3600.0
    controller(log, ce_count=BEARABLE, ue_count=0)
    assert not log.look(CHECK).findings, "the machine is up for two hours, and had them since"
    controller(log, ce_count=BEARABLE + 1, ue_count=0)
    (found,) = log.look(CHECK, now=NOW + day / 2).findings
    assert (found.verdict, found.action) == ("warn", "observe")
    controller(log, ce_count=2 * BEARABLE, ue_count=0)
    assert not log.look(CHECK, now=NOW + 2 * day).findings, "those of today are few"
    controller(log, ce_count=3, ue_count=0)
    assert not log.look(CHECK, now=NOW + 3.5 * day).findings, "the driver was loaded again: three new ones"


def test_old_corrected_ones_whose_time_nobody_knows_are_only_noted(log: PlayedLog) -> None:
    Path(log.root.at("/proc/uptime")).write_text("90000.00 1.00\n", encoding="ascii")
    controller(log, ce_count=500, ue_count=0)
    answer = log.look(CHECK)
    assert not answer.findings
    assert [one.value for one in answer.readings if one.name == "memory_corrected"] == [500]
    controller(log, ce_count=500 + BEARABLE + 1, ue_count=0)
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_passes_and_says_what_was_looked_at(log: PlayedLog) -> None:
    assert log.look(CHECK).good.endswith("by the kernel's log alone: no memory controller is watched (EDAC)")
    controller(log, ce_count=0, ue_count=0)
    controller(log, 1, ce_count=1, ue_count=0)
    answer = log.look(CHECK)
    assert not answer.findings
    assert answer.good.endswith("by the kernel's log and 2 memory controllers")


def test_cannot_measure_a_controller_that_tells_no_counts(log: PlayedLog) -> None:
    controller(log, 0, ce_count=1)
    controller(log, 1, ue_count=0)
    found = log.look(CHECK).findings
    assert [(one.verdict, one.device) for one in found] == [("unknown", "MC0"), ("unknown", "MC1")]


def test_cannot_measure_without_the_log_and_the_controllers_still_tell(log: PlayedLog) -> None:
    log.remove()
    controller(log, ce_count=0, ue_count=1)
    assert [found.verdict for found in log.look(CHECK).findings] == ["unknown", "fail"]


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
