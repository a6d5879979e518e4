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
            r"BUG: (?:kernel NULL pointer dereference|unable to handle |Bad page |Bad rss-counter )"
            r"|BUG: scheduling while atomic"
            r"|kernel BUG at "
            r"|(?:Oops|general protection fault)\b[^:]*: .*\[#\d+\]"
            r"|Internal error: Oops"
        ),
        FAIL,
        "the kernel crashed within itself (BUG, Oops) and went on",
        _RESTART,
        fault="",
    ),
    Sign(
        "hard_lockup",
        re.compile(r"(?:NMI )?watchdog: (?:CPU\d+: )?Watchdog detected hard LOCKUP"),
        FAIL,
        "a CPU was stuck in the kernel with its interrupts off (hard lockup)",
        _RESTART,
        fault="",
    ),
    Sign(
        "soft_lockup",
        re.compile(r"watchdog: BUG: soft lockup - CPU#\d+ stuck for \d+s!|NMI watchdog: BUG: soft lockup"),
        WARN,
        "a CPU was stuck in the kernel (soft lockup)",
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' tells where the CPU was",
        OBSERVE,
        "",
    ),
    Sign(
        "rcu_stall",
        re.compile(r"(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stall"),
        WARN,
        "a CPU held up the others in the kernel (RCU stall)",
        "Azure may have paused the VM for maintenance; else 'journalctl -k -b' tells where the CPU was",
        OBSERVE,
        "",
    ),
    Sign(
        "hung_task",
        re.compile(r"INFO: task .+:\d+ blocked for more than \d+ seconds"),
        WARN,
        "a task hung in the kernel for minutes",
        "'journalctl -k -b -g \"blocked for more\"' tells which: a file system or a device may not answer",
        OBSERVE,
        "",
    ),
    Sign(
        "oom_of_job",
        re.compile(r"Memory cgroup out of memory: Killed? process \d+"),
        WARN,
        "a process was ended because it used more memory than its job may",
        "The job's owner should ask for more memory, or use less; the machine is not to blame",
        NOTHING,
        "",
        USER,
    ),
    Sign(
        "oom_of_machine",
        re.compile(r"Out of memory(?:: | \(oom_kill_allocating_task\): )Killed? process \d+"),
        WARN,
        "processes used up the machine's memory, and one was ended for it",
        "Have Slurm limit the memory of jobs (ConstrainRAMSpace); see that no service of the machine was ended",
        OBSERVE,
        "",
        USER,
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
