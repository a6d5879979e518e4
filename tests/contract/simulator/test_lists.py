# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's lists, read with the real SDK."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError

from simulator import clients
from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
SCENARIO: dict[str, Any] = {
    "virtual_networks": [
        {"name": "sim", "address_prefixes": ["10.77.0.0/24"]},
        {"name": "other", "address_prefixes": ["10.80.0.0/16"], "resource_group": "elsewhere"},
    ],
    "virtual_machines": [
        {"name": "ctl", "public_ip": True, "tags": {"hpcai_role": "controller,login"}},
        {"name": "far", "resource_group": "elsewhere", "network": "other"},
    ],
    "scale_sets": [
        {"name": "uni", "capacity": 3, "instance_ids": [0, 3, 17], "zones": ["1", "2"], "computer_name_prefix": "node"},
        {"name": "flex", "capacity": 2, "orchestration_mode": "Flexible", "public_ip": True, "priority": "Spot"},
        {"name": "empty", "capacity": 0, "resource_group": "elsewhere"},
        {"name": "pub", "capacity": 1, "public_ip": True, "vm_size": "Standard_D2s_v5"},
    ],
}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """One simulator for all tests of this file, because they only read."""
    with running(SCENARIO) as simulated:
        yield simulated


def get(simulator: Simulator, path: str, **headers: str) -> requests.Response:
    """Send a plain HTTP request with the right token."""
    return requests.get(
        simulator.endpoint + path, headers={"Authorization": f"Bearer {simulator.token}", **headers}, timeout=10
    )


def test_scale_sets_are_listed_by_subscription_and_by_group(simulator: Simulator) -> None:
    sets = simulator.compute().virtual_machine_scale_sets
    found = {item.name: item for item in sets.list_all()}
    assert list(found) == ["uni", "flex", "empty", "pub"]
    assert [item.name for item in sets.list("ELSEWHERE")] == ["empty"]
    assert (found["uni"].orchestration_mode, found["flex"].orchestration_mode) == ("Uniform", "Flexible")
    assert (found["uni"].sku.name, found["uni"].sku.capacity) == ("Standard_ND96asr_v4", 3)
    assert (found["uni"].single_placement_group, found["flex"].single_placement_group) == (True, False)
    assert found["flex"].virtual_machine_profile.priority == "Spot"
    assert found["uni"].virtual_machine_profile.os_profile.computer_name_prefix == "node"


def test_uniform_instances_have_names_like_azures(simulator: Simulator) -> None:
    found = list(simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni", expand="instanceView"))
    assert [item.name for item in found] == ["uni_0", "uni_3", "uni_17"]
    assert [item.instance_id for item in found] == ["0", "3", "17"]
    assert [item.os_profile.computer_name for item in found] == ["node000000", "node000003", "node00000H"]
    assert [item.zones for item in found] == [["1"], ["2"], ["1"]]
    assert all(item.latest_model_applied for item in found)
    assert {(item.sku.name, item.hardware_profile.vm_size) for item in found} == {("Standard_ND96asr_v4", None)}
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", item.vm_id) for item in found)
    groups = {item.instance_view.placement_group_id for item in found}
    assert len(groups) == 1
    assert None not in groups
    assert [status.code for status in found[0].instance_view.statuses] == [
        "ProvisioningState/succeeded",
        "PowerState/running",
    ]


def test_the_instance_view_is_returned_only_on_request(simulator: Simulator) -> None:
    instances = simulator.compute().virtual_machine_scale_set_vms
    assert all(item.instance_view is None for item in instances.list(GROUP, "uni"))
    assert instances.get(GROUP, "uni", "3").instance_view is None
    assert instances.get(GROUP, "uni", "3", expand="instanceView").instance_view is not None
    assert instances.get_instance_view(GROUP, "uni", "3").statuses[1].code == "PowerState/running"


def test_flexible_instances_are_virtual_machines_with_hexadecimal_names(simulator: Simulator) -> None:
    compute = simulator.compute()
    set_id = compute.virtual_machine_scale_sets.get(GROUP, "flex").id
    chosen = f"'virtualMachineScaleSet/id' eq '{set_id}'"
    found = list(compute.virtual_machines.list(GROUP, filter=chosen, expand="instanceView"))
    assert len(found) == 2
    for item in found:
        assert re.fullmatch(r"flex_[0-9a-f]{8}", item.name)
        assert re.fullmatch(r"flex[0-9A-F]{6}", item.os_profile.computer_name)
        assert item.virtual_machine_scale_set.id.lower() == set_id.lower()
        assert item.instance_view.statuses[1].code == "PowerState/running"
        assert item.priority == "Spot"


def test_the_list_of_virtual_machines_has_no_uniform_instance(simulator: Simulator) -> None:
    machines = simulator.compute().virtual_machines
    names = [item.name for item in machines.list_all()]
    assert "ctl" in names
    assert "far" in names
    assert len(names) == 4
    assert [item.name for item in machines.list("elsewhere")] == ["far"]


def test_status_only_returns_the_state_of_every_virtual_machine(simulator: Simulator) -> None:
    found = list(simulator.compute().virtual_machines.list_all(status_only="true"))
    assert len(found) == 4
    assert all(item.instance_view.statuses[1].code == "PowerState/running" for item in found)
    assert all(item.hardware_profile is None for item in found)


def test_expand_without_filter_is_refused(simulator: Simulator) -> None:
    with pytest.raises(HttpResponseError, match="instanceView"):
        list(simulator.compute().virtual_machines.list(GROUP, expand="instanceView"))


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ("properties/latestModelApplied eq true", ["uni_0", "uni_3", "uni_17"]),
        ("properties/latestModelApplied eq false", []),
        ("instanceView/statuses/code eq 'PowerState/running'", ["uni_0", "uni_3", "uni_17"]),
        ("instanceView/statuses/code eq 'PowerState/deallocated'", []),
    ],
)
def test_uniform_instances_can_be_filtered(simulator: Simulator, chosen: str, names: list[str]) -> None:
    found = simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni", filter=chosen)
    assert [item.name for item in found] == names


def test_interfaces_of_a_uniform_set_have_the_machine_id_in_another_case(simulator: Simulator) -> None:
    found = list(simulator.network().network_interfaces.list_virtual_machine_scale_set_network_interfaces(GROUP, "uni"))
    instances = list(simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni"))
    assert [item.virtual_machine.id.lower() for item in found] == [item.id.lower() for item in instances]
    assert [item.virtual_machine.id for item in found] != [item.id for item in instances]
    addresses = [item.ip_configurations[0].private_ip_address for item in found]
    assert len(set(addresses)) == 3
    assert all(item.enable_accelerated_networking for item in found)
    assert {item.ip_configurations[0].subnet.id.rpartition("/")[2] for item in found} == {"nodes"}


def test_interfaces_of_a_flexible_set_are_not_listed_below_the_set(simulator: Simulator) -> None:
    network = simulator.network()
    with pytest.raises(ResourceNotFoundError):
        list(network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(GROUP, "flex"))
    names = [item.name for item in network.network_interfaces.list_all()]
    assert len([name for name in names if name.startswith("flex-nic-")]) == 2
    assert len(names) == 4


def test_public_addresses_are_in_the_same_lists_as_in_azure(simulator: Simulator) -> None:
    public = simulator.network().public_ip_addresses
    assert len(list(public.list_all())) == 3
    of_set = list(public.list_virtual_machine_scale_set_public_ip_addresses(GROUP, "pub"))
    assert [item.ip_address for item in of_set] == [simulator.instance("pub_0").public_ipv4]
    assert list(public.list_virtual_machine_scale_set_public_ip_addresses(GROUP, "uni")) == []


def test_virtual_networks_have_their_address_space(simulator: Simulator) -> None:
    networks = simulator.network().virtual_networks
    assert {item.name: item.address_space.address_prefixes for item in networks.list_all()} == {
        "sim": ["10.77.0.0/24"],
        "other": ["10.80.0.0/16"],
    }
    assert [item.name for item in networks.list("elsewhere")] == ["other"]


def test_paths_are_not_case_sensitive(simulator: Simulator) -> None:
    compute = simulator.compute()
    assert compute.virtual_machine_scale_sets.get("HPCAI-Sim", "UNI").name == "uni"
    assert compute.virtual_machines.get("hpcai-SIM", "CTL").name == "ctl"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/subscriptions/{s}/providers/Microsoft.Compute/virtualMachines", 400, "MissingApiVersionParameter"),
        ("/subscriptions/{s}/providers/Microsoft.Compute/virtualMachines?api-version=x", 400, "InvalidApiVersion"),
        ("/subscriptions/0/providers/Microsoft.Compute/virtualMachines?{v}", 404, "SubscriptionNotFound"),
        ("/subscriptions/{s}/providers/Microsoft.Compute/nothing?{v}", 404, "InvalidResourceType"),
        ("/subscriptions/{s}/resourceGroups/x/providers/Microsoft.Compute/virtualMachines?{v}", 404, "ResourceGroup"),
        (
            "/subscriptions/{s}/resourceGroups/hpcai-sim/providers/Microsoft.Compute/virtualMachines/x?{v}",
            404,
            "ResourceNotFound",
        ),
        (
            "/subscriptions/{s}/resourceGroups/hpcai-sim/providers/Microsoft.Compute/virtualMachineScaleSets/uni"
            "/virtualMachines/99?{v}",
            404,
            "NotFound",
        ),
        (
            "/subscriptions/{s}/providers/Microsoft.Compute/virtualMachines?{v}&$skipToken=mine",
            400,
            "InvalidParameter",
        ),
    ],
)
def test_errors_have_azures_format(simulator: Simulator, path: str, status: int, code: str) -> None:
    answer = get(simulator, path.format(s=simulator.subscription_id, v="api-version=2024-11-01"))
    assert answer.status_code == status
    assert answer.json()["error"]["code"].startswith(code)
    assert answer.json()["error"]["message"]


def test_wrong_and_missing_tokens_are_unauthorized(simulator: Simulator) -> None:
    with pytest.raises(ClientAuthenticationError, match="InvalidAuthenticationToken"):
        list(clients.compute(simulator.endpoint, token="wrong").virtual_machine_scale_sets.list_all())
    url = f"{simulator.endpoint}/subscriptions/{simulator.subscription_id}/providers/Microsoft.Compute/virtualMachines"
    answer = requests.get(url, timeout=10)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


def test_a_list_can_lack_a_machine_until_a_test_shows_it_again() -> None:
    with running(SCENARIO) as simulated:
        instances = simulated.compute().virtual_machine_scale_set_vms
        first, *others = [str(item.id) for item in instances.list(GROUP, "uni")]
        for hidden, listed in ((True, others), (False, [first, *others])):
            url = f"{simulated.endpoint}/_simulator/instances{first}"
            requests.patch(url, json={"hidden": hidden}, timeout=10).raise_for_status()
            assert [str(item.id) for item in instances.list(GROUP, "uni")] == listed
