# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND v2: eight V100, one EDR adapter, two NUMA nodes, no local NVMe disks."""

from __future__ import annotations

from .stated import RETIRED_PAGES, cores, gpus, hcas, memory_sold, memory_within, numa_nodes, vm_size
from .types import CpuModel, Threshold

ND40RS = vm_size(
    "Standard_ND40rs_v2",
    {
        "C": {"memory_mib": 693505424 // 1024, "gpu_count": 8, "hca_count": 1, "ib_rate_gbps": 100},
        "C, T": cores(2, 40),
        # Everything hangs on the CPUs directly: NCCL is told of no switch.
        "T": {
            "cpu": CpuModel("x86_64", "GenuineIntel", 6, 85),
            "numa_nodes": numa_nodes("0-19", "20-39"),
            "gpus": gpus("0001 0002 0003 0004 0005 0006 0007 0008", "0 0 0 0 1 1 1 1"),
            "hcas": hcas("0101", "0"),
            "pcie_gtps": "16 GT/s",
            "pcie_width": 16,
        },
        # The temporary disk of 2948 GiB is none of NVMe.
        "D": {"gpu_model": "V100-SXM2-32GB", "gpu_memory_gb": 32, "ethernet_gbps": 24, "nvme_count": 0},
        "G": {"gpu_memory_clock_mhz": 877, "gpu_graphics_clock_mhz": 1530},
        "A": {"nccl_settings": {"NCCL_IGNORE_CPU_AFFINITY": "1"}},
    },
    {
        **RETIRED_PAGES,
        **memory_within(3),
        # 10 in earlier versions of C.
        "gpu_host_bandwidth": Threshold(9, "GB/s", "C"),
        "nccl_allreduce": Threshold(110, "GB/s", "C", at="8G"),
        "ib_write": Threshold(78, "Gb/s", "C", at="65536 B, 2 queue pairs, host memory"),
    },
    memory_sold("693505424 kB", "672 GiB"),
)

ND_V100 = (ND40RS,)
