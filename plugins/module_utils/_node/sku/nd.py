# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The ND sizes without Hopper GPUs: V100, A100, MI300X, GB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .types import (
    ECC,
    RETIRED_PAGES,
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

# ND v2: eight V100, one EDR adapter, two NUMA nodes, no local NVMe disks.

ND40RS = vm_size(
    "Standard_ND40rs_v2",
    {
        "C": {"memory_mib": 693505424 // 1024, "gpu_count": 8, "hca_count": 1, "ib_rate_gbps": 100},
        "C, T": cores(2, 40),
        # All devices are connected to the CPUs directly: NCCL's topology has no switch.
        "T": {
            "cpu": CpuModel("x86_64", "GenuineIntel", 6, 85),
            "numa_nodes": numa_nodes("0-19", "20-39"),
            "gpus": gpus("0001 0002 0003 0004 0005 0006 0007 0008", "0 0 0 0 1 1 1 1"),
            "hcas": hcas("0101", "0"),
            "pcie_gtps": "16 GT/s",
            "pcie_width": 16,
        },
        # The temporary disk of 2948 GiB is not an NVMe disk.
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


# ND A100 v4: eight A100 with NVSwitch, eight HDR adapters, four NUMA nodes.

# GPU 0 is not on NUMA node 0: in the order of the PCI addresses, the nodes are 1, 0, 3, 2.
_NODES_OF_SLOTS = "1 1 0 0 3 3 2 2"
_SWITCHES = "2 2 1 1 4 4 3 3"
# In versions of ndv4-topo.xml before 2023-09, nodes 0 and 1, and 2 and 3, are swapped; before 2025-02, masks are wrong.
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
    # N measures the adapters without MPI.
    "mpi_latency": Threshold(3, "us", "N", at="two nodes, without MPI", at_most=True),
    # L states about 8 GB/s for eight disks, for both sizes' kind of disks.
    **{
        f"scratch_{way}": Threshold(7.2, "GB/s", "L", at="90 % of about 8 GB/s, eight disks", typical=8)
        for way in ("read", "write")
    },
}
_CONTRADICTIONS = (
    Contradiction(
        "nccl_allreduce_internode",
        {"N": "175 GB/s", "Y": "185 GB/s"},
        "N",
        "Microsoft's own limit, and the lower one; measure both nodes before you draw conclusions.",
    ),
    *port_rate("H", 40, 24),
)


def _disks(counted: str, documented: str) -> Contradiction:
    return Contradiction(
        "nvme_count",
        {**dict.fromkeys(counted.split(", "), "8"), "D": f"1 disk of {documented}"},
        "O",
        "D lists their total size; users of such machines build an array of 8.",
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
        "hpl": Threshold(85.5, "TFLOP/s", "L", at="90 % of about 95 TFLOP/s, double precision", typical=95),
    },
    (
        *memory_sold("928858388 kB", "900 GiB"),
        _disks("O, E", "6000 GiB"),
        Contradiction(
            "gpu_host_bandwidth",
            {"C": "21 GB/s", "R": "23 GB/s", "O": "24 GB/s", "K": "24 GB/s", "E": "24 GB/s"},
            "C",
            "the newest and most lenient; R is the same project's documentation and was not updated.",
        ),
        Contradiction(
            "nccl_allreduce",
            {"C": "228 GB/s at 8G", "E": "230 GB/s at 4G"},
            "C",
            "the limit of the health check on nodes; E is for a test of the image.",
        ),
        Contradiction(
            "nccl_ib_loopback",
            {"C": "18 GB/s", "E": "20 GB/s"},
            "C",
            "the limit of the health check on nodes; E is for a test of the image.",
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
        # Not read from such a machine or a document; gpu_clocks queries the driver and does not use these.
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


# ND MI300X v5: eight AMD MI300X, eight NDR adapters. No source describes which device is on which NUMA node.

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
        # C also has limits for copies and RCCL; the collection does not measure AMD's GPUs.
        "ib_write": Threshold(390, "Gb/s", "C", at="1048576 B, 2 queue pairs, host memory"),
    },
    (*memory_sold("1915059 MB", "1850 GB"), *port_rate("H", 100, 80)),
)

ND_MI300X = (ND96ISR_MI300X,)


# ND GB200 v6 and ND GB300 v6: ARM processors and four Blackwell GPUs. No source describes their layout.

_NVME = {"nvme_model": "Microsoft NVMe Direct Disk"}


def _name(documented: str) -> Contradiction:
    return Contradiction(
        "name",
        {"D": documented, "A": "nd128is*_gb[2-3]00_v6, any of them with or without NDR"},
        "D",
        "what Azure documents; compare it with the answer of a machine's metadata service, which is authoritative.",
    )


_ETHERNET = Contradiction(
    "ethernet_gbps",
    {"D": "160 Gb/s in the table of parts, 160 under the heading Mb/s in the table of sizes"},
    "D",
    "the heading is copied from the tables of other sizes, where the figures are in the thousands.",
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
            {"D": "400 Gb/s in the column scale-up (NVLink), 1.8 TB/s in the column scale-out (InfiniBand)"},
            "D",
            "the headings are swapped, as the table of GB300 shows.",
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

# B describes only the size above.
ND128ISRG5_GB300 = vm_size("Standard_ND128isrG5_GB300_v6", _GB300, {}, (_name("ND128isrG5_GB300_v6"), _ETHERNET))

ND_GB = (ND128ISR_GB200, ND128ISR_GB300, ND128ISRG5_GB300)
