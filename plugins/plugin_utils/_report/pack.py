# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as the page carries it: each text once, what belongs together in lists instead of mappings.

Six hundred nodes give the same few hundred sentences thousands of times. The page's data.js reads what is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_IDENTITY = ("host_name", "name", "vm_id", "vm_size", "host", "image", "boot_id", "collection", "problem", "time")
_PAST_FAULT = ("check", "code", "device", "summary", "node", "first", "last")
_FINDING = ("verdict", "device", "summary", "hint", "action", "fault", "cause")


class _Texts:
    """Numbers for texts, in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: Any) -> int:
        return self.numbers.setdefault(str(text), len(self.numbers))


def pack(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a report that ``compare`` has been over. Pure."""
    texts = _Texts()
    checks = {name: place for place, name in enumerate(report["checks"])}
    measures = {
        (each["reading"], each["unit"], each["vm_size"], each["kind"] == "word"): place
        for place, each in enumerate(report["measures"])
    }
    places = {node["host_name"]: place for place, node in enumerate(report["nodes"])}
    nodes = [_node(node, checks, measures, texts) for node in report["nodes"]]
    outliers = []
    for odd in report["outliers"]:
        measure = measures[odd["reading"], odd["unit"], odd["vm_size"], isinstance(odd["value"], str)]
        outliers.append([measure, places[odd["node"]], texts(odd["device"]), odd["value"], texts(odd["why"])])
    suspects = []
    for one in report.get("suspects", ()):
        faults = sorted(one["faults"], key=lambda fault: str(fault["last"]), reverse=True)
        packed = [[texts(fault[key]) for key in _PAST_FAULT] for fault in faults]
        suspects.append([places[one["host_name"]], texts(one["host"]), packed])
    head = ("time", "tier", "cluster", "limit", "collection", "verdict", "counts", "checks", "measures")
    return {
        **{key: report[key] for key in head},
        "nodes": nodes,
        "outliers": outliers,
        "suspects": suspects,
        # At the end, when all have their numbers.
        "texts": list(texts.numbers),
    }


Key = tuple[str, str, str, bool]
"""Name of the reading, unit, VM size, and whether the values are words."""


def _node(node: Mapping[str, Any], checks: Mapping[str, int], measures: Mapping[Key, int], texts: _Texts) -> list[Any]:
    packed = [_check(check, checks[check["name"]], node["vm_size"], measures, texts) for check in node["checks"]]
    return [*(texts(node[key]) for key in _IDENTITY), texts(node["state"]), node["seconds"], packed]


def _check(check: Mapping[str, Any], place: int, vm_size: str, measures: Mapping[Key, int], texts: _Texts) -> list[Any]:
    readings = []
    for reading in check["readings"]:
        value = reading["value"]
        measure = measures[reading["name"], reading["unit"], vm_size, isinstance(value, str)]
        readings.append([measure, texts(reading["device"]), value, reading["limit"]])
    findings = [[texts(finding[key]) for key in _FINDING] for finding in check["findings"]]
    words = [texts(check[key]) for key in ("verdict", "summary", "hint", "action", "fault", "cause", "limit")]
    return [place, *words, check["seconds"], int(check["latched"]), findings, readings]
