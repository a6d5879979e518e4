# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM sizes described by hand: which values each key accepts, and which facts contradict each other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import (
    SIZES,
    UnknownVmSize,
    VmSize,
    facts_of,
    find_size,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.describe import FORMS
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import (
    CpuModel,
    Gpu,
    Hca,
    NumaNode,
    Threshold,
)

BY_HAND = {"vcpus": 4, "sockets": 1, "cores_per_socket": 2, "threads_per_core": 2, "memory_mib": 8192}
NODES = [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}]
GPU = {"busid": "0001:00:00.0", "numa_node": 0}
HCA = {"busid": "0101:00:00.0", "numa_node": 1}


def describe(**facts: Any) -> VmSize:
    """Return the size that a description gives."""
    return find_size("Standard_X", {"Standard_X": facts})


def refusal(**facts: Any) -> str:
    """Return why a description is refused, without the names of the variable and the size."""
    with pytest.raises(UnknownVmSize) as caught:
        describe(**facts)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("hpcai_vm_sizes['Standard_X']")


def test_every_fact_can_be_described() -> None:
    facts = {field.name for field in dataclasses.fields(VmSize)} - {"name", "sources", "contradictions"}
    assert FORMS.keys() == facts


def test_a_full_description_is_used_unchanged() -> None:
    size = describe(**BY_HAND)
    assert {key: getattr(size, key) for key in BY_HAND} == BY_HAND
    assert size.sources == dict.fromkeys(BY_HAND, "hand")


@pytest.mark.parametrize("known", list(SIZES.values()), ids=list(SIZES))
def test_every_size_of_the_table_can_be_described_by_hand(known: VmSize) -> None:
    facts = {key: value for key, value in facts_of(known).items() if key in FORMS and value is not None}
    facts["thresholds"] = {
        name: {key: value for key, value in threshold.items() if key != "source" and value not in (None, "")}
        for name, threshold in facts["thresholds"].items()
    }
    for slot in (*facts.get("gpus", ()), *facts.get("hcas", ())):
        if slot["switch"] is None:
            del slot["switch"]
    size = find_size(known.name, {known.name: facts})
    for key in facts.keys() - {"thresholds"}:
        assert getattr(size, key) == getattr(known, key)
    assert size.sources == dict.fromkeys(known.sources, "hand")
    assert size.thresholds == {
        name: dataclasses.replace(threshold, source="hand") for name, threshold in known.thresholds.items()
    }


def test_nested_facts_become_their_types() -> None:
    size = describe(
        numa_nodes=NODES,
        cpu={"arch": "x86_64", "vendor": "AuthenticAMD", "family": 25, "model": "1"},
        gpus=[{**GPU, "switch": 3}],
        hcas=[HCA],
        nccl_settings={"NCCL_IB_QPS_PER_CONNECTION": 4},
        thresholds={"gemm": {"limit": "1.5", "unit": "TFLOP/s", "at": "per GPU", "warn": 2, "at_most": False}},
    )
    assert size.numa_nodes == (NumaNode(0, "0-1"), NumaNode(1, "2-3"))
    assert size.cpu == CpuModel("x86_64", "AuthenticAMD", 25, 1)
    assert size.gpus == (Gpu("0001:00:00.0", 0, 3),)
    assert size.hcas == (Hca("0101:00:00.0", 1),)
    assert size.nccl_settings == {"NCCL_IB_QPS_PER_CONNECTION": "4"}
    assert size.thresholds == {"gemm": Threshold(1.5, "TFLOP/s", "hand", at="per GPU", warn=2)}


def test_counts_follow_from_lists() -> None:
    size = describe(numa_nodes=NODES, gpus=[GPU], hcas=[HCA])
    assert (size.vcpus, size.gpu_count, size.hca_count) == (4, 1, 1)
    assert size.sources.keys() == {"vcpus", "gpu_count", "hca_count", "numa_nodes", "gpus", "hcas"}


def test_a_description_can_say_that_there_are_no_devices() -> None:
    size = describe(gpus=[], hca_count=0, nvme_count="0")
    assert (size.gpus, size.gpu_count, size.hca_count, size.nvme_count) == ((), 0, 0, 0)


@pytest.mark.parametrize("busid", ["0001:00:00.0", "00000001:00:00.0", "0001:00:00.0 "])
def test_addresses_get_the_format_of_linux(busid: str) -> None:
    [gpu] = describe(gpus=[{"busid": busid, "numa_node": 0}]).gpus or ()
    assert gpu.busid == "0001:00:00.0"
    [gpu] = describe(gpus=[{"busid": "000B:00:00.0", "numa_node": 0}]).gpus or ()
    assert gpu.busid == "000b:00:00.0"


def test_unknown_keys_of_a_description_are_named() -> None:
    message = refusal(vcpus=4, memory=5, gpu=8)
    assert message == f" has unknown keys gpu, memory; known are {', '.join(FORMS)}."


@pytest.mark.parametrize("key", ["name", "sources", "contradictions"])
def test_a_description_cannot_set_fields_that_are_no_facts(key: str) -> None:
    assert refusal(**{key: 1}).startswith(f" has unknown keys {key};")


@pytest.mark.parametrize("value", [0, -1, 1.5, "", "4 cores", None, True, "²", [4]])
def test_a_value_other_than_a_whole_number_above_zero_is_refused(value: Any) -> None:
    assert refusal(vcpus=value) == f".vcpus must be a whole number above 0, not {value!r}."


@pytest.mark.parametrize("description", [None, 96, "96 CPUs", ["vcpus"]])
def test_a_description_that_is_no_mapping_is_refused(description: Any) -> None:
    with pytest.raises(UnknownVmSize, match=r"hpcai_vm_sizes\['Standard_X'\] must be a mapping with keys of vcpus"):
        find_size("Standard_X", {"Standard_X": description})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"gpu_count": -1}, ".gpu_count must be a whole number, not -1."),
        ({"gpu_count": True}, ".gpu_count must be a whole number, not True."),
        ({"gpu_model": ""}, ".gpu_model must be a string on one line, not ''."),
        ({"gpu_model": 100}, ".gpu_model must be a string on one line, not 100."),
        ({"nvme_model": "a\nb"}, ".nvme_model must be a string on one line, not 'a\\nb'."),
        ({"pcie_gtps": "16"}, ".pcie_gtps must be a speed such as 16 GT/s or 32.0 GT/s PCIe, not '16'."),
        ({"cpu": "AMD"}, ".cpu must be a mapping with keys of arch, vendor, family, model, not 'AMD'."),
        ({"cpu": {"arch": "x86_64"}}, ".cpu lacks vendor, family, model; known keys are arch, vendor, family, model."),
        (
            {"cpu": {"arch": "i386", "vendor": "x", "family": 6, "model": 1}},
            ".cpu.arch must be x86_64 or arm64, not 'i386'.",
        ),
        ({"numa_nodes": "0-23"}, ".numa_nodes must be a list, not '0-23'."),
        ({"numa_nodes": ["0-23"]}, ".numa_nodes[0] must be a mapping with keys of id, cpus, not '0-23'."),
        ({"numa_nodes": [{"id": 0}]}, ".numa_nodes[0] lacks cpus; known keys are id, cpus."),
        (
            {"numa_nodes": [{"id": 0, "cpus": "0-1", "gpus": 2}]},
            ".numa_nodes[0] has unknown keys gpus; known are id, cpus.",
        ),
        (
            {"numa_nodes": [{"id": 0, "cpus": "3-1"}]},
            ".numa_nodes[0].cpus must be a list of CPUs such as 0-23 or 0-3,8, not '3-1'.",
        ),
        (
            {"numa_nodes": [NODES[0], {"id": 1, "cpus": ""}]},
            ".numa_nodes[1].cpus must be a list of CPUs such as 0-23 or 0-3,8, not ''.",
        ),
        ({"gpus": 8}, ".gpus must be a list, not 8."),
        ({"gpus": [GPU, {"numa_node": 0}]}, ".gpus[1] lacks busid; known keys are busid, numa_node, switch."),
        (
            {"gpus": [{**GPU, "busid": "1:0"}]},
            ".gpus[0].busid must be a PCI address such as 0001:00:00.0, not '1:0'.",
        ),
        ({"hcas": [{**HCA, "numa_node": "x"}]}, ".hcas[0].numa_node must be a whole number, not 'x'."),
        ({"hcas": [{**HCA, "switch": None}]}, ".hcas[0].switch must be a whole number, not None."),
        ({"nccl_settings": ["A=1"]}, ".nccl_settings must be a mapping, not ['A=1']."),
        (
            {"nccl_settings": {"nccl debug": "INFO"}},
            "a key of hpcai_vm_sizes['Standard_X'].nccl_settings must be the name of a variable such as "
            "NCCL_SOCKET_IFNAME, not 'nccl debug'.",
        ),
        (
            {"nccl_settings": {"NCCL_X": True}},
            ".nccl_settings.NCCL_X must be a string on one line or a number, not True.",
        ),
        (
            {"thresholds": {"gemm": 3}},
            ".thresholds.gemm must be a mapping with keys of limit, unit, at, at_most, warn, typical, not 3.",
        ),
        (
            {"thresholds": {"gemm": {"limit": 3}}},
            ".thresholds.gemm lacks unit; known keys are limit, unit, at, at_most, warn, typical.",
        ),
        (
            {"thresholds": {"gemm": {"limit": 0, "unit": "GB/s"}}},
            ".thresholds.gemm.limit must be a number above 0, not 0.",
        ),
        (
            {"thresholds": {"gemm": {"limit": 1, "unit": "GB/s", "at_most": "no"}}},
            ".thresholds.gemm.at_most must be true or false, not 'no'.",
        ),
        (
            {"thresholds": {"GEMM rate": {"limit": 1, "unit": "GB/s"}}},
            "a key of hpcai_vm_sizes['Standard_X'].thresholds must be a name such as nccl_allreduce, not 'GEMM rate'.",
        ),
    ],
)
def test_a_value_of_the_wrong_form_is_refused_with_its_path(facts: dict[str, Any], message: str) -> None:
    assert refusal(**facts) == message


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {**BY_HAND, "vcpus": 8},
            ": sockets, cores_per_socket, threads_per_core give 4 CPUs, but vcpus is 8.",
        ),
        ({"vcpus": 5, "numa_nodes": NODES}, ".numa_nodes have 4 CPUs, but vcpus is 5."),
        (
            {"numa_nodes": [NODES[0], {"id": 0, "cpus": "2-3"}]},
            ".numa_nodes[1].id: NUMA node 0 is listed twice.",
        ),
        (
            {"numa_nodes": [NODES[0], {"id": 1, "cpus": "1-2"}]},
            ".numa_nodes[1].cpus: CPU 1 is on NUMA nodes 0 and 1.",
        ),
        ({"gpu_count": 8, "gpus": [GPU]}, ".gpus has length 1, but gpu_count is 8."),
        ({"hca_count": 8, "hcas": [HCA]}, ".hcas has length 1, but hca_count is 8."),
        (
            {"gpus": [GPU, GPU]},
            ".gpus[1].busid: hpcai_vm_sizes['Standard_X'].gpus[0] has the same address 0001:00:00.0.",
        ),
        (
            {"gpus": [GPU], "hcas": [{**HCA, "busid": GPU["busid"]}]},
            ".hcas[0].busid: hpcai_vm_sizes['Standard_X'].gpus[0] has the same address 0001:00:00.0.",
        ),
        (
            {"numa_nodes": NODES, "gpus": [{**GPU, "numa_node": 2}]},
            ".gpus[0].numa_node: no NUMA node 2 is in numa_nodes (0, 1).",
        ),
    ],
)
def test_facts_that_contradict_each_other_are_refused(facts: dict[str, Any], message: str) -> None:
    assert refusal(**facts) == message


def test_a_malformed_description_of_another_size_is_ignored() -> None:
    assert find_size("Standard_ND96asr_v4", {"Standard_X": {"vcpus": 0}}) is SIZES["Standard_ND96asr_v4"]
