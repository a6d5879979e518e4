# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""CPUs, memory, swap and load: the expected amounts exist, and enough is free."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.cpuset import CpuSet
from ...machine.kernel import read_meminfo
from ...machine.proc import read_stat
from ...machine.root import Root
from ...sku.types import VmSize
from ..applies import where_expected
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    NOTHING,
    OBSERVE,
    PERIODIC,
    REBOOT,
    REPLACE,
    UNKNOWN,
    USER,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..settings import source_in_words

# CPUs: the expected number is online, with the expected sockets and threads per core.

_CPUS = "/sys/devices/system/cpu"


def _measure_cpu(context: Context) -> Answer:
    size, root = context.known_size, context.root
    online = CpuSet.parse_list(root.text(f"{_CPUS}/online") or "")
    if not online:
        return Answer(findings=(Finding(UNKNOWN, f"{_CPUS}/online does not show which CPUs are online"),))
    offline = CpuSet.parse_list(root.text(f"{_CPUS}/present") or "") - online
    readings = [Reading("cpus_online", len(online), limit=size.vcpus)]
    findings = list(_judge_count(size, online, CpuSet(offline)))
    for what, expected, found in (
        ("sockets", size.sockets, _sockets(root, online)),
        ("threads per core", size.threads_per_core, _threads(root, online)),
    ):
        if expected is None or found is None:
            continue
        readings.append(Reading(f"cpu_{what.split()[0]}", found, limit=expected))
        if found != expected:
            words = f"the CPUs have {found} {what} instead of {expected}"
            findings.append(Finding(WARN, words, hint=f"Correct the facts of {size.name}, or redeploy the VM"))
    return Answer(
        good=f"{len(online)} CPUs are online",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"{size.vcpus} CPUs ({source_in_words(size.sources['vcpus'])})",
    )


def _judge_count(size: VmSize, online: CpuSet, offline: CpuSet) -> Iterator[Finding]:
    expected = size.vcpus or 0
    if offline:
        words = f"{len(online)} of {expected} CPUs are online: {offline.as_list()} are offline"
        hint = "Somebody or the kernel took them offline: see 'journalctl -k -b'; a restart brings them back online"
        yield Finding(FAIL if len(online) < expected else WARN, words, hint=hint, action=REBOOT)
    elif len(online) < expected:
        words = f"{len(online)} CPUs exist, but {size.name} is expected to have {expected}"
        yield Finding(FAIL, words, hint="Look for maxcpus= or nr_cpus= in /proc/cmdline; else redeploy the VM")
    elif len(online) > expected:
        words = f"{len(online)} CPUs are online, but {size.name} is expected to have {expected}"
        yield Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes)")


def _sockets(root: Root, online: CpuSet) -> int | None:
    """Return the number of sockets; None if a CPU does not show its socket."""
    found = {root.number(f"{_CPUS}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    return None if None in found else len(found)


def _threads(root: Root, online: CpuSet) -> int | None:
    """Return the largest number of hardware threads per core; None if no CPU shows it."""
    folders = [f"{_CPUS}/cpu{cpu}/topology" for cpu in sorted(online)]
    texts = {root.text(f"{folder}/core_cpus_list") or root.text(f"{folder}/thread_siblings_list") for folder in folders}
    return max((len(CpuSet.parse_list(text)) for text in texts if text), default=None)


CPU = Check(
    name="cpu",
    title="CPUs",
    explain=(
        "The number of online CPUs is the number expected of the VM size (azurehpc-health-checks, check_hw_cpuinfo). "
        "If there are fewer CPUs, the check fails. If there are more CPUs, or if the number of sockets or of threads "
        "per core differs, it warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_cpu,
    applies=where_expected("vcpus", "CPUs"),
    action=REPLACE,
)


# Memory: the expected amount.

LIMIT = "memory_deviation"


def _measure_memory(context: Context) -> Answer:
    size = context.known_size
    expected_mib = size.memory_mib or 0
    deviation = context.settings.threshold(size, LIMIT)
    if deviation is None:
        return Answer(skipped=f"there is no limit {LIMIT} for {size.name}")
    total_kib = read_meminfo(context.root).get("MemTotal")
    if total_kib is None:
        return Answer(findings=(Finding(UNKNOWN, "/proc/meminfo does not show how much memory there is"),))
    mib = total_kib // 1024
    least, most = (expected_mib * (100 + sign * deviation.limit) / 100 for sign in (-1, 1))
    findings = []
    if mib < least:
        words = f"there are {mib} MiB of memory, but {size.name} has {expected_mib} MiB"
        hint = (
            "Look for mem= and hugepages in /proc/cmdline and for 'Hardware Error' in 'journalctl -k'; redeploy the VM"
        )
        findings.append(Finding(FAIL, words, hint=hint))
    elif mib > most:
        words = f"there are {mib} MiB of memory, more than the {expected_mib} MiB of {size.name}"
        findings.append(Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes)"))
    return Answer(
        good=f"{mib} MiB of memory",
        readings=(Reading("memory_total", mib, "MiB", limit=round(least)),),
        findings=tuple(findings),
        limit=f"{expected_mib} MiB within {deviation.limit:g} % ({source_in_words(deviation.source)})",
    )


MEMORY = Check(
    name="memory",
    title="Memory",
    explain=(
        "The kernel's memory (MemTotal) differs from the memory in the facts of the VM size by at most the percentage "
        "in the limit memory_deviation (azurehpc-health-checks, check_hw_physmem). If there is less memory, the check "
        "fails; if there is more, it warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_memory,
    applies=where_expected("memory_mib", "memory"),
    action=REPLACE,
    thresholds=(LIMIT,),
)


# Swap: none, unless the site allows some.

_OPTION = "most_mib"


def _measure_swap(context: Context) -> Answer:
    most = context.option(SWAP, _OPTION)
    memory = read_meminfo(context.root)
    total, free = memory.get("SwapTotal"), memory.get("SwapFree")
    if total is None or free is None:
        return Answer(findings=(Finding(UNKNOWN, "/proc/meminfo does not show how much swap there is"),))
    mib = total // 1024
    findings = []
    if mib > most:
        words = f"there are {mib} MiB of swap, but at most {most} MiB are allowed"
        hint = f"Find it with 'swapon --show'; turn it off, or set option {_OPTION} of check swap"
        findings.append(Finding(WARN, words, hint=hint))
    return Answer(
        good=f"{mib} MiB of swap" if mib else "no swap",
        readings=(
            Reading("swap_total", mib, "MiB", limit=most, at_most=True),
            Reading("swap_used", (total - free) // 1024, "MiB"),
        ),
        findings=tuple(findings),
        limit=f"at most {most} MiB (azurehpc-health-checks, check_hw_swap 0; option {_OPTION})",
    )


SWAP = Check(
    name="swap",
    title="Swap",
    explain=(
        "There is no swap, or at most as much as the option most_mib allows, in MiB (azurehpc-health-checks, "
        "check_hw_swap). A process that swaps delays all other processes of its job. The check only warns."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure_swap,
    action=NOTHING,
    options={_OPTION: 0},
)


# Load: not many more running processes than CPUs, few zombies, and enough free memory.

_OF_CPUS = 2.0
_ZOMBIES = 1000
_LEAST_MIB = 5120
_LOAD_SOURCE = "LBNL NHC, nhc.conf: check_ps_loadavg $((2*HW_CORES))"
_ZOMBIE_SOURCE = "leptonai/gpud, components/os"
_MEMORY_SOURCE = "the same file, check_hw_physmem_free 5GB"


def _measure_load(context: Context) -> Answer:
    root = context.root
    online = CpuSet.parse_list(root.text("/sys/devices/system/cpu/online") or "")
    words = (root.text("/proc/loadavg") or "").split()
    try:
        # The average of five minutes, so that short peaks do not count.
        average = float(words[1])
    except (IndexError, ValueError):
        average = -1.0
    available = read_meminfo(root).get("MemAvailable")
    if average < 0 or not online or available is None:
        summary = "/proc/loadavg, /proc/meminfo or the number of CPUs cannot be read"
        return Answer(findings=(Finding(UNKNOWN, summary),))
    free = available // 1024
    least = context.option(LOAD, "least_free_mib")
    most = len(online) * context.option(LOAD, "of_cpus")
    most_zombies = context.option(LOAD, "zombies")
    states = [stat.state for pid, _path in root.numbered("/proc", "") if (stat := read_stat(root, pid))]
    zombies, waiting = states.count("Z"), states.count("D")
    findings = []
    if average > most:
        summary = f"the 5-minute load is {average:g} on {len(online)} CPUs, and {waiting} processes wait for a device"
        hint = "List them with 'ps -eo state,pid,user,comm | grep ^[RD]'; state D waits for a disk or a server"
        findings.append(Finding(WARN, summary, hint=hint, cause=USER))
    if zombies > most_zombies:
        hint = "Find their parents with 'ps -eo state,ppid,comm | grep ^Z'"
        findings.append(Finding(WARN, f"there are {zombies} zombie processes", hint=hint, cause=USER))
    if free < least:
        summary = f"only {free} MiB of memory are available"
        hint = "Find what uses it with 'ps -eo rss,user,comm --sort=-rss | head'"
        findings.append(Finding(WARN, summary, hint=hint, cause=USER))
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


LOAD = Check(
    name="load",
    title="Load and free memory",
    explain=(
        f"The 5-minute load is at most twice the number of CPUs ({_LOAD_SOURCE}; option of_cpus). At least 5 GiB of "
        f"memory are available ({_MEMORY_SOURCE}; option least_free_mib). There are at most 1000 zombies "
        f"({_ZOMBIE_SOURCE}; option zombies). The check only warns, because a job is usually the cause."
    ),
    tiers=(PERIODIC,),
    measure=_measure_load,
    action=OBSERVE,
    options={"least_free_mib": _LEAST_MIB, "of_cpus": _OF_CPUS, "zombies": _ZOMBIES},
)
