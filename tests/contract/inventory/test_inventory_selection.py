# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters select hosts, and data that they exclude is not requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleParserError

from .clusters import CLUSTER, TAGS, UNIFORM
from .reading import Source, facts, members, report


def requested_paths(source: Source) -> list[str]:
    """The requested paths in lower case, without the subscription; releases of the SDK spell them differently."""
    return sorted(request["path"].split("/", 3)[3].lower() for request in source.simulator.requests())


@pytest.mark.parametrize(
    "options",
    [
        {"scale_sets": ["compute"]},
        {"scale_sets": ["comp*"]},
        {"scale_sets": ["COMPUTE"]},
        {"scale_sets": ["c?mpute", "nothing-of-this-name"]},
        {"scale_sets": ["comput[ef]"]},
    ],
)
def test_instances_are_listed_only_for_selected_scale_sets(source: Source, options: dict[str, Any]) -> None:
    inventory = source.read(**options)

    assert set(inventory.hosts) == UNIFORM
    assert requested_paths(source) == [
        "providers/microsoft.compute/virtualmachinescalesets",
        "providers/microsoft.network/virtualnetworks",
        "resourcegroups/hpcai-sim/providers/microsoft.compute/virtualmachinescalesets/compute/networkinterfaces",
        "resourcegroups/hpcai-sim/providers/microsoft.compute/virtualmachinescalesets/compute/virtualmachines",
    ]


@pytest.fixture
def mixed(simulate: Callable[..., Source]) -> Source:
    """Two clusters in two locations and two resource groups."""
    red = {"name": "red", "capacity": 1, "tags": {"hpcai_cluster": "red"}, "location": "westus"}
    blue = {
        "name": "blue",
        "capacity": 2,
        "instance_ids": [0, 1],
        "tags": {"hpcai_cluster": "blue"},
        "resource_group": "other",
    }
    vms = [
        {"name": "red-login", "tags": {"hpcai_cluster": "red", "hpcai_role": "login"}, "location": "westus"},
        {"name": "red-tool", "tags": {"hpcai_cluster": "red"}, "location": "westus"},
        {"name": "stranger"},
    ]
    return simulate({"scale_sets": [red, blue], "virtual_machines": vms})


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ({}, {"red000000", "blue000000", "blue000001"}),
        ({"locations": ["West US"]}, {"red000000"}),
        ({"resource_groups": ["OTHER"]}, {"blue000000", "blue000001"}),
        ({"resource_groups": ["other", "hpcai-sim"]}, {"red000000", "blue000000", "blue000001"}),
        ({"tags": {"hpcai_cluster": "red"}}, {"red000000"}),
        ({"tags": {"HPCAI_CLUSTER": "red"}}, {"red000000"}),
        ({"tags": {"hpcai_cluster": "RED"}}, set()),
        ({"tags": {"hpcai_cluster": ["red", "blue"]}}, {"red000000", "blue000000", "blue000001"}),
        ({"tags": {"hpcai_cluster": None}}, {"red000000", "blue000000", "blue000001"}),
        ({"tags": {"hpcai_cluster": "red", "team": "x"}}, set()),
        ({"include_vms": "tagged", "tags": {"hpcai_cluster": "red"}}, {"red000000", "red-login"}),
        ({"include_vms": "all", "tags": {"hpcai_cluster": "red"}}, {"red000000", "red-login", "red-tool"}),
        (
            {"include_vms": "all"},
            {"red000000", "blue000000", "blue000001", "red-login", "red-tool", "stranger"},
        ),
        ({"include_vms": "all", "locations": ["westus"]}, {"red000000", "red-login", "red-tool"}),
        ({"include_vms": "all", "resource_groups": ["other"]}, {"blue000000", "blue000001"}),
        ({"include_vms": "tagged", "role_tag": "hpcai_cluster", "scale_sets": ["-"]}, {"red-login", "red-tool"}),
    ],
)
def test_filters_select_hosts(mixed: Source, options: dict[str, Any], hosts: set[str]) -> None:
    assert set(mixed.read(**options).hosts) == hosts


def test_an_instance_with_another_tag_is_skipped_and_counted(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    source.simulator.edit("compute_3", tags={"hpcai_cluster": "mine"})

    inventory = source.read(tags={"hpcai_cluster": "sim"})

    assert "compute000003" not in inventory.hosts
    assert report(inventory)["left_out"] == {"other tags": 1}
    assert "left out: 1 (other tags)" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ("azure_vmss == 'compute'", UNIFORM),
        ("azure_vmss == 'compute' && azure_instance_id != '3'", {"compute000000", "compute00000H"}),
        ("azure_tags.hpcai_role == 'controller,login'", {"ctl"}),
        ("contains(azure_roles, 'login')", {"ctl"}),
        ("azure_latest_model", UNIFORM),
        ("azure_fault_domain == `0` && azure_zone", UNIFORM),
        ("starts_with(azure_private_ipv4 || '', '192.')", set()),
    ],
)
def test_a_query_selects_hosts(source: Source, query: str, hosts: set[str]) -> None:
    inventory = source.read(query=query, include_vms="tagged")

    assert set(inventory.hosts) == hosts
    assert report(inventory)["left_out"] == {"not in query": 6 - len(hosts)}


@pytest.mark.parametrize("query", ["azure_vmss ==", "no_such_function(azure_vmss)", "length(azure_fault_domain)"])
def test_an_invalid_query_fails_the_source(source: Source, query: str) -> None:
    with pytest.raises(AnsibleParserError, match="query: ") as raised:
        source.read(query=query)

    assert "\n" not in str(raised.value)


def test_stand_alone_vms_are_not_listed_by_default(source: Source) -> None:
    source.read()

    assert "providers/microsoft.compute/virtualmachines" not in requested_paths(source)


def test_virtual_networks_are_not_listed_if_disabled(source: Source) -> None:
    inventory = source.read(list_virtual_networks=False)

    assert not any("virtualnetworks" in path for path in requested_paths(source))
    (network,) = report(inventory)["virtual_networks"]
    assert network["id"] == facts(inventory, "compute000000")["azure_virtual_network"]
    assert network["address_prefixes"] is None


def test_only_virtual_networks_in_use_are_reported(simulate: Callable[..., Source]) -> None:
    networks = [{"name": "sim"}, {"name": "elsewhere", "address_prefixes": ["172.16.0.0/16"]}]
    source = simulate({**CLUSTER, "virtual_networks": networks})

    (network,) = report(source.read())["virtual_networks"]
    assert network["id"].endswith("/virtualNetworks/sim")


# The limit is 25 requests at 1,000 instances. One request per instance would need about 2,000.
@pytest.mark.parametrize(("instances", "requests"), [(10, 6), (500, 22), (1000, 40)])
def test_requests_grow_with_pages_and_scale_sets_not_with_instances(
    simulate: Callable[..., Source], instances: int, requests: int
) -> None:
    uniform = {"name": "uniform", "capacity": instances, "single_placement_group": False, "tags": TAGS}
    flexible = {**uniform, "name": "flexible", "orchestration_mode": "Flexible"}
    source = simulate(
        {
            "virtual_networks": [{"name": "sim", "address_prefixes": ["10.64.0.0/16"]}],
            "scale_sets": [uniform, flexible],
        }
    )

    inventory = source.read()

    assert len(inventory.hosts) == 2 * instances
    assert len(source.simulator.requests()) == requests
    assert members(inventory, "azure_power_running") == set(inventory.hosts)
