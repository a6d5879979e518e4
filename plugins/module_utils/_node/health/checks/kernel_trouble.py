# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the kernel itself is in trouble: crashes within it, tasks and CPUs that hang, memory that ran out."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, NOTHING, OBSERVE, PERIODIC, REBOOT, USER, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for

_RESTART = "Drain the node and restart the machine: after this the kernel is in no known state"

SIGNS = (
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
        "the kernel crashed within itself (BUG, Oops) and went on",
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
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' tells where the CPU was",
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
        "a CPU held up the others in the kernel (RCU stall)",
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' tells where the CPU was",
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
        "'journalctl -k -b -g \"blocked for more\"' tells which: a file system or a device may not answer",
        OBSERVE,
        "",
        source="kernel/hung_task.c",
    ),
    Sign(
        "oom_of_job",
        re.compile(r"Memory cgroup out of memory: Killed process \d+ \("),
        WARN,
        "a process was ended because it used more memory than its job may",
        "The job's owner should ask for more memory, or use less; the machine is not to blame",
        NOTHING,
        "",
        USER,
        source="mm/oom_kill.c",
    ),
    Sign(
        "oom_of_machine",
        re.compile(r"Out of memory(?: \(oom_kill_allocating_task\))?: Killed process \d+ \("),
        WARN,
        "processes used up the machine's memory, and one was ended for it",
        "Have Slurm limit the memory of jobs (ConstrainRAMSpace); see that no service of the machine was ended",
        OBSERVE,
        "",
        USER,
        source="mm/oom_kill.c",
    ),
)


def _measure(context: Context) -> Answer:
    return look_for(context, SIGNS, "kernel_troubles", "the kernel has not complained of itself since the last look")


CHECK = Check(
    name="kernel_trouble",
    title="crashes and hangs within the kernel",
    explain=(
        "Looks in the kernel's log of this boot for crashes within the kernel and hard lockups, which fail, and for "
        "soft lockups, RCU stalls and hung tasks, which warn, as they also come of a pause of the VM or of a file "
        "server. They stay until the machine restarts. Processes ended for want of memory are a user's, and warn once."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure,
    action=REBOOT,
)
