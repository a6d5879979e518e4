# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table for a terminal: short, the worst first, and harmless."""

from __future__ import annotations

from typing import Any

import pytest
from stand_ins.health_results import TIME, cluster

from ansible_collections.hpcai.azure.plugins.plugin_utils._report import output
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare


def report(count: int, **more: Any) -> dict[str, Any]:
    """The report on a played cluster."""
    asked = [NodeResult(one["host"], one["result"], one["inventory"]) for one in cluster(count)]
    return compare(gather(asked, tier="deep", time=TIME, **more))


def test_says_how_many_and_names_the_worst_first() -> None:
    lines = output.table(report(12, cluster="trainer", limit="compute"))
    assert lines[0] == (
        "Health of trainer, tier deep, 12 nodes, limited to compute: 2 fail, 1 no answer, 1 unknown, 2 warn, 6 pass"
    )
    assert lines[2].split() == ["NODE", "VERDICT", "PHYSICAL", "HOST", "WHAT"]
    assert [line.split()[1] for line in lines[3:9]] == ["fail", "fail", "no", "unknown", "warn", "warn"]
    assert "gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there (and 1 more)" in lines[3]


def test_names_odd_values_with_the_usual_ones() -> None:
    lines = output.table(report(12))
    odd = [line for line in lines if "gpu_host_bandwidth" in line]
    assert len(odd) == 2
    assert odd[0].split("  ")[-1] == "22.1 GB/s, usual is 24.59 GB/s"


def test_stays_short() -> None:
    full = report(12)
    lines = output.table(full, most=2)
    assert "and 4 more" in lines
    assert max(map(len, lines)) < 200


def test_a_healthy_cluster_takes_one_line() -> None:
    full = report(12)
    nodes = [node for node in full["nodes"] if node["state"] == "pass"]
    assert len(output.table({**full, "nodes": nodes, "outliers": []})) == 1


@pytest.mark.parametrize("evil", ["\x1b[2J\x1b[31mred", "two\nlines", "bell\x07", "\x9b31m", "\u202egnp.exe"])
def test_no_node_commands_the_terminal(evil: str) -> None:
    full = report(12)
    full["nodes"][7]["checks"][0]["summary"] = evil
    full["nodes"][7]["host"] = evil
    full["outliers"][0]["value"] = evil
    full["outliers"][0]["device"] = evil
    assert all(line.isprintable() for line in output.table(full))
