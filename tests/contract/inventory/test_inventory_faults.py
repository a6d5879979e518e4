# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong at Azure, injected over HTTP: no host is lost without a word, no error ends in an empty inventory."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .clusters import COMPUTE, UNIFORM
from .lists import ALL_LISTS, FLEXIBLE, INSTANCES, INTERFACES, NETWORKS, OTHER_INTERFACES, SCALE_SETS
from .reading import Source, failure, members, report


@pytest.mark.parametrize("match", ALL_LISTS)
def test_every_list_that_is_forbidden_fails_the_source(source: Source, match: str) -> None:
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
def test_a_forbidden_list_names_the_permission_that_is_missing(source: Source, match: str, action: str) -> None:
    source.simulator.add_fault(match, status=403, code="AuthorizationFailed")

    assert f"Give the identity the action {action}" in failure(source)


def test_a_forbidden_scale_set_is_named(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")

    assert "could not list the instances of scale set compute of resource group hpcai-sim" in failure(source)


def test_all_lists_that_failed_are_in_one_error(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")
    source.simulator.add_fault(NETWORKS, status=403, code="AuthorizationFailed")

    error = failure(source)

    assert "list the instances of scale set compute" in error
    assert "list the virtual networks" in error


def test_no_instance_is_asked_for_alone_so_none_can_vanish_meanwhile(source: Source) -> None:
    source.simulator.add_fault(r"/virtualMachines/[^/?]+", status=404, code="ResourceNotFound")
    source.simulator.add_fault(r"/networkInterfaces/[^/?]+", status=404, code="ResourceNotFound")

    inventory = source.read(include_vms="tagged")

    assert len(inventory.hosts) == 6


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES, FLEXIBLE])
def test_a_scale_set_that_is_gone_is_left_out_and_counted(source: Source, match: str) -> None:
    gone = "flex" if match == FLEXIBLE else "compute"
    source.simulator.add_fault(match, status=404, code="ResourceNotFound")
    source.simulator.add_fault(rf"/virtualMachineScaleSets/{gone}\?", status=404, code="ResourceNotFound")

    inventory = source.read()

    assert not members(inventory, f"azure_vmss_{gone}")
    assert inventory.hosts
    assert report(inventory)["complete"] is True
    assert report(inventory)["left_out"] == {"vanished scale sets": 1}


def test_the_summary_counts_a_scale_set_that_is_gone(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.simulator.add_fault("/virtualMachineScaleSets/compute", status=404, code="ResourceNotFound")

    source.read()

    assert "left out: 1 (vanished scale sets)" in capsys.readouterr().err.replace("\n", " ")


def test_a_scale_set_that_azure_says_is_gone_but_is_there_fails_the_source(source: Source) -> None:
    # Nodes are taken out of the cluster when their set is gone, so one strange answer must not be enough.
    source.simulator.add_fault(INSTANCES, status=404, code="ResourceNotFound")

    assert "could not list the instances of scale set compute" in failure(source)


def test_a_404_that_is_not_about_the_scale_set_fails_the_source(source: Source) -> None:
    source.simulator.add_fault("/virtualMachineScaleSets/compute", status=404, code="InvalidResourceType")

    assert "404 InvalidResourceType" in failure(source)


def test_a_resource_group_that_does_not_exist_fails_the_source(source: Source) -> None:
    error = failure(source, resource_groups=["hpcai-sim", "mistyped"])

    assert "could not list the scale sets of resource group mistyped" in error
    assert "404 ResourceGroupNotFound" in error


@pytest.mark.daily(1)
@pytest.mark.parametrize("match", ALL_LISTS)
def test_throttling_once_is_waited_for(source: Source, match: str) -> None:
    source.simulator.add_fault(match, status=429, code="TooManyRequests", headers={"Retry-After": "1"}, times=1)
    started = time.monotonic()

    inventory = source.read()

    assert len(inventory.hosts) == 5
    assert time.monotonic() - started >= 1


def test_throttling_is_waited_for_as_often_as_there_is_time(source: Source) -> None:
    # More often than the SDK's own policy would.
    source.simulator.add_fault(INSTANCES, status=429, code="TooManyRequests", times=5, headers={"Retry-After": "0.1"})

    assert set(source.read().hosts) > UNIFORM


def test_throttling_for_ever_ends_within_the_timeout_and_names_the_budget(source: Source) -> None:
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


def test_a_long_retry_after_is_not_slept_through(source: Source) -> None:
    source.simulator.add_fault(SCALE_SETS, status=429, code="TooManyRequests", headers={"Retry-After": "3600"})
    started = time.monotonic()

    error = failure(source, timeout=60)

    assert time.monotonic() - started < 2
    assert "asks to wait 3600 seconds, but 60 of the 60 seconds of `timeout` are left" in error


def test_a_server_error_once_is_tried_again(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, status=500, code="InternalServerError", times=1)

    assert set(source.read().hosts) > UNIFORM


@pytest.fixture
def paged(simulate: Callable[..., Source]) -> Source:
    """Twelve instances on four pages."""
    scale_set = {"name": "compute", "capacity": 12, "tags": COMPUTE}
    return simulate({"scale_sets": [scale_set]}, vm_page_size=3, interface_page_size=3)


def test_a_server_error_in_the_middle_of_the_pages_publishes_nothing(paged: Source) -> None:
    paged.simulator.add_fault(INSTANCES, status=500, code="InternalServerError", after=2)

    error = failure(paged)

    assert "could not list the instances of scale set compute" in error
    assert "500 InternalServerError" in error


def test_the_pages_are_really_several(paged: Source) -> None:
    assert len(paged.read().hosts) == 12
    assert sum("virtualMachines" in request["path"] for request in paged.simulator.requests()) == 4


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES])
def test_a_connection_that_drops_once_is_tried_again(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="drop", times=1)

    assert members(source.read(), "hpcai_compute") > UNIFORM


@pytest.mark.thorough
def test_a_connection_that_always_drops_fails_the_source(source: Source) -> None:
    source.simulator.add_fault(INSTANCES, action="drop")

    error = failure(source)

    assert "could not list the instances of scale set compute" in error
    assert "the connection was lost before the answer was complete" in error


def test_nobody_listening_fails_the_source_with_its_endpoint(source: Source) -> None:
    error = failure(source, endpoint="http://127.0.0.1:9")

    assert "could not list the scale sets of subscription" in error
    assert "no connection to Azure" in error


@pytest.mark.parametrize("match", ALL_LISTS)
def test_an_unreadable_body_fails_the_source(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="garbage")

    assert "could not list" in failure(source)


@pytest.mark.parametrize("match", [SCALE_SETS, INSTANCES])
def test_an_answer_without_a_list_is_no_empty_list(source: Source, match: str) -> None:
    # A document without `value`: newer releases of the SDK take it for a list of nothing.
    source.simulator.add_fault(match, status=200, code="OK")

    assert "the answer is not a list" in failure(source)


@pytest.mark.parametrize("match", [INSTANCES, INTERFACES])
def test_a_next_link_that_repeats_does_not_go_round_for_ever(paged: Source, match: str) -> None:
    paged.simulator.add_fault(match, action="repeat_next_link")
    started = time.monotonic()

    error = failure(paged)

    assert "its pages form a loop" in error
    assert time.monotonic() - started < 5


@pytest.mark.daily(2)
@pytest.mark.parametrize("match", ALL_LISTS)
def test_a_page_that_hangs_ends_within_the_timeout_and_is_named(source: Source, match: str) -> None:
    source.simulator.add_fault(match, action="hang")
    started = time.monotonic()

    error = failure(source, timeout=1)

    assert time.monotonic() - started < 2.5
    assert "could not list the" in error
    assert "within the 1 seconds of `timeout`" in error


def test_a_proxy_is_not_for_reaching_this_machine(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert len(source.read().hosts) == 5
