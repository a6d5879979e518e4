# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree of /sys like that of a VM size, in which a test can change or remove parts."""

from __future__ import annotations

import shutil
from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

NVIDIA, MELLANOX, MICROSOFT = 0x10DE, 0x15B3, 0x1414
GPU_CLASS, INFINIBAND_CLASS, DISPLAY_CLASS = 0x030200, 0x020700, 0x030000


class SizedMachine:
    """A root folder with CPUs, NUMA nodes and PCI devices below ``sys``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_size(cls, path: Path, name: str) -> SizedMachine:
        """Return a machine that matches the table of VM sizes exactly."""
        size, tree = find_size(name), cls(path)
        nodes = size.numa_nodes or ()
        last = max(int(node.cpus.rpartition("-")[2]) for node in nodes)
        for which in ("online", "present"):
            tree.write(f"sys/devices/system/cpu/{which}", f"0-{last}")
        for node in nodes:
            tree.numa_node(node.id, node.cpus)
        for gpu in size.gpus or ():
            tree.device(gpu.busid, GPU_CLASS, NVIDIA, gpu.numa_node)
        for number, hca in enumerate(size.hcas or ()):
            tree.device(hca.busid, INFINIBAND_CLASS, MELLANOX, hca.numa_node, f"mlx5_ib{number}")
        tree.write("sys/class/net/eth0/operstate", "up")
        tree.write("sys/class/net/lo/operstate", "unknown")
        return tree

    def write(self, path: str, text: str) -> None:
        """Write a file below the root, with a newline at its end as in sysfs."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    def numa_node(self, number: int, cpus: str) -> None:
        """Add a NUMA node with these CPUs; it may have memory only and no CPUs."""
        self.write(f"sys/devices/system/node/node{number}/cpulist", cpus)

    def without_numa_node(self, number: int) -> None:
        """Remove a NUMA node."""
        shutil.rmtree(self.path / f"sys/devices/system/node/node{number}")

    def device(self, busid: str, pci_class: int, vendor: int, numa_node: int, rdma: str = "") -> None:
        """Add a PCI device."""
        folder = f"sys/bus/pci/devices/{busid}"
        self.write(f"{folder}/class", f"{pci_class:#08x}")
        self.write(f"{folder}/vendor", f"{vendor:#06x}")
        self.write(f"{folder}/device", "0x1234")
        self.write(f"{folder}/numa_node", str(numa_node))
        if rdma:
            self.write(f"{folder}/infiniband/{rdma}/node_type", "1: CA")

    def on_numa_node(self, busid: str, numa_node: int) -> None:
        """Move a device to a NUMA node."""
        self.write(f"sys/bus/pci/devices/{busid}/numa_node", str(numa_node))

    def without(self, busid: str) -> None:
        """Remove a device."""
        shutil.rmtree(self.path / f"sys/bus/pci/devices/{busid}")

    def without_devices(self) -> None:
        """Remove all devices, as in a container."""
        shutil.rmtree(self.path / "sys/bus/pci/devices")
