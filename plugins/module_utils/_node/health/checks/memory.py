# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Memory: as much as promised."""

from __future__ import annotations

from ...machine.kernel import read_meminfo
from ..check import BOOT, DEEP, FAIL, PERIODIC, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..limits import source_in_words
from ..promised import where_promised

LIMIT = "memory_deviation"


def _measure(context: Context) -> Answer:
    size = context.known_size
    promised = size.memory_mib or 0
    deviation = context.settings.threshold(size, LIMIT)
    if deviation is None:
        return Answer(skipped=f"nobody says how far the memory of {size.name} may be from what is stated ({LIMIT})")
    found = read_meminfo(context.root).get("MemTotal")
    if found is None:
        return Answer(findings=(Finding(UNKNOWN, "/proc/meminfo does not tell how much memory there is"),))
    mib = found // 1024
    least, most = (promised * (100 + sign * deviation.limit) / 100 for sign in (-1, 1))
    findings = []
    if mib < least:
        words = f"{mib} MiB of memory are there, of {promised} MiB that {size.name} has"
        hint = (
            "Look for mem= and hugepages in /proc/cmdline and for 'Hardware Error' in 'journalctl -k'; redeploy the VM"
        )
        findings.append(Finding(FAIL, words, hint=hint))
    elif mib > most:
        words = f"{mib} MiB of memory are there, more than the {promised} MiB that {size.name} has"
        findings.append(Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes)"))
    return Answer(
        good=f"{mib} MiB of memory",
        readings=(Reading("memory_total", mib, "MiB", limit=round(least)),),
        findings=tuple(findings),
        limit=f"{promised} MiB within {deviation.limit:g} % ({source_in_words(deviation.source)})",
    )


CHECK = Check(
    name="memory",
    title="Memory",
    explain=(
        "The memory that the kernel has (MemTotal) is what was seen on good machines of this VM size, within the "
        "per cent of limit memory_deviation (azurehpc-health-checks, check_hw_physmem): less fails, more warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("memory_mib", "memory"),
    action=REPLACE,
    thresholds=(LIMIT,),
)
