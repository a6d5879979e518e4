# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of disks, arrays and file systems, and drives that do not count."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.disk_errors import CHECK

from ..kernel_log_playing import PlayedLog


@pytest.mark.parametrize(
    ("line", "device", "action", "fault"),
    [
        ("I/O error, dev nvme3n1, sector 1000 op 0x1:(WRITE) flags 0x0 phys_seg 1", "nvme3", "replace", "NHC2023"),
        ("blk_update_request: I/O error, dev nvme3n1, sector 0 op 0x0:(READ)", "nvme3", "replace", "NHC2023"),
        ("critical medium error, dev nvme0n1, sector 2048 op 0x0:(READ)", "nvme0", "replace", "NHC2023"),
        ("Buffer I/O error on dev nvme2n1, logical block 0, async page read", "nvme2", "replace", "NHC2023"),
        ("nvme nvme5: Removing after probe failure status: -19", "nvme5", "replace", "NHC2023"),
        ("nvme nvme5: Device not ready; aborting reset, CSTS=0x1", "nvme5", "replace", "NHC2023"),
        ("nvme nvme5: Disabling device after reset failure: -19", "nvme5", "replace", "NHC2023"),
        ("md/raid0md0: Disk failure on nvme1n1 detected, failing array.", "md0", "replace", "NHC2023"),
        ("block nvme2n1: no available path - failing I/O", "nvme2", "replace", "NHC2023"),
        ("Buffer I/O error on dev dm-0, logical block 1, async page read", "dm-0", "reboot", ""),
        ("EXT4-fs (sda1): I/O error while writing superblock", "sda1", "reboot", ""),
        ("XFS (md0): Corruption of in-memory data (0x8) detected at xfs_defer_finish+0x1", "md0", "reboot", ""),
        ("XFS (md0): log I/O error -5", "md0", "reboot", ""),
        ("XFS (md0): Filesystem has been shut down due to log error (0x2).", "md0", "reboot", ""),
        (
            "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls",
            "sda1",
            "reboot",
            "",
        ),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "sda1", "reboot", ""),
        ("I/O error, dev sda, sector 1000 op 0x1:(WRITE) flags 0x0", "sda", "reboot", ""),
    ],
)
def test_fails_for_an_error(log: PlayedLog, line: str, device: str, action: str, fault: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.action, found.fault) == ("fail", device, action, fault)
    assert device in found.summary
    assert found.latch


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme1: I/O 320 QID 4 timeout, aborting",
        "nvme nvme1: I/O 936 (I/O Cmd) QID 2 timeout, reset controller",
        "nvme nvme1: I/O tag 103 (1067) opcode 0x1 (I/O Cmd) QID 2 timeout, aborting req_op:WRITE(1) size:28672",
        "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
    ],
)
def test_a_disk_that_was_late_warns(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.action) == ("warn", "nvme1", "observe")


def test_fails_by_disk_and_counts_each_line(log: PlayedLog) -> None:
    lines = [f"I/O error, dev nvme{number}n1, sector {sector}" for number in (4, 1) for sector in range(3)]
    log.write(*lines)
    answer = log.look(CHECK)
    assert [found.device for found in answer.findings] == ["nvme4", "nvme1"]
    assert [one.value for one in answer.readings] == [6]


def test_passes_what_optical_drives_and_images_say(log: PlayedLog) -> None:
    log.write(
        "blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ)",
        "I/O error, dev fd0, sector 0 op 0x0:(READ)",
        "I/O error, dev loop3, sector 0 op 0x0:(READ)",
        "XFS (md0): Mounting V5 Filesystem",
        "nvme nvme0: 4/0/0 default/read/poll queues",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    )
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
