# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND H100 v5 and ND H200 v5: eight GPUs with NVSwitch, eight NDR adapters or none, two NUMA nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .types import (
    ECC,
    Contradiction,
    CpuModel,
    Threshold,
    cores,
    gpus,
    hcas,
    memory_sold,
    memory_within,
    numa_nodes,
    port_rate,
    vm_size,
)

_NODES_OF_SLOTS = "0 0 0 0 1 1 1 1"
# One virtual switch per pair of GPU and adapter, not per NUMA node as with ND A100 v4.
_SWITCHES = "1 2 3 4 5 6 7 8"
# H100 and H200 share one file (ndv5-topo.xml). Its versions before 2025-01 have wrong masks.
_TOPOLOGY = {
    "cpu": CpuModel("x86_64", "GenuineIntel", 6, 143),
    "numa_nodes": numa_nodes("0-47", "48-95"),
    "pcie_gtps": "32.0 GT/s PCIe",
    "pcie_width": 16,
}
# The fourth GPU's address is not consecutive to the third's.
_GPUS = {"gpus": gpus("0001 0002 0003 0008 0009 000a 000b 000c", _NODES_OF_SLOTS, _SWITCHES)}
_HCAS = {"hcas": hcas("0101 0102 0103 0104 0105 0106 0107 0108", _NODES_OF_SLOTS, _SWITCHES)}
_INFINIBAND = {"hca_count": 8, "ib_rate_gbps": 400}
_NO_INFINIBAND: Mapping[str, Any] = {"hca_count": 0, "hcas": ()}
# The interface is not from A: P has it for ND A100 v4, and the same images use the same name here.
_NCCL = {
    "nccl_settings": {
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
}
# A's scripts for these families start the fabric manager, and fail without it.
_NVSWITCH = {"nvswitch": True}
_NVME_MODEL = {"nvme_model": "Microsoft NVMe Direct Disk"}

_H100 = {"gpu_model": "H100-SXM5-80GB", "gpu_memory_gb": 80}
# D documents only the sizes with InfiniBand, and no network rate for the others.
_ETHERNET = {"ethernet_gbps": 80}
_H100_CLOCKS = {"gpu_graphics_clock_mhz": 1980}
_H100_MEMORY_CLOCK = {"gpu_memory_clock_mhz": 2619}
_H100_MEMORY = {"memory_mib": 1915071}
_H200 = {"gpu_model": "H200-SXM5-141GB", "gpu_memory_gb": 141}
_H200_CLOCKS = {"gpu_memory_clock_mhz": 3201, "gpu_graphics_clock_mhz": 1980}
_H200_CHECKED = {"memory_mib": 1909409116 // 1024, "gpu_count": 8, "accelerated_nic_gbps": 100}

# Typical values of good machines: 55 GB/s and 46.4 GB/s were noted without their source.
_H100_THRESHOLDS = {
    **ECC,
    **memory_within(5),
    "gpu_host_bandwidth": Threshold(48, "GB/s", "C, G", typical=55),
    "gpu_peer_bandwidth": Threshold(335, "GB/s", "C"),
    "nccl_allreduce": Threshold(460, "GB/s", "C, O", at="16G"),
    "gemm": Threshold(715, "TFLOP/s", "B", at="ubergemm, per GPU", warn=742, typical=769),
}
_H100_CLOCK = Contradiction(
    "gpu_graphics_clock_mhz",
    {"I": "1980 MHz", "H": "2619 MHz (nvidia-smi -lgc 2619)"},
    "I",
    "2619 MHz is the memory clock; H sets it as graphics clock, which the driver limits to its highest value.",
)
_GEMM_UNIT = Contradiction(
    "gemm",
    {"B": "715 and 742, in a text with the unit GFlops"},
    "B",
    "the numbers are correct only in TFLOP/s; these GPUs are a thousand times faster than the text says.",
)
_H200_THRESHOLDS = {
    **ECC,
    **memory_within(3),
    "gpu_host_bandwidth": Threshold(48, "GB/s", "C"),
    "gpu_peer_bandwidth": Threshold(335, "GB/s", "C"),
}
_H200_HOST = Contradiction(
    "gpu_host_bandwidth",
    {"C": "48 GB/s", "R": "55 GB/s"},
    "C",
    "what runs on the nodes; R documents the same project and has the value of a good machine.",
)
_H200_GDR = Contradiction(
    "ib_gdr_write",
    {"C": "360 Gb/s", "R": "400 Gb/s"},
    "C",
    "what runs on the nodes; 400 Gb/s is the full rate of the link, which no measurement reaches.",
)


def _h200_nccl(limit: int) -> Contradiction:
    return Contradiction(
        "nccl_allreduce",
        {"C": f"{limit} GB/s", "R": "480 GB/s", "I": "480 GB/s observed"},
        "C",
        "what runs on the nodes; 480 was measured on a good machine (azurehpc-health-checks #142).",
    )


ND96ISR_H100 = vm_size(
    "Standard_ND96isr_H100_v5",
    {
        "C": {**_H100_MEMORY, "gpu_count": 8, **_INFINIBAND},
        "C, T": cores(2, 96),
        "T": {**_TOPOLOGY, **_HCAS},
        "T, S, I": _GPUS,
        "D": {**_H100, **_ETHERNET},
        "I": _H100_CLOCKS,
        "C, D": {"nvme_count": 8},
        "W": _NVME_MODEL,
        "H": {**_H100_MEMORY_CLOCK, "accelerated_nic_gbps": 100},
        "A": _NVSWITCH,
        "A, G": _NCCL,
    },
    {
        **_H100_THRESHOLDS,
        "nccl_allreduce_internode": Threshold(300, "GB/s", "B", at="16G", warn=400, typical=450),
        "nccl_ib_loopback": Threshold(40, "GB/s", "O, G", typical=46.4),
        "ib_gdr_write": Threshold(380, "Gb/s", "C, I", at="8388608 B", typical=399.7),
    },
    (
        Contradiction(
            "gpu_host_bandwidth",
            {"C": "48 GB/s", "O": "52 GB/s", "R": "52 GB/s", "K": "52 GB/s"},
            "C",
            "the newest and most lenient; good machines reached 55.",
        ),
        Contradiction("gpu_peer_bandwidth", {"C": "335 GB/s", "K": "350 GB/s"}, "C", "the newest and most lenient."),
        Contradiction(
            "ib_gdr_write",
            {"C": "380 Gb/s", "O": "375 Gb/s", "K": "370 Gb/s"},
            "C",
            "the newest; good machines reached 399.7 (I).",
        ),
        _H100_CLOCK,
        _GEMM_UNIT,
        *memory_sold("1915071 MB", "1900 GB"),
        *port_rate("H", 100, 80),
    ),
)

ND96IS_H100 = vm_size(
    "Standard_ND96is_H100_v5",
    {
        "C": {**_H100_MEMORY, "gpu_count": 8, **_NO_INFINIBAND},
        "C, T": cores(2, 96),
        # A uses the same file for this size; the file also lists adapters, which this size does not have.
        "T, A": {**_TOPOLOGY, **_GPUS},
        "D": _H100,
        "I": _H100_CLOCKS,
        # This size is not in H's lists of mlx5_an0.
        "H": _H100_MEMORY_CLOCK,
        "A": _NVSWITCH,
        "A, G": _NCCL,
    },
    {**_H100_THRESHOLDS, "nccl_allreduce": Threshold(460, "GB/s", "C", at="16G")},
    (_H100_CLOCK, _GEMM_UNIT),
)

ND96ISR_H200 = vm_size(
    "Standard_ND96isr_H200_v5",
    {
        "C": {**_H200_CHECKED, **_INFINIBAND},
        "C, T": cores(2, 96),
        "T": {**_TOPOLOGY, **_HCAS, **_GPUS},
        "D": {**_H200, **_ETHERNET},
        "I": _H200_CLOCKS,
        "C, D": {"nvme_count": 8},
        "W": _NVME_MODEL,
        "A": _NVSWITCH,
        "A, G": _NCCL,
    },
    {
        **_H200_THRESHOLDS,
        "nccl_allreduce": Threshold(431, "GB/s", "C, I", at="16G", typical=480),
        "ib_gdr_write": Threshold(360, "Gb/s", "C", at="8388608 B"),
    },
    (_H200_HOST, _h200_nccl(431), _H200_GDR, *memory_sold("1909409116 kB", "1850 GiB"), *port_rate("C", 100, 80)),
)

ND96ISRF_H200 = vm_size(
    "Standard_ND96isrf_H200_v5",
    {
        # Neither C nor D has the number of NVMe disks of this size.
        "C": {**_H200_CHECKED, **_INFINIBAND},
        "C, T": cores(2, 96),
        "T, A": {**_TOPOLOGY, **_HCAS, **_GPUS},
        "D": _H200,
        "I": _H200_CLOCKS,
        "A": _NVSWITCH,
        "A, G": _NCCL,
    },
    {
        **_H200_THRESHOLDS,
        "nccl_allreduce": Threshold(432, "GB/s", "C", at="16G"),
        "ib_gdr_write": Threshold(360, "Gb/s", "C", at="8388608 B"),
    },
    (_H200_HOST, _h200_nccl(432), _H200_GDR),
)

ND96IS_H200 = vm_size(
    "Standard_ND96is_H200_v5",
    {
        "C": {**_H200_CHECKED, **_NO_INFINIBAND},
        "C, T": cores(2, 96),
        "T, A": {**_TOPOLOGY, **_GPUS},
        "D": _H200,
        "I": _H200_CLOCKS,
        "A": _NVSWITCH,
        "A, G": _NCCL,
    },
    {**_H200_THRESHOLDS, "nccl_allreduce": Threshold(432, "GB/s", "C", at="16G")},
    (_H200_HOST, _h200_nccl(432)),
)

ND_HOPPER = (ND96ISR_H100, ND96IS_H100, ND96ISR_H200, ND96ISRF_H200, ND96IS_H200)
