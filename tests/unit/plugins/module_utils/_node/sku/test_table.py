# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of VM sizes: every number has its source, and the numbers of one size agree with each other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.pci import canonical_busid
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, SOURCES, VmSize, canonical_size

NO_FACTS = ("name", "sources", "thresholds", "contradictions")
FACTS = [field.name for field in dataclasses.fields(VmSize) if field.name not in NO_FACTS]
# Counts of which 0 is a known value.
MAY_BE_ZERO = {"hca_count", "nvme_count"}
YES_OR_NO = {"nvswitch"}
LETTERS = SOURCES.keys() - {"hand"}


@pytest.fixture(params=list(SIZES.values()), ids=list(SIZES))
def size(request: pytest.FixtureRequest) -> VmSize:
    """Each size of the table."""
    found: VmSize = request.param
    return found


def letters(text: str) -> set[str]:
    """Return the letters of a text that names one or more sources."""
    found = text.split(", ")
    assert len(found) == len(set(found))
    return set(found)


def test_the_table_has_all_sizes_with_known_facts() -> None:
    assert {name.removeprefix("Standard_") for name in SIZES} == {
        "ND96asr_v4",
        "ND96amsr_A100_v4",
        "ND96isr_H100_v5",
        "ND96is_H100_v5",
        "ND96isr_H200_v5",
        "ND96isrf_H200_v5",
        "ND96is_H200_v5",
        "ND96isr_MI300X_v5",
        "ND128isr_NDR_GB200_v6",
        "ND128isr_GB300_v6",
        "ND128isrG5_GB300_v6",
        "ND40rs_v2",
        "NC24ads_A100_v4",
        "NC48ads_A100_v4",
        "NC96ads_A100_v4",
        "NC40ads_H100_v5",
        "NC80adis_H100_v5",
    }


def test_every_fact_names_a_source_and_every_source_a_fact(size: VmSize) -> None:
    known = {name for name in FACTS if getattr(size, name) is not None}
    assert set(size.sources) == known
    assert known, "a size without known facts does not belong in the table"
    for source in size.sources.values():
        assert letters(source) <= LETTERS


def test_every_threshold_names_a_source_and_a_unit(size: VmSize) -> None:
    for threshold in size.thresholds.values():
        assert letters(threshold.source) <= LETTERS
        assert threshold.limit > 0
        assert threshold.unit in {"GB/s", "Gb/s", "TFLOP/s", "%", "us", "errors", "pages", "rows", "links"}
        ordered = [number for number in (threshold.limit, threshold.warn, threshold.typical) if number is not None]
        assert ordered == sorted(ordered, reverse=threshold.at_most)


def test_every_number_is_above_zero_or_a_count_that_may_be_zero(size: VmSize) -> None:
    for name in size.sources:
        value = getattr(size, name)
        assert isinstance(value, bool) == (name in YES_OR_NO)
        if isinstance(value, int):
            assert value > 0 or (value == 0 and name in MAY_BE_ZERO)
        else:
            assert value or name == "hcas"


def test_the_name_has_azures_spelling(size: VmSize) -> None:
    assert re.fullmatch(r"Standard_N[CD]\d+\w+", size.name)
    assert SIZES[size.name] is size
    assert canonical_size(size.name) == size.name


def test_sockets_cores_and_threads_multiply_to_the_cpus(size: VmSize) -> None:
    layout = (size.sockets, size.cores_per_socket, size.threads_per_core)
    if None in layout:
        assert layout == (None, None, None)
    else:
        assert size.vcpus == (size.sockets or 0) * (size.cores_per_socket or 0) * (size.threads_per_core or 0)


def test_numa_nodes_have_equal_shares_of_all_cpus(size: VmSize) -> None:
    if size.numa_nodes is None:
        return
    cpus = [CpuSet.parse_list(node.cpus) for node in size.numa_nodes]
    assert [node.id for node in size.numa_nodes] == list(range(len(cpus)))
    assert sum(map(len, cpus)) == size.vcpus
    assert sorted(frozenset().union(*cpus)) == list(range(size.vcpus or 0))
    assert len({len(cpu_set) for cpu_set in cpus}) == 1
    assert [node.cpus for node in size.numa_nodes] == [cpu_set.as_list() for cpu_set in cpus]


def busids(size: VmSize) -> Iterator[str]:
    """Yield the addresses of all devices of a size."""
    yield from (gpu.busid for gpu in size.gpus or ())
    yield from (hca.busid for hca in size.hcas or ())


def test_devices_match_their_count_and_are_on_existing_numa_nodes(size: VmSize) -> None:
    nodes = {node.id for node in size.numa_nodes or ()}
    for slots, count in ((size.gpus, size.gpu_count), (size.hcas, size.hca_count)):
        assert slots is None or len(slots) == count
        assert {slot.numa_node for slot in slots or ()} <= nodes
    if size.hca_count == 0:
        assert size.ib_rate_gbps is None
        assert size.hcas == ()


def test_addresses_of_devices_are_canonical_unique_and_sorted(size: VmSize) -> None:
    found = list(busids(size))
    assert len(set(found)) == len(found)
    assert [canonical_busid(busid) for busid in found] == found
    for slots in (size.gpus, size.hcas):
        order = [slot.busid for slot in slots or ()]
        assert order == sorted(order)


def test_a_virtual_switch_has_one_numa_node_and_equal_gpus_and_adapters(size: VmSize) -> None:
    if not size.gpus or not size.hcas or size.gpus[0].switch is None:
        assert all(slot.switch is None for slot in size.hcas or ())
        return
    below: dict[int | None, list[tuple[str, int]]] = {}
    for kind, slots in (("gpu", size.gpus), ("hca", size.hcas)):
        for slot in slots:
            below.setdefault(slot.switch, []).append((kind, slot.numa_node))
    assert sorted(number or 0 for number in below) == list(range(1, len(below) + 1))
    for members in below.values():
        assert len({node for _kind, node in members}) == 1
        kinds = [kind for kind, _node in members]
        assert kinds.count("gpu") == kinds.count("hca")


def test_gpu_n_and_adapter_n_share_numa_node_and_switch(size: VmSize) -> None:
    if size.gpus and size.hcas and len(size.gpus) == len(size.hcas):
        assert [(gpu.numa_node, gpu.switch) for gpu in size.gpus] == [(hca.numa_node, hca.switch) for hca in size.hcas]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("ND96asr_v4", [1, 1, 0, 0, 3, 3, 2, 2]),
        ("ND96amsr_A100_v4", [1, 1, 0, 0, 3, 3, 2, 2]),
        ("ND96isr_H100_v5", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("ND96is_H100_v5", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("ND96isr_H200_v5", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("ND96isrf_H200_v5", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("ND96is_H200_v5", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("ND40rs_v2", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("NC48ads_A100_v4", [0, 1]),
        ("NC96ads_A100_v4", [0, 1, 2, 3]),
    ],
)
def test_gpus_are_on_the_numa_nodes_of_the_sources(name: str, nodes: list[int]) -> None:
    gpus = SIZES[f"Standard_{name}"].gpus
    assert gpus is not None
    assert [gpu.numa_node for gpu in gpus] == nodes


@pytest.mark.parametrize(
    ("name", "gpus", "switches"),
    [
        ("ND96asr_v4", "0001 0002 0003 0004 000b 000c 000d 000e", "2 2 1 1 4 4 3 3"),
        ("ND96isr_H100_v5", "0001 0002 0003 0008 0009 000a 000b 000c", "1 2 3 4 5 6 7 8"),
        ("ND96isr_H200_v5", "0001 0002 0003 0008 0009 000a 000b 000c", "1 2 3 4 5 6 7 8"),
    ],
)
def test_devices_are_placed_as_in_the_original_topology(name: str, gpus: str, switches: str) -> None:
    size = SIZES[f"Standard_{name}"]
    assert " ".join(gpu.busid.split(":")[0] for gpu in size.gpus or ()) == gpus
    assert " ".join(hca.busid.split(":")[0] for hca in size.hcas or ()) == "0101 0102 0103 0104 0105 0106 0107 0108"
    for slots in (size.gpus, size.hcas):
        assert " ".join(str(slot.switch) for slot in slots or ()) == switches


def test_boards_of_eight_gpus_from_the_a100_on_have_nvswitches() -> None:
    names = {name for name, size in SIZES.items() if size.nvswitch}
    assert names == {name for name in SIZES if name.startswith(("Standard_ND96a", "Standard_ND96is"))} - {
        "Standard_ND96isr_MI300X_v5"
    }


@pytest.mark.parametrize(
    ("name", "bf16", "links", "usable_gib"),
    [
        ("ND96asr_v4", 312, 300, 39.39),
        ("ND96amsr_A100_v4", 312, 300, 79.15),
        ("ND96isr_H100_v5", 989, 450, 79.11),
        ("ND96isr_H200_v5", 989, 450, 139.81),
        ("ND96isr_MI300X_v5", 1307, 448, 191.98),
        ("ND128isr_NDR_GB200_v6", 2250, 900, None),
        # No source states the peaks of B300 and H100 NVL; the V100 has no bf16; PCIe cards have no links to all.
        ("ND128isr_GB300_v6", None, 900, None),
        ("NC80adis_H100_v5", None, None, 93.12),
        ("ND40rs_v2", None, 150, 31.74),
        ("NC96ads_A100_v4", 312, None, None),
    ],
)
def test_rates_and_usable_memory_are_those_of_the_gpu_model(
    name: str, bf16: int | None, links: int | None, usable_gib: float | None
) -> None:
    size = SIZES[f"Standard_{name}"]
    assert (size.gpu_tflops or {}).get("bf16") == bf16
    assert size.gpu_link_gbs == links
    assert size.gpu_usable_memory_mib == (None if usable_gib is None else int(usable_gib * 1024))


def test_programs_get_less_memory_than_is_marketed_but_nearly_all(size: VmSize) -> None:
    if size.gpu_usable_memory_mib is not None:
        marketed_gb = size.gpu_memory_gb or 0
        assert 0.98 * marketed_gb <= size.gpu_usable_memory_mib * 2**20 / 1e9 <= 1.08 * marketed_gb


def test_peaks_of_half_the_bits_are_higher(size: VmSize) -> None:
    peaks = size.gpu_tflops or {}
    ordered = [peaks[name] for name in ("fp32", "tf32", "bf16", "fp8") if name in peaks]
    assert ordered == sorted(ordered)
    assert peaks.get("bf16", peaks.get("fp16")) == peaks.get("fp16")


def test_no_size_is_listed_in_two_spellings() -> None:
    assert len({name.lower() for name in SIZES}) == len(SIZES)


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_mib"),
    [
        # check_hw_physmem 928858388kB
        ("Standard_ND96asr_v4", 96, 907088),
        # check_hw_physmem 1915071MB
        ("Standard_ND96isr_H100_v5", 96, 1915071),
        # check_hw_physmem 433GB
        ("Standard_NC48ads_A100_v4", 48, 443392),
        # 900 GiB in the documentation's table
        ("Standard_ND128isr_NDR_GB200_v6", 128, 921600),
    ],
)
def test_memory_is_converted_to_mib_from_each_unit(name: str, vcpus: int, memory_mib: int) -> None:
    assert (SIZES[name].vcpus, SIZES[name].memory_mib) == (vcpus, memory_mib)


def test_facts_without_a_source_are_none() -> None:
    size = SIZES["Standard_ND128isr_GB300_v6"]
    assert (size.sockets, size.cores_per_socket, size.threads_per_core) == (None, None, None)
    assert (size.cpu, size.numa_nodes, size.gpus, size.hcas) == (None, None, None, None)


def test_contradictions_name_fact_sources_and_chosen_value(size: VmSize) -> None:
    for contradiction in size.contradictions:
        about = contradiction.about
        assert contradiction.says.keys() <= LETTERS
        assert contradiction.why
        if not contradiction.taken:
            assert getattr(size, about, None) is None
            assert about not in size.thresholds
            continue
        assert contradiction.taken in contradiction.says
        stated_sources = size.thresholds[about].source if about in size.thresholds else size.sources.get(about, "D")
        assert contradiction.taken in letters(stated_sources)


@pytest.mark.parametrize(
    ("name", "about", "source_letters"),
    [
        ("ND96asr_v4", "gpu_host_bandwidth", "CREKO"),
        ("ND96asr_v4", "ib_gdr_write", "CKO"),
        ("ND96asr_v4", "accelerated_nic_gbps", "HD"),
        ("ND96asr_v4", "memory_mib", "CD"),
        ("ND96isr_H100_v5", "gpu_host_bandwidth", "CROK"),
        ("ND96isr_H100_v5", "gpu_graphics_clock_mhz", "IH"),
        ("ND96isr_H100_v5", "accelerated_nic_gbps", "HD"),
        ("ND96isr_H100_v5", "gemm", "B"),
        ("ND96isr_H200_v5", "nccl_allreduce", "CRI"),
        ("ND96isr_H200_v5", "gpu_host_bandwidth", "CR"),
        ("ND96isr_H200_v5", "ib_gdr_write", "CR"),
        ("NC48ads_A100_v4", "nccl_allreduce", "CO"),
        ("ND96asr_v4", "nvme_count", "OED"),
        ("ND96amsr_A100_v4", "nvme_count", "OD"),
        ("NC48ads_A100_v4", "cpu", "OD"),
        ("NC96ads_A100_v4", "cpu", "TD"),
        ("NC96ads_A100_v4", "gpus", "TO"),
        ("ND128isr_NDR_GB200_v6", "ib_rate_gbps", "D"),
        ("ND128isr_GB300_v6", "ethernet_gbps", "D"),
        ("NC80adis_H100_v5", "gpu_peer_bandwidth", "CI"),
        ("ND128isr_NDR_GB200_v6", "name", "DA"),
        ("ND128isr_GB300_v6", "name", "DA"),
    ],
)
def test_known_contradictions_are_recorded(name: str, about: str, source_letters: str) -> None:
    [found] = [entry for entry in SIZES[f"Standard_{name}"].contradictions if entry.about == about]
    assert set(found.says) == set(source_letters)


def test_unverified_facts_are_marked() -> None:
    assert "unverified" in SOURCES["G"]
    remembered = {
        (name.removeprefix("Standard_"), field)
        for name, size in SIZES.items()
        for field, source in size.sources.items()
        if "G" in letters(source) and field != "nccl_settings"
    }
    assert remembered == {
        ("ND96amsr_A100_v4", "gpu_memory_clock_mhz"),
        ("ND96amsr_A100_v4", "gpu_graphics_clock_mhz"),
        ("ND40rs_v2", "gpu_memory_clock_mhz"),
        ("ND40rs_v2", "gpu_graphics_clock_mhz"),
        ("ND40rs_v2", "gpu_tflops"),
        ("NC24ads_A100_v4", "numa_nodes"),
    }


def test_every_source_is_used_and_explained() -> None:
    used = {"hand"}
    for size in SIZES.values():
        for source in (*size.sources.values(), *(threshold.source for threshold in size.thresholds.values())):
            used |= letters(source)
        for contradiction in size.contradictions:
            used |= contradiction.says.keys()
    assert used == set(SOURCES)
    assert all(len(words) > 20 for words in SOURCES.values())
