# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All nodes' answers as one document: each node has its row, also one that is silent or talks nonsense."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from stand_ins.health_results import cluster, reading

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import Asked, gather, verdict_of, worst

WHEN = "2026-11-22T16:40:00Z"


def answer(verdict: str = "pass", tier: str = "periodic", **more: Any) -> dict[str, Any]:
    """What a task registers for a node with one check."""
    check = {"name": "gpu_count", "verdict": verdict, "summary": "8 of 8 GPUs", "findings": [], "readings": []}
    document = {"schema": 1, "tier": tier, "time": WHEN, "verdict": verdict, "node": {}, "checks": [check], **more}
    return {"health": document}


def report(*asked: Asked, **more: Any) -> dict[str, Any]:
    """The report on these nodes."""
    return gather(asked, tier="periodic", time=WHEN, **more)


def test_counts_each_node_once() -> None:
    nodes = [Asked(one["host"], one["result"], one["inventory"]) for one in cluster(12)]
    found = gather(nodes, tier="deep", time=WHEN)
    assert found["counts"] == {"fail": 2, "no_answer": 1, "unknown": 1, "warn": 2, "pass": 6, "skip": 0}
    assert found["verdict"] == "fail"
    assert [node["host_name"] for node in found["nodes"]][:3] == ["compute-0", "compute-1", "compute-2"]
    assert found["nodes"][-1]["host_name"] == "compute-11"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"unreachable": True, "msg": "Failed to connect\nto the host"}, "could not be reached: Failed to connect to"),
        ({"failed": True, "msg": "there is no check x"}, "the checks could not be run: there is no check x"),
        ({}, "was not asked"),
        (answer(schema=2), "answers in schema 2, known here is 1"),
        (answer(tier="deep"), "answers for the tier 'deep' instead of 'periodic'"),
        (answer(checks=[]), "ran no check"),
        (answer(verdict="splendid"), "ran no check"),
    ],
)
def test_a_node_without_a_result_has_a_row_that_says_why(result: dict[str, Any], words: str) -> None:
    found = report(Asked("compute-0", answer()), Asked("compute-1", result, {"azure_vm_size": "Standard_ND96asr_v4"}))
    row = found["nodes"][1]
    assert row["state"] == "no_answer"
    assert words in row["problem"]
    assert row["vm_size"] == "Standard_ND96asr_v4"
    assert found["counts"]["no_answer"] == 1
    assert found["verdict"] == "unknown"


def test_a_failed_task_with_results_counts_by_its_results() -> None:
    found = report(Asked("compute-0", {**answer("fail"), "failed": True, "msg": "gpu_count"}))
    assert found["nodes"][0]["state"] == "fail"
    assert found["nodes"][0]["problem"] == ""


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"fail": 1, "no_answer": 5, "pass": 9}, "fail"),
        ({"no_answer": 1, "pass": 9}, "unknown"),
        ({"unknown": 1, "warn": 3}, "unknown"),
        ({"warn": 1, "pass": 3}, "warn"),
        ({"pass": 3, "skip": 3}, "pass"),
        ({"skip": 3}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_worst_decides_and_nothing_is_unknown(counts: dict[str, int], verdict: str) -> None:
    assert verdict_of(counts) == verdict


def test_checks_that_only_some_nodes_have_keep_their_place() -> None:
    def checks(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "verdict": "pass"} for name in names]

    one, two = answer(checks=checks("gpu_count", "memory")), answer(checks=checks("gpu_count", "ib_ports", "memory"))
    assert report(Asked("a", one), Asked("b", two))["checks"] == ["gpu_count", "ib_ports", "memory"]


def test_what_a_node_writes_can_always_be_written_as_json() -> None:
    odd = [reading("a", math.nan), reading("b", math.inf), reading("c", [1]), reading("d", True), reading("e", None)]
    check = {"name": "x", "verdict": "gorgeous", "seconds": math.nan, "readings": odd, "findings": [{"summary": 4}]}
    found = report(Asked("compute-0", answer(checks=[check])))
    json.dumps(found, allow_nan=False)
    row = found["nodes"][0]["checks"][0]
    assert row["verdict"] == "unknown"
    assert row["findings"][0]["verdict"] == "unknown"
    assert row["findings"][0]["summary"] == "4"
    assert row["seconds"] == 0
    assert [each["value"] for each in row["readings"]] == ["nan", "inf", "[1]", "True", "None"]


def test_the_first_check_of_the_nodes_own_verdict_is_to_blame() -> None:
    checks = [{"name": name, "verdict": verdict} for name, verdict in (("a", "warn"), ("b", "fail"), ("c", "fail"))]
    node = report(Asked("compute-0", answer("fail", checks=checks)))["nodes"][0]
    guilty = worst(node)
    assert guilty is not None
    assert guilty["name"] == "b"
    assert worst(report(Asked("compute-0", answer()))["nodes"][0]) is None
