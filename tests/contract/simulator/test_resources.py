# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single resources: what a PUT, a PATCH and a DELETE do, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from simulator import sample_stack as stack
from simulator.arm import documents
from simulator.arm.provision import changes, schema
from simulator.testing import Simulator, running

OTHER_NETWORK = stack.rid("Microsoft.Network/virtualNetworks", "other")
LOCK = "/providers/Microsoft.Authorization/locks/keep"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """An empty subscription with one resource group."""
    with running(stack.EMPTY) as simulated:
        simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION, "tags": {"a": "b"}})
        yield simulated


def put(simulator: Simulator, resource: dict[str, Any], code: int | str = 201, method: str = "PUT") -> dict[str, Any]:
    """PUT a resource of a template. ``code`` is the expected status, or the code of the expected error."""
    names = resource["name"].split("/")
    scope = resource.get("scope", "")
    prefix = f"{stack.GROUP_ID}/providers/{scope}/providers/" if scope else f"{stack.GROUP_ID}/providers/"
    namespace, *words = resource["type"].split("/")
    path = prefix + namespace + "".join(f"/{w}/{n}" for w, n in zip(words, names, strict=True))
    outside = ("type", "apiVersion", "name", "dependsOn", "scope")
    answer = simulator.arm(method, path, {key: value for key, value in resource.items() if key not in outside})
    if isinstance(code, str):
        assert answer.json()["error"]["code"] == code, answer.text
        return dict(answer.json()["error"])
    assert answer.status_code == code, answer.text
    return dict(answer.json())


def make(simulator: Simulator, resources: list[dict[str, Any]]) -> None:
    """PUT several resources."""
    for resource in resources:
        answer = put(simulator, resource, 200 if resource["name"].endswith("/default") else 201)
        assert answer["name"]
    simulator.wait()


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """A copy with other properties."""
    found = copy.deepcopy(resource)
    found["properties"].update(properties)
    return found


def code(simulator: Simulator, method: str, path: str, body: Any = None) -> str:
    """The code of the error that a request gets."""
    return str(simulator.arm(method, path, body).json()["error"]["code"])


# Requests


def test_an_unknown_field_is_refused_at_any_depth(simulator: Simulator) -> None:
    for resource in (
        changed(stack.network()[0], invented=1),
        changed(stack.network()[3], addressSpace={"addressPrefixes": ["10.0.0.0/16"], "prefix": "x"}),
        stack.public_address("x") | {"skuName": "Standard"},
    ):
        assert "Could not find member" in put(simulator, resource, "InvalidRequestContent")["message"]
    put(simulator, changed(stack.public_address("x"), publicIPAllocationMethod="Fixed"), "InvalidRequestFormat")
    put(simulator, changed(stack.public_address("x"), idleTimeoutInMinutes="4"), "InvalidRequestFormat")
    assert (
        put(simulator, changed(stack.public_address("x"), publicIPAllocationMethod="static"))["properties"][
            "publicIPAllocationMethod"
        ]
        == "Static"
    )


def test_a_resource_needs_a_location_and_keeps_it(simulator: Simulator) -> None:
    address = stack.public_address("x")
    put(simulator, address | {"location": "South Central US"})
    put(simulator, {key: value for key, value in address.items() if key != "location"}, "LocationRequired")
    put(simulator, address | {"location": "westus"}, "InvalidResourceLocation")
    group = f"/resourceGroups/{stack.GROUP}"
    assert code(simulator, "PUT", group, {"location": "westus"}) == "InvalidResourceGroupLocation"


def test_tags_are_replaced_except_by_the_merge_of_the_tags_interface(simulator: Simulator) -> None:
    put(simulator, stack.public_address("x"))
    path = stack.rid("Microsoft.Network/publicIPAddresses", "x")
    assert simulator.arm("PATCH", path, {"tags": {"mine": "1"}}).json()["tags"] == {"mine": "1"}
    merge = {"operation": "Merge", "properties": {"tags": {"other": "2"}}}
    tags = f"{path}/providers/Microsoft.Resources/tags/default"
    assert simulator.arm("PATCH", tags, merge).json()["properties"]["tags"] == {"mine": "1", "other": "2"}
    delete = {"operation": "Delete", "properties": {"tags": {"mine": "1"}}}
    assert simulator.arm("PATCH", tags, delete).json()["properties"]["tags"] == {"other": "2"}
    answer = put(simulator, {key: value for key, value in stack.public_address("x").items() if key != "tags"}, 200)
    assert "tags" not in answer
    group = f"/resourceGroups/{stack.GROUP}"
    assert simulator.arm("PATCH", group, {"tags": {"c": "d"}}).json()["tags"] == {"c": "d"}
    assert simulator.arm("PUT", group, {"location": stack.LOCATION}).json()["tags"] == {}


def test_resources_can_be_found_by_type_and_tag(simulator: Simulator) -> None:
    make(simulator, [*stack.network(), *stack.services()[:1]])
    for text, names in (
        ("resourceType eq 'Microsoft.Network/natGateways'", ["lab"]),
        ("tagName eq 'hpcai_stack' and tagValue eq 'nobody'", []),
    ):
        found = simulator.arm("GET", f"/resources?$filter={text}").json()["value"]
        assert [item["name"] for item in found] == names
    assert len(simulator.arm("GET", "/resources?$filter=tagName eq 'hpcai_stack'").json()["value"]) == 5


def test_answers_have_only_fields_of_the_published_schemas(simulator: Simulator) -> None:
    make(simulator, [*stack.stack(), stack.assignment()])
    simulator.arm("PUT", stack.NAT + LOCK, {"properties": {"level": "CanNotDelete", "notes": "x"}})
    state = simulator._server.context
    items = [*state.model.documents, *state.model.machines.values(), *state.model.scale_sets.values()]
    assert len({documents.kind_of(item) for item in items}) >= 15
    for item in items:
        payload = changes.answer(state, item)
        assert schema.published(documents.kind_of(item), payload) == payload, documents.kind_of(item)


# Networks


def test_subnets_stay_without_a_list_and_go_with_an_empty_one(simulator: Simulator) -> None:
    make(simulator, stack.network())
    network = stack.network()[3]
    without = copy.deepcopy(network)
    del without["properties"]["subnets"]
    assert [item["name"] for item in put(simulator, without, 200)["properties"]["subnets"]] == ["nodes"]
    second = {"addressPrefix": "10.77.1.0/24"}
    assert simulator.arm("PUT", f"{stack.VNET}/subnets/second", {"properties": second}).status_code == 201
    assert [item["name"] for item in simulator.arm("GET", f"{stack.VNET}/subnets").json()["value"]] == [
        "nodes",
        "second",
    ]
    # A template that forgets the second subnet deletes it.
    assert [item["name"] for item in put(simulator, network, 200)["properties"]["subnets"]] == ["nodes"]
    assert put(simulator, changed(network, subnets=[]), 200)["properties"]["subnets"] == []
    put(simulator, network, 200)
    body = {"location": stack.LOCATION, "properties": without["properties"]}
    assert simulator.arm("PUT", stack.VNET, body, "2023-06-01").json()["properties"]["subnets"] == []


def test_a_subnet_in_use_stays(simulator: Simulator) -> None:
    make(simulator, [*stack.network(), *stack.machine()[:2]])
    network = stack.network()[3]
    put(simulator, changed(network, subnets=[]), "InUseSubnetCannotBeDeleted")
    moved = [{"name": "nodes", "properties": {"addressPrefix": "10.77.9.0/24"}}]
    put(simulator, changed(network, subnets=moved), "InUsePrefixCannotBeDeleted")
    assert code(simulator, "DELETE", stack.SUBNET) == "InUseSubnetCannotBeDeleted"


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (["10.78.0.0/24"], "NetcfgSubnetRangeOutsideVnet"),
        (["10.77.0.0/24", "10.77.0.128/25"], "NetcfgSubnetRangesOverlap"),
        (["10.77.0.0/30"], "NetcfgInvalidSubnet"),
        (["10.77.0.1/24"], "InvalidAddressPrefixFormat"),
    ],
)
def test_subnets_must_fit(simulator: Simulator, prefixes: list[str], expected: str) -> None:
    subnets = [{"name": f"s{n}", "properties": {"addressPrefix": prefix}} for n, prefix in enumerate(prefixes)]
    put(simulator, changed(stack.network()[3], subnets=subnets), expected)


def test_real_machines_have_addresses_of_the_simulators_range(simulator: Simulator) -> None:
    simulator.options.real = True
    space = {"addressPrefixes": ["192.168.0.0/24"]}
    outside = changed(stack.network()[3], addressSpace=space, subnets=[])
    put(simulator, outside, "SimulatorRange")
    simulator.options.real = False
    put(simulator, outside)


def test_what_a_request_refers_to_must_exist(simulator: Simulator) -> None:
    put(simulator, stack.network()[3], "InvalidResourceReference")
    put(simulator, stack.network()[2], "InvalidResourceReference")
    put(simulator, stack.machine()[1], "InvalidResourceReference")
    put(simulator, stack.scale_set(), "InvalidResourceReference")
    put(simulator, stack.services()[2], "ParentResourceNotFound")


def test_rules_have_different_priorities(simulator: Simulator) -> None:
    group = stack.network()[0]
    rule = group["properties"]["securityRules"][0]
    put(simulator, changed(group, securityRules=[rule, rule | {"name": "two"}]), "SecurityRuleConflict")
    low = copy.deepcopy(rule)
    low["properties"]["priority"] = 99
    put(simulator, changed(group, securityRules=[low]), "SecurityRuleInvalidPriority")
    make(simulator, [group])
    extra = copy.deepcopy(rule)["properties"] | {"priority": 1001}
    assert simulator.arm("PUT", f"{stack.NSG}/securityRules/mine", {"properties": extra}).status_code == 201
    assert len(simulator.arm("GET", f"{stack.NSG}/securityRules").json()["value"]) == 2
    # A PUT of the group without the foreign rule deletes it.
    assert len(put(simulator, group, 200)["properties"]["securityRules"]) == 1


def test_a_full_subnet_has_no_address_left(simulator: Simulator) -> None:
    small = [{"name": "nodes", "properties": {"addressPrefix": "10.77.0.0/29"}}]
    make(simulator, [changed(stack.network()[3], subnets=small)])
    interface = stack.machine()[1]
    del interface["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"]
    make(simulator, [interface | {"name": f"n{number}"} for number in range(3)])
    usage = simulator.arm("GET", f"{stack.VNET}/usages").json()["value"][0]
    assert (usage["currentValue"], usage["limit"]) == (3, 3)
    put(simulator, interface | {"name": "n3"}, "SubnetIsFull")
    assert simulator.arm("DELETE", stack.rid("Microsoft.Network/networkInterfaces", "n1")).status_code == 200
    kept = put(simulator, interface | {"name": "n2"}, 200)
    assert kept["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"] == "10.77.0.6"
    freed = put(simulator, interface | {"name": "n4"})
    assert freed["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"] == "10.77.0.5"


def test_bastions_and_private_endpoints(simulator: Simulator) -> None:
    subnets = [
        {"name": "AzureBastionSubnet", "properties": {"addressPrefix": "10.77.8.0/26"}},
        {"name": "nodes", "properties": {"addressPrefix": "10.77.0.0/24"}},
    ]
    make(simulator, [changed(stack.network()[3], subnets=subnets), stack.public_address("bst"), stack.services()[3]])
    address = {"id": stack.rid("Microsoft.Network/publicIPAddresses", "bst")}
    for subnet, expected in (("nodes", "BastionSubnetNameInvalid"), ("AzureBastionSubnet", 201)):
        own = {"subnet": {"id": f"{stack.VNET}/subnets/{subnet}"}, "publicIPAddress": address}
        configuration = {"ipConfigurations": [{"name": "ip", "properties": own}]}
        put(simulator, stack.resource("Microsoft.Network/bastionHosts", "b", properties=configuration), expected)
    service = {"privateLinkServiceId": stack.STORAGE, "groupIds": ["file"]}
    endpoint = {
        "subnet": {"id": stack.SUBNET},
        "privateLinkServiceConnections": [{"name": "files", "properties": service}],
    }
    made = put(simulator, stack.resource("Microsoft.Network/privateEndpoints", "files", properties=endpoint))
    assert made["properties"]["customDnsConfigs"][0]["ipAddresses"] == ["10.77.0.4"]
    assert code(simulator, "DELETE", stack.VNET) == "InUseSubnetCannotBeDeleted"


# Services


def test_a_deleted_vault_blocks_its_name_until_it_is_purged_or_recovered(simulator: Simulator) -> None:
    vault, secret = stack.services()[1:3]
    make(simulator, [vault, secret])
    value = simulator.model.vaults["labvault"].get("munge-key")
    assert value is not None
    assert len(value.value) == 128
    assert simulator.arm("DELETE", stack.VAULT).status_code == 200
    names = "/providers/Microsoft.KeyVault"
    check = {"name": "labvault", "type": "Microsoft.KeyVault/vaults"}
    assert simulator.arm("POST", f"{names}/checkNameAvailability", check).json()["reason"] == "AlreadyExists"
    assert [item["name"] for item in simulator.arm("GET", f"{names}/deletedVaults").json()["value"]] == ["labvault"]
    put(simulator, vault, "ConflictError")
    recovered = put(simulator, changed(vault, createMode="recover"))
    assert "createMode" not in recovered["properties"]
    assert simulator.model.vaults["labvault"].get("munge-key") == value
    simulator.arm("DELETE", stack.VAULT)
    deleted = f"{names}/locations/{stack.LOCATION}/deletedVaults/labvault"
    assert simulator.arm("GET", deleted).json()["properties"]["vaultId"] == stack.VAULT
    assert simulator.arm("POST", f"{deleted}/purge").status_code == 202
    simulator.wait()
    assert simulator.arm("POST", f"{names}/checkNameAvailability", check).json() == {"nameAvailable": True}
    put(simulator, vault)
    assert simulator.model.vaults["labvault"].get("munge-key") is None


def test_names_of_others_are_taken(simulator: Simulator) -> None:
    simulator.limits.change({"foreign_names": ["LabVault", "labstore"], "deleted_vaults": ["gone-vault"]})
    vault, account = stack.services()[1], stack.services()[3]
    put(simulator, vault, "VaultAlreadyExists")
    put(simulator, vault | {"name": "gone-vault"}, "ConflictError")
    put(simulator, vault | {"name": "1vault"}, "VaultNameNotValid")
    put(simulator, account, "StorageAccountAlreadyTaken")
    put(simulator, account | {"name": "Lab-Store"}, "AccountNameInvalid")
    path = "/providers/Microsoft.Storage/checkNameAvailability"
    reasons = [
        simulator.arm("POST", path, {"name": name}).json().get("reason") for name in ("labstore", "a-b", "free1")
    ]
    assert reasons == ["AlreadyExists", "AccountNameInvalid", None]


def test_a_blob_service_loses_what_a_request_omits(simulator: Simulator) -> None:
    make(simulator, stack.services())
    service = stack.services()[4]
    assert put(simulator, service, 200)["properties"]["isVersioningEnabled"] is True
    del service["properties"]["isVersioningEnabled"]
    assert "isVersioningEnabled" not in put(simulator, service, 200)["properties"]
    found = simulator.arm("GET", f"{stack.STORAGE}/blobServices/default/containers").json()["value"]
    assert [item["name"] for item in found] == ["models"]


def test_role_assignments(simulator: Simulator) -> None:
    make(simulator, stack.services())
    assignment = stack.assignment()
    put(simulator, assignment | {"name": "not-a-guid"}, "InvalidRoleAssignmentId")
    unknown = changed(assignment, roleDefinitionId=f"{stack.SECRETS_USER[:-4]}0000")
    put(simulator, unknown, "RoleDefinitionDoesNotExist")
    nobody = copy.deepcopy(assignment)
    del nobody["properties"]["principalType"]
    put(simulator, nobody, "PrincipalNotFound")
    made = put(simulator, assignment)
    assert made["properties"]["scope"] == stack.VAULT
    put(simulator, assignment, 200)
    put(simulator, stack.assignment("bbbbbbbb-2222-4333-8444-555555555555"), "RoleAssignmentUpdateNotPermitted")
    put(simulator, assignment | {"name": "99999999-2222-4333-8444-555555555555"}, "RoleAssignmentExists")
    for scope, count in ((stack.VAULT, 1), (stack.GROUP_ID, 1), (f"/subscriptions/{simulator.subscription_id}", 1)):
        path = f"{scope}/providers/Microsoft.Authorization/roleAssignments"
        assert len(simulator.arm("GET", path).json()["value"]) == count
        assert len(simulator.arm("GET", f"{path}?$filter=atScope()").json()["value"]) == (scope == stack.VAULT)
        query = f"$filter=principalId eq '{stack.PRINCIPAL}'"
        assert len(simulator.arm("GET", f"{path}?{query}").json()["value"]) == count
    assert simulator.arm("DELETE", made["id"]).json()["name"] == stack.ASSIGNMENT
    assert simulator.arm("DELETE", made["id"]).status_code == 204


def test_a_new_principal_is_unknown_for_a_while_without_its_type(simulator: Simulator) -> None:
    simulator.limits.role_delay_s = 60
    make(simulator, stack.services())
    principal = simulator.arm("GET", stack.IDENTITY).json()["properties"]["principalId"]
    assignment = stack.assignment(principal)
    del assignment["properties"]["principalType"]
    put(simulator, assignment, "PrincipalNotFound")
    simulator.limits.role_delay_s = 0
    put(simulator, assignment)


def test_a_new_role_cannot_be_assigned_for_a_while(simulator: Simulator) -> None:
    make(simulator, stack.services())
    role = f"{stack.GROUP_ID}/providers/Microsoft.Authorization/roleDefinitions/{stack.ASSIGNMENT}"
    stated = {"roleName": "new", "type": "CustomRole", "permissions": [], "assignableScopes": [stack.GROUP_ID]}
    simulator.limits.role_delay_s = 60
    simulator.arm("PUT", role, {"properties": stated}, version="2022-04-01").raise_for_status()
    assignment = stack.assignment(simulator.arm("GET", stack.IDENTITY).json()["properties"]["principalId"])
    assignment["properties"]["roleDefinitionId"] = role
    put(simulator, assignment, "RoleDefinitionDoesNotExist")
    simulator.limits.role_delay_s = 0
    put(simulator, assignment)


# Rights


def test_locks_forbid_deletion_or_every_write(simulator: Simulator) -> None:
    make(simulator, stack.network())
    lock = {"properties": {"level": "CanNotDelete"}}
    assert simulator.arm("PUT", stack.NAT + LOCK, lock).status_code == 201
    assert code(simulator, "DELETE", stack.NAT) == "ScopeLocked"
    assert code(simulator, "DELETE", stack.GROUP_ID) == "ScopeLocked"
    put(simulator, stack.network()[2], 200)
    for scope in (stack.NAT, stack.GROUP_ID):
        found = simulator.arm("GET", f"{scope}/providers/Microsoft.Authorization/locks").json()["value"]
        assert [item["name"] for item in found] == ["keep"]
    assert simulator.arm("DELETE", stack.NAT + LOCK).status_code == 200
    assert simulator.arm("PUT", stack.GROUP_ID + LOCK, {"properties": {"level": "ReadOnly"}}).status_code == 201
    put(simulator, stack.network()[2], "ScopeLocked")
    assert code(simulator, "PATCH", stack.NAT, {"tags": {}}) == "ScopeLocked"


def test_policies_rights_and_registration(simulator: Simulator) -> None:
    limits = simulator.limits
    limits.change(
        {
            "policies": [
                {"name": "no-pip", "type": "Microsoft.Network/publicIPAddresses", "path": "sku.name", "value": "Basic"}
            ]
        }
    )
    assert (
        "no-pip"
        in put(simulator, stack.public_address("x") | {"sku": {"name": "Basic"}}, "RequestDisallowedByPolicy")[
            "message"
        ]
    )
    put(simulator, stack.public_address("x"))
    limits.change({"permissions": [{"actions": ["*/read"]}]})
    put(simulator, stack.public_address("y"), "AuthorizationFailed")
    assert code(simulator, "DELETE", stack.rid("Microsoft.Network/publicIPAddresses", "x")) == "AuthorizationFailed"
    assert code(simulator, "PUT", "/resourceGroups/new", {"location": "westus"}) == "AuthorizationFailed"
    limits.change({"permissions": [{"actions": ["*"]}], "unregistered": ["microsoft.network"]})
    put(simulator, stack.public_address("y"), "MissingSubscriptionRegistration")


def test_throttled_reads_can_last(simulator: Simulator) -> None:
    make(simulator, stack.network())
    simulator.add_fault("^GET .*virtualNetworks", status=429, headers={"Retry-After": "60"}, times=100)
    answer = simulator.arm("GET", stack.VNET)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert simulator.arm("GET", stack.NAT).status_code == 200
