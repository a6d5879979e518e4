# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Azure checks on other resources that a request refers to."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from simulator import sample_stack as stack
from simulator.testing import Simulator, running

SUBNETS = [
    {"name": "bare", "properties": {"addressPrefix": "10.77.1.0/24"}},
    {
        "name": "served",
        "properties": {
            "addressPrefix": "10.77.2.0/24",
            "serviceEndpoints": [{"service": "Microsoft.KeyVault"}, {"service": "Microsoft.Storage.Global"}],
        },
    },
]


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A subscription with a virtual network and an identity."""
    with running(stack.EMPTY) as simulated:
        simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION})
        space = {"addressPrefixes": ["10.77.0.0/16"]}
        put(simulated, stack.VNET, {"addressSpace": space, "subnets": SUBNETS})
        put(simulated, stack.IDENTITY, {})
        yield simulated


def put(simulator: Simulator, azure_id: str, properties: dict[str, Any], **more: Any) -> str:
    """PUT a resource. Returns the code of the error, and its message; empty if there is none."""
    body = {"location": stack.LOCATION, "properties": properties, **more}
    answer = simulator.arm("PUT", azure_id, body)
    simulator.wait()
    if answer.status_code < 400:
        return ""
    error = answer.json()["error"]
    return f"{error['code']}: {error['message']}"


def rules(*subnets: str) -> dict[str, Any]:
    """A firewall that admits subnets."""
    listed = [{"id": f"{stack.VNET}/subnets/{name}"} for name in subnets]
    return {"networkAcls": {"defaultAction": "Deny", "virtualNetworkRules": listed}}


def test_a_firewall_admits_only_subnets_with_a_service_endpoint(simulator: Simulator) -> None:
    vault = copy.deepcopy(stack.services()[1]["properties"])
    refused = put(simulator, stack.VAULT, {**vault, **rules("served", "bare")})
    assert refused.startswith("VirtualNetworkNotValid: ")
    assert "Error Code: SubnetsHaveNoServiceEndpointsConfigured. Error Message: Subnets bare of virtual net" in refused
    assert put(simulator, stack.VAULT, {**vault, **rules("served")}) == ""

    account = {"sku": {"name": "Standard_LRS"}, "kind": "StorageV2"}
    refused = put(simulator, stack.STORAGE, rules("bare", "served"), **account)
    assert refused.startswith("NetworkAclsValidationFailure: Validation of network acls failure: SubnetsHaveNoService")
    assert "Add Microsoft.Storage to subnet's ServiceEndpoints collection" in refused
    assert put(simulator, stack.STORAGE, rules("served"), **account) == ""


def test_missing_service_endpoints_are_not_found_by_the_validation(simulator: Simulator) -> None:
    account = copy.deepcopy(stack.services()[3])
    account["properties"] = rules("bare")
    client = simulator.deployments().deployments
    body = stack.template([account])
    assert client.begin_validate(stack.GROUP, "lab", body).result().error is None
    with pytest.raises(Exception, match="NetworkAclsValidationFailure"):
        client.begin_create_or_update(stack.GROUP, "lab", body).result()


def test_a_network_is_linked_to_one_zone_of_a_name(simulator: Simulator) -> None:
    simulator.arm("PUT", "/resourceGroups/hub", {"location": stack.LOCATION})
    links = {}
    for group, zone in (("hub", "privatelink.file.x"), (stack.GROUP, "Privatelink.file.x"), (stack.GROUP, "other")):
        place = stack.GROUP_ID.replace(f"/{stack.GROUP}", f"/{group}")
        links[zone] = f"{place}/providers/Microsoft.Network/privateDnsZones/{zone}"
        assert put(simulator, links[zone], {}, location="global") == ""
    own = {"registrationEnabled": False, "virtualNetwork": {"id": stack.VNET}}
    answers = [put(simulator, f"{one}/virtualNetworkLinks/lab", own, location="global") for one in links.values()]
    assert answers[0] == answers[2] == ""
    assert answers[1].startswith("BadRequest: A virtual network cannot be linked to multiple zones with overlapping n")
    # The own link can be sent again.
    assert put(simulator, f"{links['privatelink.file.x']}/virtualNetworkLinks/lab", own, location="global") == ""
    missing = own | {"virtualNetwork": {"id": f"{stack.VNET}2"}}
    refused = put(simulator, f"{links['other']}/virtualNetworkLinks/two", missing, location="global")
    assert refused.startswith("BadRequest: Virtual network resource not found for ")


def interface(subnet: str) -> dict[str, Any]:
    """An interface in a subnet."""
    own = {"subnet": {"id": f"{stack.VNET}/subnets/{subnet}"}}
    return {"ipConfigurations": [{"name": "ip", "properties": own}]}


def test_a_caller_needs_rights_on_what_a_request_refers_to(simulator: Simulator) -> None:
    # Everything in the group, except on the network: there, one may only join one subnet.
    simulator.limits.permissions = [
        {"actions": ["*"], "notActions": ["Microsoft.Network/virtualNetworks/*", "*/assign/action"]},
        {"actions": ["*/join/action"], "scope": f"{stack.VNET.upper()}/subnets/served"},
    ]
    refused = put(simulator, stack.NIC, interface("bare"))
    action = "Microsoft.Network/virtualNetworks/subnets/join/action"
    assert refused.startswith("LinkedAuthorizationFailed: ")
    assert f"permission to perform action '{action}' on the linked scope(s) '{stack.VNET}/subnets/bare'" in refused
    assert put(simulator, stack.NIC, interface("served")) == ""

    # A PATCH needs the rights for what it contains.
    assert simulator.arm("PATCH", stack.NIC, {"tags": {"a": "b"}}).status_code == 200
    vault = copy.deepcopy(stack.services()[1]["properties"])
    refused = put(simulator, stack.VAULT, {**vault, **rules("served")})
    assert "action 'Microsoft.Network/virtualNetworks/subnets/joinViaServiceEndpoint/action' on the linked" in refused
    assert put(simulator, stack.VAULT, vault) == ""
    refused = put(simulator, stack.CTL, {}, identity={"userAssignedIdentities": {stack.IDENTITY: {}}})
    assert "action 'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action' on the linked scope(s)" in refused


def test_rights_differ_between_scopes(simulator: Simulator) -> None:
    simulator.limits.permissions = [{"actions": ["*/read"]}, {"actions": ["*"], "scope": f"{stack.GROUP_ID}"}]

    def actions(scope: str) -> list[str]:
        answer = simulator.arm("GET", f"{scope}/providers/Microsoft.Authorization/permissions").json()["value"]
        assert all("scope" not in one for one in answer)
        return [action for one in answer for action in one["actions"]]

    assert actions(stack.VNET) == actions(stack.GROUP_ID) == ["*/read", "*"]
    assert actions(f"{stack.GROUP_ID}2") == actions("") == ["*/read"]
