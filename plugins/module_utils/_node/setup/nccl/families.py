# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How the topology file of each family of VM sizes is written, and which sizes have none.

The facts of a size come from ``sku``. Here stands what only the file has: which elements it describes besides bridges,
GPUs and adapters. Source: the files of Azure/azhpc-images, folder ``topology``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuDetails:
    """What the file says of each GPU beyond its place.

    :ivar device: PCI device id.
    :ivar subsystem: PCI subsystem's device id.
    :ivar compute_capability: NCCL's ``sm``.
    :ivar peers: pairs of indices of GPUs with NVLinks between them.
    :ivar links: number of NVLinks of a pair.
    """

    device: int
    subsystem: int
    compute_capability: int
    peers: tuple[tuple[int, int], ...]
    links: int


@dataclass(frozen=True)
class Ethernet:
    """A network interface that the file names, for sizes without InfiniBand.

    :ivar name: Linux's name of it.
    :ivar speed_mbps: its rate in Mb/s.
    :ivar numa_node: NUMA node that it hangs on.
    """

    name: str
    speed_mbps: int
    numa_node: int


@dataclass(frozen=True)
class Family:
    """VM sizes whose topology file looks alike.

    :ivar name: as the HPC images call it.
    :ivar zero_ids: PCI vendor and device are written, as 0x0000.
    :ivar gpu: details of each GPU; None where NCCL finds them out itself, as it does with NVSwitch.
    :ivar ethernet: a network interface that is described; None where the adapters are.
    """

    name: str
    zero_ids: bool = False
    gpu: GpuDetails | None = None
    ethernet: Ethernet | None = None


NDV2 = Family("ndv2")
NDV4 = Family("ndv4")
NDV5 = Family("ndv5", zero_ids=True)
# The pairs are those of the file before 2024-02 (commit 4be0efb7), which has linked each GPU with itself since.
NCV4 = Family("ncv4", gpu=GpuDetails(0x20B5, 0x1533, 80, ((0, 1), (2, 3)), 12), ethernet=Ethernet("eth0", 100_000, 0))

FAMILIES: Mapping[str, Family] = {
    "Standard_ND40rs_v2": NDV2,
    "Standard_ND96asr_v4": NDV4,
    "Standard_ND96amsr_A100_v4": NDV4,
    "Standard_ND96isr_H100_v5": NDV5,
    "Standard_ND96is_H100_v5": NDV5,
    "Standard_ND96isr_H200_v5": NDV5,
    "Standard_ND96isrf_H200_v5": NDV5,
    "Standard_ND96is_H200_v5": NDV5,
    "Standard_NC96ads_A100_v4": NCV4,
}

WITHOUT: Mapping[str, str] = {
    "Standard_NC24ads_A100_v4": "one GPU has no peer in its node, and the file of the family's "
    "largest size breaks NCCL there (azhpc-images #327)",
    "Standard_NC48ads_A100_v4": "the HPC images ship none, and NCCL sees the NVLinks between its two GPUs by itself",
    "Standard_NC40ads_H100_v5": "one GPU has no peer in its node",
    "Standard_NC80adis_H100_v5": "the maintainers of the HPC images say that it needs none (azhpc-images #332)",
    "Standard_ND96isr_MI300X_v5": "no source says where its GPUs and adapters hang, and the HPC images ship none",
    "Standard_ND128isr_NDR_GB200_v6": "the HPC images ship none, and no source describes its layout",
    "Standard_ND128isr_GB300_v6": "the HPC images ship none, and no source describes its layout",
    "Standard_ND128isrG5_GB300_v6": "the HPC images ship none, and no source describes its layout",
}
"""Sizes of the table for which nothing is generated, and why NCCL's own detection is left to do it."""
