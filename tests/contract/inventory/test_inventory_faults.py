# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of Azure, injected over HTTP: hosts never disappear silently, and no error gives an empty inventory."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .clusters import COMPUTE, UNIFORM
from .lists import ALL_LISTS, FLEXIBLE, INSTANCES, INTERFACES, NETWORKS, OTHER_INTERFACES, SCALE_SETS
from .reading import Source, failure, members, report


@pytest.mark.parametrize("match", ALL_LISTS)
def test_each_forbidden_list_fails_the_source(source: Source, match: str) -> None:
    source.simulator.add_fault(match, status=403, code="AuthorizationFailed", message="The client is not authorized.")

    error = failure(source)

    assert "403 AuthorizationFailed: The client is not authorized. Give the identity the action Microsoft." in error


@pytest.mark.parametrize(
    ("match", "action"),
    [
        (SCALE_SETS, "Microsoft.Compute/virtualMachineScaleSets/read"),
        (INSTANCES, "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"),
        (INTERFACES, "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"),
        (FLEXIBLE, "Microsoft.Compute/virtualMachines/read"),
        (OTHER_INTERFACES, "Microsoft.Network/networkInterfaces/read"),
        (NETWORKS, "Microsoft.Network/virtualNetworks/read or set list_virtual_networks: false"),
    ],
)
def test_the_error_of_a_forbidden_list_names_the_missing_permission(source: Source, match: str, action: str) -> None:
    source.simulator.add_fault(match, status=403, code="AuthorizationFailed")

    assert f"Give the identity the action {action}" in failure(source)


def test_the_error_of_a_forbidden_scale_set_names_it(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")

    assert "could not list the instances of scale set compute of resource group hpcai-sim" in failure(source)


def test_one_error_names_all_failed_lists(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")
    source.simulator.add_fault(NETWORKS, status=403, code="AuthorizationFailed")

    error = failure(source)

    assert "list the instances of scale set compute" in error
    assert "list the virtual networks" in error


def test_instances_are_only_listed_and_never_requested_one_by_one(source: Source) -> None:
    source.simulator.add_fault(r"/virtualMachines/[^/?]+", status=404, code="ResourceNotFound")
    source.simulator.add_fault(r"/networkInterfaces/[^/?]+", status=404, code="ResourceNotFound")

    inventory = source.read(include_vms="tagged")

    assert len(inventory.hosts) == 6


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES, FLEXIBLE])
def test_a_deleted_scale_set_is_skipped_and_counted(source: Source, match: str) -> None:
    gone = "flex" if match == FLEXIBLE else "compute"
    source.simulator.add_fault(match, status=404, code="ResourceNotFound")
    source.simulator.add_fault(rf"/virtualMachineScaleSets/{gone}\?", status=404, code="ResourceNotFound")

    inventory = source.read()

    assert not members(inventory, f"azure_vmss_{gone}")
    assert inventory.hosts
    assert report(inventory)["complete"] is True
    assert report(inventory)["left_out"] == {"vanished scale sets": 1}


def test_the_summary_counts_a_deleted_scale_set(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.simulator.add_fault("/virtualMachineScaleSets/compute", status=404, code="ResourceNotFound")

    source.read()

    assert "left out: 1 (vanished scale sets)" in capsys.readouterr().err.replace("\n", " ")


def test_a_404_for_an_existing_scale_set_fails_the_source(source: Source) -> None:
    # Nodes of a deleted scale set are removed from the cluster, so a single wrong answer must not be enough.
    source.simulator.add_fault(INSTANCES, status=404, code="ResourceNotFound")

    assert "could not list the instances of scale set compute" in failure(source)


def test_a_404_with_another_code_fails_the_source(source: Source) -> None:
    source.simulator.add_fault("/virtualMachineScaleSets/compute", status=404, code="InvalidResourceType")

    assert "404 InvalidResourceType" in failure(source)


def test_a_resource_group_that_does_not_exist_fails_the_source(source: Source) -> None:
    error = failure(source, resource_groups=["hpcai-sim", "mistyped"])

    assert "could not list the scale sets of resource group mistyped" in error
    assert "404 ResourceGroupNotFound" in error


@pytest.mark.daily(1)
@pytest.mark.parametrize("match", ALL_LISTS)
def test_a_throttled_request_is_repeated_after_the_requested_time(source: Source, match: str) -> None:
    source.simulator.add_fault(match, status=429, code="TooManyRequests", headers={"Retry-After": "1"}, times=1)
    started = time.monotonic()

    inventory = source.read()

    assert len(inventory.hosts) == 5
    assert time.monotonic() - started >= 1


def test_a_throttled_request_is_repeated_until_the_timeout(source: Source) -> None:
    # Five times is more often than the SDK's own policy retries.
    source.simulator.add_fault(INSTANCES, status=429, code="TooManyRequests", times=5, headers={"Retry-After": "0.1"})

    assert set(source.read().hosts) > UNIFORM


def test_permanent_throttling_fails_at_the_timeout_and_names_the_budget(source: Source) -> None:
    source.simulator.add_fault(
        INSTANCES,
        status=429,
        code="TooManyRequests",
        headers={
            "Retry-After": "1",
            "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/HighCostGet3Min;0,Microsoft.Compute/Other;99",
        },
    )
    started = time.monotonic()

    error = failure(source, timeout=3)

    assert time.monotonic() - started < 4
    assert "could not list the instances of scale set compute" in error
    assert "Azure throttles it (budget used up: Microsoft.Compute/HighCostGet3Min) and asks to wait 1 seconds" in error


def test_a_retry_after_beyond_the_timeout_fails_at_once(source: Source) -> None:
    source.simulator.add_fault(SCALE_SETS, status=429, code="TooManyRequests", headers={"Retry-After": "3600"})
    started = time.monotonic()

    error = failure(source, timeout=60)

    assert time.monotonic() - started < 2
    assert "asks to wait 3600 seconds, but 60 of the 60 seconds of `timeout` are left" in error


def test_a_server_error_is_retried(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=500, code="InternalServerError", times=1)

    assert set(source.read().hosts) > UNIFORM


@pytest.fixture
def paged(simulate: Callable[..., Source]) -> Source:
    """Twelve instances on four pages."""
    scale_set = {"name": "compute", "capacity": 12, "tags": COMPUTE}
    return simulate({"scale_sets": [scale_set]}, vm_page_size=3, interface_page_size=3)


def test_a_server_error_on_a_later_page_fails_the_source(paged: Source) -> None:
    paged.simulator.add_fault(INSTANCES, status=500, code="InternalServerError", after=2)

    error = failure(paged)

    assert "could not list the instances of scale set compute" in error
    assert "500 InternalServerError" in error


def test_the_paged_list_has_four_pages(paged: Source) -> None:
    assert len(paged.read().hosts) == 12
    assert sum("virtualMachines" in request["path"] for request in paged.simulator.requests()) == 4


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES])
def test_a_dropped_connection_is_retried(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="drop", times=1)

    assert members(source.read(), "hpcai_compute") > UNIFORM


@pytest.mark.thorough
def test_a_connection_that_always_drops_fails_the_source(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, action="drop")

    error = failure(source)

    assert "could not list the instances of scale set compute" in error
    assert "the connection was lost before the answer was complete" in error


def test_an_endpoint_without_a_server_fails_the_source(source: Source) -> None:
    error = failure(source, endpoint="http://127.0.0.1:9")

    assert "could not list the scale sets of subscription" in error
    assert "no connection to Azure" in error


@pytest.mark.parametrize("match", ALL_LISTS)
def test_an_unreadable_body_fails_the_source(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="garbage")

    assert "could not list" in failure(source)


@pytest.mark.parametrize("match", [SCALE_SETS, INSTANCES])
def test_an_answer_without_a_list_fails_the_source(source: Source, match: str) -> None:
    # A document without `value`: newer releases of the SDK treat it as an empty list.
    source.simulator.add_fault(match, status=200, code="OK")

    assert "the answer is not a list" in failure(source)


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES])
def test_a_repeated_next_link_fails_the_source(paged: Source, match: str) -> None:
    paged.simulator.add_fault(match, action="repeat_next_link")
    started = time.monotonic()

    error = failure(paged)

    assert "its pages form a loop" in error
    assert time.monotonic() - started < 5


@pytest.mark.daily(2)
@pytest.mark.parametrize("match", ALL_LISTS)
def test_a_hanging_list_fails_at_the_timeout_and_is_named(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="hang")
    started = time.monotonic()

    error = failure(source, timeout=1)

    assert time.monotonic() - started < 2.5
    assert "could not list the" in error
    assert "within the 1 seconds of `timeout`" in error


def test_a_proxy_is_not_used_for_this_machine(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert len(source.read().hosts) == 5
