# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""CPUs: as many as promised, all online, in as many sockets and with as many threads a core."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.cpuset import CpuSet
from ...machine.root import Root
from ...sku.types import VmSize
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    PERIODIC,
    REBOOT,
    REPLACE,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..limits import source_in_words
from ..promised import where_promised

_CPUS = "/sys/devices/system/cpu"


def _measure(context: Context) -> Answer:
    size, root = context.known_size, context.root
    online = CpuSet.parse_list(root.text(f"{_CPUS}/online") or "")
    if not online:
        return Answer(findings=(Finding(UNKNOWN, f"{_CPUS}/online does not tell which CPUs are online"),))
    offline = CpuSet.parse_list(root.text(f"{_CPUS}/present") or "") - online
    readings = [Reading("cpus_online", len(online), limit=size.vcpus)]
    findings = list(_judge_count(size, online, CpuSet(offline)))
    for what, promised, found in (
        ("sockets", size.sockets, _sockets(root, online)),
        ("threads of a core", size.threads_per_core, _threads(root, online)),
    ):
        if promised is None or found is None:
            continue
        readings.append(Reading(f"cpu_{what.split()[0]}", found, limit=promised))
        if found != promised:
            words = f"the CPUs have {found} {what} instead of {promised}"
            findings.append(Finding(WARN, words, hint=f"Correct the facts of {size.name}, or redeploy the VM"))
    return Answer(
        good=f"{len(online)} CPUs are online",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"{size.vcpus} CPUs ({source_in_words(size.sources['vcpus'])})",
    )


def _judge_count(size: VmSize, online: CpuSet, offline: CpuSet) -> Iterator[Finding]:
    promised = size.vcpus or 0
    if offline:
        words = f"{len(online)} of {promised} CPUs are online: {offline.as_list()} are offline"
        hint = "Somebody took them offline, or the kernel did: 'journalctl -k -b' tells; a restart brings them back"
        yield Finding(FAIL if len(online) < promised else WARN, words, hint=hint, action=REBOOT)
    elif len(online) < promised:
        words = f"{len(online)} of {promised} CPUs that {size.name} promises are there"
        yield Finding(FAIL, words, hint="Look for maxcpus= or nr_cpus= in /proc/cmdline; else redeploy the VM")
    elif len(online) > promised:
        words = f"{len(online)} CPUs are online, and {size.name} promises {promised}"
        yield Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes)")


def _sockets(root: Root, online: CpuSet) -> int | None:
    """Return the number of sockets; None where a CPU does not tell its own."""
    found = {root.number(f"{_CPUS}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    return None if None in found else len(found)


def _threads(root: Root, online: CpuSet) -> int | None:
    """Return the number of hardware threads of a core, the most there are; None where no CPU tells."""
    folders = [f"{_CPUS}/cpu{cpu}/topology" for cpu in sorted(online)]
    texts = {root.text(f"{folder}/core_cpus_list") or root.text(f"{folder}/thread_siblings_list") for folder in folders}
    return max((len(CpuSet.parse_list(text)) for text in texts if text), default=None)


CHECK = Check(
    name="cpu",
    title="CPUs",
    explain=(
        "As many CPUs are online as the VM size promises (azurehpc-health-checks, check_hw_cpuinfo): fewer fail. Other "
        "numbers of sockets and of threads a core, and more CPUs than promised, warn."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("vcpus", "CPUs"),
    action=REPLACE,
)
