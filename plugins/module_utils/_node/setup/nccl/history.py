# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The topology files that the HPC images have shipped, right and wrong ones, and how to tell which one a text is.

Source: the history of Azure/azhpc-images, folder ``topology``, from 2021-03 (commit 0f76bebc) on. A version is known by
where it puts the GPUs, by its affinity masks and by its NVLinks; how it spells links and PCI ids does not count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from ...machine.cpuset import CpuSet, CpuSetError
from ...machine.pci import canonical_busid
from ...sku import SIZES
from .elements import Element, NoTopology, parse
from .topology import FAMILIES, MARK, Topology, as_element, topology_of

_GPU_CLASS = "0x0302"
# CPUs 0-15 and 32-47: no NUMA node of any size has just these.
_NONSENSE = "0000ffff,0000ffff"


@dataclass(frozen=True)
class Known:
    """Which file a text is.

    :ivar family: as the HPC images call it.
    :ivar label: which version of that family's file.
    :ivar broken: what is wrong with it; empty for a right one.
    """

    family: str
    label: str
    broken: str

    def __str__(self) -> str:
        return f"{self.family}, {self.label}" + (f": {self.broken}" if self.broken else "")


@dataclass(frozen=True)
class Layout:
    """What tells one version from another.

    :ivar sockets: each ``cpu`` element: NUMA node, affinity as a list of CPUs, busids of its GPUs.
    :ivar links: NVLinks that are named: busids of both ends.
    """

    sockets: frozenset[tuple[str, str, frozenset[str]]]
    links: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class _Version:
    family: str
    label: str
    broken: str
    # Each cpu element: numaid, affinity, first parts of its GPUs' busids.
    sockets: tuple[tuple[int, str, str], ...]
    links: tuple[tuple[str, str], ...] = ()


def _all_masked(mask: str, *gpus: str) -> tuple[tuple[int, str, str], ...]:
    """NUMA nodes from 0 on, all with the same mask."""
    return tuple((numa_node, mask, domains) for numa_node, domains in enumerate(gpus))


_NDV5_LOW, _NDV5_HIGH = "00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"
_NDV5_FIRST, _NDV5_SECOND = "0001 0002 0003 0008", "0009 000a 000b 000c"

_BROKEN = (
    _Version(
        "ndv4",
        "before 2022-08",
        "one NUMA node for all GPUs, affinity mask wrong",
        _all_masked(_NONSENSE, "0001 0002 0003 0004 000b 000c 000d 000e"),
    ),
    _Version(
        "ndv4",
        "before 2023-09",
        "NUMA nodes swapped (0 with 1, 2 with 3), affinity masks wrong",
        _all_masked(_NONSENSE, "0001 0002", "0003 0004", "000b 000c", "000d 000e"),
    ),
    _Version(
        "ndv4",
        "before 2025-02",
        "affinity masks wrong",
        _all_masked(_NONSENSE, "0003 0004", "0001 0002", "000d 000e", "000b 000c"),
    ),
    _Version(
        "ndv5",
        "before 2023-05",
        "NUMA nodes and affinity masks swapped",
        ((1, _NDV5_HIGH, _NDV5_FIRST), (0, _NDV5_LOW, _NDV5_SECOND)),
    ),
    _Version(
        "ndv5",
        "before 2025-02",
        "affinity masks swapped",
        ((0, _NDV5_HIGH, _NDV5_FIRST), (1, _NDV5_LOW, _NDV5_SECOND)),
    ),
    _Version(
        "ndv2",
        "before 2025-02",
        "affinity masks wrong",
        _all_masked(_NONSENSE, "0001 0002 0003 0004", "0005 0006 0007 0008"),
    ),
    _Version(
        "ncv4",
        "since 2024-02",
        "NVLinks of each GPU with itself",
        (
            (0, "00000000,00000000,00ffffff", "0001"),
            (1, "00000000,0000ffff,ff000000", "0002"),
            (2, "000000ff,ffff0000,00000000", "0003"),
            (3, "ffffff00,00000000,00000000", "0004"),
        ),
        (("0001", "0001"), ("0002", "0002"), ("0003", "0003"), ("0004", "0004")),
    ),
)


def recognise(text: str) -> Known | None:
    """Return which known file a text is; None for one of an unknown hand."""
    try:
        found = layout(parse(text))
    except NoTopology:
        return None
    return _known().get(found)


def is_ours(text: str) -> bool:
    """Whether a text was generated here, by this release or another."""
    return text.startswith(f"<!-- {MARK} ")


def layout(root: Element) -> Layout:
    """Return what tells a file from other versions of it."""
    return Layout(
        frozenset((*_socket(cpu), frozenset(_busids(cpu, _GPU_CLASS))) for cpu in root.named("cpu")),
        frozenset(
            (canonical_busid(gpu.attributes.get("busid", "")) or "", _canonical(link.attributes.get("target", "")))
            for gpu in root.named("pci")
            if gpu.attributes.get("class", "").startswith(_GPU_CLASS)
            for link in gpu.named("nvlink")
        ),
    )


@cache
def _known() -> Mapping[Layout, Known]:
    right = {}
    for name in FAMILIES:
        topology = topology_of(SIZES[name])
        if isinstance(topology, Topology):
            known = Known(topology.family.name, "right", "")
            right[layout(as_element(topology))] = known
    return {
        **{_layout_of(version): Known(version.family, version.label, version.broken) for version in _BROKEN},
        **right,
    }


def _layout_of(version: _Version) -> Layout:
    return Layout(
        frozenset(
            (str(numa_node), CpuSet.parse_mask(mask).as_list(), frozenset(_long(gpus)))
            for numa_node, mask, gpus in version.sockets
        ),
        frozenset((next(_long(one)), next(_long(other))) for one, other in version.links),
    )


def _long(domains: str) -> Iterator[str]:
    return (f"{domain}:00:00.0" for domain in domains.split())


def _socket(cpu: Element) -> tuple[str, str]:
    affinity = cpu.attributes.get("affinity", "")
    with contextlib.suppress(CpuSetError):
        affinity = CpuSet.parse_mask(affinity).as_list()
    return cpu.attributes.get("numaid", ""), affinity


def _busids(cpu: Element, class_code: str) -> Iterator[str]:
    for pci in cpu.named("pci"):
        if pci.attributes.get("class", "").startswith(class_code):
            yield _canonical(pci.attributes.get("busid", ""))


def _canonical(busid: str) -> str:
    return canonical_busid(busid) or busid
