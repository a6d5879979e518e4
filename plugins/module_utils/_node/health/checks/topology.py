# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NUMA nodes, and the NUMA nodes of GPUs and InfiniBand adapters."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.config import read_config
from ...machine.cpuset import CpuSet
from ...machine.numa import NodeFacts, read_cpus
from ...machine.pci import PciFacts, read_pci
from ...machine.root import Root
from ...setup.nccl.elements import NoTopology, meaning, parse
from ...setup.nccl.options import PRESENT, options_of
from ...setup.nccl.topology import Topology, as_element, topology_of
from ...sku.types import VmSize
from ..applies import where_expected
from ..check import BOOT, DEEP, FAIL, PERIODIC, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..settings import source_in_words

# NUMA nodes: the expected nodes, each with its CPUs and with memory.

_NODES = "/sys/devices/system/node"
_HINT = "Masks and bindings of jobs use these facts: redeploy the VM, or correct the facts (hpcai_vm_sizes)"


def _measure_numa(context: Context) -> Answer:
    size, root = context.known_size, context.root
    if not list(root.numbered(_NODES, "node")):
        return Answer(findings=(Finding(UNKNOWN, f"{_NODES} shows no NUMA node"),))
    machine = read_cpus(root)
    offline = CpuSet.parse_list(root.text("/sys/devices/system/cpu/present") or "") - machine.online
    # Nodes that have only memory (CXL, a GPU's memory) are not in the facts of a VM size.
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
        findings=tuple(_judge_numa(size, nodes, CpuSet(offline))),
        limit=f"the nodes of {size.name} ({source_in_words(size.sources['numa_nodes'])})",
    )


def _judge_numa(size: VmSize, nodes: dict[int, NodeFacts], offline: CpuSet) -> Iterator[Finding]:
    expected = {node.id: CpuSet.parse_list(node.cpus) for node in size.numa_nodes or ()}
    for number in sorted(expected.keys() | nodes.keys()):
        device, node = f"node{number}", nodes.get(number)
        if number not in expected:
            yield Finding(FAIL, f"there is a NUMA node {number}, but {size.name} has none", device, _HINT)
        elif node is None:
            # A node whose CPUs are all offline is not visible; check cpu reports that.
            if expected[number] - offline:
                yield Finding(FAIL, f"NUMA node {number} of {size.name} is missing", device, _HINT)
        elif expected[number] - offline != node.cpus:
            expected_cpus, found_cpus = expected[number].as_list(), node.cpus.as_list()
            yield Finding(FAIL, f"NUMA node {number} has CPUs {found_cpus} instead of {expected_cpus}", device, _HINT)
        elif node.memory_mib == 0:
            words = f"NUMA node {number} has CPUs but no memory"
            yield Finding(WARN, words, device, "Processes there use another NUMA node's memory: redeploy the VM")


NUMA = Check(
    name="numa",
    title="NUMA nodes",
    explain=(
        "The machine has the NUMA nodes in the facts of the VM size, each with the CPUs that these facts state "
        "(azhpc-images, topology/*.xml). If a NUMA node has no memory, the check warns. Offline CPUs are ignored here, "
        "because the check cpu reports them."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_numa,
    applies=where_expected("numa_nodes", "NUMA nodes"),
    action=REPLACE,
)


# GPUs and InfiniBand adapters: each is on the NUMA node of its VM size's facts, as in NCCL's topology file.

_MOVED = "Bindings and NCCL's topology use these facts: redeploy the VM, or correct the facts (hpcai_vm_sizes)"
_FILE = "Write it again with 'hpcnode boot run nccl'"


def _applies(size: VmSize | None) -> str:
    if size is None:
        return ""
    if not size.gpus and not size.hcas:
        return f"the NUMA nodes of GPUs and adapters of {size.name} are not known, or it has none"
    return ""


def _measure_pci(context: Context) -> Answer:
    size = context.known_size
    present = {device.busid: device for device in read_pci(context.root) if device.is_gpu or device.is_hca}
    expected = _expected_nodes(size)
    looked_at = [present[busid] for busid in expected if busid in present]
    if not looked_at:
        words = f"none of the {len(expected)} GPUs and adapters of {size.name} is on the PCI bus"
        hint = "See the checks gpu_count and ib_ports"
        return Answer(findings=(Finding(UNKNOWN, words, hint=hint),))
    source = source_in_words(size.sources["gpus" if size.gpus else "hcas"])
    return Answer(
        good=f"{len(looked_at)} GPUs and adapters are on the NUMA nodes of {size.name}",
        readings=tuple(
            Reading("pci_numa_node", f"node{device.numa_node}", device=device.busid)
            for device in looked_at
            if device.numa_node is not None
        ),
        findings=(*_judge_pci(size, present, expected), *_judge_file(context.root, size)),
        limit=f"the NUMA nodes of {size.name} ({source})",
    )


def _expected_nodes(size: VmSize) -> dict[str, int]:
    gpus = {gpu.busid: gpu.numa_node for gpu in size.gpus or ()}
    return {**gpus, **{hca.busid: hca.numa_node for hca in size.hcas or ()}}


def _judge_pci(size: VmSize, present: dict[str, PciFacts], expected: dict[str, int]) -> Iterator[Finding]:
    for busid, device in present.items():
        kind = "GPU" if device.is_gpu else "InfiniBand adapter"
        if busid not in expected:
            # If the addresses of this kind of device are not known, none can be wrong.
            if size.gpus if device.is_gpu else size.hcas:
                words = f"{kind} {busid} is at an address where {size.name} has none"
                yield Finding(WARN, words, busid, _MOVED)
        elif device.numa_node is None:
            yield Finding(UNKNOWN, f"the NUMA node of {kind} {busid} is not known", busid)
        elif device.numa_node != expected[busid]:
            words = f"{kind} {busid} is on NUMA node {device.numa_node} instead of {expected[busid]}"
            yield Finding(FAIL, words, busid, _MOVED)


def _judge_file(root: Root, size: VmSize) -> Iterator[Finding]:
    """Compare NCCL's topology file with the VM size's topology, if the node's settings require a file."""
    settings = read_config(root, "nccl")
    topology = topology_of(size)
    if settings is None or not isinstance(topology, Topology):
        return
    options = options_of(settings)
    text = root.text(options.topology_path)
    if options.state != PRESENT:
        return
    if text is None:
        yield Finding(WARN, f"NCCL's topology file {options.topology_path} is missing", hint=_FILE, fault="")
    elif not _matches(text, topology):
        words = f"NCCL's topology file {options.topology_path} is not that of {size.name}"
        yield Finding(WARN, words, hint=_FILE, fault="")


def _matches(text: str, topology: Topology) -> bool:
    try:
        return meaning(parse(text)) == meaning(as_element(topology))
    except NoTopology:
        return False


PCI_TOPOLOGY = Check(
    name="pci_topology",
    title="PCI topology",
    explain=(
        "According to sysfs, each GPU and InfiniBand adapter is on the NUMA node that the facts of the VM size state "
        "(azurehpc-health-checks, check_hw_topology; azhpc-images, topology/*.xml); otherwise the check fails. If the "
        "node's settings require NCCL's topology file, and it is missing or does not match these facts, the check "
        "warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_pci,
    applies=_applies,
    action=REPLACE,
    fault="NHC2010",
)
