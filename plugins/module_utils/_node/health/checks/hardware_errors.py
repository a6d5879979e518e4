# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors of CPUs, memory and PCIe, from the kernel's log and its counters (EDAC, AER)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...machine.kernel import MemoryController, read_memory_controllers
from ..check import (
    BOOT,
    EPILOG,
    FAIL,
    OBSERVE,
    PERIODIC,
    REPLACE,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
    growth,
)
from ..log_signs import Sign, look_for, too_many

# Errors of CPUs and memory, from the kernel's log and its counters of each memory controller.

BEARABLE_MEMORY, MACHINE_CHECK_WINDOW_S = 10, 24 * 3600.0
"""More corrected memory errors in 24 hours are too many: mcelog's threshold (10 / 24h)."""
# Bit 61 of a bank's status, which is logged with 16 digits: not corrected (MCi_STATUS.UC, for Intel and AMD).
_UNCORRECTED_STATUS = r"[2367abef][0-9a-f]{15}"
_MACHINE_CHECK_REPLACE = "Redeploy or replace the instance: a restart leaves it on the same host"

_MEMORY_UNCORRECTED = Sign(
    "memory_uncorrected",
    re.compile(r"EDAC (MC\d+): \d+ UE \w"),
    FAIL,
    "memory controller {device} had an uncorrected error",
    _MACHINE_CHECK_REPLACE,
    source="drivers/edac/edac_mc.c",
)
_CORRECTED = Sign(
    "corrected_edac",
    re.compile(r"EDAC MC\d+: \d+ CE \w"),
    WARN,
    f"more than {BEARABLE_MEMORY} corrected errors of CPUs or memory within 24 hours",
    "Watch it; redeploy or replace the instance if it continues: uncorrected errors often follow corrected ones",
    OBSERVE,
    bearable=BEARABLE_MEMORY,
    window_s=MACHINE_CHECK_WINDOW_S,
    source="drivers/edac/edac_mc.c",
)

MACHINE_CHECK_SIGNS = (
    Sign(
        "uncorrected",
        re.compile(
            r"mce: \[Hardware Error\]: CPU \d+: Machine Check(?: Exception: \d+|: \d+) Bank \d+: "
            rf"{_UNCORRECTED_STATUS}\b"
            r"|\[Hardware Error\]: (?:Uncorrected, software (?:restartable|containable) error|System Fatal error)"
            r"|\{\d+\}\[Hardware Error\]: event severity: (?:recoverable|fatal)"
            r"|mce: Uncorrected hardware memory error in user-access at "
        ),
        FAIL,
        "a CPU or the memory had an uncorrected error (machine check)",
        _MACHINE_CHECK_REPLACE,
        source="arch/x86/kernel/cpu/mce/core.c, drivers/edac/mce_amd.c, drivers/firmware/efi/cper.c",
    ),
    _MEMORY_UNCORRECTED,
    Sign(
        "poisoned",
        re.compile(
            r"Memory failure: 0x[0-9a-f]+: "
            r"|MCE: Killing .{1,15}:\d+ due to hardware memory corruption fault at [0-9a-f]+$"
        ),
        FAIL,
        "a page of memory is faulty: the kernel took it out of use, or killed the process that used it",
        _MACHINE_CHECK_REPLACE,
        source="mm/memory-failure.c, arch/x86/mm/fault.c",
    ),
    _CORRECTED,
    *(
        replace(_CORRECTED, name=name, pattern=pattern, source=source)
        # One error may be logged in several of these forms, so each form is counted separately.
        for name, pattern, source in (
            (
                "corrected_decoded",
                re.compile(r"\[Hardware Error\]: (?:Corrected|Deferred) error, no action required"),
                "drivers/edac/mce_amd.c",
            ),
            (
                "corrected_firmware",
                re.compile(r"\{\d+\}\[Hardware Error\]: event severity: corrected"),
                "drivers/firmware/efi/cper.c",
            ),
            (
                "corrected_raw",
                re.compile(r"mce: \[Hardware Error\]: CPU \d+: Machine Check: \d+ Bank \d+: [0-9a-f]{16}\b"),
                "arch/x86/kernel/cpu/mce/core.c",
            ),
        )
    ),
)


_COUNTED = replace(_CORRECTED, name="counted")
"""The memory controllers' counters are another source of corrected errors."""
_COUNTS = "counts"


def _measure_machine_check(context: Context) -> Answer:
    controllers = read_memory_controllers(context.root)
    of = f"and {len(controllers)} memory controllers" if controllers else "only (EDAC shows no memory controller)"
    good = f"no uncorrected error of CPUs or memory since the last run, from the kernel's log {of}"
    answer = look_for(context, MACHINE_CHECK_SIGNS, "machine_checks", good)
    readings = (*answer.readings, *_counts(controllers))
    # The counters may repeat a finding of the log.
    findings = tuple(dict.fromkeys([*answer.findings, *_judge(context, controllers)]))
    return replace(answer, readings=readings, findings=findings)


def _counts(controllers: Sequence[MemoryController]) -> Iterator[Reading]:
    for one in controllers:
        if one.uncorrected is not None:
            yield Reading("memory_uncorrected", one.uncorrected, "errors", one.name, 0, at_most=True)
        if one.corrected is not None:
            yield Reading("memory_corrected", one.corrected, "errors", one.name)


def _judge(context: Context, controllers: Sequence[MemoryController]) -> Iterator[Finding]:
    before = context.history.get(_COUNTS) or {}
    now = {one.name: one.corrected for one in controllers if one.corrected is not None}
    context.history.keep(_COUNTS, {**before, **now} or None)
    for one in controllers:
        if one.corrected is None or one.uncorrected is None:
            words = f"memory controller {one.name} does not report its errors"
            yield Finding(UNKNOWN, words, one.name, "See /sys/devices/system/edac/mc")
        if one.uncorrected:
            yield _MEMORY_UNCORRECTED.finding(one.name)
        if one.corrected is not None:
            new = growth(before.get(one.name), one.corrected)
            if new is None:
                # It is not known when they happened, unless the machine booted within the time window.
                new = one.corrected if _is_recently_booted(context) else 0
            stamps = [int(context.now * 1e6)] * min(new, BEARABLE_MEMORY + 1)
            if too_many(context.history, _COUNTED, one.name, stamps):
                yield _COUNTED.finding("")


def _is_recently_booted(context: Context) -> bool:
    try:
        return float((context.root.text("/proc/uptime") or "").split()[0]) <= MACHINE_CHECK_WINDOW_S
    except (ValueError, IndexError):
        return False


MACHINE_CHECK = Check(
    name="machine_check",
    title="errors of CPUs and memory",
    explain=(
        "Looks in the kernel's log of this boot for machine checks, and for errors that EDAC (the kernel's driver for "
        "memory errors) or the firmware reports. If the VM shows memory controllers, which most VMs do not, the "
        "check also reads the error counters of each controller (ue_count and ce_count of EDAC). The check fails after "
        f"an uncorrected error. It warns after more than {BEARABLE_MEMORY} corrected errors within 24 hours (mcelog's "
        "threshold, 10 / 24h). A finding stays until the machine restarts or somebody clears it."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_machine_check,
    action=REPLACE,
    fault="NHC2001",
)


# Errors on PCI Express, from the kernel's log (AER).

BEARABLE_PCIE, PCIE_WINDOW_S = 8, 60.0
"""More corrected errors of a device within a minute are too many: this is the limit of NVIDIA's DCGM for a GPU's PCIe
replays (DCGM_LIMIT_MAX_PCIREPLAY_RATE), which such errors usually cause."""
_BUSID = r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
_ERROR = rf"[\w-]+ {_BUSID}: (?:AER: )?PCIe Bus Error: severity="
_PCIE_REPLACE = "Redeploy or replace the instance; 'journalctl -k -b -g AER' has the lines"

PCIE_ERRORS_SIGNS = (
    Sign(
        "fatal",
        re.compile(
            rf"{_ERROR}Uncorrect(?:ed|able) \(Fatal\)"
            rf"|pcieport {_BUSID}: (?:AER|DPC|EDR): (?:device recovery|subordinate device reset) failed"
        ),
        FAIL,
        "PCIe device {device} had a fatal error",
        _PCIE_REPLACE,
        source="drivers/pci/pcie: aer.c, err.c",
    ),
    Sign(
        "not_fatal",
        re.compile(rf"{_ERROR}Uncorrect(?:ed|able) \(Non-Fatal\)|pcieport {_BUSID}: DPC: containment event, status:0x"),
        WARN,
        "PCIe device {device} had an uncorrected error that was not fatal",
        "Watch it, and redeploy the instance if it happens again; 'journalctl -k -b -g AER' has the lines",
        OBSERVE,
        "",
        source="drivers/pci/pcie: aer.c, dpc.c",
    ),
    Sign(
        "corrected",
        re.compile(rf"{_ERROR}Correct(?:ed|able)\b"),
        WARN,
        f"PCIe device {{device}} had more than {BEARABLE_PCIE} corrected errors within a minute",
        "Watch its bandwidth (tier deep), and redeploy the instance if that is low",
        OBSERVE,
        "",
        bearable=BEARABLE_PCIE,
        window_s=PCIE_WINDOW_S,
        source="drivers/pci/pcie/aer.c",
    ),
    Sign(
        "power",
        re.compile(rf"mlx5_core {_BUSID}: \w+:\d+:\(pid \d+\): Detected insufficient power on the PCIe slot"),
        WARN,
        "adapter {device} reports that its PCIe slot supplies too little power",
        "Some adapters report this for every slot; watch the InfiniBand bandwidth (tier deep)",
        OBSERVE,
        "",
        source="drivers/net/ethernet/mellanox/mlx5/core/events.c",
    ),
)


def _measure_pcie(context: Context) -> Answer:
    return look_for(context, PCIE_ERRORS_SIGNS, "pcie_errors", "no PCIe device had a relevant error since the last run")


PCIE_ERRORS = Check(
    name="pcie_errors",
    title="errors on PCI Express in the kernel's log",
    explain=(
        "Looks for PCIe errors (AER) of each device in the kernel's log of this boot. The check fails after a fatal "
        f"error. It warns after other uncorrected errors, and after more than {BEARABLE_PCIE} corrected errors of a "
        "device within a minute (DCGM's limit for a GPU's PCIe replays). It also warns if an InfiniBand adapter "
        "reports that its PCIe slot supplies too little power. A finding stays until the machine restarts or somebody "
        "clears it."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_pcie,
    action=REPLACE,
    fault="NHC2001",
)
