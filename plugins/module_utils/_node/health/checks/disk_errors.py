# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors of disks, arrays and file systems, as the kernel's log tells of them."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, OBSERVE, PERIODIC, REBOOT, REPLACE, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for

_NVME = r"(nvme\d+)"
_OTHER = r"((?:sd|vd|md|dm-)\w+)"
_MOUNTED = r"([\w./-]+)"
# The names of errors in blk_errors (block/blk-core.c) that a disk causes, and not a request that it does not know.
_FAILED = (
    r"(?:blk_update_request: |print_req_error: )?(?:I/O|timeout|recoverable transport|protection|device offline"
    r"|critical (?:medium|target|nexus|space allocation)) error, dev "
)
# 28 and 122 are ENOSPC and EDQUOT: users filled it.
_NOT_FULL = r"error -?(?!28\b|122\b)\d+"
_LOST = "NHC2023"
_LOG = "'journalctl -k -b -g {device}' has the lines"
_REPLACE = f"Redeploy or replace the instance, its scratch is lost anyway; {_LOG}"
_ARRAY_LOST = (
    "The array's data are lost where it is RAID 0: redeploy or replace the instance; 'cat /proc/mdstat' tells more"
)

SIGNS = (
    Sign(
        "nvme_gone",
        re.compile(
            rf"nvme {_NVME}: (?:Removing after probe failure status|Disabling device after reset failure"
            r"|Device not ready; aborting|Identify Controller failed|Reading CAP failed|IO queues (?:lost|not created)"
            r"|failure state error detected, request disconnect)"
            rf"|block {_NVME}\w*: no available path - failing I/O"
        ),
        FAIL,
        "NVMe disk {device} went away: its controller could not be reset",
        _REPLACE,
        REPLACE,
        _LOST,
        source="drivers/nvme/host: core.c, pci.c, multipath.c",
    ),
    Sign(
        "nvme_io",
        re.compile(
            rf"{_FAILED}{_NVME}\w*, sector \d+"
            rf"|Buffer I/O error on dev {_NVME}\w*, logical block \d+"
            rf"|{_NVME}\w*: writeback error on inode \d+, "
        ),
        FAIL,
        "NVMe disk {device} had errors reading or writing",
        _REPLACE,
        REPLACE,
        _LOST,
        source="block/blk-core.c, block/blk-mq.c, fs/buffer.c, fs/iomap/buffered-io.c",
    ),
    Sign(
        "nvme_reset",
        re.compile(
            rf"nvme {_NVME}: (?:I/O (?:tag )?\d+ (?:\([\w /-]+\) )?(?:opcode 0x[0-9a-f]+ )?(?:\([\w /-]+\) )?QID \d+ "
            r"timeout, (?:aborting|reset controller|disable controller|completion polled)"
            r"|controller is down; will reset: |frozen state error detected, reset controller"
            r"|resetting controller due to |Fw activation timeout, reset controller)"
            rf"|block {_NVME}\w*: no usable path - requeuing I/O"
        ),
        WARN,
        "NVMe disk {device} did not answer in time",
        f"Watch it, and redeploy the instance if it comes again; {_LOG}",
        OBSERVE,
        "",
        source="drivers/nvme/host: core.c, pci.c, multipath.c",
    ),
    Sign(
        # raid0 forgets the colon after its name, and the others have it: md/raid0md0, md/raid1:md0, md/raid:md0.
        "array",
        re.compile(
            r"md/raid\d*:?(md[\w-]+): (?:Disk failure on |Cannot continue operation |not enough operational devices "
            r"|too few disks |[\w-]+: unrecoverable I/O read error )"
            r"|md: (md[\w-]+): (?:raid0|linear) array has a missing/failed member"
        ),
        FAIL,
        "a disk of array {device} has failed",
        _ARRAY_LOST,
        REPLACE,
        _LOST,
        source="drivers/md: raid0.c, raid1.c, raid5.c, raid10.c; until Linux 6.0 md.h",
    ),
    Sign(
        "array_superblock",
        re.compile(r"md: (?:super_written gets error=|disabled device [\w-]+, could not read superblock)"),
        FAIL,
        "a disk of an array could not be read or written",
        _ARRAY_LOST,
        REPLACE,
        _LOST,
        source="drivers/md/md.c",
    ),
    Sign(
        "file_system_down",
        re.compile(
            rf"XFS \({_MOUNTED}\): (?:Corruption (?:of|detected)|AGF corruption"
            r"|Metadata (?:corruption detected|CRC error detected|I/O Error )|metadata I/O error"
            r"|log I/O error |Log I/O Error |I/O Error Detected|log recovery (?:read|write) I/O error"
            r"|Block device removal |Filesystem has been shut down|User initiated shutdown|Internal error )"
        ),
        FAIL,
        "file system on {device} is damaged or was shut down (XFS)",
        f"Unmount and repair it, or make it anew if it is the scratch; {_LOG}",
        REBOOT,
        "",
        source="fs/xfs: xfs_fsops.c, xfs_error.c, xfs_log.c, xfs_log_recover.c, xfs_buf.c, libxfs/xfs_ag.c",
    ),
    Sign(
        "ext4",
        re.compile(
            rf"EXT4-fs error \(device {_MOUNTED}\)"
            rf"|EXT4-fs warning \(device {_MOUNTED}\): ext4_end_bio:\d+: I/O error "
            rf"|EXT4-fs \({_MOUNTED}\): (?:Remounting filesystem read-only|I/O error while writing superblock"
            r"|previous I/O error to superblock detected|shut down requested "
            rf"|Delayed block allocation failed for inode \d+ .*with {_NOT_FULL}"
            rf"|failed to convert unwritten extents to written extents .*{_NOT_FULL})"
            rf"|Aborting journal on device {_MOUNTED}-\d+\."
            r"|JBD2: (?:I/O error when updating journal superblock for|Detected IO errors while flushing file data on"
            rf"|previous I/O error detected for journal superblock update for) {_MOUNTED}-\d+\b"
        ),
        FAIL,
        "file system on {device} is damaged (ext4)",
        "Restart the machine, so that it is repaired; 'journalctl -k -b -g EXT4' has the lines",
        REBOOT,
        "",
        source="fs/ext4: super.c, page-io.c, inode.c, ioctl.c; fs/jbd2: journal.c, commit.c",
    ),
    Sign(
        "ext4_marked",
        re.compile(rf"EXT4-fs \({_MOUNTED}\): (?:warning: mounting fs with errors|error count since last fsck: )"),
        WARN,
        "file system on {device} had errors earlier (ext4)",
        "Restart the machine, so that it is checked; 'journalctl -k -b -g EXT4' has the lines",
        OBSERVE,
        "",
        source="fs/ext4/super.c",
    ),
    Sign(
        "other_io",
        re.compile(
            rf"{_FAILED}{_OTHER}, sector \d+"
            rf"|Buffer I/O error on dev {_OTHER}, logical block \d+"
            rf"|{_OTHER}: writeback error on inode \d+, "
        ),
        FAIL,
        "disk {device} had errors reading or writing",
        f"A managed disk may have been detached or throttled; {_LOG}; restart the machine if it stays so",
        REBOOT,
        "",
        source="block/blk-core.c, block/blk-mq.c, fs/buffer.c, fs/iomap/buffered-io.c",
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
