# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Compare a topology file with the machine.

Virtual switches are skipped, because they are not in sysfs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from ...machine.cpuset import CpuSet
from ...machine.numa import CpuFacts, read_cpus
from ...machine.pci import PciFacts, read_pci
from ...machine.root import Root
from ...machine.vm_size import AskImds, size_facts
from ...sku import VmSize
from . import conf
from .elements import NoTopology, meaning, parse
from .history import recognise
from .options import NcclOptions
from .topology import Topology, as_element, topology_of

_PRESENT = "/sys/devices/system/cpu/present"


@dataclass(frozen=True)
class Mismatch:
    """A difference between the topology and the machine.

    :ivar what: which part, e.g. ``GPU 0001:00:00.0`` or ``NUMA node 2``.
    :ivar kind: ``missing``, ``unexpected``, ``numa_node``, ``affinity`` or ``count``.
    :ivar expected: the value in the topology.
    :ivar found: the value on the machine.
    """

    what: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"

    def as_dict(self) -> dict[str, str]:
        """Return it as data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class MachineFacts:
    """The hardware to compare a topology with.

    :ivar cpus: CPUs that are online, and NUMA nodes.
    :ivar present: CPUs that exist, online or not.
    :ivar pci: all PCI devices.
    """

    cpus: CpuFacts
    present: CpuSet
    pci: tuple[PciFacts, ...]


@dataclass(frozen=True)
class Comparison:
    """The result.

    :ivar mismatches: the differences.
    :ivar unknown: what the machine does not show, in words.
    """

    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]


def read_machine(root: Root) -> MachineFacts:
    """Return the facts of the machine below ``root``.

    :raises ValueError: sysfs has an invalid list of CPUs.
    """
    cpus = read_cpus(root)
    return MachineFacts(cpus, CpuSet.parse_list(root.text(_PRESENT) or "") | cpus.online, read_pci(root))


def verify(topology: Topology, machine: MachineFacts) -> Comparison:
    """Compare a topology with a machine. Pure."""
    unknown: list[str] = []
    gpus = {
        gpu.busid: socket.numa_node
        for socket in topology.sockets
        for branch in socket.branches
        for _index, gpu in branch.gpus
    }
    hcas = {
        hca.busid: socket.numa_node
        for socket in topology.sockets
        for branch in socket.branches
        for _number, hca in branch.hcas
    }
    mismatches = [
        *_nodes(topology, machine),
        *_devices("GPU", gpus, [device for device in machine.pci if device.is_gpu], unknown),
        *_devices("HCA", hcas, [device for device in machine.pci if device.is_hca], unknown),
    ]
    return Comparison(tuple(mismatches), tuple(unknown))


def _nodes(topology: Topology, machine: MachineFacts) -> Iterator[Mismatch]:
    # NUMA nodes with memory only (CXL, a GPU's memory) have no cpu element.
    present = {node.id: node.cpus for node in machine.cpus.nodes if node.cpus}
    if len(present) != len(topology.sockets):
        yield Mismatch("NUMA nodes with CPUs", "count", str(len(topology.sockets)), str(len(present)))
    for socket in topology.sockets:
        expected, found = socket.cpus, present.get(socket.numa_node)
        what = f"NUMA node {socket.numa_node}"
        if found is None:
            yield Mismatch(what, "missing", f"CPUs {expected.as_list()}", "no such node")
        # A CPU that was taken offline stays on its NUMA node; the kernel only stops listing it.
        elif expected - (machine.present - machine.cpus.online) != found:
            yield Mismatch(what, "affinity", f"CPUs {expected.as_list()}", f"CPUs {found.as_list()}")


def _devices(kind: str, claimed: Mapping[str, int], found: list[PciFacts], unknown: list[str]) -> Iterator[Mismatch]:
    if claimed and not found:
        # One line, because they have one cause: a driverless container, another VM size, a test node without GPUs.
        yield Mismatch(f"{kind}s", "missing", str(len(claimed)), "none on this machine")
        return
    present = {device.busid: device.numa_node for device in found}
    for busid, numa_node in claimed.items():
        if busid not in present:
            yield Mismatch(f"{kind} {busid}", "missing", f"on NUMA node {numa_node}", "no such device")
        elif present[busid] is None:
            unknown.append(f"{kind} {busid}: the machine does not show its NUMA node")
        elif present[busid] != numa_node:
            yield Mismatch(f"{kind} {busid}", "numa_node", f"NUMA node {numa_node}", f"NUMA node {present[busid]}")
    for busid in present:
        if busid not in claimed:
            yield Mismatch(f"{kind} {busid}", "unexpected", "not in the topology", "on this machine")


# Inspect a node: does it match its topology, and are the configured files still there? Nothing is written.


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    :ivar size: the VM size.
    :ivar topology: its topology; None if none is generated.
    :ivar reason: why none is generated; empty if one is.
    :ivar variables: the variables that the configuration file should set.
    :ivar comparison: differences, and what the machine does not show.
    :ivar compared: whether anything was compared: a topology, or configured variables.
    """

    size: VmSize
    topology: Topology | None
    reason: str
    variables: Mapping[str, str]
    comparison: Comparison
    compared: bool


def inspect(options: NcclOptions, configured: bool, ask: AskImds | None = None) -> Inspection:
    """Inspect the machine below the options' root; the options' paths are paths of that machine.

    :param configured: whether these files were configured, so that a missing one is a mismatch.
    :param ask: function that queries the metadata service.
    :raises ConfigError: the VM size cannot be found out.
    :raises UnknownVmSize: the VM size is unknown.
    """
    root = Root(options.root)
    size, _name = size_facts(root, options.vm_size, options.vm_sizes, ask)
    topology = topology_of(size)
    generated = None if isinstance(topology, str) else topology
    variables = conf.variables(size, options.topology_path if generated else None, options.settings)
    of_machine = verify(generated, read_machine(root)) if generated else Comparison((), ())
    of_files = _files(options, root, generated, variables, configured)
    return Inspection(
        size,
        generated,
        topology if isinstance(topology, str) else "",
        variables,
        Comparison((*of_machine.mismatches, *of_files), of_machine.unknown),
        generated is not None or (configured and bool(variables)),
    )


def _files(
    options: NcclOptions, root: Root, topology: Topology | None, variables: Mapping[str, str], configured: bool
) -> Iterator[Mismatch]:
    text = root.text(options.topology_path)
    if topology and (configured or text is not None) and not _describes(text, topology):
        known = recognise(text or "")
        found = "none" if text is None else str(known or "a file of unknown origin")
        yield Mismatch(options.topology_path, "file", f"the topology of {topology.size}", found)
    in_effect = conf.effective(root.text(options.conf_path) or "")
    for name, value in variables.items() if configured else ():
        if in_effect.get(name) != value:
            yield Mismatch(f"{name} in {options.conf_path}", "variable", value, in_effect.get(name, "not set"))


def _describes(text: str | None, topology: Topology) -> bool:
    try:
        return text is not None and meaning(parse(text)) == meaning(as_element(topology))
    except NoTopology:
        return False
