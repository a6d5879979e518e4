# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The data types for facts of VM sizes; the facts themselves are in other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .gpu_models import GPU_MODELS


@dataclass(frozen=True)
class CpuModel:
    """The processor, as reported by CPUID and in the format of NCCL's topology file.

    :ivar arch: ``x86_64`` or ``arm64``.
    :ivar vendor: e.g. ``AuthenticAMD``.
    :ivar family: CPUID family; for AMD's from Zen 3 on, in NCCL's numbering: 175 for 25.
    :ivar model: CPUID model.
    """

    arch: str
    vendor: str
    family: int
    model: int


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node of the size.

    :ivar id: its number in Linux.
    :ivar cpus: its CPUs as a Linux list, e.g. ``0-23``.
    """

    id: int
    cpus: str


@dataclass(frozen=True)
class Gpu:
    """One GPU slot, in the order of the GPU indices (``CUDA_DEVICE_ORDER=PCI_BUS_ID``).

    :ivar busid: PCI address in Linux's format, ``0001:00:00.0``.
    :ivar numa_node: its NUMA node.
    :ivar switch: number of the virtual PCI switch in NCCL's topology; None if the size has none.
    """

    busid: str
    numa_node: int
    switch: int | None = None


@dataclass(frozen=True)
class Hca:
    """One InfiniBand adapter, in the order of the ``mlx5_ib<N>`` names.

    :ivar busid: PCI address in Linux's format, ``0101:00:00.0``.
    :ivar numa_node: its NUMA node.
    :ivar switch: number of the virtual PCI switch in NCCL's topology; None if the size has none.
    """

    busid: str
    numa_node: int
    switch: int | None = None


@dataclass(frozen=True)
class Threshold:
    """A limit of a health check.

    :ivar limit: the number, a minimum unless ``at_most``.
    :ivar unit: e.g. ``GB/s``.
    :ivar at: the conditions, e.g. the message size ``8G``; empty if there are none.
    :ivar source: letters of ``SOURCES``, as in ``VmSize.sources``.
    :ivar at_most: whether the limit is a maximum.
    :ivar warn: a value between this and the limit is a warning; None if the source has only one limit.
    :ivar typical: the value of a good machine; None if unknown.
    """

    limit: float
    unit: str
    source: str
    at: str = ""
    at_most: bool = False
    warn: float | None = None
    typical: float | None = None


@dataclass(frozen=True)
class Contradiction:
    """Sources that contradict each other, or one that cannot be right.

    :ivar about: the field, or the key of ``thresholds``.
    :ivar says: the statement of each source, by its letter.
    :ivar taken: the letter of the source that was used; empty if none was, and the fact is None or absent.
    :ivar why: the reason for this choice.
    """

    about: str
    says: Mapping[str, str]
    taken: str
    why: str


@dataclass(frozen=True)
class VmSize:
    """The facts of a VM size. A fact without a source is None, never a guess.

    :ivar name: canonical name, with tier.
    :ivar vcpus: number of CPUs that the operating system sees.
    :ivar sockets: number of CPU sockets.
    :ivar cores_per_socket: number of cores of each socket.
    :ivar threads_per_core: number of hardware threads of each core.
    :ivar memory_mib: memory that the operating system reports, in MiB.
    :ivar cpu: the processor.
    :ivar numa_nodes: the NUMA nodes with CPUs, by number.
    :ivar gpu_model: the collection's own name, e.g. ``A100-SXM4-40GB``; the driver's name depends on its version.
    :ivar gpu_count: number of GPUs.
    :ivar gpu_memory_gb: memory of each GPU in GB as marketed.
    :ivar gpu_usable_memory_mib: memory of each GPU that programs can allocate, as CUDA reports it, in MiB.
    :ivar gpu_tflops: peak rate of each GPU by precision, one of ``PRECISIONS``, for dense matrices, in TFLOP/s.
    :ivar gpu_link_gbs: rate of each GPU over NVLink or xGMI to all other GPUs of the VM, per direction, in GB/s; None
        also if the VM has no such links between all its GPUs.
    :ivar gpus: the GPUs in index order.
    :ivar gpu_memory_clock_mhz: highest memory clock of a GPU, in MHz.
    :ivar gpu_graphics_clock_mhz: highest graphics (SM) clock of a GPU, in MHz.
    :ivar gpu_default_graphics_clock_mhz: graphics clock that applications get without tuning, in MHz.
    :ivar nvswitch: whether NVSwitches in the VM connect the GPUs, so that they need NVIDIA's fabric manager.
    :ivar hca_count: number of InfiniBand adapters; 0 if the size has no InfiniBand.
    :ivar hcas: the adapters in the order of their names.
    :ivar ib_rate_gbps: InfiniBand rate of one adapter, in Gb/s.
    :ivar pcie_gtps: speed per lane of the link from GPU and adapter to their switch, in the format of the family's NCCL
        topology file: ``16 GT/s`` or ``32.0 GT/s PCIe``. NCCL accepts both.
    :ivar pcie_width: lanes of that link.
    :ivar nvme_count: number of local NVMe disks; 0 if the size has none.
    :ivar nvme_model: model name of these disks; a "v2" of the model matches too.
    :ivar ethernet_gbps: rate of the front-end network, in Gb/s.
    :ivar accelerated_nic_gbps: rate that the accelerated network's RDMA device (``mlx5_an0``) reports, in Gb/s.
    :ivar nccl_settings: variables of ``/etc/nccl.conf`` that this size needs, without the topology file.
    :ivar thresholds: limits of health checks, by name.
    :ivar contradictions: about which facts the sources disagree.
    :ivar sources: letters of ``SOURCES`` for each field that is not None, except the last three. Several are separated
        by ``, ``: each of them states the fact or a part of it.
    """

    name: str
    vcpus: int | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    memory_mib: int | None = None
    cpu: CpuModel | None = None
    numa_nodes: tuple[NumaNode, ...] | None = None
    gpu_model: str | None = None
    gpu_count: int | None = None
    gpu_memory_gb: int | None = None
    gpu_usable_memory_mib: int | None = None
    gpu_tflops: Mapping[str, float] | None = None
    gpu_link_gbs: int | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpu_memory_clock_mhz: int | None = None
    gpu_graphics_clock_mhz: int | None = None
    gpu_default_graphics_clock_mhz: int | None = None
    nvswitch: bool | None = None
    hca_count: int | None = None
    hcas: tuple[Hca, ...] | None = None
    ib_rate_gbps: int | None = None
    pcie_gtps: str | None = None
    pcie_width: int | None = None
    nvme_count: int | None = None
    nvme_model: str | None = None
    ethernet_gbps: int | None = None
    accelerated_nic_gbps: int | None = None
    nccl_settings: Mapping[str, str] | None = None
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    contradictions: tuple[Contradiction, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def vm_size(
    name: str,
    stated: Mapping[str, Mapping[str, Any]],
    thresholds: Mapping[str, Threshold],
    contradictions: tuple[Contradiction, ...] = (),
) -> VmSize:
    """Return a size from its facts by source: ``{"C": {"vcpus": 96}, "D": {"ethernet_gbps": 24}}``.

    The facts of its GPU model are added.

    :raises ValueError: a fact is listed under two sources; list it once with both letters (``"C, T"``).
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, facts in stated.items():
        for fact, value in facts.items():
            if fact in values:
                raise ValueError(f"{name}: {fact} is stated twice, by {sources[fact]} and by {source}.")
            values[fact], sources[fact] = value, source
    for source, facts in GPU_MODELS[values["gpu_model"]].items():
        values.update(facts)
        sources.update(dict.fromkeys(facts, source))
    return VmSize(name, **values, thresholds=thresholds, contradictions=contradictions, sources=sources)


def cores(sockets: int, vcpus: int) -> dict[str, int]:
    """Return the CPU facts that ``check_hw_cpuinfo <sockets> <cores> <threads>`` has; no size has hardware threads."""
    return {
        "vcpus": vcpus,
        "sockets": sockets,
        "cores_per_socket": vcpus // sockets,
        "threads_per_core": 1,
    }


def numa_nodes(*cpus: str) -> tuple[NumaNode, ...]:
    """Return NUMA nodes 0, 1 and so on from their CPUs."""
    return tuple(NumaNode(number, text) for number, text in enumerate(cpus))


def gpus(domains: str, nodes: str, switches: str = "") -> tuple[Gpu, ...]:
    """Return GPUs from columns of words: PCI domain, NUMA node, number of the virtual switch."""
    return tuple(Gpu(*slot) for slot in _slots(domains, nodes, switches))


def hcas(domains: str, nodes: str, switches: str = "") -> tuple[Hca, ...]:
    """Return InfiniBand adapters from columns of words, as ``gpus`` does."""
    return tuple(Hca(*slot) for slot in _slots(domains, nodes, switches))


def _slots(domains: str, nodes: str, switches: str) -> list[tuple[str, int, int | None]]:
    # On Azure, each of these devices has its own PCI domain, and is the only device in it.
    columns = (domains.split(), nodes.split(), switches.split() or [""] * len(domains.split()))
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of different lengths: {domains!r}, {nodes!r}, {switches!r}")
    return [(f"{domain}:00:00.0", int(node), int(switch) if switch else None) for domain, node, switch in zip(*columns)]


# Limits of C and H for GPUs' error counters: for GPUs with HBM2e or newer, and for the V100, which retires pages.
ECC = {
    "ecc_dram_errors": Threshold(20000000, "errors", "C", at_most=True),
    "ecc_sram_errors": Threshold(10000, "errors", "C", at_most=True),
    "remapped_rows": Threshold(512, "rows", "H", at_most=True),
}
RETIRED_PAGES = {"retired_pages": Threshold(61, "pages", "C", at_most=True)}


def memory_within(percent: int) -> dict[str, Threshold]:
    """Return the permitted deviation of the memory from ``memory_mib`` (``check_hw_physmem``)."""
    return {"memory_deviation": Threshold(percent, "%", "C", at_most=True)}


def memory_sold(checked: str, sold: str) -> tuple[Contradiction, ...]:
    """Return the two figures of the memory: the health check's, and the one of Azure's documentation."""
    return (
        Contradiction(
            "memory_mib",
            {"C": checked, "D": sold},
            "C",
            "D is the size's documented memory, C what the operating system reports.",
        ),
    )


def port_rate(source: str, gbps: int, ethernet: int) -> tuple[Contradiction, ...]:
    """Return the two rates of the front-end network: the one that ``mlx5_an0`` reports, and Azure's limit."""
    return (
        Contradiction(
            "accelerated_nic_gbps",
            {source: f"{gbps} Gb/s", "D": f"{ethernet} Gb/s"},
            source,
            "the rate that the port is expected to report; D is Azure's limit for the VM (ethernet_gbps).",
        ),
    )
