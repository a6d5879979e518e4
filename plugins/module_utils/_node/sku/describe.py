# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A VM size described by hand: every key known, every value of its form, and all of them in agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from . import forms
from .forms import Malformed
from .table import HAND
from .types import CpuModel, Gpu, Hca, NumaNode, Threshold, VmSize

Form = Callable[[str, Any], Any]

_SLOT: Mapping[str, Form] = {"busid": forms.busid, "numa_node": forms.number, "switch": forms.number}
_THRESHOLD: Mapping[str, Form] = {
    "limit": forms.measure,
    "unit": forms.text,
    "at": forms.text,
    "at_most": forms.yes_or_no,
    "warn": forms.measure,
    "typical": forms.measure,
}


def _cpu(path: str, value: Any) -> CpuModel:
    keys: Mapping[str, Form] = {
        "arch": forms.architecture,
        "vendor": forms.text,
        "family": forms.number,
        "model": forms.number,
    }
    return CpuModel(**forms.record(path, value, keys, required=tuple(keys)))


def _numa_node(path: str, value: Any) -> NumaNode:
    return NumaNode(**forms.record(path, value, {"id": forms.number, "cpus": forms.cpu_list}, required=("id", "cpus")))


def _gpu(path: str, value: Any) -> Gpu:
    return Gpu(**forms.record(path, value, _SLOT, required=("busid", "numa_node")))


def _hca(path: str, value: Any) -> Hca:
    return Hca(**forms.record(path, value, _SLOT, required=("busid", "numa_node")))


def _threshold(path: str, value: Any) -> Threshold:
    return Threshold(**forms.record(path, value, _THRESHOLD, required=("limit", "unit")), source=HAND)


FORMS: Mapping[str, Form] = {
    "vcpus": forms.above_zero,
    "sockets": forms.above_zero,
    "cores_per_socket": forms.above_zero,
    "threads_per_core": forms.above_zero,
    "memory_mib": forms.above_zero,
    "cpu": _cpu,
    "numa_nodes": forms.listed(_numa_node),
    "gpu_model": forms.text,
    "gpu_count": forms.number,
    "gpu_memory_gb": forms.above_zero,
    "gpus": forms.listed(_gpu),
    "gpu_memory_clock_mhz": forms.above_zero,
    "gpu_graphics_clock_mhz": forms.above_zero,
    "gpu_default_graphics_clock_mhz": forms.above_zero,
    "nvswitch": forms.yes_or_no,
    "hca_count": forms.number,
    "hcas": forms.listed(_hca),
    "ib_rate_gbps": forms.above_zero,
    "pcie_gtps": forms.link_speed,
    "pcie_width": forms.above_zero,
    "nvme_count": forms.number,
    "nvme_model": forms.text,
    "ethernet_gbps": forms.above_zero,
    "accelerated_nic_gbps": forms.above_zero,
    "nccl_settings": forms.mapped(forms.variable, forms.variable_value),
    "thresholds": forms.mapped(forms.word, _threshold),
}
"""The form of each field that can be described."""


def from_description(name: str, description: Any) -> VmSize:
    """Return the size that a description gives; what it leaves out is unknown.

    The number of GPUs, of adapters and of CPUs follows from the lists of them where only those are given.

    :param name: canonical name.
    :param description: a mapping with keys of ``FORMS``.
    :raises Malformed: one line with the place, the form that is expected there, and what is there instead.
    """
    where = f"hpcai_vm_sizes[{name!r}]"
    values = forms.record(where, description, FORMS)
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
        values.setdefault("vcpus", sum(len(forms.cpus_of(node.cpus)) for node in values["numa_nodes"]))


def _check_cpus(where: str, size: VmSize) -> None:
    layout = (size.sockets, size.cores_per_socket, size.threads_per_core)
    if size.vcpus and all(layout):
        product = (size.sockets or 0) * (size.cores_per_socket or 0) * (size.threads_per_core or 0)
        if product != size.vcpus:
            raise Malformed(
                f"{where}: sockets, cores_per_socket, threads_per_core make {product} CPUs, but vcpus is {size.vcpus}."
            )
    if size.numa_nodes is None:
        return
    owner: dict[int, int] = {}
    seen: set[int] = set()
    for position, node in enumerate(size.numa_nodes):
        if node.id in seen:
            raise Malformed(f"{where}.numa_nodes[{position}].id: NUMA node {node.id} is there twice.")
        seen.add(node.id)
        for cpu in sorted(forms.cpus_of(node.cpus)):
            if owner.setdefault(cpu, node.id) != node.id:
                raise Malformed(
                    f"{where}.numa_nodes[{position}].cpus: CPU {cpu} is on NUMA nodes {owner[cpu]} and {node.id}."
                )
    if len(owner) != size.vcpus:
        raise Malformed(f"{where}.numa_nodes have {len(owner)} CPUs, but vcpus is {size.vcpus}.")


def _check_devices(where: str, size: VmSize) -> None:
    nodes = None if size.numa_nodes is None else {node.id for node in size.numa_nodes}
    places: dict[str, str] = {}
    slots: tuple[tuple[str, Sequence[Gpu | Hca] | None, str, int | None], ...] = (
        ("gpus", size.gpus, "gpu_count", size.gpu_count),
        ("hcas", size.hcas, "hca_count", size.hca_count),
    )
    for listed, devices, counted, count in slots:
        if devices is None:
            continue
        if len(devices) != count:
            raise Malformed(f"{where}.{listed} are {len(devices)}, but {counted} is {count}.")
        for position, device in enumerate(devices):
            place = f"{where}.{listed}[{position}]"
            if places.setdefault(device.busid, place) != place:
                raise Malformed(f"{place}.busid: {device.busid} is that of {places[device.busid]} too.")
            if nodes is not None and device.numa_node not in nodes:
                known = ", ".join(map(str, sorted(nodes)))
                raise Malformed(f"{place}.numa_node: no NUMA node {device.numa_node} is in numa_nodes ({known}).")
