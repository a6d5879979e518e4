# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trouble within the kernel: crashes, hangs, and memory that a user's job used up."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.kernel_trouble import CHECK

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
def test_fails_for_a_crash_within_the_kernel(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.cause, found.latch) == ("fail", "node", True)
    assert CHECK.action == "reboot"


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
def test_what_also_comes_of_a_pause_or_a_file_server_warns(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.cause, found.latch, found.action) == ("warn", "node", True, "observe")


@pytest.mark.parametrize("line", [OOM_OF_JOB, "Out of memory: Killed process 22222 (python3) total-vm:1460016kB"])
def test_memory_that_a_job_used_up_is_the_users(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.cause, found.latch, found.fault) == ("warn", "user", False, "")
    assert not log.look(CHECK).findings


def test_passes_where_nothing_of_this_was_logged(log: PlayedLog) -> None:
    log.write(
        "python3[123]: segfault at 0 ip 00007f error 4 in libc.so.6",
        "traps: kernel BUG at[9] general protection fault ip:7f sp:7f error:0 in libc.so.6",
        "INFO: lockdep is turned off.",
    )
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
