# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's layout for pinning: NUMA nodes with usable CPUs, GPUs, InfiniBand adapters, and their distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..machine.cpuset import EMPTY, CpuSet
from ..machine.numa import CpuFacts, read_cpus
from ..machine.pci import PciFacts, read_pci
from ..machine.root import Root
from ..sku.types import VmSize


class UnknownLayout(ValueError):
    """The CPUs of the machine or of the VM size are unknown; the message says which and what to do."""


@dataclass(frozen=True)
class Device:
    """A GPU or an InfiniBand adapter.

    :ivar name: for GPUs ``0``, ``1`` and so on, in the order of ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; for adapters a name
        such as ``mlx5_ib0``, or the PCI address if Linux has no name for it.
    :ivar busid: PCI address in Linux's format.
    :ivar node: the nearest NUMA node with CPUs; None if the firmware does not report it.
    """

    name: str
    busid: str
    node: int | None


@dataclass(frozen=True)
class Layout:
    """The facts of a machine that matter for pinning.

    :ivar origin: ``machine``, or the name of a VM size.
    :ivar online: the online CPUs.
    :ivar nodes: the CPUs of each NUMA node with online CPUs, by the node's number.
    :ivar usable: the online CPUs that the control group allows.
    :ivar siblings: for each CPU, the CPUs of its core, including itself.
    :ivar distances: from node to node, if the kernel reports them.
    :ivar gpus: the GPUs in index order.
    :ivar hcas: the InfiniBand adapters by address.
    :ivar memory_only: NUMA nodes without online CPUs: HBM, CXL, memory of GPUs.
    :ivar doubled: CPUs that the firmware lists on several NUMA nodes; in ``nodes`` each is only on the first of them,
        because otherwise ranks of two nodes would share CPUs.
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
        """Online CPUs that are on no NUMA node, for example because the node is offline: no rank is placed on them."""
        return self.online - CpuSet(cpu for cpus in self.nodes.values() for cpu in cpus)

    @property
    def usable_nodes(self) -> Mapping[int, CpuSet]:
        """The usable CPUs of each NUMA node with usable CPUs."""
        usable = {node: cpus & self.usable for node, cpus in self.nodes.items()}
        return {node: cpus for node, cpus in usable.items() if cpus}

    def nodes_of(self, cpus: CpuSet) -> CpuSet:
        """Return the NUMA nodes to which any of the CPUs belongs."""
        return CpuSet(node for node, node_cpus in self.nodes.items() if not node_cpus.isdisjoint(cpus))

    def cores_of(self, cpus: CpuSet) -> tuple[CpuSet, ...]:
        """Return the cores of a set of CPUs in order, each with those of its hardware threads that are in the set."""
        cores: list[CpuSet] = []
        visited: set[int] = set()
        for cpu in sorted(cpus):
            if cpu not in visited:
                core = self.siblings.get(cpu, CpuSet({cpu})) & cpus
                visited |= core
                cores.append(core)
        return tuple(cores)

    def nearest_usable(self, node: int) -> int | None:
        """Return the node if it has usable CPUs, else the nearest node that has (the lowest of several), or None."""
        usable = self.usable_nodes
        if node in usable:
            return node
        distances = self.distances.get(node, {})
        return min(usable, key=lambda other: (distances.get(other, 255), other), default=None)

    def restricted_to(self, allowed: CpuSet | None) -> Layout:
        """Return the layout with only these CPUs usable; the same layout for None."""
        return self if allowed is None else replace(self, usable=self.online & allowed)


def read_layout(root: Root) -> Layout:
    """Return the machine's layout from sysfs, with all online CPUs usable.

    :raises UnknownLayout: sysfs lists no CPU, or contradicts itself.
    """
    try:
        facts = read_cpus(root)
    except ValueError as error:
        raise UnknownLayout(f"sysfs below {root.path} is invalid: {error}") from error
    if not facts.online:
        raise UnknownLayout(f"{root.at('/sys/devices/system/cpu')} lists no CPU: check that {root.path} is complete.")
    nodes, doubled = _each_cpu_once({node.id: node.cpus for node in facts.nodes})
    if not nodes:
        raise UnknownLayout(
            f"No NUMA node in {root.at('/sys/devices/system/node')} has an online CPU: its lists of CPUs contradict "
            f"the list of online CPUs ({facts.online.as_list()})."
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
    """Assign each CPU to the first node that lists it; return the CPUs by node, and the CPUs listed more than once."""
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
    """Return the node with CPUs nearest to a device: the firmware may report a memory-only node."""
    with_cpus = list(nodes)
    if device.numa_node in with_cpus or not with_cpus:
        return device.numa_node
    if len(with_cpus) == 1:
        # With one node, all CPUs are equally near, whatever the firmware reports.
        return with_cpus[0]
    stated = next((node for node in facts.nodes if node.id == device.numa_node), None)
    if stated is None or not stated.distances:
        return None
    return min(with_cpus, key=lambda node: (stated.distances.get(node, 255), node))


def layout_of_size(size: VmSize) -> Layout:
    """Return the layout of a VM size.

    :raises UnknownLayout: its NUMA nodes are unknown; the message says how to describe them.
    """
    if not size.numa_nodes:
        raise UnknownLayout(
            f"The NUMA nodes of {size.name} are unknown: run this on such a machine without vm_size, "
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
    # Assumption, as no source of the table documents it: Hyper-V numbers the hardware threads of a core consecutively.
    threads = size.threads_per_core or 1
    return {cpu: CpuSet(range(cpu - cpu % threads, cpu - cpu % threads + threads)) & online for cpu in sorted(online)}
