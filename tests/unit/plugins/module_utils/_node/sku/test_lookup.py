# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding a VM size by any of its spellings, or in the descriptions of an inventory."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import (
    SIZES,
    UnknownVmSize,
    VmSize,
    all_sizes,
    canonical_size,
    facts_of,
    find_size,
    known_scalars,
    nearest_sizes,
)

BY_HAND = {"vcpus": 4, "sockets": 1, "cores_per_socket": 2, "threads_per_core": 2, "memory_mib": 8192}


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Standard_ND96asr_v4", "Standard_ND96asr_v4"),
        ("standard_nd96asr_v4", "Standard_ND96asr_v4"),
        ("STANDARD_ND96ASR_V4", "Standard_ND96asr_v4"),
        ("nd96asr_v4", "Standard_ND96asr_v4"),
        (" ND96asr_v4 ", "Standard_ND96asr_v4"),
        ("nd96amsr_a100_v4", "Standard_ND96amsr_A100_v4"),
        # Not in the table: only the tier gets Azure's spelling.
        ("standard_HB120rs_v3", "Standard_HB120rs_v3"),
        ("HB120rs_v3", "Standard_HB120rs_v3"),
        ("BASIC_A1", "Basic_A1"),
        # The same name in another tier is another size.
        ("basic_nd96asr_v4", "Basic_nd96asr_v4"),
    ],
)
def test_every_spelling_becomes_one_name(spelling: str, name: str) -> None:
    assert canonical_size(spelling) == name


@pytest.mark.parametrize("spelling", ["Standard_ND96asr_v4", "nd96ASR_V4"])
def test_finds_a_size_of_the_table_by_any_spelling(spelling: str) -> None:
    assert find_size(spelling) is SIZES["Standard_ND96asr_v4"]


def test_an_unknown_size_names_the_nearest_ones_and_what_to_do() -> None:
    with pytest.raises(UnknownVmSize) as caught:
        find_size("Standard_ND96asr_v5")
    message = str(caught.value)
    assert message.startswith("VM size 'Standard_ND96asr_v5' is not known; the nearest known sizes are ")
    nearest = message.partition("are ")[2].partition(".")[0].split(", ")
    assert nearest[0] == "Standard_ND96asr_v4"
    assert len(nearest) == 3
    assert set(nearest) < SIZES.keys()
    assert message.endswith(
        "Describe it in hpcai_vm_sizes, with at least vcpus and memory_mib (the guide to VM sizes lists all keys)."
    )


def test_a_size_unlike_any_other_names_all_known_ones() -> None:
    with pytest.raises(UnknownVmSize) as caught:
        find_size("#########################################")
    assert all(name in str(caught.value) for name in SIZES)


def test_sizes_described_by_hand_are_among_the_nearest() -> None:
    with pytest.raises(UnknownVmSize, match=r"nearest known sizes are Standard_HB120rs_v3,"):
        find_size("Standard_HB120rs_v2", {"HB120rs_v3": BY_HAND})


def test_the_nearest_sizes_are_sorted_and_spelled_as_in_the_table() -> None:
    known = ["Standard_ND40rs_v2", "Standard_ND96asr_v4", "Standard_NC24ads_A100_v4", "Standard_ND96amsr_A100_v4"]
    assert nearest_sizes("nd96ASR_v3", known, count=2) == ["Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"]
    assert nearest_sizes("????????????????????????????????????????", known) == []


def test_a_description_is_found_by_any_spelling_of_its_name() -> None:
    spellings = ["Standard_HB120rs_v3", "standard_hb120rs_v3", "HB120RS_V3"]
    assert {find_size(name, {"HB120rs_v3": BY_HAND}).name for name in spellings} == {"Standard_HB120rs_v3"}


def test_a_description_is_the_source_of_its_facts() -> None:
    assert find_size("Standard_HB120rs_v3", {"Standard_HB120rs_v3": {"vcpus": 120, "memory_mib": "466944"}}) == VmSize(
        "Standard_HB120rs_v3", vcpus=120, memory_mib=466944, sources={"vcpus": "hand", "memory_mib": "hand"}
    )


def test_a_description_replaces_all_facts_of_the_table() -> None:
    size = find_size("Standard_ND96asr_v4", {"nd96asr_v4": {"vcpus": 2}})
    assert size == VmSize("Standard_ND96asr_v4", vcpus=2, sources={"vcpus": "hand"})


def test_a_description_of_another_size_changes_nothing() -> None:
    assert find_size("Standard_ND96asr_v4", {"Standard_HB120rs_v3": BY_HAND}) is SIZES["Standard_ND96asr_v4"]


def test_all_sizes_are_the_tables_and_the_described_ones() -> None:
    sizes = all_sizes({"nd96asr_v4": {"vcpus": 2}, "HB120rs_v3": {"vcpus": 120}})
    assert list(sizes) == [*SIZES, "Standard_HB120rs_v3"]
    assert sizes["Standard_ND96asr_v4"].vcpus == 2
    assert sizes["Standard_HB120rs_v3"].vcpus == 120
    assert all_sizes() == dict(SIZES)


@pytest.mark.parametrize("described", [["Standard_X"], "Standard_X", 8])
def test_descriptions_other_than_a_mapping_are_refused(described: Any) -> None:
    with pytest.raises(UnknownVmSize, match=r"^hpcai_vm_sizes must be a mapping of sizes by name, not "):
        find_size("Standard_X", described)


@pytest.mark.parametrize("size", list(SIZES.values()), ids=list(SIZES))
def test_facts_are_complete_and_can_be_written_as_json(size: VmSize) -> None:
    facts = facts_of(size)
    assert list(facts) == [field.name for field in dataclasses.fields(VmSize)]
    assert json.loads(json.dumps(facts)) == facts


def test_nested_facts_are_mappings_and_lists() -> None:
    facts = facts_of(SIZES["Standard_ND96asr_v4"])
    assert facts["cpu"] == {"arch": "x86_64", "vendor": "AuthenticAMD", "family": 23, "model": 49}
    assert facts["numa_nodes"][3] == {"id": 3, "cpus": "72-95"}
    assert facts["gpus"][4] == {"busid": "000b:00:00.0", "numa_node": 3, "switch": 4}
    assert facts["hcas"][7] == {"busid": "0108:00:00.0", "numa_node": 2, "switch": 3}
    assert facts["nccl_settings"]["NCCL_IB_PCI_RELAXED_ORDERING"] == "1"
    assert facts["thresholds"]["nccl_allreduce"] == {
        "limit": 228,
        "unit": "GB/s",
        "source": "C, O",
        "at": "8G",
        "at_most": False,
        "warn": None,
        "typical": None,
    }
    assert {"about", "says", "taken", "why"} == facts["contradictions"][0].keys()


def test_unknown_facts_are_none() -> None:
    facts = facts_of(VmSize("Standard_X", vcpus=2))
    assert facts["gpus"] is None
    assert facts["thresholds"] == {}


def test_known_scalars_have_no_name_and_no_unknown_or_nested_facts() -> None:
    scalars = known_scalars(SIZES["Standard_ND96asr_v4"])
    assert scalars["vcpus"] == 96
    assert scalars["gpu_model"] == "A100-SXM4-40GB"
    assert not {"name", "gpus", "cpu", "sources", "thresholds"} & scalars.keys()
    assert all(isinstance(value, (str, int)) for value in scalars.values())
    assert "gpu_memory_clock_mhz" not in known_scalars(SIZES["Standard_NC24ads_A100_v4"])
    assert known_scalars(SIZES["Standard_NC24ads_A100_v4"])["hca_count"] == 0
