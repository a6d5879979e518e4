# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND GB200 v6 and ND GB300 v6: ARM processors and four Blackwell GPUs. No source describes their layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .stated import vm_size
from .types import Contradiction, Threshold

_NVME = {"nvme_model": "Microsoft NVMe Direct Disk"}


def _name(documented: str) -> Contradiction:
    return Contradiction(
        "name",
        {"D": documented, "A": "nd128is*_gb[2-3]00_v6, any of them with or without NDR"},
        "D",
        "what Azure documents; the metadata service of a machine has the last word: compare it there.",
    )


_ETHERNET = Contradiction(
    "ethernet_gbps",
    {"D": "160 Gb/s in the table of parts, 160 under a heading of Mb/s in the table of sizes"},
    "D",
    "the heading is that of the tables of other sizes, where the figures are in thousands.",
)

ND128ISR_GB200 = vm_size(
    "Standard_ND128isr_NDR_GB200_v6",
    {
        "D": {
            "vcpus": 128,
            "memory_mib": 900 * 1024,
            "gpu_model": "B200",
            "gpu_count": 4,
            "gpu_memory_gb": 192,
            "hca_count": 4,
            "ib_rate_gbps": 400,
            "ethernet_gbps": 160,
            "nvme_count": 4,
        },
        "W": _NVME,
    },
    {},
    (
        _name("ND128isr_NDR_GB200_v6"),
        _ETHERNET,
        Contradiction(
            "ib_rate_gbps",
            {"D": "400 Gb/s in the column of scale-up (NVLink), 1.8 TB/s in that of scale-out (InfiniBand)"},
            "D",
            "the headings are exchanged, as the table of GB300 shows.",
        ),
    ),
)

_GB300: Mapping[str, Mapping[str, Any]] = {
    "D": {
        "vcpus": 128,
        "memory_mib": 864 * 1024,
        "gpu_model": "B300",
        "gpu_count": 4,
        "gpu_memory_gb": 288,
        "hca_count": 4,
        "ib_rate_gbps": 800,
        "ethernet_gbps": 160,
        "nvme_count": 4,
    },
    "W": _NVME,
}

ND128ISR_GB300 = vm_size(
    "Standard_ND128isr_GB300_v6",
    _GB300,
    {
        "gemm": Threshold(1720, "TFLOP/s", "B", at="per GPU", warn=1785, typical=1850),
    },
    (_name("ND128isr_GB300_v6"), _ETHERNET),
)

# B speaks of the size above only.
ND128ISRG5_GB300 = vm_size("Standard_ND128isrG5_GB300_v6", _GB300, {}, (_name("ND128isrG5_GB300_v6"), _ETHERNET))

ND_GB = (ND128ISR_GB200, ND128ISR_GB300, ND128ISRG5_GB300)
