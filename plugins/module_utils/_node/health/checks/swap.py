# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Swap: none, unless the site wants some."""

from __future__ import annotations

from ...machine.kernel import read_meminfo
from ..check import BOOT, NOTHING, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_OPTION = "most_mib"


def _measure(context: Context) -> Answer:
    most = context.settings.option(CHECK, _OPTION)
    memory = read_meminfo(context.root)
    total, free = memory.get("SwapTotal"), memory.get("SwapFree")
    if total is None or free is None:
        return Answer(findings=(Finding(UNKNOWN, "/proc/meminfo does not tell how much swap there is"),))
    mib = total // 1024
    findings = []
    if mib > most:
        words = f"{mib} MiB of swap are there, and {most} are wanted"
        hint = f"'swapon --show' tells where; turn it off, or set option {_OPTION} of check swap"
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


CHECK = Check(
    name="swap",
    title="Swap",
    explain=(
        "There is no more swap than option most_mib says, by default none (azurehpc-health-checks, check_hw_swap): a "
        "job that swaps holds up all the others of its collective. It only warns."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure,
    action=NOTHING,
    options={_OPTION: 0},
)
