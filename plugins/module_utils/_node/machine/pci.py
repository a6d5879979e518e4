# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's GPUs and InfiniBand adapters on the PCI bus, from sysfs, without a driver or tool."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .root import Root

_DEVICES = "/sys/bus/pci/devices"
_BUSID = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)

# The upper 16 bits of PCI class codes.
GPU_CLASSES = (0x0300, 0x0302, 0x1200)
"""VGA controller, 3D controller, processing accelerator (AMD Instinct)."""
GPU_VENDORS = {0x10DE: "NVIDIA", 0x1002: "AMD"}
INFINIBAND_CLASS = 0x0207
ETHERNET_CLASS = 0x0200
NVME_CLASS = 0x0108


@dataclass(frozen=True)
class PciFacts:
    """A PCI device.

    :ivar busid: its address in Linux's format, ``0001:00:00.0``.
    :ivar class_code: base class and subclass, e.g. 0x0302.
    :ivar vendor: vendor id.
    :ivar device: device id.
    :ivar numa_node: its NUMA node; None if the firmware does not report it (sysfs: -1).
    :ivar rdma: names of its RDMA devices, e.g. ``mlx5_ib0``.
    """

    busid: str
    class_code: int
    vendor: int
    device: int
    numa_node: int | None
    rdma: tuple[str, ...] = ()

    @property
    def is_gpu(self) -> bool:
        """Whether it is a compute GPU, and not the display adapter of Hyper-V or of the board."""
        return self.class_code in GPU_CLASSES and self.vendor in GPU_VENDORS

    @property
    def is_hca(self) -> bool:
        """Whether it is an InfiniBand adapter, and not the Ethernet function of accelerated networking."""
        return self.class_code == INFINIBAND_CLASS


def canonical_busid(text: str) -> str | None:
    """Return a PCI address in Linux's format (NVML's ``00000001:00:00.0`` becomes ``0001:00:00.0``).

    None if it is not an address. A domain of more than 16 bits keeps its digits.
    """
    match = _BUSID.fullmatch(text.strip())
    if not match:
        return None
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def read_pci(root: Root) -> tuple[PciFacts, ...]:
    """Return all PCI devices, by address."""
    found = []
    for entry in root.entries(_DEVICES):
        busid = canonical_busid(entry)
        if busid is None:
            continue
        path = f"{_DEVICES}/{entry}"
        numa_node = root.number(f"{path}/numa_node")
        found.append(
            PciFacts(
                busid=busid,
                class_code=(root.number(f"{path}/class") or 0) >> 8,
                vendor=root.number(f"{path}/vendor") or 0,
                device=root.number(f"{path}/device") or 0,
                numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
                rdma=tuple(root.entries(f"{path}/infiniband")),
            )
        )
    return tuple(sorted(found, key=lambda device: (int(device.busid.split(":")[0], 16), device.busid)))
