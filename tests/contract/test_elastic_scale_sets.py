# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon's client of Resource Manager, against the simulator over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.reconcile import AzureError, Changed
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.scale_sets import ScaleSets
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import Operation
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.arm import ArmError, ResourceManager
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.http_get import Exchanged, exchange
from simulator.testing import Simulator, running


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator with one Uniform set, with short pages."""
    with running({"scale_sets": [{"name": "gpu", "capacity": 3}]}, vm_page_size=2, interface_page_size=2) as made:
        made.clear()
        yield made


def client(simulator: Simulator) -> tuple[ScaleSets, ElasticSet]:
    """The client, and the set."""
    manager = ResourceManager(simulator.endpoint, lambda: simulator.token)
    return ScaleSets(manager), ElasticSet(simulator.scale_set("gpu").id, 10)


def test_a_view_has_all_instances_with_addresses_and_counts_its_requests(simulator: Simulator) -> None:
    sets, options = client(simulator)
    view = sets.view(options, {})
    assert view.capacity == 3
    assert view.etag
    for one in view.instances:
        known = simulator.instance(one.vm_id)
        assert (one.id, one.address, one.host_name) == (known.instance_id, known.private_ipv4, known.computer_name)
        assert (one.state, one.power) == ("Succeeded", "running")
    # The set, two pages of instances, two of interfaces.
    assert len(simulator.requests()) == 5
    simulator.clear()
    sets.view(options, {})
    # The addresses are known.
    assert len(simulator.requests()) == 3


def test_growth_is_an_operation_and_deletion_is_by_id(simulator: Simulator) -> None:
    sets, options = client(simulator)
    view = sets.view(options, {})
    url = sets.grow(options, 5, view.etag)
    simulator._server.operations.wait(10)
    after = sets.view(options, {"order-1": url})
    assert after.operations["order-1"].status == "Succeeded"
    assert len(after.instances) == 5
    assert after.etag != view.etag
    gone = after.instances[1]
    sets.delete(options, [gone.id])
    simulator._server.operations.wait(10)
    left = sets.view(options, {})
    assert gone.vm_id not in {one.vm_id for one in left.instances}
    assert left.capacity == 4


def test_a_set_that_somebody_else_has_changed_is_not_changed(simulator: Simulator) -> None:
    sets, options = client(simulator)
    view = sets.view(options, {})
    sets.grow(options, 4, view.etag)
    with pytest.raises(Changed):
        sets.grow(options, 9, view.etag)
    assert simulator.scale_set("gpu").capacity == 4


def test_a_list_with_a_missing_page_is_no_list(simulator: Simulator) -> None:
    sets, options = client(simulator)
    simulator.add_fault(r"GET .*/virtualmachines.*skiptoken", status=503)
    with pytest.raises(AzureError) as error:
        sets.view(options, {})
    # Nobody knows what a 503 means: it is not the failure of an order.
    assert not error.value.code


def test_throttling_says_how_long_to_wait(simulator: Simulator) -> None:
    sets, options = client(simulator)
    simulator.add_fault(r"GET", status=429, code="TooManyRequests", headers={"Retry-After": "37"})
    with pytest.raises(AzureError) as error:
        sets.view(options, {})
    assert error.value.retry_s == 37


def test_a_refused_order_has_azures_innermost_code(simulator: Simulator) -> None:
    sets, options = client(simulator)
    view = sets.view(options, {})
    simulator.add_fault(r"PATCH", status=409, code="OperationNotAllowed", message="quota")
    with pytest.raises(AzureError) as error:
        sets.grow(options, 5, view.etag)
    assert (error.value.code, error.value.words) == ("OperationNotAllowed", "quota")


def test_an_operation_that_azure_has_forgotten_is_no_failure(simulator: Simulator) -> None:
    sets, options = client(simulator)
    url = sets.grow(options, 4, sets.view(options, {}).etag)
    view = sets.view(options, {"order-1": url.replace("/operations/", "/operations/0")})
    assert view.operations["order-1"].status == ""


def test_an_operation_that_may_not_be_read_does_not_stop_the_set(simulator: Simulator) -> None:
    sets, options = client(simulator)
    url = sets.grow(options, 4, sets.view(options, {}).etag)
    simulator.add_fault(r"GET .*/operations/", status=403, code="AuthorizationFailed")
    assert sets.view(options, {"order-1": url}).operations["order-1"].status == ""


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (
            {"code": "ProvisioningState/failed/AllocationFailed", "message": "no  room\nhere"},
            "AllocationFailed",
            "no room here",
        ),
        # The API's reference has such a one.
        ({"code": "ProvisioningState/failed", "message": "Failed to get secret key1"}, "", "Failed to get secret key1"),
        ({"code": "provisioningState/failed/", "message": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_the_state_of_a_failed_set_says_why_if_the_operation_cannot_be_read(
    simulator: Simulator, status: dict[str, Any], code: str, words: str
) -> None:
    simulator.scale_set("gpu").provisioning_state = "Failed"

    def send(method: str, url: str, *rest: Any) -> Exchanged:
        path = urlsplit(url).path
        if "/operations/" in path:
            return Exchanged(403, {}, b'{"error": {"code": "AuthorizationFailed", "message": "no"}}')
        if path.endswith("/gpu/instanceView"):
            return Exchanged(200, {}, json.dumps({"statuses": [status]}).encode())
        return exchange(method, url, *rest)

    sets = ScaleSets(ResourceManager(simulator.endpoint, lambda: simulator.token, send=send))
    options = ElasticSet(simulator.scale_set("gpu").id, 10)
    view = sets.view(options, {"order-1": f"{simulator.endpoint}/subscriptions/s/operations/o"})
    assert view.operations == {"order-1": Operation("Failed", code, words)}
    assert "AuthorizationFailed" in view.refused
    assert "operations/o" not in view.refused


def named_client(simulator: Simulator) -> tuple[ScaleSets, ElasticSet]:
    """The client with an endpoint that has the default port, so that its URL names none. The simulator's links do."""
    name = "management.azure.test"

    def send(method: str, url: str, headers: Mapping[str, str], *rest: Any) -> Exchanged:
        split = urlsplit(url)
        assert (split.scheme, split.hostname, split.port or 80) == ("http", name, 80)
        sent = f"{simulator.endpoint}{split.path}?{split.query}"
        return exchange(method, sent, {**headers, "Host": name}, *rest)

    manager = ResourceManager(f"http://{name}", lambda: simulator.token, send=send)
    return ScaleSets(manager), ElasticSet(simulator.scale_set("gpu").id, 10)


def test_pages_and_operations_whose_links_have_the_default_port_are_read(simulator: Simulator) -> None:
    sets, options = named_client(simulator)
    view = sets.view(options, {})
    assert len(view.instances) == 3
    url = sets.grow(options, 4, view.etag)
    assert ":80/" in url
    simulator._server.operations.wait(10)
    after = sets.view(options, {"order-1": url})
    assert after.operations["order-1"].status == "Succeeded"


def test_an_operation_on_another_host_is_not_read_and_does_not_stop_the_set(simulator: Simulator) -> None:
    sets, options = client(simulator)
    assert sets.view(options, {"order-1": "https://elsewhere.test/x"}).operations["order-1"].status == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/subscriptions",
        "https://management.azure.com@evil.test/x",
        "https://evil@management.azure.com/x",
        "https://management.azure.com:444/x",
        "https://management.azure.com:x/x",
        "https://[/x",
    ],
)
def test_the_token_is_sent_to_no_other_host(url: str) -> None:
    sent: list[object] = []

    def send(*given: object) -> Exchanged:
        sent.append(given)
        return Exchanged(200, {}, b"{}")

    manager = ResourceManager("https://management.azure.com", lambda: "t", send=send)
    with pytest.raises(ArmError, match="another host"):
        manager.get(url)
    assert not sent


def test_a_wrong_token_is_fetched_again_and_never_shown(simulator: Simulator) -> None:
    tokens = ["wrong-secret", simulator.token]
    sets = ScaleSets(ResourceManager(simulator.endpoint, lambda: tokens.pop(0)))
    options = ElasticSet(simulator.scale_set("gpu").id, 10)
    with pytest.raises(AzureError) as error:
        sets.view(options, {})
    assert "wrong-secret" not in str(error.value)
    assert sets.view(options, {}).capacity == 3
