# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The JSON of dcgmi diag, of DCGM 3 and 4, and none."""

from __future__ import annotations

import json

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.parsers.dcgm import parse

from ..deep_playing import recorded


def test_dcgm_3() -> None:
    found = parse(recorded("dcgm3.json"))
    assert found.error == ""
    assert [(one.test, one.gpu, one.status) for one in found.results] == [
        ("Denylist", None, "pass"),
        ("Persistence Mode", None, "pass"),
        ("PCIe", 0, "pass"),
        ("PCIe", 1, "fail"),
        ("GPU Memory", 0, "skip"),
    ]
    assert found.results[3].warnings == ("GPU 1's PCIe link width x8 is below the minimum of x16.",)


def test_dcgm_4() -> None:
    found = parse(recorded("dcgm4.json"))
    assert [(one.test, one.gpu, one.status) for one in found.results] == [
        ("software", 0, "pass"),
        ("software", 1, "pass"),
        ("memory", 0, "pass"),
        ("memory", 1, "fail"),
    ]
    assert found.results[3].warnings == ("Detected 12 volatile double-bit ECC error(s) in GPU 1.",)


def test_a_summary_counts_where_a_test_has_no_results_and_several_gpus_can_share_one() -> None:
    text = '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "test_summary": {"status": "FAIL"}}]}]}}'
    assert [(one.gpu, one.status) for one in parse(text).results] == [(None, "fail")]
    text = '{"test_categories": [{"tests": [{"name": "x", "results": [{"gpu_ids": "0,1", "status": "PASS"}]}]}]}'
    assert [(one.gpu, one.status) for one in parse(text).results] == [(0, "pass"), (1, "pass")]


def test_what_could_not_be_done_says_why() -> None:
    assert parse("").error == parse("Error: Unable to connect").error == parse("[1]").error == "it printed no JSON"
    assert parse('{"DCGM Diagnostic": {"runtime_error": "Host engine\\n died"}}').error == "Host engine died"
    assert parse("{}").error == "it printed no results"


def test_an_error_is_words_and_an_empty_one_is_none() -> None:
    assert parse('{"runtime_error": 5, "Warning": "", "error": "no  GPU"}').error == "no GPU"
    assert parse('{"runtime_error": 5}').error == "it printed no results"


@pytest.mark.parametrize(
    ("entity", "gpu"),
    [
        ({"entity_group": "GPU", "entity_id": 3}, 3),
        ({"entity_group": "CPU", "entity_id": 3}, None),
        ({"entity_group": "GPU", "entity_id": "all"}, None),
    ],
)
def test_only_a_gpus_result_has_its_number(entity: dict[str, object], gpu: int | None) -> None:
    (result,) = parse(json.dumps({"test_categories": [{"tests": [{"name": "a", "results": [entity]}]}]})).results
    assert result.gpu == gpu
