# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's driver says without an XID: a GPU gone, not started, not taken in hand."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_driver_log import CHECK

from ..kernel_log_playing import PlayedLog

SINCE_OFF = "NVRM: GPU 0001:00:00.0: GPU has fallen off the bus."
AT_LOAD = (
    "NVRM: The NVIDIA GPU 0001:00:00.0\nNVRM: (PCI ID: 10de:20b0) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)


@pytest.mark.parametrize(
    ("line", "summary", "action", "fault"),
    [
        (SINCE_OFF, "GPU 0001:00:00.0 has fallen off the bus", "replace", "NHC2013"),
        (AT_LOAD, "GPU 0001:00:00.0 has fallen off the bus", "replace", "NHC2013"),
        (
            "NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
            "GPU 0002:00:00.0 could not be started by its driver",
            "reboot",
            "NHC2015",
        ),
        (
            "NVRM: GPU 0002:00:00.0: rm_init_adapter failed, device minor number 1",
            "GPU 0002:00:00.0 could not be started by its driver",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia: probe of 0003:00:00.0 failed with error -1",
            "NVIDIA's driver did not take GPU 0003:00:00.0 in hand",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia 0003:00:00.0: probe with driver nvidia failed with error -1",
            "NVIDIA's driver did not take GPU 0003:00:00.0 in hand",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia-uvm: uvm_global.c uvm_global_set_fatal_error_impl[pid:9] ERROR: Encountered a global fatal error",
            "the driver's unified memory (nvidia-uvm) has had a fatal error: no CUDA program starts",
            "reboot",
            "NHC2015",
        ),
    ],
)
def test_fails_for_what_the_driver_cannot_mend(
    log: PlayedLog, line: str, summary: str, action: str, fault: str
) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.summary, found.action, found.fault) == ("fail", summary, action, fault)
    assert found.latch


def test_fails_once_for_two_lines_of_one_failure(log: PlayedLog) -> None:
    log.write(
        "NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
        "NVRM: GPU 0002:00:00.0: rm_init_adapter failed, device minor number 1",
    )
    answer = log.look(CHECK)
    assert len(answer.findings) == 1
    assert [one.value for one in answer.readings] == [2]


def test_a_library_of_another_version_warns(log: PlayedLog) -> None:
    log.write("NVRM: API mismatch: the client 'python' (pid 5) has the version 550.54.15, but this kernel module")
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_passes_where_the_driver_has_only_been_loaded(log: PlayedLog) -> None:
    log.write("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", f"python[3]: {SINCE_OFF}")
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
