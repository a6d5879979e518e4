# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What there is to pin to: NUMA nodes with their usable CPUs, GPUs and InfiniBand adapters, and which is near which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..machine.cpuset import EMPTY, CpuSet
from ..machine.numa import CpuFacts, read_cpus
from ..machine.pci import PciFacts, read_pci
from ..machine.root import Root
from ..sku.types import VmSize


class UnknownLayout(ValueError):
    """The machine's or the size's CPUs are not known; the message says which and what to do."""


@dataclass(frozen=True)
class Device:
    """A GPU or an InfiniBand adapter.

    :ivar name: ``0``, ``1`` and so on for GPUs, in the order of ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; ``mlx5_ib0`` and the
        like for adapters, the PCI address where Linux has no name for it.
    :ivar busid: PCI address in Linux's spelling.
    :ivar node: the NUMA node with CPUs that is nearest to it; None where the firmware does not say.
    """

    name: str
    busid: str
    node: int | None


@dataclass(frozen=True)
class Layout:
    """A machine, as far as pinning goes.

    :ivar origin: where it comes from: ``machine`` or the name of a VM size.
    :ivar online: CPUs that are online.
    :ivar nodes: the CPUs of each NUMA node that has CPUs online, by the node's number.
    :ivar usable: CPUs that are online and that the control group in question allows.
    :ivar siblings: for each CPU the CPUs of its core, itself included.
    :ivar distances: from node to node, where the kernel says.
    :ivar gpus: the GPUs in index order.
    :ivar hcas: the InfiniBand adapters by address.
    :ivar memory_only: NUMA nodes without CPUs online: HBM, CXL, memory of GPUs.
    :ivar doubled: CPUs that the firmware puts on several NUMA nodes; in ``nodes`` each is on the first of them only, or
        ranks of two nodes would share CPUs.
    """

    origin: str
    online: CpuSet
    nodes: Mapping[int, CpuSet]
    usable: CpuSet
    siblings: Mapping[int, CpuSet] = field(default_factory=dict)
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    gpus: tuple[Device, ...] = ()
    hcas: tuple[Device, ...] = ()
    memory_only: CpuSet = EMPTY
    doubled: CpuSet = EMPTY

    @property
    def without_node(self) -> CpuSet:
        """CPUs that are online and on no NUMA node, as where the node itself is offline: no rank is put there."""
        return self.online - CpuSet(cpu for cpus in self.nodes.values() for cpu in cpus)

    @property
    def usable_nodes(self) -> Mapping[int, CpuSet]:
        """The usable CPUs of each NUMA node that has any."""
        usable = {node: cpus & self.usable for node, cpus in self.nodes.items()}
        return {node: cpus for node, cpus in usable.items() if cpus}

    def nodes_of(self, cpus: CpuSet) -> CpuSet:
        """Return the NUMA nodes that any of the CPUs belongs to."""
        return CpuSet(node for node, node_cpus in self.nodes.items() if not node_cpus.isdisjoint(cpus))

    def cores_of(self, cpus: CpuSet) -> tuple[CpuSet, ...]:
        """Return the cores of a set of CPUs in order: of each core those hardware threads that are in the set."""
        cores: list[CpuSet] = []
        visited: set[int] = set()
        for cpu in sorted(cpus):
            if cpu not in visited:
                core = self.siblings.get(cpu, CpuSet({cpu})) & cpus
                visited |= core
                cores.append(core)
        return tuple(cores)

    def nearest_usable(self, node: int) -> int | None:
        """Return the node itself if it has usable CPUs, else the nearest that has (the lowest of several); or None."""
        usable = self.usable_nodes
        if node in usable:
            return node
        distances = self.distances.get(node, {})
        return min(usable, key=lambda other: (distances.get(other, 255), other), default=None)

    def restricted_to(self, allowed: CpuSet | None) -> Layout:
        """Return the same machine as a control group with these CPUs sees it; itself for None."""
        return self if allowed is None else replace(self, usable=self.online & allowed)


def read_layout(root: Root) -> Layout:
    """Return this machine's layout out of sysfs alone, all online CPUs usable.

    :raises UnknownLayout: sysfs names no CPU.
    """
    try:
        facts = read_cpus(root)
    except ValueError as error:
        raise UnknownLayout(f"sysfs below {root.path} cannot be understood: {error}") from error
    if not facts.online:
        raise UnknownLayout(f"{root.at('/sys/devices/system/cpu')} names no CPU: is {root.path} a captured tree?")
    nodes, doubled = _each_cpu_once({node.id: node.cpus for node in facts.nodes})
    if not nodes:
        raise UnknownLayout(
            f"No NUMA node below {root.at('/sys/devices/system/node')} has a CPU that is online: its lists of CPUs and "
            f"the one of the online CPUs ({facts.online.as_list()}) contradict each other."
        )
    devices = read_pci(root)
    gpus = [device for device in devices if device.is_gpu]
    hcas = [device for device in devices if device.is_hca]
    return Layout(
        origin="machine",
        online=facts.online,
        nodes=nodes,
        usable=facts.online,
        siblings=facts.cores,
        distances={node.id: node.distances for node in facts.nodes},
        gpus=tuple(Device(str(index), gpu.busid, _near(gpu, facts, nodes)) for index, gpu in enumerate(gpus)),
        hcas=tuple(Device(hca.rdma[0] if hca.rdma else hca.busid, hca.busid, _near(hca, facts, nodes)) for hca in hcas),
        memory_only=CpuSet(node.id for node in facts.nodes if not node.cpus),
        doubled=doubled,
    )


def _each_cpu_once(nodes: Mapping[int, CpuSet]) -> tuple[dict[int, CpuSet], CpuSet]:
    """The CPUs of each node without those of an earlier one, of the nodes that have any; and those taken out."""
    kept: dict[int, CpuSet] = {}
    placed: set[int] = set()
    doubled: set[int] = set()
    for number, cpus in nodes.items():
        doubled |= cpus & placed
        if cpus - placed:
            kept[number] = cpus - placed
        placed |= cpus
    return kept, CpuSet(doubled)


def _near(device: PciFacts, facts: CpuFacts, nodes: Mapping[int, CpuSet]) -> int | None:
    """The node with CPUs nearest to a device: firmware may name a node of memory only."""
    with_cpus = list(nodes)
    if device.numa_node in with_cpus or not with_cpus:
        return device.numa_node
    if len(with_cpus) == 1:
        # Where all CPUs are equally near, it does not matter that the firmware is silent.
        return with_cpus[0]
    stated = next((node for node in facts.nodes if node.id == device.numa_node), None)
    if stated is None or not stated.distances:
        return None
    return min(with_cpus, key=lambda node: (stated.distances.get(node, 255), node))


def layout_of_size(size: VmSize) -> Layout:
    """Return the layout of a VM size.

    :raises UnknownLayout: which CPUs form its NUMA nodes is not known; the message says how to describe them.
    """
    if not size.numa_nodes:
        raise UnknownLayout(
            f"The NUMA nodes of {size.name} are not known: run this on such a machine without vm_size, "
            f"or describe numa_nodes of the size in hpcai_vm_sizes."
        )
    nodes, doubled = _each_cpu_once({node.id: CpuSet.parse_list(node.cpus) for node in size.numa_nodes})
    online = CpuSet(cpu for cpus in nodes.values() for cpu in cpus)
    return Layout(
        origin=size.name,
        online=online,
        nodes=nodes,
        usable=online,
        siblings=_siblings(size, online),
        gpus=tuple(Device(str(index), gpu.busid, gpu.numa_node) for index, gpu in enumerate(size.gpus or ())),
        hcas=tuple(Device(f"mlx5_ib{index}", hca.busid, hca.numa_node) for index, hca in enumerate(size.hcas or ())),
        doubled=doubled,
    )


def _siblings(size: VmSize, online: CpuSet) -> Mapping[int, CpuSet]:
    # Hyper-V numbers the hardware threads of a core one after the other (an assumption: no source of the table says).
    threads = size.threads_per_core or 1
    return {cpu: CpuSet(range(cpu - cpu % threads, cpu - cpu % threads + threads)) & online for cpu in sorted(online)}
