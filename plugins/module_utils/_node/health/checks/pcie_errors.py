# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors on PCI Express, as the kernel's log tells of them (AER)."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, OBSERVE, PERIODIC, REPLACE, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for

BEARABLE, WINDOW_S = 8, 60.0
"""More corrected errors of a device than these within a minute are too many: what NVIDIA's DCGM bears of a GPU's PCIe
replays (DCGM_LIMIT_MAX_PCIREPLAY_RATE), which are what such errors mostly cause."""
_BUSID = r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
_ERROR = rf"[\w-]+ {_BUSID}: (?:AER: )?PCIe Bus Error: severity="
_REPLACE = "Redeploy or replace the instance; 'journalctl -k -b -g AER' has the lines"

SIGNS = (
    Sign(
        "fatal",
        re.compile(
            rf"{_ERROR}Uncorrect(?:ed|able) \(Fatal\)"
            rf"|pcieport {_BUSID}: (?:AER|DPC|EDR): (?:device recovery|subordinate device reset) failed"
        ),
        FAIL,
        "PCIe device {device} had a fatal error",
        _REPLACE,
        source="drivers/pci/pcie: aer.c, err.c",
    ),
    Sign(
        "not_fatal",
        re.compile(rf"{_ERROR}Uncorrect(?:ed|able) \(Non-Fatal\)|pcieport {_BUSID}: DPC: containment event, status:0x"),
        WARN,
        "PCIe device {device} had an uncorrected error that was not fatal",
        "Watch it, and redeploy the instance if it comes again; 'journalctl -k -b -g AER' has the lines",
        OBSERVE,
        "",
        source="drivers/pci/pcie: aer.c, dpc.c",
    ),
    Sign(
        "corrected",
        re.compile(rf"{_ERROR}Correct(?:ed|able)\b"),
        WARN,
        f"PCIe device {{device}} had more than {BEARABLE} corrected errors within a minute",
        "Watch its bandwidth (tier deep), and redeploy the instance if that is low",
        OBSERVE,
        "",
        bearable=BEARABLE,
        window_s=WINDOW_S,
        source="drivers/pci/pcie/aer.c",
    ),
    Sign(
        "power",
        re.compile(rf"mlx5_core {_BUSID}: \w+:\d+:\(pid \d+\): Detected insufficient power on the PCIe slot"),
        WARN,
        "adapter {device} says that its PCIe slot gives too little power",
        "Some adapters say so of every slot; watch the InfiniBand bandwidth (tier deep)",
        OBSERVE,
        "",
        source="drivers/net/ethernet/mellanox/mlx5/core/events.c",
    ),
)


def _measure(context: Context) -> Answer:
    return look_for(context, SIGNS, "pcie_errors", "no PCIe device has had an error worth a word since the last look")


CHECK = Check(
    name="pcie_errors",
    title="errors on PCI Express in the kernel's log",
    explain=(
        "Looks for PCIe errors (AER) in the kernel's log of this boot, by device: fatal ones fail, others not "
        f"corrected warn, and so do more than {BEARABLE} corrected ones within a minute, DCGM's limit of a GPU's PCIe "
        "replays. It stays until the machine restarts."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure,
    action=REPLACE,
    fault="NHC2001",
)
