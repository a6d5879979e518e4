# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NUMA nodes: as many as promised, each with its CPUs and with memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.cpuset import CpuSet
from ...machine.numa import NodeFacts, read_cpus
from ...sku.types import VmSize
from ..check import BOOT, DEEP, FAIL, PERIODIC, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..limits import source_in_words
from ..promised import where_promised

_NODES = "/sys/devices/system/node"
_HINT = "Masks and bindings of jobs go by these facts: redeploy the VM, or correct them (hpcai_vm_sizes)"


def _measure(context: Context) -> Answer:
    size, root = context.known_size, context.root
    if not list(root.numbered(_NODES, "node")):
        return Answer(findings=(Finding(UNKNOWN, f"{_NODES} tells of no NUMA node"),))
    machine = read_cpus(root)
    offline = CpuSet.parse_list(root.text("/sys/devices/system/cpu/present") or "") - machine.online
    # Nodes of memory alone (CXL, a GPU's memory) are none that a size promises.
    nodes = {node.id: node for node in machine.nodes if node.cpus}
    return Answer(
        good=f"{len(nodes)} NUMA nodes have their CPUs and memory",
        readings=(
            Reading("numa_nodes", len(nodes), limit=len(size.numa_nodes or ())),
            *(
                Reading("numa_memory", node.memory_mib, "MiB", f"node{node.id}")
                for node in nodes.values()
                if node.memory_mib
            ),
        ),
        findings=tuple(_judge(size, nodes, CpuSet(offline))),
        limit=f"the nodes of {size.name} ({source_in_words(size.sources['numa_nodes'])})",
    )


def _judge(size: VmSize, nodes: dict[int, NodeFacts], offline: CpuSet) -> Iterator[Finding]:
    promised = {node.id: CpuSet.parse_list(node.cpus) for node in size.numa_nodes or ()}
    for number in sorted(promised.keys() | nodes.keys()):
        device, node = f"node{number}", nodes.get(number)
        if number not in promised:
            yield Finding(FAIL, f"NUMA node {number} is there, and {size.name} has none of this number", device, _HINT)
        elif node is None:
            # With all of its CPUs offline a node has none that could be seen: check cpu tells of that.
            if promised[number] - offline:
                yield Finding(FAIL, f"NUMA node {number} of {size.name} is not there", device, _HINT)
        elif promised[number] - offline != node.cpus:
            expected, found = promised[number].as_list(), node.cpus.as_list()
            yield Finding(FAIL, f"NUMA node {number} has CPUs {found} instead of {expected}", device, _HINT)
        elif node.memory_mib == 0:
            words = f"NUMA node {number} has CPUs and no memory"
            yield Finding(WARN, words, device, "What runs there works on another node's memory: redeploy the VM")


CHECK = Check(
    name="numa",
    title="NUMA nodes",
    explain=(
        "The NUMA nodes are those of the VM size, each with the CPUs that the size's topology gives it (azhpc-images, "
        "topology/*.xml), and each has memory. A CPU that is offline is check cpu's business."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("numa_nodes", "NUMA nodes"),
    action=REPLACE,
)
