# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The kernel's log: crashes and hangs of the kernel, errors of disks, arrays and file systems."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, NOTHING, OBSERVE, PERIODIC, REBOOT, REPLACE, USER, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for

# Problems of the kernel: crashes, tasks and CPUs that hang, and exhausted memory.

_RESTART = "Drain the node and restart the machine: after this, the kernel is in an undefined state"

KERNEL_TROUBLE_SIGNS = (
    Sign(
        "crash",
        re.compile(
            r"BUG: (?:kernel NULL pointer dereference|unable to handle |Bad page (?:state|map|cache) in process "
            r"|Bad rss-counter state mm:|non-zero pgtables_bytes on freeing mm|scheduling while atomic: "
            r"|\w+ stack guard page was hit at )"
            r"|kernel BUG at [\w./-]+:\d+!|Kernel BUG at \S+ \[verbose debug info unavailable\]"
            # Since Linux 6.10 each begins with "Oops: ".
            r"|(?:Oops: )?(?:Oops|general protection fault(?:, (?:probably|maybe) for [\w -]+)?|Bad pagetable"
            r"|segment-related general protection fault|double fault|stack guard page|int3|divide error|invalid opcode)"
            r": [0-9a-f]{4} \[#\d+\](?:$| (?:PREEMPT|SMP|DEBUG|KASAN|PTI|NOPTI))"
            r"|PANIC: double fault, error_code: "
            r"|Internal error: Oops\b.*: [0-9a-f]+ \[#\d+\]"
        ),
        FAIL,
        "the kernel had an internal error (BUG, Oops) and continued",
        _RESTART,
        fault="",
        source="arch/x86: mm/fault.c, kernel/dumpstack.c, kernel/traps.c; lib/bug.c, mm/page_alloc.c, mm/memory.c, "
        "kernel/fork.c, kernel/sched/core.c, arch/arm64/kernel/traps.c",
    ),
    Sign(
        "hard_lockup",
        re.compile(r"(?:NMI )?watchdog: (?:CPU\d+: )?Watchdog detected hard LOCKUP on cpu "),
        FAIL,
        "a CPU was stuck in the kernel with its interrupts off (hard lockup)",
        _RESTART,
        fault="",
        source="kernel/watchdog.c, until Linux 6.4 kernel/watchdog_hld.c",
    ),
    Sign(
        "soft_lockup",
        re.compile(r"watchdog: BUG: soft lockup - CPU#\d+ stuck for \d+s!|BUG: workqueue lockup - pool cpus="),
        WARN,
        "a CPU was stuck in the kernel (soft lockup)",
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' shows where the CPU was",
        OBSERVE,
        "",
        source="kernel/watchdog.c, kernel/workqueue.c",
    ),
    Sign(
        "rcu_stall",
        re.compile(
            r"rcu: INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls? on |rcu: rcu_\w+ kthread starved for "
        ),
        WARN,
        "a CPU blocked the others in the kernel (RCU stall)",
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' shows where the CPU was",
        OBSERVE,
        "",
        source="kernel/rcu: tree_stall.h, tree_exp.h",
    ),
    Sign(
        "hung_task",
        # The name of a task has at most 15 bytes.
        re.compile(r"INFO: task .{1,15}:\d+ blocked (?:in I/O wait )?for more than \d+ seconds\.$"),
        WARN,
        "a task hung in the kernel for minutes",
        "'journalctl -k -b -g \"blocked for more\"' shows the task; a file system or a device may not answer",
        OBSERVE,
        "",
        source="kernel/hung_task.c",
    ),
    Sign(
        "oom_of_job",
        re.compile(r"Memory cgroup out of memory: Killed process \d+ \("),
        WARN,
        "a process was killed because it used more memory than its job may",
        "The job's owner should request more memory, or use less; the machine is not faulty",
        NOTHING,
        "",
        USER,
        source="mm/oom_kill.c",
    ),
    Sign(
        "oom_of_machine",
        re.compile(r"Out of memory(?: \(oom_kill_allocating_task\))?: Killed process \d+ \("),
        WARN,
        "processes used up the machine's memory, and one was killed",
        "Let Slurm limit the memory of jobs (ConstrainRAMSpace); check that no service of the machine was killed",
        OBSERVE,
        "",
        USER,
        source="mm/oom_kill.c",
    ),
)


def _measure_trouble(context: Context) -> Answer:
    return look_for(
        context, KERNEL_TROUBLE_SIGNS, "kernel_troubles", "the kernel reported no problem of its own since the last run"
    )


KERNEL_TROUBLE = Check(
    name="kernel_trouble",
    title="crashes and hangs within the kernel",
    explain=(
        "Looks for crashes and hangs in the kernel's log of this boot. The check fails after a crash within the kernel "
        "or a hard lockup. It only warns after a soft lockup, an RCU stall or a hung task, because Azure may have "
        "paused the VM, or a file server may not have answered. All these findings stay until the machine restarts or "
        "somebody clears them. If a process was killed because memory ran out, the check warns in one run only, "
        "because users cause this."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_trouble,
    action=REBOOT,
)


# Errors of disks, arrays and file systems, from the kernel's log.

_NVME = r"(nvme\d+)"
_OTHER = r"((?:sd|vd|md|dm-)\w+)"
_MOUNTED = r"([\w./-]+)"
# The names of errors in blk_errors (block/blk-core.c) that a disk causes, without those of unsupported requests.
_FAILED = (
    r"(?:blk_update_request: |print_req_error: )?(?:I/O|timeout|recoverable transport|protection|device offline"
    r"|critical (?:medium|target|nexus|space allocation)) error, dev "
)
# 28 and 122 are ENOSPC and EDQUOT: users filled the file system.
_NOT_FULL = r"error -?(?!28\b|122\b)\d+"
_LOST = "NHC2023"
_LOG = "'journalctl -k -b -g {device}' has the lines"
_REPLACE = f"Redeploy or replace the instance: its scratch is lost in any case; {_LOG}"
_ARRAY_LOST = (
    "The data of a RAID 0 array are lost: redeploy or replace the instance; 'cat /proc/mdstat' shows the array"
)

DISK_ERRORS_SIGNS = (
    Sign(
        "nvme_gone",
        re.compile(
            rf"nvme {_NVME}: (?:Removing after probe failure status|Disabling device after reset failure"
            r"|Device not ready; aborting|Identify Controller failed|Reading CAP failed|IO queues (?:lost|not created)"
            r"|failure state error detected, request disconnect)"
            rf"|block {_NVME}\w*: no available path - failing I/O"
        ),
        FAIL,
        "NVMe disk {device} disappeared: its controller could not be reset",
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
        "NVMe disk {device} had read or write errors",
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
        f"Watch it, and redeploy the instance if it happens again; {_LOG}",
        OBSERVE,
        "",
        source="drivers/nvme/host: core.c, pci.c, multipath.c",
    ),
    Sign(
        # raid0 has no colon after its name, the others have it: md/raid0md0, md/raid1:md0, md/raid:md0.
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
        f"Unmount and repair it; if it is the scratch, create it again; {_LOG}",
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
        "Restart the machine, which repairs it; 'journalctl -k -b -g EXT4' has the lines",
        REBOOT,
        "",
        source="fs/ext4: super.c, page-io.c, inode.c, ioctl.c; fs/jbd2: journal.c, commit.c",
    ),
    Sign(
        "ext4_marked",
        re.compile(rf"EXT4-fs \({_MOUNTED}\): (?:warning: mounting fs with errors|error count since last fsck: )"),
        WARN,
        "file system on {device} had errors earlier (ext4)",
        "Restart the machine, which checks it; 'journalctl -k -b -g EXT4' has the lines",
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
        "disk {device} had read or write errors",
        f"A managed disk may have been detached or throttled; {_LOG}; restart the machine if this persists",
        REBOOT,
        "",
        source="block/blk-core.c, block/blk-mq.c, fs/buffer.c, fs/iomap/buffered-io.c",
    ),
)


def _measure_disks(context: Context) -> Answer:
    return look_for(
        context, DISK_ERRORS_SIGNS, "disk_errors", "no disk, array or file system had an error since the last run"
    )


DISK_ERRORS = Check(
    name="disk_errors",
    title="errors of disks and file systems in the kernel's log",
    explain=(
        "Looks for errors of disks and file systems in the kernel's log of this boot. The check fails if a disk had "
        "read or write errors, an NVMe disk disappeared, a disk of an array failed, or a file system is damaged or was "
        "shut down. It warns if an NVMe disk did not answer in time, or if an ext4 file system had errors earlier. A "
        "finding stays until the machine restarts or somebody clears it. The optical drive is ignored: Azure uses it "
        "only to hand over the settings of a new VM."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_disks,
    action=REPLACE,
    fault=_LOST,
)
