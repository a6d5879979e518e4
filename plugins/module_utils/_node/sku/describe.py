# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""VM sizes described by hand: checks that keys are known, values are valid, and facts do not contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..forms import (
    Form,
    Malformed,
    above_zero,
    boolean,
    busid,
    choice,
    cpu_list,
    cpus_of,
    instance_of,
    integer,
    list_of,
    mapping_of,
    matching,
    record,
    text,
    text_or_number,
)
from .gpu_models import PRECISIONS
from .table import HAND
from .types import CpuModel, Gpu, Hca, NumaNode, Threshold, VmSize

_DEVICE = {"busid": busid, "numa_node": integer(), "switch": integer()}
_THRESHOLD = record(
    {
        "limit": above_zero,
        "unit": text,
        "at": text,
        "at_most": boolean,
        "warn": above_zero,
        "typical": above_zero,
    },
    required=("limit", "unit"),
)

FORMS: Mapping[str, Form[Any]] = {
    "vcpus": integer(1),
    "sockets": integer(1),
    "cores_per_socket": integer(1),
    "threads_per_core": integer(1),
    "memory_mib": integer(1),
    "cpu": instance_of(
        CpuModel, {"arch": choice("x86_64", "arm64"), "vendor": text, "family": integer(), "model": integer()}
    ),
    "numa_nodes": list_of(instance_of(NumaNode, {"id": integer(), "cpus": cpu_list})),
    "gpu_model": text,
    "gpu_count": integer(),
    "gpu_memory_gb": integer(1),
    "gpu_usable_memory_mib": integer(1),
    "gpu_tflops": mapping_of(choice(*PRECISIONS), above_zero),
    "gpu_link_gbs": integer(1),
    "gpus": list_of(instance_of(Gpu, _DEVICE)),
    "gpu_memory_clock_mhz": integer(1),
    "gpu_graphics_clock_mhz": integer(1),
    "gpu_default_graphics_clock_mhz": integer(1),
    "nvswitch": boolean,
    "hca_count": integer(),
    "hcas": list_of(instance_of(Hca, _DEVICE)),
    "ib_rate_gbps": integer(1),
    # In the format of the kernel and NCCL.
    "pcie_gtps": matching(r"[0-9]{1,3}(\.[0-9])? GT/s( PCIe)?", "a speed such as 16 GT/s or 32.0 GT/s PCIe"),
    "pcie_width": integer(1),
    "nvme_count": integer(),
    "nvme_model": text,
    "ethernet_gbps": integer(1),
    "accelerated_nic_gbps": integer(1),
    "nccl_settings": mapping_of(
        matching(r"[A-Z][A-Z0-9_]*", "the name of a variable such as NCCL_SOCKET_IFNAME"), text_or_number
    ),
    "thresholds": mapping_of(
        matching(r"[a-z][a-z0-9_]*", "a name such as nccl_allreduce"),
        lambda path, value: Threshold(**_THRESHOLD(path, value), source=HAND),
    ),
}
"""The form of each field that a description may have."""


def from_description(name: str, description: Any) -> VmSize:
    """Return the size of a description; facts that it omits are unknown.

    If the number of GPUs, adapters or CPUs is omitted, it is derived from their list.

    :param name: canonical name.
    :param description: a mapping with keys of ``FORMS``.
    :raises Malformed: one line with the place, the expected form, and the actual value.
    """
    where = f"hpcai_vm_sizes[{name!r}]"
    values = record(FORMS)(where, description)
    _follow(values)
    size = VmSize(name, **values, sources={key: HAND for key in values if key != "thresholds"})
    _check_cpus(where, size)
    _check_devices(where, size)
    return size


def _follow(values: dict[str, Any]) -> None:
    for count, listed in (("gpu_count", "gpus"), ("hca_count", "hcas")):
        if listed in values:
            values.setdefault(count, len(values[listed]))
    if "numa_nodes" in values:
        values.setdefault("vcpus", sum(len(cpus_of(node.cpus)) for node in values["numa_nodes"]))


def _check_cpus(where: str, size: VmSize) -> None:
    layout = (size.sockets, size.cores_per_socket, size.threads_per_core)
    if size.vcpus and all(layout):
        product = (size.sockets or 0) * (size.cores_per_socket or 0) * (size.threads_per_core or 0)
        if product != size.vcpus:
            raise Malformed(
                f"{where}: sockets, cores_per_socket, threads_per_core give {product} CPUs, but vcpus is {size.vcpus}."
            )
    if size.numa_nodes is None:
        return
    owner: dict[int, int] = {}
    ids: set[int] = set()
    for position, node in enumerate(size.numa_nodes):
        if node.id in ids:
            raise Malformed(f"{where}.numa_nodes[{position}].id: NUMA node {node.id} is listed twice.")
        ids.add(node.id)
        for cpu in sorted(cpus_of(node.cpus)):
            if owner.setdefault(cpu, node.id) != node.id:
                raise Malformed(
                    f"{where}.numa_nodes[{position}].cpus: CPU {cpu} is on NUMA nodes {owner[cpu]} and {node.id}."
                )
    if len(owner) != size.vcpus:
        raise Malformed(f"{where}.numa_nodes have {len(owner)} CPUs, but vcpus is {size.vcpus}.")


def _check_devices(where: str, size: VmSize) -> None:
    nodes = None if size.numa_nodes is None else {node.id for node in size.numa_nodes}
    positions: dict[str, str] = {}
    slots: tuple[tuple[str, Sequence[Gpu | Hca] | None, str, int | None], ...] = (
        ("gpus", size.gpus, "gpu_count", size.gpu_count),
        ("hcas", size.hcas, "hca_count", size.hca_count),
    )
    for listed, devices, counted, count in slots:
        if devices is None:
            continue
        if len(devices) != count:
            raise Malformed(f"{where}.{listed} has length {len(devices)}, but {counted} is {count}.")
        for position, device in enumerate(devices):
            item = f"{where}.{listed}[{position}]"
            if positions.setdefault(device.busid, item) != item:
                raise Malformed(f"{item}.busid: {positions[device.busid]} has the same address {device.busid}.")
            if nodes is not None and device.numa_node not in nodes:
                known = ", ".join(map(str, sorted(nodes)))
                raise Malformed(f"{item}.numa_node: no NUMA node {device.numa_node} is in numa_nodes ({known}).")
