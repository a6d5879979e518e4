# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND GB200 v6 and ND GB300 v6: ARM processors and four Blackwell GPUs. No source describes their layout."""

from __future__ import annotations

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
            "nvme_count": 4,
        },
        "W": _NVME,
    },
    {},
    (_name("ND128isr_NDR_GB200_v6"),),
)

ND128ISR_GB300 = vm_size(
    "Standard_ND128isr_GB300_v6",
    {
        "D": {
            "vcpus": 128,
            "memory_mib": 864 * 1024,
            "gpu_model": "B300",
            "gpu_count": 4,
            "gpu_memory_gb": 288,
            "hca_count": 4,
            "ib_rate_gbps": 800,
            "nvme_count": 4,
        },
        "W": _NVME,
    },
    {
        "gemm": Threshold(1720, "TFLOP/s", "B", at="per GPU", warn=1785, typical=1850),
        "nccl_allreduce_rack": Threshold(600, "GB/s", "B", at="18 nodes of one rack", warn=800, typical=937),
        "nccl_allreduce_internode": Threshold(150, "GB/s", "B", at="between racks", warn=180, typical=200),
    },
    (_name("ND128isr_GB300_v6"),),
)

ND_GB = (ND128ISR_GB200, ND128ISR_GB300)
