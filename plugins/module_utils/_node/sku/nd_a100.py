# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""ND A100 v4: eight A100 with NVSwitch, eight HDR adapters, four NUMA nodes."""

from __future__ import annotations

from .stated import ECC, cores, gpus, hcas, memory_sold, memory_within, numa_nodes, port_rate, vm_size
from .types import Contradiction, CpuModel, Threshold

# GPU 0 is not on NUMA node 0: the order of the PCI addresses goes through the nodes as 1, 0, 3, 2.
_NODES_OF_SLOTS = "1 1 0 0 3 3 2 2"
_SWITCHES = "2 2 1 1 4 4 3 3"
# Versions of ndv4-topo.xml before 2023-09 have nodes 0 and 1, and 2 and 3, swapped; those before 2025-02 wrong masks.
_TOPOLOGY = {
    "cpu": CpuModel("x86_64", "AuthenticAMD", 23, 49),
    "numa_nodes": numa_nodes("0-23", "24-47", "48-71", "72-95"),
    "hcas": hcas("0101 0102 0103 0104 0105 0106 0107 0108", _NODES_OF_SLOTS, _SWITCHES),
    "pcie_gtps": "16 GT/s",
    "pcie_width": 16,
}
_GPUS = gpus("0001 0002 0003 0004 000b 000c 000d 000e", _NODES_OF_SLOTS, _SWITCHES)
_CHECKED = {"gpu_count": 8, "hca_count": 8, "ib_rate_gbps": 200}
_NVSWITCH = {"nvswitch": True}
_NCCL = {"NCCL_IB_PCI_RELAXED_ORDERING": "1", "NCCL_IGNORE_CPU_AFFINITY": "1", "NCCL_SOCKET_IFNAME": "eth0"}

_THRESHOLDS = {
    **ECC,
    **memory_within(3),
    "gpu_host_bandwidth": Threshold(21, "GB/s", "C"),
    "nccl_allreduce_internode": Threshold(175, "GB/s", "N", at="2 nodes, 8G"),
    "ib_gdr_write": Threshold(180, "Gb/s", "C", at="8388608 B"),
    "ib_latency_local": Threshold(2, "us", "N", at_most=True),
}
_CONTRADICTIONS = (
    Contradiction(
        "nccl_allreduce_internode",
        {"N": "175 GB/s", "Y": "185 GB/s"},
        "N",
        "a limit of Microsoft's own, and the lower one; measure both nodes before drawing conclusions.",
    ),
    *port_rate("H", 40, 24),
)


def _disks(counted: str, documented: str) -> Contradiction:
    return Contradiction(
        "nvme_count",
        {**dict.fromkeys(counted.split(", "), "8"), "D": f"1 disk of {documented}"},
        "O",
        "D counts what they add up to; those who have such machines build an array of 8.",
    )


ND96ASR = vm_size(
    "Standard_ND96asr_v4",
    {
        "C": {"memory_mib": 928858388 // 1024, **_CHECKED},
        "C, T": cores(2, 96),
        "T": _TOPOLOGY,
        "T, P, S": {"gpus": _GPUS},
        "D": {"gpu_model": "A100-SXM4-40GB", "gpu_memory_gb": 40, "ethernet_gbps": 24},
        "M": {
            "gpu_memory_clock_mhz": 1215,
            "gpu_graphics_clock_mhz": 1410,
            "gpu_default_graphics_clock_mhz": 1095,
        },
        "O, E": {"nvme_count": 8},
        "W": {"nvme_model": "Microsoft NVMe Direct Disk"},
        "H": {"accelerated_nic_gbps": 40},
        "A": _NVSWITCH,
        "A, P": {"nccl_settings": _NCCL},
    },
    {
        **_THRESHOLDS,
        "gpu_peer_bandwidth": Threshold(235, "GB/s", "C"),
        "nccl_allreduce": Threshold(228, "GB/s", "C, O", at="8G"),
        "nccl_ib_loopback": Threshold(18, "GB/s", "C", at="8G"),
    },
    (
        *memory_sold("928858388 kB", "900 GiB"),
        _disks("O, E", "6000 GiB"),
        Contradiction(
            "gpu_host_bandwidth",
            {"C": "21 GB/s", "R": "23 GB/s", "O": "24 GB/s", "K": "24 GB/s", "E": "24 GB/s"},
            "C",
            "the newest and most lenient; R is the documentation of the same project and was left behind.",
        ),
        Contradiction(
            "nccl_allreduce",
            {"C": "228 GB/s at 8G", "E": "230 GB/s at 4G"},
            "C",
            "the limit of the health check that runs on nodes, not of an image's test.",
        ),
        Contradiction(
            "nccl_ib_loopback",
            {"C": "18 GB/s", "E": "20 GB/s"},
            "C",
            "the limit of the health check that runs on nodes, not of an image's test.",
        ),
        Contradiction(
            "ib_gdr_write", {"C": "180 Gb/s", "O": "185 Gb/s", "K": "185 Gb/s"}, "C", "the newest and most lenient."
        ),
        *_CONTRADICTIONS,
    ),
)

ND96AMSR = vm_size(
    "Standard_ND96amsr_A100_v4",
    {
        "C": {"memory_mib": 1857830712 // 1024, **_CHECKED},
        "C, T": cores(2, 96),
        "T": _TOPOLOGY,
        "T, P, S": {"gpus": _GPUS},
        "D": {"gpu_model": "A100-SXM4-80GB", "gpu_memory_gb": 80, "ethernet_gbps": 24},
        # Never read from such a machine or a document; gpu_clocks asks the driver and needs neither.
        "G": {"gpu_memory_clock_mhz": 1593, "gpu_graphics_clock_mhz": 1410},
        "O": {"nvme_count": 8},
        "W": {"nvme_model": "Microsoft NVMe Direct Disk"},
        "H": {"accelerated_nic_gbps": 40},
        "A": _NVSWITCH,
        "A, P": {"nccl_settings": _NCCL},
    },
    {
        **_THRESHOLDS,
        "gpu_peer_bandwidth": Threshold(238, "GB/s", "C"),
        "nccl_allreduce": Threshold(228, "GB/s", "C", at="16G"),
        "nccl_ib_loopback": Threshold(18, "GB/s", "C", at="16G"),
    },
    (
        *memory_sold("1857830712 kB", "1900 GiB"),
        _disks("O", "6400 GiB"),
        Contradiction("gpu_host_bandwidth", {"C": "21 GB/s", "O": "24 GB/s"}, "C", "the newest and most lenient."),
        Contradiction("ib_gdr_write", {"C": "180 Gb/s", "O": "185 Gb/s"}, "C", "the newest and most lenient."),
        *_CONTRADICTIONS,
    ),
)

ND_A100 = (ND96ASR, ND96AMSR)
