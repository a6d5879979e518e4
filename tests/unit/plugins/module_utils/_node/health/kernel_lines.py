# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines as the format strings of Linux 5.15 to 6.14 and of NVIDIA's driver make them, by check and by sign."""

from __future__ import annotations

from collections.abc import Mapping

MLX5 = "mlx5_core 0104:00:00.0: "
EDAC = (
    "memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x0 grain:32 syndrome:0x0)"
)

LINES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "disk_errors": {
        "nvme_gone": (
            "nvme nvme5: Removing after probe failure status: -19",
            "nvme nvme5: Disabling device after reset failure: -19",
            "nvme nvme5: Device not ready; aborting initialisation, CSTS=0x0",
            "nvme nvme5: Device not ready; aborting reset, CSTS=0x1",
            "nvme nvme5: Identify Controller failed (-4)",
            "nvme nvme5: Reading CAP failed (-19)",
            "nvme nvme5: IO queues not created",
            "nvme nvme5: IO queues lost",
            "nvme nvme5: failure state error detected, request disconnect",
            "block nvme5n1: no available path - failing I/O",
        ),
        "nvme_io": (
            "I/O error, dev nvme3n1, sector 1000 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "I/O error, dev nvme3c3n1, sector 1000 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            "blk_update_request: I/O error, dev nvme3n1, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
            "print_req_error: I/O error, dev nvme3n1, sector 0",
            "critical medium error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            "critical target error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            "critical space allocation error, dev nvme3n1, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "timeout error, dev nvme3n1, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "recoverable transport error, dev nvme3n1, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "device offline error, dev nvme3n1, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "protection error, dev nvme3n1, sector 8 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "Buffer I/O error on dev nvme3n1, logical block 0, async page read",
            "Buffer I/O error on dev nvme3n1p1, logical block 1, lost async page write",
            "nvme3n1: writeback error on inode 131, offset 1766125568, sector 4059696",
        ),
        "nvme_reset": (
            "nvme nvme1: I/O 320 QID 4 timeout, aborting",
            "nvme nvme1: I/O 936 (I/O Cmd) QID 2 timeout, aborting",
            "nvme nvme1: I/O 936 QID 2 timeout, reset controller",
            "nvme nvme1: I/O 936 QID 2 timeout, completion polled",
            "nvme nvme1: I/O 936 QID 0 timeout, disable controller",
            "nvme nvme1: I/O tag 103 (1067) opcode 0x1 (I/O Cmd) QID 2 timeout, aborting req_op:WRITE(1) size:28672",
            "nvme nvme1: I/O tag 103 (1067) opcode 0x1 (I/O Cmd) QID 2 timeout, reset controller",
            "nvme nvme1: I/O tag 103 (1067) QID 2 timeout, completion polled",
            "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
            "nvme nvme1: frozen state error detected, reset controller",
            "nvme nvme1: resetting controller due to AER",
            "nvme nvme1: Fw activation timeout, reset controller",
            "block nvme1n1: no usable path - requeuing I/O",
        ),
        "array": (
            "md/raid0md0: Disk failure on nvme1n1 detected, failing array.",
            "md/raid0md127: Disk failure on nvme1n1 detected, failing array.",
            "md/raid0:md0: too few disks (7 of 8) - aborting!",
            "md: md0: raid0 array has a missing/failed member",
            "md/raid1:md1: Disk failure on sdb1, disabling device. md/raid1:md1: Operation continuing on 1 devices.",
            "md/raid1:md1: sda1: unrecoverable I/O read error for block 8",
            "md/raid10:md1: Disk failure on sdb1, disabling device.",
            "md/raid:md5: Disk failure on sdb1, disabling device.",
            "md/raid:md5: Cannot continue operation (2/4 failed).",
            "md/raid:md5: not enough operational devices (2/4 failed)",
        ),
        "array_superblock": (
            "md: super_written gets error=-5",
            "md: disabled device nvme1n1, could not read superblock.",
        ),
        "file_system_down": (
            "XFS (md0): Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x1 (fs/xfs/x.c:1). "
            " Shutting down filesystem.",
            "XFS (md0): Corruption of in-memory data detected.  Shutting down filesystem",
            "XFS (md0): Corruption of on-disk metadata (0x10) detected at xfs_trans_cancel+0x1 (fs/xfs/x.c:1).",
            "XFS (md0): Corruption detected. Unmount and run xfs_repair",
            "XFS (md0): AGF corruption. Please run xfs_repair.",
            "XFS (md0): Metadata corruption detected at xfs_agf_verify+0x1 [xfs], xfs_agf block 0x1",
            "XFS (md0): Metadata CRC error detected at xfs_agf_read_verify+0x1 [xfs], xfs_agf block 0x1",
            "XFS (md0): Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map+0x1 (fs/xfs/x.c:1).",
            'XFS (md0): metadata I/O error in "xfs_imap_to_bp+0x4f/0x70 [xfs]" at daddr 0x4 len 32 error 5',
            "XFS (md0): log I/O error -5",
            "XFS (md0): Log I/O Error (0x2) detected at xlog_ioend_work+0x1 (fs/xfs/xfs_log.c:1).",
            "XFS (md0): Log I/O Error Detected. Shutting down filesystem",
            "XFS (md0): I/O Error Detected. Shutting down filesystem",
            "XFS (md0): log recovery read I/O error at daddr 0x0 len 8 error -5",
            "XFS (md0): Block device removal (0x20) detected at xfs_fs_shutdown+0x1 (fs/xfs/xfs_super.c:1).",
            "XFS (md0): Filesystem has been shut down due to log error (0x2).",
            "XFS (md0): User initiated shutdown received.",
            "XFS (md0): Internal error xfs_trans_cancel at line 1 of file fs/xfs/xfs_trans.c.  Caller xfs_create+0x1",
        ),
        "ext4": (
            "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
            "EXT4-fs error (device sda1) in ext4_reserve_inode_write:5821: IO failure",
            "EXT4-fs warning (device sda1): ext4_end_bio:343: I/O error 10 writing to inode 12 starting block 5)",
            "EXT4-fs (sda1): Remounting filesystem read-only",
            "EXT4-fs (sda1): I/O error while writing superblock",
            "EXT4-fs (sda1): previous I/O error to superblock detected",
            "EXT4-fs (sda1): shut down requested (1)",
            "EXT4-fs (sda1): Delayed block allocation failed for inode 12 at logical offset 0 with max blocks 2 with "
            "error 5",
            "EXT4-fs (sda1): failed to convert unwritten extents to written extents -- potential data loss!  (inode "
            "12, error -5)",
            "Aborting journal on device sda1-8.",
            "JBD2: I/O error when updating journal superblock for sda1-8.",
            "JBD2: Detected IO errors while flushing file data on sda1-8",
            "JBD2: previous I/O error detected for journal superblock update for sda1-8.",
        ),
        "ext4_marked": (
            "EXT4-fs (sda1): warning: mounting fs with errors, running e2fsck is recommended",
            "EXT4-fs (sda1): error count since last fsck: 3",
        ),
        "other_io": (
            "I/O error, dev sda, sector 1000 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "device offline error, dev sda, sector 1000 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
            "Buffer I/O error on dev dm-0, logical block 243952, async page read",
            "Buffer I/O error on dev md0, logical block 0, lost sync page write",
            "md0: writeback error on inode 131, offset 1766125568, sector 4059696",
        ),
    },
    "kernel_trouble": {
        "crash": (
            "BUG: kernel NULL pointer dereference, address: 0000000000000028",
            "BUG: unable to handle page fault for address: ffffa0c9c0000000",
            "BUG: Bad page state in process python3  pfn:12345",
            "BUG: Bad page map in process python3  pte:00000001 pmd:00000002",
            "BUG: Bad rss-counter state mm:000000001 type:MM_ANONPAGES val:1",
            "BUG: non-zero pgtables_bytes on freeing mm: 4096",
            "BUG: scheduling while atomic: python3/123/0x00000002",
            "BUG: TASK stack guard page was hit at 00000000 (stack is 00000000..00000001)",
            "kernel BUG at mm/slub.c:4101!",
            "Oops: 0000 [#1] SMP NOPTI",
            "Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI",
            "Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP PTI",
            "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP PTI",
            "general protection fault, maybe for address 0x12: 0000 [#1] PREEMPT SMP NOPTI",
            "invalid opcode: 0000 [#1] SMP NOPTI",
            "Bad pagetable: 000d [#1] SMP NOPTI",
            "PANIC: double fault, error_code: 0x0",
            "Internal error: Oops: 0000000096000005 [#1] SMP",
        ),
        "hard_lockup": (
            "watchdog: Watchdog detected hard LOCKUP on cpu 12",
            "watchdog: CPU12: Watchdog detected hard LOCKUP on cpu 12",
            "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12",
        ),
        "soft_lockup": (
            "watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]",
            "BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 32s!",
        ),
        "rcu_stall": (
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies s: 421 root: 0x8/.",
            "rcu: rcu_preempt kthread starved for 5252 jiffies! g1 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=2",
        ),
        "hung_task": (
            "INFO: task kworker/u193:1:1177 blocked for more than 120 seconds.",
            "INFO: task python3:1177 blocked in I/O wait for more than 122 seconds.",
        ),
        "oom_of_job": ("Memory cgroup out of memory: Killed process 19667 (python3) total-vm:1460016kB, anon-rss:1kB",),
        "oom_of_machine": (
            "Out of memory: Killed process 22222 (python3) total-vm:1460016kB, anon-rss:1kB",
            "Out of memory (oom_kill_allocating_task): Killed process 22222 (python3) total-vm:1460016kB",
        ),
    },
    "machine_check": {
        "uncorrected": (
            "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 5: bea0000000000108",
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 1: f200000000800400",
            "mce: Uncorrected hardware memory error in user-access at 1234",
            "[Hardware Error]: Uncorrected, software restartable error.",
            "[Hardware Error]: Uncorrected, software containable error.",
            "[Hardware Error]: System Fatal error.",
            "{1}[Hardware Error]: event severity: recoverable",
            "{2}[Hardware Error]: event severity: fatal",
        ),
        "memory_uncorrected": (f"EDAC MC1: 1 UE {EDAC}",),
        "poisoned": (
            "Memory failure: 0x1840200: recovery action for dirty LRU page: Recovered",
            "Memory failure: 0x1840200: Sending SIGBUS to python:33395 due to hardware memory corruption",
            "MCE: Killing python:1321 due to hardware memory corruption fault at 4631e000",
        ),
        "corrected_edac": (f"EDAC MC0: 1 CE {EDAC}",),
        "corrected_decoded": ("[Hardware Error]: Corrected error, no action required.",),
        "corrected_firmware": ("{1}[Hardware Error]: event severity: corrected",),
        "corrected_raw": ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9c20400002000175",),
    },
    "pcie_errors": {
        "fatal": (
            "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester)",
            "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible",
            "pcieport 0000:00:01.0: AER: device recovery failed",
            "pcieport 0000:00:01.0: AER: subordinate device reset failed",
        ),
        "not_fatal": (
            "nvme 0001:00:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Receiver)",
            "pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000",
        ),
        "corrected": ("nvme 0001:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",),
        "power": (f"{MLX5}mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).",),
    },
    "ib_driver_log": {
        "firmware": (
            f"{MLX5}poll_health:801:(pid 0): device's health compromised - reached miss count",
            f"{MLX5}poll_health:812:(pid 0): Fatal error 3 detected",
            f"{MLX5}print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
            f"{MLX5}print_health_info:431:(pid 0): Health issue observed, unrecoverable hardware error, severity(2) "
            "CRITICAL:",
            f"{MLX5}print_health_info:431:(pid 0): Health issue observed, ICM fetch PCI error, severity(3) ERROR:",
            f"{MLX5}print_health_info:425:(pid 0): PCI slot is unavailable",
            f"{MLX5}mlx5_health_try_recover:355:(pid 9): health recovery failed",
            f"{MLX5}mlx5_health_try_recover:350:(pid 9): health recovery flow aborted, PCI reads still not working",
            f"{MLX5}mlx5_fw_fatal_reporter_err_work:713:(pid 9): Driver is in error state. Unloading",
            f"{MLX5}wait_func:1137:(pid 1): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
            f"{MLX5}cb_timeout_handler:937:(pid 1): cmd[5]: ACCESS_REG(0x805) Async, timeout. Will cause a leak of a "
            "command resource",
        ),
        "cable": (
            f"{MLX5}mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, Unknown",
        ),
    },
    "gpu_driver_log": {
        "off_the_bus": (
            "NVRM: GPU 0001:00:00.0: GPU has fallen off the bus.",
            "NVRM: The NVIDIA GPU 0001:00:00.0 NVRM: (PCI ID: 10de:20b0) installed in this system has NVRM: fallen off "
            "the bus and is not responding to commands.",
        ),
        "no_start": (
            "NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
            "NVRM: GPU 0002:00:00.0: rm_init_adapter failed, device minor number 1",
        ),
        "no_probe": (
            "nvidia: probe of 0003:00:00.0 failed with error -1",
            "nvidia 0003:00:00.0: probe with driver nvidia failed with error -1",
        ),
        "uvm": (
            "nvidia-uvm: uvm_global.c:425 uvm_global_set_fatal_error_impl[pid:9] Encountered a global fatal error: GPU "
            "lost from the bus [NV_ERR_GPU_IS_LOST]",
        ),
        "mismatch": (
            "NVRM: API mismatch: the client 'python' (pid 5) has the version 550.54.15, but NVRM: this kernel",
        ),
    },
}
