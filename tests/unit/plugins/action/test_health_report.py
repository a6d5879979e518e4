# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the report takes from the inventory, and which time it has."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.action import health_report
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, is_time

EARLY, LATE = "2026-11-22T16:40:00Z", "2026-11-22T16:41:00Z"


def answers(*times: Any) -> list[NodeResult]:
    """The results of nodes at these times."""
    return [NodeResult(f"n-{place}", {"health": {"time": time}}) for place, time in enumerate(times)]


@pytest.mark.parametrize("times", [(EARLY, LATE), (LATE, EARLY, None, ""), (LATE, "zzz", f"{LATE}<b>", 9)])
def test_the_report_has_the_time_of_the_latest_result(times: tuple[Any, ...]) -> None:
    assert health_report._latest(answers(*times)) == LATE


def test_without_a_time_it_is_now() -> None:
    assert is_time(health_report._latest([*answers("zzz"), NodeResult("silent", {})]))


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"azure_vmss": "compute", "azure_instance_id": "3", "azure_computer_name": "vm000003"}, "compute-3"),
        ({"azure_computer_name": "vm000003"}, "vm000003"),
        ({"slurm_node_name": "n3", "azure_vmss": "compute", "azure_instance_id": "3"}, "n3"),
        ({}, "host-3"),
    ],
)
def test_a_node_has_its_name_in_slurm(variables: dict[str, Any], name: str) -> None:
    result = {"health": {"node": {"name": "another"}}}
    hostvars = {"host-3": {"inventory_hostname": "host-3", "azure_id": "/x", "checked": result, **variables}}
    asked = health_report._asked("host-3", hostvars, "checked")
    assert (asked.inventory["slurm_node_name"], asked.inventory["azure_id"]) == (name, "/x")
    assert "slurm_node_name" not in health_report._asked("unknown", hostvars, "checked").inventory
