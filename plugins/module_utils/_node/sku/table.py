# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts per Azure VM size: the single source of every such number in the collection.

Each number names its source by a letter, explained in ``SOURCES``. What no source states is ``None``, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from .types import VmSize

SOURCES: Mapping[str, str] = {
    "C": "azurehpc-health-checks, conf/<size>.conf: check_hw_cpuinfo (sockets, cores, threads) and check_hw_physmem",
    "D": "MicrosoftDocs/azure-compute-docs, articles/virtual-machines/sizes/gpu-accelerated",
    "hand": "described by hand in the inventory (hpcai_vm_sizes)",
}


def _checked(name: str, sockets: int, cores: int, memory_mib: int) -> VmSize:
    """A size whose CPUs and memory azurehpc-health-checks states. None of them has simultaneous multithreading."""
    fields = ("vcpus", "sockets", "cores_per_socket", "threads_per_core", "memory_mib")
    return VmSize(
        name,
        vcpus=cores,
        sockets=sockets,
        cores_per_socket=cores // sockets,
        threads_per_core=1,
        memory_mib=memory_mib,
        sources=dict.fromkeys(fields, "C"),
    )


def _documented(name: str, vcpus: int, memory_gib: int) -> VmSize:
    """A size of which only Microsoft's documentation speaks: no socket layout is stated there."""
    return VmSize(name, vcpus=vcpus, memory_mib=memory_gib * 1024, sources=dict.fromkeys(("vcpus", "memory_mib"), "D"))


# Memory: figures that the source gives in kB were divided by 1024; check_hw_physmem's "MB" and "GB" are powers of 1024.
_ALL = (
    _checked("Standard_ND96asr_v4", 2, 96, 928858388 // 1024),
    _checked("Standard_ND96amsr_A100_v4", 2, 96, 1857830712 // 1024),
    _checked("Standard_ND96isr_H100_v5", 2, 96, 1915071),
    _checked("Standard_ND96isr_H200_v5", 2, 96, 1909409116 // 1024),
    _checked("Standard_ND96isr_MI300X_v5", 2, 96, 1915059),
    _checked("Standard_ND40rs_v2", 2, 40, 693505424 // 1024),
    _checked("Standard_NC24ads_A100_v4", 1, 24, 221450),
    _checked("Standard_NC48ads_A100_v4", 1, 48, 433 * 1024),
    _checked("Standard_NC96ads_A100_v4", 2, 96, 908185720 // 1024),
    _checked("Standard_NC40ads_H100_v5", 1, 40, 329977992 // 1024),
    _checked("Standard_NC80adis_H100_v5", 1, 80, 660463936 // 1024),
    _documented("Standard_ND128isr_NDR_GB200_v6", 128, 900),
    _documented("Standard_ND128isr_GB300_v6", 128, 864),
)

SIZES: Mapping[str, VmSize] = {size.name: size for size in _ALL}
