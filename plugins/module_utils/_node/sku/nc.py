# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The NC sizes: A100 v4 and H100 v5."""

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
    memory_sold,
    memory_within,
    numa_nodes,
    port_rate,
    vm_size,
)

_CHECKED: Mapping[str, Any] = {"hca_count": 0, "hcas": ()}

# NC A100 v4: one, two or four A100 PCIe with 24 CPUs each, no InfiniBand.

_CPU = CpuModel("x86_64", "AuthenticAMD", 175, 1)
_GPU = {"gpu_model": "A100-PCIe-80GB", "gpu_memory_gb": 80}
_NVME_MODEL = {"nvme_model": "Microsoft NVMe Direct Disk"}
_ACCELERATED = {"accelerated_nic_gbps": 100}
_HOST_A100 = {"gpu_host_bandwidth": Threshold(21, "GB/s", "C")}
_PEER = {"gpu_peer_bandwidth": Threshold(238, "GB/s", "C")}


def _cpu(letter: str) -> Contradiction:
    return Contradiction(
        "cpu",
        {letter: "family 175", "D": "EPYC 7V13 (Milan), whose family is 25 in AMD's numbering"},
        letter,
        "NCCL's numbering: 15 (base family) plus 16 times 10 (extended family); Linux adds the extended family once.",
    )


NC24ADS = vm_size(
    "Standard_NC24ads_A100_v4",
    {
        "C": {"memory_mib": 221450, **cores(1, 24), "gpu_count": 1, **_CHECKED},
        # D documents one to four disks for the family; O has two and four for the other members.
        "D": {**_GPU, "ethernet_gbps": 20, "nvme_count": 1},
        # A quarter of the family's largest size, which T describes; no source describes this size.
        "G": {"numa_nodes": numa_nodes("0-23")},
        "W": _NVME_MODEL,
        "H": _ACCELERATED,
    },
    {**ECC, **memory_within(10), **_HOST_A100},
    (
        Contradiction(
            "gpu_peer_bandwidth", {"C": "238 GB/s between GPUs, but a count of one GPU"}, "", "one GPU has no peer."
        ),
        *memory_sold("221450 MB", "220 GB"),
        *port_rate("H", 100, 20),
    ),
)

NC48ADS = vm_size(
    "Standard_NC48ads_A100_v4",
    {
        "C": {"memory_mib": 433 * 1024, **cores(1, 48), "gpu_count": 2, **_CHECKED},
        "D": {**_GPU, "ethernet_gbps": 40},
        "P, O": {"numa_nodes": numa_nodes("0-23", "24-47"), "gpus": gpus("0001 0002", "0 1")},
        "O": {"cpu": _CPU, "nvme_count": 2},
        "W": _NVME_MODEL,
        "H": _ACCELERATED,
    },
    {**ECC, **memory_within(3), **_HOST_A100, **_PEER, "nccl_allreduce": Threshold(193, "GB/s", "C", at="16G")},
    (
        Contradiction(
            "nccl_allreduce",
            {"C": "193 GB/s at 16G", "O": "56 GB/s"},
            "C",
            "C is measured over the NVLink between the two GPUs, O without it: below 193, check the NVLink first.",
        ),
        _cpu("O"),
        *memory_sold("433 GB", "440 GB"),
        *port_rate("H", 100, 40),
    ),
)

NC96ADS = vm_size(
    "Standard_NC96ads_A100_v4",
    {
        "C": {"memory_mib": 908185720 // 1024, **cores(2, 96), "gpu_count": 4, **_CHECKED},
        "D": {**_GPU, "ethernet_gbps": 80},
        # T has no speed and width of the links, so they are unknown here.
        "T": {
            "cpu": _CPU,
            "numa_nodes": numa_nodes("0-23", "24-47", "48-71", "72-95"),
        },
        "T, P": {"gpus": gpus("0001 0002 0003 0004", "0 1 2 3")},
        "O, D": {"nvme_count": 4},
        "W": _NVME_MODEL,
        "H": _ACCELERATED,
        "A, P": {"nccl_settings": {"NCCL_IB_DISABLE": "1", "NCCL_IGNORE_CPU_AFFINITY": "1"}},
    },
    {**ECC, **memory_within(3), **_HOST_A100, **_PEER, "nccl_allreduce": Threshold(25, "GB/s", "C", at="8G")},
    (
        _cpu("T"),
        *memory_sold("908185720 kB", "880 GB"),
        Contradiction(
            "gpus",
            {"T": "NVLinks of each GPU to itself (since 2024-02)", "O": "NVLinks of 0001 with 0002, 0003 with 0004"},
            "T",
            "only for addresses and NUMA nodes. Before 2024-02 T had the same links as O; nccl_topology writes those.",
        ),
        *port_rate("H", 100, 80),
    ),
)

NC_A100 = (NC24ADS, NC48ADS, NC96ADS)


# NC H100 v5: one or two H100 NVL, no InfiniBand. No source describes the NUMA nodes.

# D lists one local disk, which may be several NVMe disks together, so their number is unknown.
_DOCUMENTED = {"gpu_model": "H100-NVL", "gpu_memory_gb": 94}
_HOST_H100 = {"gpu_host_bandwidth": Threshold(48, "GB/s", "C")}

NC40ADS = vm_size(
    "Standard_NC40ads_H100_v5",
    {
        "C": {"memory_mib": 329977992 // 1024, **cores(1, 40), "gpu_count": 1, **_CHECKED},
        "D": {**_DOCUMENTED, "ethernet_gbps": 40},
        "H": _ACCELERATED,
    },
    {**ECC, **memory_within(3), **_HOST_H100},
    (
        Contradiction(
            "gpu_peer_bandwidth", {"C": "335 GB/s between GPUs, but a count of one GPU"}, "", "one GPU has no peer."
        ),
        *memory_sold("329977992 kB", "320 GB"),
        *port_rate("H", 100, 40),
    ),
)

NC80ADIS = vm_size(
    "Standard_NC80adis_H100_v5",
    {
        "C": {"memory_mib": 660463936 // 1024, **cores(1, 80), "gpu_count": 2, **_CHECKED},
        "D": {**_DOCUMENTED, "ethernet_gbps": 80},
        "H": _ACCELERATED,
    },
    {
        **ECC,
        **memory_within(3),
        **_HOST_H100,
        "nccl_allreduce": Threshold(208, "GB/s", "C", at="16G"),
        "nvlinks": Threshold(12, "links", "I", at="each GPU"),
    },
    (
        Contradiction(
            "gpu_peer_bandwidth",
            {"C": "335 GB/s", "I": "256 GB/s measured, with 12 of 18 links up (azurehpc-health-checks #162)"},
            "",
            "335 is copied from ND H100 v5, where 18 links are up, so good machines would fail; measure some first.",
        ),
        Contradiction(
            "nvlinks",
            {
                "C": "all links of a GPU, which are 18",
                "I": "12 of 18 up on good machines (azurehpc-health-checks #162)",
            },
            "I",
            "the bridge between two H100 NVL uses 12 links; the others are not connected.",
        ),
        *memory_sold("660463936 kB", "640 GB"),
        *port_rate("H", 100, 80),
    ),
)

NC_H100 = (NC40ADS, NC80ADIS)
