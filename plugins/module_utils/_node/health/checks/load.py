# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Load: not far more processes than CPUs, no crowd of dead ones, and memory left."""

from __future__ import annotations

from ...machine.cpuset import CpuSet
from ...machine.kernel import read_meminfo
from ...machine.proc import read_stat
from ..check import OBSERVE, PERIODIC, UNKNOWN, USER, WARN, Answer, Check, Context, Finding, Reading

_OF_CPUS = 2.0
_ZOMBIES = 1000
_LEAST_MIB = 5120
_LOAD_SOURCE = "LBNL NHC, nhc.conf: check_ps_loadavg $((2*HW_CORES))"
_ZOMBIE_SOURCE = "leptonai/gpud, components/os"
_MEMORY_SOURCE = "the same, check_hw_physmem_free 5GB"


def _measure(context: Context) -> Answer:
    root = context.root
    online = CpuSet.parse_list(root.text("/sys/devices/system/cpu/online") or "")
    words = (root.text("/proc/loadavg") or "").split()
    try:
        # The average of five minutes: a short crowd is none.
        average = float(words[1])
    except (IndexError, ValueError):
        average = -1.0
    available = read_meminfo(root).get("MemAvailable")
    if average < 0 or not online or available is None:
        told = "/proc/loadavg, /proc/meminfo or the number of CPUs cannot be read"
        return Answer(findings=(Finding(UNKNOWN, told),))
    free = available // 1024
    least = context.settings.option(CHECK, "least_free_mib")
    most = len(online) * context.settings.option(CHECK, "of_cpus")
    most_zombies = context.settings.option(CHECK, "zombies")
    states = [stat.state for pid, _path in root.numbered("/proc", "") if (stat := read_stat(root, pid))]
    zombies, waiting = states.count("Z"), states.count("D")
    findings = []
    if average > most:
        told = f"the load of five minutes is {average:g} on {len(online)} CPUs, {waiting} processes wait for a device"
        hint = "'ps -eo state,pid,user,comm | grep ^[RD]' tells which; many in D wait for a disk or a server"
        findings.append(Finding(WARN, told, hint=hint, cause=USER))
    if zombies > most_zombies:
        hint = "'ps -eo state,ppid,comm | grep ^Z' tells whose children they are"
        findings.append(Finding(WARN, f"{zombies} processes have ended and nobody takes note", hint=hint, cause=USER))
    if free < least:
        told = f"{free} MiB of memory can still be had"
        findings.append(Finding(WARN, told, hint="'ps -eo rss,user,comm --sort=-rss | head' tells whose", cause=USER))
    return Answer(
        good=f"a load of {average:g} on {len(online)} CPUs, {zombies} zombies",
        readings=(
            Reading("load", average, limit=most, at_most=True),
            Reading("zombies", zombies, limit=most_zombies, at_most=True),
            Reading("processes_waiting", waiting),
            Reading("memory_available", free, "MiB", limit=least),
        ),
        findings=tuple(findings),
        limit=(
            f"load of {most:g} ({_LOAD_SOURCE}), {least} MiB of free memory ({_MEMORY_SOURCE}), "
            f"{most_zombies} zombies ({_ZOMBIE_SOURCE})"
        ),
    )


CHECK = Check(
    name="load",
    title="Load and free memory",
    explain=(
        f"The load of five minutes is at most twice the number of CPUs ({_LOAD_SOURCE}; option of_cpus), at least "
        f"5 GiB of memory are available ({_MEMORY_SOURCE}; option least_free_mib), and there are at most 1000 zombies "
        f"({_ZOMBIE_SOURCE}; option zombies). It only warns: mostly a job has done it."
    ),
    tiers=(PERIODIC,),
    measure=_measure,
    action=OBSERVE,
    options={"least_free_mib": _LEAST_MIB, "of_cpus": _OF_CPUS, "zombies": _ZOMBIES},
)
