# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors of disks, arrays and file systems, as the kernel's log tells of them."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, OBSERVE, PERIODIC, REBOOT, REPLACE, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for

_NVME = r"(nvme\d+)"
_LOST = "NHC2023"
_LOG = "'journalctl -k -b -g {device}' has the lines"
_REPLACE = f"Redeploy or replace the instance, its scratch is lost anyway; {_LOG}"

SIGNS = (
    Sign(
        "nvme_gone",
        re.compile(
            rf"nvme {_NVME}: (?:Removing after probe failure|Disabling device after reset failure"
            r"|Device not ready; aborting|Removing controller|controller is down; will not reset)"
        ),
        FAIL,
        "NVMe disk {device} went away: its controller could not be reset",
        _REPLACE,
        REPLACE,
        _LOST,
    ),
    Sign(
        "nvme_io",
        re.compile(
            rf"(?:blk_update_request: )?(?:I/O|critical \w+|protection|hard) error, dev {_NVME}\w*, sector"
            rf"|Buffer I/O error on dev(?:ice)? {_NVME}"
        ),
        FAIL,
        "NVMe disk {device} had errors reading or writing",
        _REPLACE,
        REPLACE,
        _LOST,
    ),
    Sign(
        "nvme_reset",
        re.compile(
            rf"nvme {_NVME}: (?:I/O .*\btimeout, (?:aborting|reset controller|disable controller)"
            r"|controller is down; will reset)"
        ),
        WARN,
        "NVMe disk {device} did not answer in time",
        f"Watch it, and redeploy the instance if it comes again; {_LOG}",
        OBSERVE,
        "",
    ),
    Sign(
        "array",
        re.compile(r"md/raid\w*:(md\w+): Disk failure on "),
        FAIL,
        "a disk of array {device} has failed",
        "The array's data are lost where it is RAID 0: redeploy or replace the instance; 'cat /proc/mdstat' tells more",
        REPLACE,
        _LOST,
    ),
    Sign(
        "file_system_down",
        re.compile(
            r"XFS \(([\w./-]+)\): (?:Corruption |Metadata corruption |log I/O error|metadata I/O error"
            r"|Filesystem has been shut down|I/O Error Detected|User initiated shutdown|Internal error )"
        ),
        FAIL,
        "file system on {device} is damaged or was shut down (XFS)",
        f"Unmount and repair it, or make it anew if it is the scratch; {_LOG}",
        REBOOT,
        "",
    ),
    Sign(
        "ext4",
        re.compile(r"EXT4-fs (?:error \(device ([\w./-]+)\)|\(([\w./-]+)\): Remounting filesystem)"),
        FAIL,
        "file system on {device} is damaged (ext4)",
        "Restart the machine, so that it is repaired; 'journalctl -k -b -g EXT4' has the lines",
        REBOOT,
        "",
    ),
    Sign(
        "other_io",
        re.compile(r"(?:blk_update_request: )?(?:I/O|critical \w+) error, dev ((?:sd|vd|md|dm-)\w+), sector"),
        FAIL,
        "disk {device} had errors reading or writing",
        f"A managed disk may have been detached or throttled; {_LOG}; restart the machine if it stays so",
        REBOOT,
        "",
    ),
)


def _measure(context: Context) -> Answer:
    return look_for(context, SIGNS, "disk_errors", "no disk, array or file system has had an error since the last look")


CHECK = Check(
    name="disk_errors",
    title="errors of disks and file systems in the kernel's log",
    explain=(
        "Looks in the kernel's log of this boot for errors reading or writing, NVMe disks that went away, failed disks "
        "of arrays, and file systems that are damaged or were shut down: they fail. An NVMe disk that did not answer "
        "in time warns. It stays until the machine restarts. Optical drives, which only bring settings, do not count."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure,
    action=REPLACE,
    fault=_LOST,
)
