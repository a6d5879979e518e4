# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NC H100 v5: one or two H100 NVL, no InfiniBand. No source describes the NUMA nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .stated import ECC, cores, memory_sold, memory_within, port_rate, vm_size
from .types import Contradiction, Threshold

_CHECKED: Mapping[str, Any] = {"hca_count": 0, "hcas": ()}
# D counts one local disk, which may be several NVMe disks taken together: their number is unknown.
_DOCUMENTED = {"gpu_model": "H100-NVL", "gpu_memory_gb": 94}
_ACCELERATED = {"accelerated_nic_gbps": 100}
_HOST = {"gpu_host_bandwidth": Threshold(48, "GB/s", "C")}

NC40ADS = vm_size(
    "Standard_NC40ads_H100_v5",
    {
        "C": {"memory_mib": 329977992 // 1024, **cores(1, 40), "gpu_count": 1, **_CHECKED},
        "D": {**_DOCUMENTED, "ethernet_gbps": 40},
        "H": _ACCELERATED,
    },
    {**ECC, **memory_within(3), **_HOST},
    (
        Contradiction(
            "gpu_peer_bandwidth", {"C": "335 GB/s between GPUs, of which it counts one"}, "", "one GPU has no peer."
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
        **_HOST,
        "nccl_allreduce": Threshold(208, "GB/s", "C", at="16G"),
        "nvlinks": Threshold(12, "links", "I", at="each GPU"),
    },
    (
        Contradiction(
            "gpu_peer_bandwidth",
            {"C": "335 GB/s", "I": "256 GB/s measured, with 12 of 18 links up (azurehpc-health-checks #162)"},
            "",
            "335 is copied from ND H100 v5, where 18 links are up, and would fail these machines; measure some first.",
        ),
        Contradiction(
            "nvlinks",
            {
                "C": "all links of a GPU, which are 18",
                "I": "12 of 18 up on good machines (azurehpc-health-checks #162)",
            },
            "I",
            "the bridge between two H100 NVL takes 12 links; the others lead nowhere.",
        ),
        *memory_sold("660463936 kB", "640 GB"),
        *port_rate("H", 100, 80),
    ),
)

NC_H100 = (NC40ADS, NC80ADIS)
