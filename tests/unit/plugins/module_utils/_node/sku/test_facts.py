# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a size as plain values."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize, facts_of, known_scalars


@pytest.mark.parametrize("size", list(SIZES.values()), ids=list(SIZES))
def test_facts_are_plain_and_complete(size: VmSize) -> None:
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


def test_what_is_unknown_is_there_as_none() -> None:
    facts = facts_of(VmSize("Standard_X", vcpus=2))
    assert facts["gpus"] is None
    assert facts["thresholds"] == {}


def test_known_scalars_have_no_name_no_unknown_and_nothing_nested() -> None:
    scalars = known_scalars(SIZES["Standard_ND96asr_v4"])
    assert scalars["vcpus"] == 96
    assert scalars["gpu_model"] == "A100-SXM4-40GB"
    assert not {"name", "gpus", "cpu", "sources", "thresholds"} & scalars.keys()
    assert all(isinstance(value, (str, int)) for value in scalars.values())
    assert "gpu_memory_clock_mhz" not in known_scalars(SIZES["Standard_NC24ads_A100_v4"])
    assert known_scalars(SIZES["Standard_NC24ads_A100_v4"])["hca_count"] == 0
