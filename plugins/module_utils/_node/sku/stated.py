# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The notation of the table: facts stand under the source that states them, so that none can be without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .types import Contradiction, Gpu, Hca, NumaNode, Threshold, VmSize


def vm_size(
    name: str,
    stated: Mapping[str, Mapping[str, Any]],
    thresholds: Mapping[str, Threshold],
    contradictions: tuple[Contradiction, ...] = (),
) -> VmSize:
    """Return a size from its facts by source: ``{"C": {"vcpus": 96}, "D": {"ethernet_gbps": 24}}``.

    :raises ValueError: a fact stands under two sources; put both letters on one (``"C, T"``).
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, facts in stated.items():
        for field, value in facts.items():
            if field in values:
                raise ValueError(f"{name}: {field} is stated twice, by {sources[field]} and by {source}.")
            values[field], sources[field] = value, source
    return VmSize(name, **values, thresholds=thresholds, contradictions=contradictions, sources=sources)


def cores(sockets: int, vcpus: int) -> dict[str, int]:
    """Return what ``check_hw_cpuinfo <sockets> <cores> <threads>`` says of a size without hardware threads: all are."""
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
    # On Azure each of these devices has a PCI domain of its own, and is the first and only device in it.
    columns = (domains.split(), nodes.split(), switches.split() or [""] * len(domains.split()))
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of different lengths: {domains!r}, {nodes!r}, {switches!r}")
    return [(f"{domain}:00:00.0", int(node), int(switch) if switch else None) for domain, node, switch in zip(*columns)]


# What C and H check of GPUs' error counters: of those with HBM2e or newer, and of the V100, which retires whole pages.
ECC = {
    "ecc_dram_errors": Threshold(20000000, "errors", "C", at_most=True),
    "ecc_sram_errors": Threshold(10000, "errors", "C", at_most=True),
    "remapped_rows": Threshold(512, "rows", "H", at_most=True),
}
RETIRED_PAGES = {"retired_pages": Threshold(61, "pages", "C", at_most=True)}


def memory_within(percent: int) -> dict[str, Threshold]:
    """Return how far the memory may be from ``memory_mib`` (``check_hw_physmem``)."""
    return {"memory_deviation": Threshold(percent, "%", "C", at_most=True)}


def memory_sold(checked: str, sold: str) -> tuple[Contradiction, ...]:
    """Return the two figures of the memory: what the health check found, and what the size is sold with."""
    return (
        Contradiction(
            "memory_mib",
            {"C": checked, "D": sold},
            "C",
            "D is what the size is sold with, C what the operating system reports of it.",
        ),
    )


def port_rate(source: str, gbps: int, ethernet: int) -> tuple[Contradiction, ...]:
    """Return the two rates of the front-end network: what ``mlx5_an0`` reports, and what Azure allows."""
    return (
        Contradiction(
            "accelerated_nic_gbps",
            {source: f"{gbps} Gb/s", "D": f"{ethernet} Gb/s"},
            source,
            "the rate that the port is expected to report; D is what Azure lets the VM have of it (ethernet_gbps).",
        ),
    )
