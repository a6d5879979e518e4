# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator refuses reports of workload impacts that Azure refuses according to its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator.testing import Simulator, running

VERSION = "2025-01-01-preview"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """One scale set."""
    with running({"scale_sets": [{"name": "compute", "capacity": 1}]}) as simulated:
        yield simulated


def properties(simulator: Simulator, **changes: Any) -> dict[str, Any]:
    """The properties of a valid report, with these changes."""
    instance = next(iter(simulator.scale_set("compute").members.values()))
    good = {
        "startDateTime": "2026-11-22T16:40:00Z",
        "impactCategory": "Resource.Hpc.Unhealthy.HpcMissingGpu",
        "impactDescription": "Missing GPU device",
        "impactedResourceId": instance.id,
        "additionalProperties": {"PhysicalHostName": "GGBB90904476"},
    }
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


def ask(
    simulator: Simulator, method: str, name: str, body: Any = None, version: str = VERSION
) -> tuple[int, dict[str, Any]]:
    """Send a request, and return the status and the content of the answer."""
    url = (
        f"{simulator.endpoint}/subscriptions/{simulator.subscription_id}/providers/Microsoft.Impact/workloadImpacts"
        f"{name and '/' + name}?api-version={version}"
    )
    token = {"Authorization": f"Bearer {simulator.token}"}
    answer = requests.request(method, url, headers=token, json=body, timeout=10)
    return answer.status_code, answer.json()


def test_a_valid_report_is_stored_shown_and_listed(simulator: Simulator) -> None:
    status, taken = ask(simulator, "PUT", "Report-001", {"properties": properties(simulator)})
    assert (status, taken["name"], taken["properties"]["provisioningState"]) == (200, "Report-001", "Succeeded")
    assert ask(simulator, "GET", "report-001") == (200, taken)
    assert taken in ask(simulator, "GET", "")[1]["value"]


def test_a_name_can_be_used_only_once(simulator: Simulator) -> None:
    body = {"properties": properties(simulator)}
    assert ask(simulator, "PUT", "report-002", body)[0] == 200
    assert ask(simulator, "PUT", "report-002", body)[0] == 409


def test_an_unknown_report_is_not_found(simulator: Simulator) -> None:
    status, content = ask(simulator, "GET", "nothing-there")
    assert (status, content["error"]["code"]) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"impactCategory": "Resource.Hpc.Unhealthy.Moon"}, 400),
        ({"impactCategory": "resource.hpc.unhealthy.hpcmissinggpu"}, 400),
        ({"impactCategory": None}, 400),
        ({"impactDescription": None}, 400),
        ({"startDateTime": "yesterday"}, 400),
        ({"additionalProperties": None}, 400),
        ({"additionalProperties": {"physicalHostName": "GGBB90904476"}}, 400),
        ({"additionalProperties": {"PhysicalHostName": "host.example"}}, 400),
        ({"impactedResourceId": "/subscriptions/s/resourceGroups/g/providers/x/y/z"}, 404),
    ],
)
def test_an_invalid_report_is_refused(simulator: Simulator, changes: dict[str, Any], status: int) -> None:
    body = {"properties": properties(simulator, **changes)}
    assert ask(simulator, "PUT", "report-003", body)[0] == status
    assert ask(simulator, "GET", "report-003")[0] == 404


@pytest.mark.parametrize("body", [None, [], {}, {"properties": []}])
def test_a_body_that_is_no_report_is_refused(simulator: Simulator, body: Any) -> None:
    assert ask(simulator, "PUT", "report-004", body)[0] == 400


@pytest.mark.parametrize("name", ["ab", "-report", "report.1", "report-"])
def test_an_invalid_name_is_refused(simulator: Simulator, name: str) -> None:
    assert ask(simulator, "PUT", name, {"properties": properties(simulator)})[0] == 400


def test_an_api_version_of_another_provider_is_refused(simulator: Simulator) -> None:
    status, content = ask(simulator, "GET", "report-001", version="2024-11-01")
    assert (status, content["error"]["code"]) == (400, "NoRegisteredProviderFound")
