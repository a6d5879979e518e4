# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Crashes and hangs of the kernel, errors of disks."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.kernel_log import (
    DISK_ERRORS,
    KERNEL_TROUBLE,
)

from ..kernel_log_playing import PlayedLog

OOM_OF_JOB = (
    "Memory cgroup out of memory: Killed process 19667 (python3) total-vm:1460016kB, anon-rss:1414008kB, file-rss:4kB"
)


@pytest.mark.parametrize(
    "line",
    [
        "BUG: kernel NULL pointer dereference, address: 0000000000000028",
        "BUG: unable to handle page fault for address: ffffa0c9c0000000",
        "kernel BUG at mm/slub.c:4101!",
        "Oops: 0000 [#1] SMP NOPTI",
        "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP PTI",
        "watchdog: Watchdog detected hard LOCKUP on cpu 12",
        "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12",
        "watchdog: CPU12: Watchdog detected hard LOCKUP on cpu 12",
    ],
)
def test_kernel_trouble_fails_for_a_crash_within_the_kernel(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(KERNEL_TROUBLE).findings
    assert (found.verdict, found.cause, found.latch) == ("fail", "node", True)
    assert KERNEL_TROUBLE.action == "reboot"


@pytest.mark.parametrize(
    "line",
    [
        "watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies s: 421 root: 0x8/.",
        "INFO: task kworker/u193:1:1177 blocked for more than 120 seconds.",
    ],
)
def test_kernel_trouble_warns_of_hangs_that_can_have_other_causes(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(KERNEL_TROUBLE).findings
    assert (found.verdict, found.cause, found.latch, found.action) == ("warn", "node", True, "observe")


@pytest.mark.parametrize("line", [OOM_OF_JOB, "Out of memory: Killed process 22222 (python3) total-vm:1460016kB"])
def test_kernel_trouble_warns_of_memory_that_a_user_used_up(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(KERNEL_TROUBLE).findings
    assert (found.verdict, found.cause, found.latch, found.fault) == ("warn", "user", False, "")
    assert not log.look(KERNEL_TROUBLE).findings


def test_kernel_trouble_passes_with_harmless_lines(log: PlayedLog) -> None:
    log.write(
        "python3[123]: segfault at 0 ip 00007f error 4 in libc.so.6",
        "traps: kernel BUG at[9] general protection fault ip:7f sp:7f error:0 in libc.so.6",
        "INFO: lockdep is turned off.",
    )
    answer = log.look(KERNEL_TROUBLE)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_kernel_trouble_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(KERNEL_TROUBLE) == ["unknown", "unknown"]


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
def test_disk_errors_fails_for_an_error(log: PlayedLog, line: str, device: str, action: str, fault: str) -> None:
    log.write(line)
    (found,) = log.look(DISK_ERRORS).findings
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
def test_disk_errors_warns_of_a_disk_with_timeouts(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(DISK_ERRORS).findings
    assert (found.verdict, found.device, found.action) == ("warn", "nvme1", "observe")


def test_disk_errors_fails_for_each_disk_and_counts_each_line(log: PlayedLog) -> None:
    lines = [f"I/O error, dev nvme{number}n1, sector {sector}" for number in (4, 1) for sector in range(3)]
    log.write(*lines)
    answer = log.look(DISK_ERRORS)
    assert [found.device for found in answer.findings] == ["nvme4", "nvme1"]
    assert [one.value for one in answer.readings] == [6]


def test_disk_errors_passes_errors_of_optical_drives_and_images(log: PlayedLog) -> None:
    log.write(
        "blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ)",
        "I/O error, dev fd0, sector 0 op 0x0:(READ)",
        "I/O error, dev loop3, sector 0 op 0x0:(READ)",
        "XFS (md0): Mounting V5 Filesystem",
        "nvme nvme0: 4/0/0 default/read/poll queues",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    )
    answer = log.look(DISK_ERRORS)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_disk_errors_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(DISK_ERRORS) == ["unknown", "unknown"]
