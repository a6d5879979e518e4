# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters of VM sizes and CPU masks, in templates."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.template import trust_as_template

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize, facts_of

Render = Callable[..., Any]


@pytest.mark.parametrize("name", ["Standard_ND96asr_v4", "nd96asr_v4"])
def test_finds_a_known_size_in_any_spelling(render: Render, name: str) -> None:
    assert render("name | hpcai.azure.vm_size", name=name) == facts_of(SIZES["Standard_ND96asr_v4"])


def test_a_users_description_overrides_the_table(render: Render) -> None:
    expression = "azure_vm_size | hpcai.azure.vm_size(hpcai_vm_sizes)"
    facts = render(
        expression,
        azure_vm_size="Standard_ND96asr_v4",
        hpcai_vm_sizes={"nd96asr_v4": {"numa_nodes": [{"id": 0, "cpus": trust_as_template("0-{{ last }}")}]}},
        last=7,
    )
    assert facts["numa_nodes"] == [{"id": 0, "cpus": "0-7"}]
    assert (facts["vcpus"], facts["memory_mib"]) == (8, None)


def test_templates_can_use_the_facts_like_variables(render: Render) -> None:
    assert render("('nd96asr_v4' | hpcai.azure.vm_size).gpus | map(attribute='numa_node') | join(' ')") == (
        "1 1 0 0 3 3 2 2"
    )
    assert render("('NC96ads_A100_v4' | hpcai.azure.vm_size).pcie_gtps is none") is True


def test_an_unknown_size_can_have_facts_of_its_own_and_a_known_one_keeps_its_facts(render: Render) -> None:
    assert render("'nd96asr_v5' | hpcai.azure.vm_size({'x': {'vcpus': 8}}, {})") == {}
    assert render("'' | hpcai.azure.vm_size(unknown={'gpu_count': 2})") == {"gpu_count": 2}
    assert render("('standard_X' | hpcai.azure.vm_size({'x': {'vcpus': 8}}, {})).vcpus") == 8


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("'nd96asr_v5' | hpcai.azure.vm_size", "VM size 'nd96asr_v5' is not known; the nearest known sizes are"),
        ("8 | hpcai.azure.vm_size", "vm_size takes the name of a VM size, not 8"),
        ("'x' | hpcai.azure.vm_size({'x': {'vcpu': 8}})", "has unknown keys vcpu"),
        ("'x' | hpcai.azure.vm_size({'x': {'gpus': [{}]}})", r"gpus\[0\] lacks busid, numa_node"),
        ("'x' | hpcai.azure.vm_size({'x': {'vcpu': 8}}, {})", "has unknown keys vcpu"),
        ("'y' | hpcai.azure.vm_size(['x'], {})", "hpcai_vm_sizes must be a mapping"),
        ("'x' | hpcai.azure.vm_size(['x'])", "hpcai_vm_sizes must be a mapping"),
    ],
)
def test_invalid_arguments_are_an_error_in_one_line(render: Render, expression: str, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render(expression)


def test_the_documentation_lists_every_fact() -> None:
    here = pathlib.Path(__file__).resolve()
    documented = yaml.safe_load((here.parents[4] / "plugins/filter/vm_size.yml").read_text(encoding="utf-8"))
    contains = documented["RETURN"]["_value"]["contains"]
    assert list(contains) == [field.name for field in dataclasses.fields(VmSize)]
    example = facts_of(SIZES["Standard_ND96asr_v4"])
    for name, entry in contains.items():
        if name not in ("gpus", "hcas", "nccl_settings", "thresholds", "contradictions", "sources"):
            assert entry["sample"] == example[name]
    assert example["thresholds"].items() >= contains["thresholds"]["sample"].items()
    assert example["sources"].items() >= contains["sources"]["sample"].items()
