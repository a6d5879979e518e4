# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Odd values are found among many, and never among too few, nor where nothing but the last digit differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stand_ins.health_results import cluster, reading

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare, show


def compared(
    values: Sequence[Any], unit: str = "GB/s", size: str = "Standard_ND96asr_v4", **more: Any
) -> dict[str, Any]:
    """The report on nodes that each have one value, or the values of a list for its devices."""
    asked = []
    for number, value in enumerate(values):
        devices = value if isinstance(value, list) else [value]
        readings = [reading("speed", each, unit, f"gpu{place}", **more) for place, each in enumerate(devices)]
        check = {"name": "x", "verdict": "pass", "readings": readings, "findings": []}
        document = {"schema": 1, "tier": "deep", "verdict": "pass", "node": {"vm_size": size}, "checks": [check]}
        asked.append(NodeResult(f"compute-{number}", {"health": document}))
    return compare(gather(asked, tier="deep", time=""))


def odd(values: Sequence[Any], **more: Any) -> list[str]:
    """The nodes with odd values."""
    return [each["node"] for each in compared(values, **more)["outliers"]]


def test_finds_the_slow_one_and_says_why() -> None:
    found = compared([24.6, 24.5, 24.7, 24.6, 24.4, 21.9], limit=21.0)["outliers"]
    assert [each["node"] for each in found] == ["compute-5"]
    # The median is 24.55, that of the distances 0.1: 0.6745 * -2.65 / 0.1.
    assert found[0]["score"] == pytest.approx(-17.9, abs=0.05)
    assert found[0]["why"] == (
        "compute-5, gpu0: speed is 21.9 GB/s; the median of 6 nodes of size Standard_ND96asr_v4 is 24.55 GB/s "
        "(modified z-score -17.9, an outlier is beyond 3.5)"
    )


def test_the_threshold_is_three_and_a_half() -> None:
    # The median is 100 and that of the distances 10: 3.5 is reached at 100 + 35 / 0.6745 = 151.89.
    usual = [90, 110, 90, 110, 100, 100, 90, 110, 100, 100]
    assert odd([*usual, 151.5]) == []
    assert odd([*usual, 152.5]) == ["compute-10"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_never_of_fewer_than_four_nodes(count: int) -> None:
    assert odd([[24.6] * 8] * (count - 1) + [[24.6] * 7 + [3.0]]) == []


def test_four_nodes_are_enough() -> None:
    assert odd([[24.6] * 8] * 3 + [[24.6] * 7 + [3.0]]) == ["compute-3"]


def test_where_most_values_are_equal_the_one_that_differs_is_odd() -> None:
    assert odd([8, 8, 8, 8, 8, 8, 7, 8, 8, 8], unit="") == ["compute-6"]
    assert odd([0] * 9 + [1], unit="") == ["compute-9"]


def test_where_most_values_are_equal_the_mean_distance_counts() -> None:
    # The mean distance is 0.4: 3.5 is reached at 3.5 * 1.253314 * 0.4 = 1.75.
    assert odd([8, 8, 8, 8, 8, 8, 7, 7, 9, 9], unit="") == []
    # And here 0.1.
    assert compared([0] * 9 + [1], unit="")["outliers"][0]["score"] == pytest.approx(7.98, abs=0.01)


def test_equal_values_are_never_odd() -> None:
    assert odd([8] * 10, unit="") == []
    assert odd([0] * 10, unit="") == []


def test_the_last_digit_of_a_measured_value_is_not_odd() -> None:
    assert odd([25.0] * 20 + [25.01]) == []
    assert odd([25.0] * 20 + [23.8]) == []
    assert odd([25.0] * 20 + [23.7]) == ["compute-20"]


def test_with_a_limit_only_its_own_side_is_odd() -> None:
    values = [40, 41, 39, 40, 42, 70]
    assert odd(values, unit="C", limit=85, at_most=True) == ["compute-5"]
    assert odd(values, unit="C", limit=21, at_most=False) == []
    assert odd(values, unit="C") == ["compute-5"]
    assert odd([40, 41, 39, 40, 42, 10], unit="C", limit=85, at_most=True) == []


def test_sizes_and_units_are_not_mixed() -> None:
    one = compared([24.6, 24.5, 24.7, 24.6])
    other = compared([55.1, 54.9, 55.0, 55.2], size="Standard_ND96isr_H100_v5")
    for number, node in enumerate(other["nodes"]):
        node["host_name"] = f"h100-{number}"
    both = compare({**one, "nodes": [*one["nodes"], *other["nodes"]]})
    assert both["outliers"] == []
    assert [(each["vm_size"], each["middle"]) for each in both["measures"]] == [
        ("Standard_ND96asr_v4", 24.6),
        ("Standard_ND96isr_H100_v5", pytest.approx(55.05)),
    ]


def test_a_word_that_the_majority_has_not_is_odd() -> None:
    found = compared(["570.86.15"] * 5 + ["550.144.03"], unit="")["outliers"]
    assert [each["node"] for each in found] == ["compute-5"]
    assert found[0]["score"] is None
    assert "speed is 550.144.03; 5 of 6 nodes of size Standard_ND96asr_v4 have 570.86.15" in found[0]["why"]


def test_words_without_a_majority_say_nothing() -> None:
    assert odd(["a", "a", "b", "b"], unit="") == []
    assert odd([f"serial-{number}" for number in range(20)], unit="") == []
    assert odd(["a", "a", "b"], unit="") == []


def test_what_was_planted_in_a_great_cluster_is_found() -> None:
    asked = [NodeResult(one["host"], one["result"], one["inventory"]) for one in cluster(200)]
    found = compare(gather(asked, tier="deep", time=""))["outliers"]
    planted = {"gpu_count", "gpu_host_bandwidth", "ib_write_bandwidth", "gpu_driver", "gpu_temperature"}
    assert planted <= {each["reading"] for each in found}
    # Of tens of thousands of values that are as they should be, few lie so far out by chance.
    assert len([each for each in found if each["reading"] not in planted]) <= 10


@pytest.mark.parametrize(
    ("number", "shown"),
    [(24.6, "24.6"), (24.5512, "24.55"), (8.0, "8"), (1410.4, "1410"), (0.00412, "0.00412"), (0, "0")],
)
def test_numbers_are_shown_as_people_read_them(number: float, shown: str) -> None:
    assert show(number) == shown
