# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's NUMA nodes and CPUs, from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .cpuset import CpuSet
from .root import Root

_NODES = "/sys/devices/system/node"
_CPUS = "/sys/devices/system/cpu"
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")


@dataclass(frozen=True)
class NodeFacts:
    """An online NUMA node.

    :ivar id: its number in Linux; the numbers may have gaps.
    :ivar cpus: its online CPUs; empty for a memory-only node (CXL, HBM, a GPU's memory).
    :ivar memory_mib: its memory in MiB; 0 for a node without memory, None if unknown.
    :ivar distances: distance to each online node, by its number; empty if unknown.
    """

    id: int
    cpus: CpuSet
    memory_mib: int | None
    distances: dict[int, int]


@dataclass(frozen=True)
class CpuFacts:
    """The CPUs and NUMA nodes of a machine.

    :ivar online: the online CPUs.
    :ivar nodes: NUMA nodes by number. A kernel without NUMA has one node 0 with all CPUs.
    :ivar cores: for each online CPU, the CPUs (hardware threads) of its core, including itself.
    """

    online: CpuSet
    nodes: tuple[NodeFacts, ...]
    cores: dict[int, CpuSet]

    def node_of(self, cpu: int) -> int | None:
        """Return the number of the NUMA node that a CPU belongs to; None for an offline CPU."""
        return next((node.id for node in self.nodes if cpu in node.cpus), None)

    def nodes_of(self, cpus: CpuSet) -> CpuSet:
        """Return the numbers of the NUMA nodes that any of the CPUs belongs to."""
        return CpuSet(node.id for node in self.nodes if node.cpus & cpus)


def read_cpus(root: Root) -> CpuFacts:
    """Return the machine's CPUs and NUMA nodes.

    :raises ValueError: sysfs has an invalid list of CPUs, or no list for a node.
    """
    online = CpuSet.parse_list(root.text(f"{_CPUS}/online") or "")
    if not online:
        online = CpuSet(number for number, _path in root.numbered(_CPUS, "cpu"))
    nodes = tuple(_read_node(root, number, path, online) for number, path in root.numbered(_NODES, "node"))
    if not nodes:
        nodes = (NodeFacts(0, online, None, {0: 10}),)
    return CpuFacts(online, nodes, {cpu: _siblings(root, cpu) & online or CpuSet({cpu}) for cpu in sorted(online)})


def _read_node(root: Root, number: int, path: str, online: CpuSet) -> NodeFacts:
    cpus = _cpus_of(root, path) & online
    memory = _MEMORY.search(root.text(f"{path}/meminfo") or "")
    distances = (root.text(f"{path}/distance") or "").split()
    others = [other for other, _path in root.numbered(_NODES, "node")]
    return NodeFacts(
        id=number,
        cpus=cpus,
        memory_mib=int(memory[1]) // 1024 if memory else None,
        distances=dict(zip(others, map(int, distances))) if len(distances) == len(others) else {},
    )


def _cpus_of(root: Root, path: str) -> CpuSet:
    listed = root.text(f"{path}/cpulist")
    if listed is not None:
        return CpuSet.parse_list(listed)
    mask = root.text(f"{path}/cpumap")
    if mask is None:
        # Without either, it would look like a memory-only node.
        raise ValueError(f"{root.at(path)} has neither cpulist nor cpumap: if this is a captured tree, capture both")
    return CpuSet.parse_mask(mask.rstrip("\0"))


def _siblings(root: Root, cpu: int) -> CpuSet:
    topology = f"{_CPUS}/cpu{cpu}/topology"
    text = root.text(f"{topology}/core_cpus_list") or root.text(f"{topology}/thread_siblings_list") or str(cpu)
    return CpuSet.parse_list(text)
