# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND MI300X v5: eight MI300X of AMD, eight NDR adapters. No source says what hangs on which NUMA node."""

from __future__ import annotations

from .stated import cores, memory_sold, memory_within, port_rate, vm_size
from .types import Threshold

ND96ISR_MI300X = vm_size(
    "Standard_ND96isr_MI300X_v5",
    {
        "C": {"memory_mib": 1915059, **cores(2, 96), "gpu_count": 8, "hca_count": 8, "ib_rate_gbps": 400},
        "D": {"gpu_model": "MI300X", "gpu_memory_gb": 192, "nvme_count": 8, "ethernet_gbps": 80},
        "W": {"nvme_model": "Microsoft NVMe Direct Disk"},
        "H": {"accelerated_nic_gbps": 100},
    },
    {
        **memory_within(7),
        # C has limits of copies and of RCCL too; nothing here measures AMD's GPUs.
        "ib_write": Threshold(390, "Gb/s", "C", at="1048576 B, 2 queue pairs, host memory"),
    },
    (*memory_sold("1915059 MB", "1850 GB"), *port_rate("H", 100, 80)),
)

ND_MI300X = (ND96ISR_MI300X,)
