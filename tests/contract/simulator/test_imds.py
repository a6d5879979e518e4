# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instance metadata service, with requests like those of a node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator import imds
from simulator.backends.recording import RecordingBackend
from simulator.clients import compute
from simulator.testing import TEST_KEY, Simulator, running

SCENARIO: dict[str, Any] = {
    "virtual_machines": [{"name": "ctl", "public_ip": True, "tags": {"hpcai_role": "login"}}],
    "scale_sets": [{"name": "uni", "capacity": 2, "instance_ids": [0, 17], "tags": {"hpcai_cluster": "sim"}}],
}
VERSION = {"api-version": "2021-02-01"}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator without machines: clients name their instance in a header."""
    with running(SCENARIO) as simulated:
        yield simulated


def ask(simulator: Simulator, path: str, instance: str = "uni_17", **params: str) -> requests.Response:
    """Send a request with the header that Azure requires."""
    return requests.get(
        f"{simulator.imds_endpoint}/metadata/{path}",
        params=VERSION | params,
        headers={"Metadata": "true", imds.INSTANCE_HEADER: instance},
        timeout=10,
    )


def test_a_uniform_instance_gets_its_document(simulator: Simulator) -> None:
    found = ask(simulator, "instance").json()
    instance = simulator.instance("uni_17")
    described = found["compute"]
    assert described["name"] == "uni_17"
    assert described["vmId"] == instance.vm_id
    assert described["vmScaleSetName"] == "uni"
    assert described["vmSize"] == "Standard_ND96asr_v4"
    assert described["placementGroupId"] == instance.placement_group
    assert described["osProfile"] == {
        "adminUsername": "azureuser",
        "computerName": "uni00000H",
        "disablePasswordAuthentication": "true",
    }
    assert [item["keyData"] for item in described["publicKeys"]] == [TEST_KEY]
    assert described["resourceId"] == instance.id
    assert described["platformFaultDomain"] == "0"
    assert described["tags"] == "hpcai_cluster:sim"
    assert described["tagsList"] == [{"name": "hpcai_cluster", "value": "sim"}]
    address = found["network"]["interface"][0]["ipv4"]["ipAddress"][0]
    assert address["privateIpAddress"] == instance.private_ipv4


def test_each_instance_gets_its_own_document(simulator: Simulator) -> None:
    for name in ("ctl", "uni_0", "uni_17"):
        assert ask(simulator, "instance/compute", name).json()["name"] == name
    by_id = ask(simulator, "instance/compute", simulator.instance("ctl").vm_id).json()
    assert (by_id["name"], by_id["vmScaleSetName"]) == ("ctl", "")


def test_the_source_address_identifies_the_instance(simulator: Simulator) -> None:
    app = imds.create_app(simulator.model, by_header=False)
    address = simulator.instance("uni_0").private_ipv4
    asked = "/metadata/instance/compute?api-version=2021-02-01"
    headers = {"Metadata": "true", imds.INSTANCE_HEADER: "ctl"}
    known = app.test_client().get(asked, headers=headers, environ_base={"REMOTE_ADDR": address})
    assert known.get_json()["name"] == "uni_0"
    unknown = app.test_client().get(asked, headers=headers, environ_base={"REMOTE_ADDR": "10.77.0.99"})
    assert unknown.status_code == 404


def test_single_values_are_returned_as_text_or_json(simulator: Simulator) -> None:
    assert ask(simulator, "instance/compute/vmId", format="text").text == simulator.instance("uni_17").vm_id
    assert ask(simulator, "instance/compute/vmId").json() == simulator.instance("uni_17").vm_id
    assert ask(simulator, "instance/network/interface/0/ipv4/ipAddress/0/publicIpAddress", "ctl", format="text").text
    assert "compute/" in ask(simulator, "instance", format="text").text.splitlines()
    assert ask(simulator, "instance/compute/colour").status_code == 404
    assert ask(simulator, "instance/network/interface/5").status_code == 404


def test_requests_that_azure_refuses_are_refused(simulator: Simulator) -> None:
    url = f"{simulator.imds_endpoint}/metadata/instance"
    named = {imds.INSTANCE_HEADER: "ctl"}
    assert requests.get(url, params=VERSION, headers=named, timeout=10).status_code == 400
    headers = named | {"Metadata": "true"}
    assert requests.get(url, headers=headers, timeout=10).json()["newest-versions"]
    assert requests.get(url, params={"api-version": "latest"}, headers=headers, timeout=10).status_code == 400
    forwarded = headers | {"X-Forwarded-For": "10.0.0.1"}
    assert requests.get(url, params=VERSION, headers=forwarded, timeout=10).status_code == 400
    assert requests.get(url, params=VERSION, headers=headers, timeout=10).status_code == 200
    assert ask(simulator, "nothing").status_code == 404


def test_scheduled_events_are_announced_and_acknowledged(simulator: Simulator) -> None:
    empty = ask(simulator, "scheduledevents").json()
    assert empty["Events"] == []
    instance = simulator.instance("uni_17")
    admin = f"{simulator.endpoint}/_simulator/events{instance.id}"
    requests.post(admin, json={"EventType": "Redeploy", "NotBefore": "Mon, 19 Sep 2026 18:29:47 GMT"}, timeout=10)
    announced = ask(simulator, "scheduledevents").json()
    assert announced["DocumentIncarnation"] > empty["DocumentIncarnation"]
    event = announced["Events"][0]
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Redeploy", "Scheduled", ["uni_17"])
    assert ask(simulator, "scheduledevents", "uni_0").json()["Events"] == []

    url = f"{simulator.imds_endpoint}/metadata/scheduledevents"
    headers = {"Metadata": "true", imds.INSTANCE_HEADER: "uni_17"}
    wrong = {"StartRequests": [{"EventId": "no such"}]}
    assert requests.post(url, params=VERSION, json=wrong, headers=headers, timeout=10).status_code == 400
    body = {"StartRequests": [{"EventId": event["EventId"]}]}
    assert requests.post(url, params=VERSION, json=body, headers=headers, timeout=10).status_code == 200
    assert ask(simulator, "scheduledevents").json()["Events"][0]["EventStatus"] == "Started"
    requests.post(admin, timeout=10)
    assert ask(simulator, "scheduledevents").json()["Events"] == []


@pytest.mark.parametrize("acknowledges", [True, False])
def test_an_evicted_machine_goes_at_its_time_or_when_it_agrees(simulator: Simulator, acknowledges: bool) -> None:
    capacity = simulator.scale_set("uni").capacity
    instance = simulator.instance("uni_17")
    seconds = 60 if acknowledges else 0.5
    url = f"{simulator.endpoint}/_simulator/evict{instance.id}"
    requests.post(url, json={"seconds": seconds}, timeout=10).raise_for_status()
    [event] = ask(simulator, "scheduledevents").json()["Events"]
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Preempt", "Scheduled", ["uni_17"])
    assert event["NotBefore"].endswith(" GMT")
    if acknowledges:
        body = {"StartRequests": [{"EventId": event["EventId"]}]}
        headers = {"Metadata": "true", imds.INSTANCE_HEADER: "uni_17"}
        there = f"{simulator.imds_endpoint}/metadata/scheduledevents"
        requests.post(there, params=VERSION, json=body, headers=headers, timeout=10).raise_for_status()
    simulator.wait(20)
    assert ask(simulator, "instance").status_code == 404
    assert simulator.scale_set("uni").capacity == capacity - 1


def test_a_token_of_the_identity_is_accepted_by_resource_manager(simulator: Simulator) -> None:
    assert ask(simulator, "identity/oauth2/token").status_code == 400
    answer = ask(simulator, "identity/oauth2/token", resource="https://management.azure.com/").json()
    assert answer["token_type"] == "Bearer"
    assert all(isinstance(value, str) for value in answer.values())
    found = compute(simulator.endpoint, token=answer["access_token"]).virtual_machine_scale_sets.list_all()
    assert [item.name for item in found] == ["uni"]


def test_a_deleted_instance_is_unknown(simulator: Simulator) -> None:
    simulator.compute().virtual_machine_scale_set_vms.begin_delete("hpcai-sim", "uni", "17").result()
    assert ask(simulator, "instance").status_code == 404


def test_a_fault_affects_only_the_given_machines(simulator: Simulator) -> None:
    simulator.add_fault("metadata/instance", service="imds", status=500, machines=["UNI_17"], times=2)
    assert [ask(simulator, "instance").status_code for _number in range(3)] == [500, 500, 200]
    simulator.add_fault("metadata/instance", service="imds", status=429, headers={"Retry-After": "3"}, machines=["ctl"])
    assert ask(simulator, "instance").status_code == 200
    throttled = ask(simulator, "instance", "ctl")
    assert (throttled.status_code, throttled.headers["Retry-After"]) == (429, "3")
    assert [(item["caller"], item["status"]) for item in simulator.requests("imds")] == [
        ("uni_17", 500),
        ("uni_17", 500),
        ("uni_17", 200),
        ("uni_17", 200),
        ("ctl", 429),
    ]


def test_a_fault_can_name_a_machine_that_does_not_exist_yet(simulator: Simulator) -> None:
    simulator.add_fault("instance", service="imds", status=503, machines=["uni_19"])
    simulator.compute().virtual_machine_scale_sets.begin_update("hpcai-sim", "uni", {"sku": {"capacity": 3}}).result()
    assert ask(simulator, "instance", "uni_19").status_code == 503
    assert ask(simulator, "instance", "uni_17").status_code == 200


def test_the_service_can_be_slow_drop_hang_or_answer_garbage(simulator: Simulator) -> None:
    simulator.add_fault("instance", "slow", service="imds", delay_s=0.4, times=1)
    begun = time.monotonic()
    assert ask(simulator, "instance").json()["compute"]["name"] == "uni_17"
    assert time.monotonic() - begun >= 0.4
    simulator.add_fault("instance", "drop", service="imds", times=1)
    with pytest.raises(requests.ConnectionError):
        ask(simulator, "instance")
    simulator.add_fault("instance", "garbage", service="imds", times=1)
    with pytest.raises(requests.JSONDecodeError):
        ask(simulator, "instance").json()
    simulator.add_fault("instance", "strip", service="imds", fields=["compute.userData", "compute.vmSize"], times=1)
    assert "vmSize" not in ask(simulator, "instance").json()["compute"]
    simulator.add_fault("instance", "hang", service="imds", times=1)
    with pytest.raises(requests.ReadTimeout):
        requests.get(
            f"{simulator.imds_endpoint}/metadata/instance",
            params=VERSION,
            headers={"Metadata": "true", imds.INSTANCE_HEADER: "ctl"},
            timeout=0.5,
        )


def test_faults_of_one_service_do_not_affect_others(simulator: Simulator) -> None:
    simulator.add_fault(".", service="imds", status=500)
    assert [item.name for item in simulator.compute().virtual_machine_scale_sets.list_all()] == ["uni"]
    simulator.clear()
    simulator.add_fault(".", status=500)
    assert ask(simulator, "instance").status_code == 200
    assert [item["path"] for item in simulator.requests("imds")] == ["/metadata/instance"]


def test_faults_and_log_of_the_service_can_be_used_over_http(simulator: Simulator) -> None:
    admin = f"{simulator.endpoint}/_simulator"
    rule = {"match": "instance", "action": "status", "service": "imds", "machines": ["ctl"], "times": 1}
    assert requests.post(f"{admin}/faults", json=rule, timeout=10).status_code == 201
    assert ask(simulator, "instance", "ctl").status_code == 500
    log = requests.get(f"{admin}/requests", params={"service": "imds"}, timeout=10).json()
    assert [(item["caller"], item["status"]) for item in log["requests"]] == [("ctl", 500)]
    assert requests.get(f"{admin}/requests", params={"service": "moon"}, timeout=10).status_code == 404
    for wrong in ({"service": "moon"}, {"service": "arm", "machines": ["ctl"]}, {"action": "slow", "service": "imds"}):
        answer = requests.post(f"{admin}/faults", json={"match": "x", "action": "status"} | wrong, timeout=10)
        assert answer.status_code == 400


def test_only_real_machines_can_be_blocked_from_a_service(simulator: Simulator) -> None:
    azure_id = simulator.instance("ctl").id
    admin = f"{simulator.endpoint}/_simulator/reach"
    assert requests.post(f"{admin}{azure_id}", json={"imds": "refused"}, timeout=10).status_code == 409
    assert requests.post(f"{admin}{azure_id}", json={"imds": "slow"}, timeout=10).status_code == 400
    assert requests.post(f"{admin}/moon", json={"imds": "refused"}, timeout=10).status_code == 404
    with running(SCENARIO, backend=(backend := RecordingBackend())) as real:
        url = f"{real.endpoint}/_simulator/reach{real.instance('ctl').id}"
        assert requests.post(url, json={"imds": "blackhole", "vault": "normal"}, timeout=10).status_code == 200
        wanted = ["reach imds blackhole", "reach vault normal"]
        assert backend.of(real.instance("ctl").vm_id)[-2:] == wanted
