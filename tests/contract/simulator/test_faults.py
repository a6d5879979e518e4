# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Injected faults, as the real SDK or a plain HTTP client gets them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import requests
from azure.core.exceptions import (
    DecodeError,
    HttpResponseError,
    IncompleteReadError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)

from simulator.faults import FaultError
from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
NO_RETRY: dict[str, Any] = {"retry_total": 0}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A scale set of five instances, in pages of two."""
    with running({"scale_sets": [{"name": "uni", "capacity": 5, "tags": {"a": "b"}}]}, vm_page_size=2) as simulated:
        yield simulated


def names(simulator: Simulator, **options: Any) -> list[str]:
    """The names of the instances that the SDK lists."""
    return [item.name for item in simulator.compute(**options).virtual_machine_scale_set_vms.list(GROUP, "uni")]


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AuthorizationFailed"), (429, "TooManyRequests"), (500, "Internal")]
)
def test_a_status_has_azures_error_body(simulator: Simulator, status: int, code: str) -> None:
    simulator.add_fault("virtualMachineScaleSets", status=status)
    with pytest.raises(HttpResponseError) as caught:
        list(simulator.compute(**NO_RETRY).virtual_machine_scale_sets.list_all())
    assert caught.value.status_code == status
    assert caught.value.error is not None
    assert str(caught.value.error.code).startswith(code)


def test_a_rule_applies_the_given_number_of_times(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachines", status=429, headers={"Retry-After": "1"}, times=1)
    begun = time.monotonic()
    assert len(names(simulator)) == 5
    assert time.monotonic() - begun >= 1
    assert [item["status"] for item in simulator.requests()] == [429, 200, 200, 200]


def test_a_rule_with_after_skips_the_first_requests(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachines", status=500, after=1)
    with pytest.raises(HttpResponseError):
        names(simulator, **NO_RETRY)
    assert [item["status"] for item in simulator.requests()] == [200, 500]


def test_a_rule_matches_path_and_query_in_any_case(simulator: Simulator) -> None:
    simulator.add_fault(r"^get .*/VIRTUALMACHINES\?.*\$skiptoken", status=404)
    with pytest.raises(ResourceNotFoundError):
        names(simulator)
    assert [item["status"] for item in simulator.requests()] == [200, 404]


def test_a_dropped_connection_gives_no_answer(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachines", "drop", times=1)
    with pytest.raises((ServiceRequestError, ServiceResponseError, IncompleteReadError)):
        names(simulator, **NO_RETRY)
    assert simulator.requests()[0]["status"] == 0
    assert len(names(simulator)) == 5


def test_a_hanging_page_reaches_the_clients_timeout(simulator: Simulator) -> None:
    simulator.add_fault("skipToken", "hang")
    begun = time.monotonic()
    with pytest.raises((ServiceResponseTimeoutError, ServiceResponseError)):
        names(simulator, read_timeout=0.5, **NO_RETRY)
    assert 0.5 <= time.monotonic() - begun < 5


def test_an_unreadable_body_is_a_decode_error(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachines", "garbage")
    with pytest.raises(DecodeError):
        names(simulator)


def test_a_repeating_next_link_never_ends(simulator: Simulator) -> None:
    simulator.add_fault("skipToken", "repeat_next_link")
    listing = simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni").by_page()
    seen = [[item.name for item in page] for page in islice(listing, 4)]
    assert seen[1] == seen[2] == seen[3]


def test_stripped_fields_are_absent(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachineScaleSets", "strip", fields=["properties.orchestrationMode", "tags"])
    found = next(iter(simulator.compute().virtual_machine_scale_sets.list_all()))
    assert found.orchestration_mode is None
    assert found.tags is None
    assert found.sku.capacity == 5
    assert simulator.compute().virtual_machine_scale_sets.get(GROUP, "uni").orchestration_mode is None


def test_latency_slows_every_request(simulator: Simulator) -> None:
    simulator.latency(100)
    begun = time.monotonic()
    names(simulator)
    assert time.monotonic() - begun >= 0.3


def test_clearing_ends_all_faults(simulator: Simulator) -> None:
    simulator.add_fault("virtualMachines", status=500)
    simulator.clear()
    assert len(names(simulator)) == 5
    assert len(simulator.requests()) == 3


def test_invalid_rules_are_refused(simulator: Simulator) -> None:
    for rule in ({"action": "explode"}, {"action": "strip"}, {"action": "status", "colour": "red"}):
        with pytest.raises(FaultError):
            simulator.add_fault("x", **rule)
    with pytest.raises(FaultError, match="regular expression"):
        simulator.add_fault("(")


def test_faults_latency_and_log_can_be_used_over_http(simulator: Simulator) -> None:
    admin = f"{simulator.endpoint}/_simulator"
    rule = {"match": "virtualMachines", "action": "status", "status": 503, "times": 1}
    assert requests.post(f"{admin}/faults", json=rule, timeout=10).json() == {"id": 1}
    assert requests.post(f"{admin}/faults", json={"match": "x"}, timeout=10).status_code == 400
    with pytest.raises(HttpResponseError):
        names(simulator, **NO_RETRY)
    log = requests.get(f"{admin}/requests", timeout=10).json()
    assert log["total"] == 1
    assert log["requests"][0]["status"] == 503
    assert requests.delete(f"{admin}/faults", timeout=10).status_code == 204
    assert requests.delete(f"{admin}/requests", timeout=10).status_code == 204
    assert requests.post(f"{admin}/latency", json={"ms": 5}, timeout=10).json() == {"ms": 5}
    assert requests.post(f"{admin}/latency", json={"ms": "slow"}, timeout=10).status_code == 400
    assert requests.get(f"{admin}/requests", timeout=10).json()["total"] == 0


def test_an_instance_can_be_edited_over_http(simulator: Simulator) -> None:
    instance = simulator.instance("uni_0")
    instances = simulator.compute().virtual_machine_scale_set_vms
    assert instances.get(GROUP, "uni", "0", expand="instanceView").provisioning_state == "Succeeded"
    url = f"{simulator.endpoint}/_simulator/instances{instance.id.upper()}"
    changes = {"provisioning_state": "Failed", "power_state": None, "tags": {"x": "{{ 7*6 }}"}, "computer_name": "twin"}
    assert requests.patch(url, json=changes, timeout=10).json()["computer_name"] == "twin"
    shown = instances.get(GROUP, "uni", "0", expand="instanceView")
    assert shown.provisioning_state == "Failed"
    assert [status.code for status in shown.instance_view.statuses] == ["ProvisioningState/failed"]
    assert shown.tags == {"x": "{{ 7*6 }}"}
    assert shown.os_profile.computer_name == "twin"
    assert requests.patch(url, json={"colour": "red"}, timeout=10).status_code == 400
    assert requests.patch(f"{simulator.endpoint}/_simulator/instances/x", json={}, timeout=10).status_code == 404


def test_an_instance_can_lose_its_network_profile_or_interface(simulator: Simulator) -> None:
    simulator.edit("uni_0", has_network_profile=False)
    simulator.edit("uni_1" if "1" in simulator.scale_set("uni").members else "uni_2", has_interfaces=False)
    found = list(simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni"))
    assert found[0].network_profile is None
    network = simulator.network().network_interfaces
    assert len(list(network.list_virtual_machine_scale_set_network_interfaces(GROUP, "uni"))) == 4


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "omit"},
        {"action": "drop", "service": "scale"},
        {"action": "bucket", "tokens": 0},
        {"action": "bucket", "tokens": 1, "service": "imds"},
        {"action": "hide", "service": "scale", "machines": ["uni_0"]},
    ],
)
def test_a_rule_that_cannot_apply_is_refused(simulator: Simulator, rule: dict[str, Any]) -> None:
    with pytest.raises(FaultError):
        simulator.add_fault("x", **rule)


def test_a_bucket_lets_its_tokens_through_and_fills_again(simulator: Simulator) -> None:
    moment = [100.0]
    simulator.faults.clock = lambda: moment[0]
    path = f"/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/uni"
    simulator.add_fault(r"GET .*/uni\?", "bucket", tokens=2, refill_s=20)
    answers = [simulator.arm("GET", path) for _request in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert answers[2].headers["Retry-After"] == "20"
    assert answers[2].json()["error"]["code"] == "TooManyRequests"
    moment[0] += 15
    assert simulator.arm("GET", path).headers["Retry-After"] == "5"
    moment[0] += 5
    assert [simulator.arm("GET", path).status_code for _request in range(2)] == [200, 429]
