# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployments: reading templates, validation, order, failures, faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from simulator import sample_stack as stack
from simulator.testing import Simulator, running

KIND = f"{stack.GROUP_ID}/providers/Microsoft.Resources/deployments"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """An empty subscription with one resource group."""
    with running(stack.EMPTY) as simulated:
        simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION})
        yield simulated


def deploy(simulator: Simulator, resources: list[dict[str, Any]], name: str = "lab") -> Any:
    """Deploy resources and return the deployment."""
    client = simulator.deployments(retry_total=0).deployments
    return client.begin_create_or_update(stack.GROUP, name, stack.template(resources)).result()


def failures(simulator: Simulator, resources: list[dict[str, Any]], name: str = "lab") -> dict[str, str]:
    """The codes of a deployment that fails, by the name of the resource."""
    with pytest.raises(HttpResponseError) as caught:
        deploy(simulator, resources, name)
    assert caught.value.error is not None
    return {str(item.target).rpartition("/")[2]: str(item.code) for item in caught.value.error.details}


def invalid(simulator: Simulator, resources: list[dict[str, Any]], verb: str = "/validate") -> dict[str, Any]:
    """The error of a validation."""
    answer = simulator.arm("POST", f"{KIND}/lab{verb}", stack.template(resources))
    assert answer.status_code == 400, answer.text
    found: dict[str, Any] = answer.json()["error"]
    return found


def states(simulator: Simulator, name: str = "lab") -> dict[str, str]:
    """What a deployment did, by the name of the resource."""
    found = simulator.deployments().deployment_operations.list(stack.GROUP, name)
    return {item.properties.target_resource.resource_name: item.properties.provisioning_state for item in found}


def plain(name: str, *depends: str) -> dict[str, Any]:
    """An identity, which needs nothing."""
    return stack.resource("Microsoft.ManagedIdentity/userAssignedIdentities", name, depends)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([plain("[resourceGroup().name]")], "no expressions"),
        ([plain("[parameters('x')]")], "The template parameter 'x' is not found"),
        ([plain("a"), plain("A")], "multiple times"),
        ([plain("a", "b"), plain("b", "a")], "Circular dependency"),
        ([plain("a", "nowhere")], "is not defined in the template"),
        ([stack.resource("Microsoft.KeyVault/vaults/secrets", "x", ())], "incorrect segment lengths"),
        ([{"type": "Microsoft.Compute/disks", "name": "x"}], "has no 'apiVersion'"),
    ],
)
def test_an_unreadable_template_is_refused(simulator: Simulator, resources: list[dict[str, Any]], message: str) -> None:
    error = invalid(simulator, resources)
    assert error["code"] == "InvalidTemplate"
    assert message in error["message"]
    assert simulator.arm("GET", f"{KIND}/lab").json()["error"]["code"] == "DeploymentNotFound"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "The value for the template parameter 'which' is not provided"),
        ({"which": {"value": "x"}, "other": {"value": "y"}}, "do not correspond to any parameters defined"),
    ],
)
def test_parameters_that_do_not_fit_the_template_are_refused(
    simulator: Simulator, given: dict[str, Any], message: str
) -> None:
    body = stack.template([plain("a")])
    body["properties"]["template"]["parameters"] = {"which": {"type": "string"}}
    body["properties"]["parameters"] = given
    answer = simulator.arm("POST", f"{KIND}/lab/validate", body)

    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_secure_parameter_is_used_and_shown_nowhere(simulator: Simulator) -> None:
    kind = "Microsoft.KeyVault/vaults"
    vault = {
        "tenantId": simulator.subscription_id,
        "sku": {"family": "A", "name": "standard"},
        "enableRbacAuthorization": True,
    }
    secret = {"value": "[parameters('key')]"}
    body = stack.template(
        [
            stack.resource(kind, "labvault", properties=vault),
            stack.resource(f"{kind}/secrets", "labvault/key", (stack.VAULT,), properties=secret),
        ]
    )
    body["properties"]["template"]["parameters"] = {"key": {"type": "securestring"}}
    body["properties"]["parameters"] = {"key": {"value": "s3cret"}}
    client = simulator.deployments(retry_total=0).deployments
    preview = client.begin_what_if(stack.GROUP, "lab", body).result()
    made = client.begin_create_or_update(stack.GROUP, "lab", body).result()

    assert "s3cret" not in str(preview.as_dict())
    assert "s3cret" not in str(made.as_dict())
    found = next(iter(simulator.model.vaults.values())).get("key")
    assert found is not None
    assert found.value == "s3cret"


def test_only_the_incremental_mode_exists(simulator: Simulator) -> None:
    body = stack.template([])
    body["properties"]["mode"] = "Complete"
    assert simulator.arm("POST", f"{KIND}/lab/validate", body).json()["error"]["code"] == "InvalidDeployment"


def assigned(principal: str, *depends: str, **more: Any) -> dict[str, Any]:
    """A role for a principal."""
    properties = {"roleDefinitionId": stack.SECRETS_USER, "principalId": principal}
    return (
        stack.resource("Microsoft.Authorization/roleAssignments", stack.ASSIGNMENT, depends, properties=properties)
        | more
    )


PRINCIPAL = f"[reference('{stack.IDENTITY}', '2023-01-31').principalId]"


def test_a_reference_has_the_value_of_the_moment_when_the_resource_is_made(simulator: Simulator) -> None:
    resources = [assigned(PRINCIPAL, stack.IDENTITY), plain("lab")]
    assert simulator.arm("POST", f"{KIND}/lab/validate", stack.template(resources)).status_code == 200
    deploy(simulator, resources)
    identity = simulator.arm("GET", stack.IDENTITY).json()
    (found,) = simulator.model.documents.of("Microsoft.Authorization/roleAssignments")
    assert found.properties["principalId"] == identity["properties"]["principalId"]


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        ([assigned(PRINCIPAL)], "ResourceNotFound"),
        # Only dependsOn orders them.
        ([plain("lab"), assigned(PRINCIPAL)], "ResourceNotFound"),
        ([assigned(PRINCIPAL.replace("principalId", "nothing"), stack.IDENTITY), plain("lab")], "InvalidTemplate"),
    ],
)
def test_a_reference_to_what_is_not_there_fails_its_resource(
    simulator: Simulator, resources: list[dict[str, Any]], code: str
) -> None:
    assert failures(simulator, resources) == {stack.ASSIGNMENT: code}


def test_the_validation_does_not_know_the_value_of_a_reference(simulator: Simulator) -> None:
    space = {"addressSpace": {"addressPrefixes": [PRINCIPAL]}}
    network = stack.resource("Microsoft.Network/virtualNetworks", "net", ("lab",), properties=space)
    assert simulator.arm("POST", f"{KIND}/lab/validate", stack.template([plain("lab"), network])).status_code == 200
    assert failures(simulator, [plain("lab"), network]) == {"net": "InvalidAddressPrefixFormat"}


def test_a_reference_is_allowed_in_properties_only(simulator: Simulator) -> None:
    error = invalid(simulator, [plain("lab"), plain("other", "lab") | {"tags": {"owner": PRINCIPAL}}])
    assert "'reference' is not expected at this location" in error["message"]


def nested(group: str, *resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A deployment in a group, as a resource of a template."""
    found: dict[str, Any] = {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inside"}
    return found | {"resourceGroup": group, **stack.template(list(resources))} | more


def at_subscription(simulator: Simulator, verb: str, *resources: dict[str, Any], **more: Any) -> Any:
    """The answer to a deployment at the subscription."""
    path, body = "/providers/Microsoft.Resources/deployments/all", stack.template(list(resources))
    return simulator.arm("PUT" if not verb else "POST", path + verb, {"location": stack.LOCATION, **body, **more})


def test_a_validation_at_the_subscription_checks_what_is_nested_in_a_new_group(simulator: Simulator) -> None:
    group = {
        "type": "Microsoft.Resources/resourceGroups",
        "apiVersion": "2022-09-01",
        "name": "new",
        "location": "westeurope",
    }
    inside = nested("new", plain("a"), plain("b", "a"), dependsOn=[f"{stack.GROUP_ID.rpartition('/')[0]}/new"])
    assert at_subscription(simulator, "/validate", group, inside).status_code == 200
    assert "new" not in simulator.model.resource_groups

    kinds = ("Microsoft.ManagedIdentity/userAssignedIdentities", "Microsoft.Resources/resourceGroups")
    simulator.model.limits.change({"policies": [{"name": f"no-{kind}", "type": kind} for kind in kinds]})
    error = at_subscription(simulator, "/validate", group, inside).json()["error"]
    assert error["code"] == "InvalidTemplateDeployment"
    assert [one["code"] for one in error["details"]] == ["RequestDisallowedByPolicy"] * 3
    assert [one["target"].rpartition("/")[2] for one in error["details"]] == ["new", "a", "b"]


def test_a_nested_deployment_needs_its_group(simulator: Simulator) -> None:
    error = at_subscription(simulator, "/validate", nested("new", plain("a"))).json()["error"]
    assert [one["code"] for one in error["details"]] == ["ResourceGroupNotFound"]


@pytest.mark.parametrize("verb", ["", "/whatIf"])
def test_a_nested_deployment_is_only_validated(simulator: Simulator, verb: str) -> None:
    error = at_subscription(simulator, verb, nested(stack.GROUP, plain("a"))).json()["error"]
    assert "only validates nested deployments: inside" in error["message"]
    assert not simulator.model.deployments


def test_a_deployment_has_a_location_only_where_its_scope_has_none(simulator: Simulator) -> None:
    inside = nested(stack.GROUP, plain("a"))
    answers = [
        at_subscription(simulator, "/validate", location=None),
        at_subscription(simulator, "/validate", {**inside, "resourceGroup": None}),
        at_subscription(simulator, "/validate", {**inside, "location": stack.LOCATION}),
        simulator.arm("POST", f"{KIND}/lab/validate", {"location": stack.LOCATION, **stack.template([])}),
    ]
    assert [answer.json()["error"]["code"] for answer in answers] == ["InvalidDeployment"] * 4
    required, at_group = "must be specified for '{}'", "is not allowed for '{}' at resource group scope"
    texts = [required.format("all"), required.format("inside"), at_group.format("inside"), at_group.format("lab")]
    for answer, text in zip(answers, texts, strict=True):
        assert f"The 'location' property {text}" in answer.json()["error"]["message"]


def test_a_policy_can_deny_a_resource_group(simulator: Simulator) -> None:
    policy = {"name": "owner", "type": "Microsoft.Resources/resourceGroups", "path": "tags.owner"}
    simulator.model.limits.change({"policies": [policy]})
    body: dict[str, Any] = {"location": stack.LOCATION}
    refused = simulator.arm("PUT", "/resourceGroups/new", body)
    assert refused.json()["error"]["code"] == "RequestDisallowedByPolicy"
    assert simulator.arm("PUT", "/resourceGroups/new", {**body, "tags": {"owner": "me"}}).status_code == 201


def test_resources_are_made_in_the_order_of_their_dependencies(simulator: Simulator) -> None:
    deploy(simulator, [plain("c", "b"), plain("b", stack.rid(plain("a")["type"], "a")), plain("a"), plain("[[d]")])
    assert list(states(simulator)) == ["a", "b", "c", "[d]"]


def test_names_nested_resources_and_symbols_are_understood(simulator: Simulator) -> None:
    account, inner = stack.services()[3], {"type": "fileServices", "apiVersion": "2023-05-01", "name": "default"}
    account["resources"] = [inner | {"dependsOn": ["labstore"], "properties": {}}]
    old = {
        "type": "Microsoft.Storage/storageAccounts/providers/locks",
        "apiVersion": "2020-05-01",
        "name": "labstore/Microsoft.Authorization/keep",
        "dependsOn": ["Microsoft.Storage/storageAccounts/labstore"],
        "properties": {"level": "CanNotDelete"},
    }
    deploy(simulator, [account, old])
    assert simulator.arm("DELETE", stack.STORAGE).json()["error"]["code"] == "ScopeLocked"
    body = stack.template([])
    body["properties"]["template"] |= {"languageVersion": "2.0", "resources": {"x": plain("x", "y"), "y": plain("y")}}
    assert simulator.arm("PUT", f"{KIND}/symbols", body).status_code == 201
    simulator.wait()
    assert list(states(simulator, "symbols")) == ["y", "x"]


def test_a_validation_finds_everything_at_once_and_makes_nothing(simulator: Simulator) -> None:
    simulator.limits.quotas = {"standardDSv5Family": 3}
    simulator.limits.restrictions = [{"size": "Standard_ND96asr_v4", "type": "Location"}]
    simulator.limits.policies = [{"name": "no-public", "type": "Microsoft.Network/publicIPAddresses"}]
    error = invalid(simulator, stack.stack())
    assert error["code"] == "InvalidTemplateDeployment"
    found = {(item["code"], item["target"].rpartition("/")[2]) for item in error["details"]}
    assert found == {
        ("RequestDisallowedByPolicy", "lab-nat"),
        ("RequestDisallowedByPolicy", "ctl"),
        ("QuotaExceeded", "ctl"),
        ("SkuNotAvailable", "compute"),
    }
    assert invalid(simulator, stack.stack(), "/whatIf")["code"] == "InvalidTemplateDeployment"
    assert simulator.arm("GET", "/resources").json() == {"value": []}


def test_a_validation_adds_up_the_cores_of_all_sets(simulator: Simulator) -> None:
    simulator.limits.quotas = {"standardNDASv4_A100Family": 96 * 3}
    sets = [stack.scale_set("one", 2), stack.scale_set("two", 2)]
    details = invalid(simulator, [*stack.network(), *stack.services(), *sets])["details"]
    assert [(item["code"], item["target"].rpartition("/")[2]) for item in details] == [("QuotaExceeded", "two")]
    assert "Additional Required: 384, (Minimum) New Limit Required: 384" in details[0]["message"]


def test_a_validation_does_not_find_the_name_of_a_deleted_vault(simulator: Simulator) -> None:
    simulator.limits.deleted_vaults = ["LabVault"]
    assert simulator.arm("POST", f"{KIND}/lab/validate", stack.template(stack.services())).status_code == 200
    assert failures(simulator, stack.services()) == {"labvault": "ConflictError"}
    assert set(states(simulator)) == {"lab", "labvault", "labstore", "labstore/default", "labstore/default/models"}


def test_who_cannot_write_roles_learns_it_from_the_validation(simulator: Simulator) -> None:
    simulator.limits.permissions = [{"actions": ["*"], "notActions": ["Microsoft.Authorization/*/Write"]}]
    details = invalid(simulator, [*stack.services(), stack.assignment()])["details"]
    assert [item["code"] for item in details] == ["AuthorizationFailed"]
    assert "Microsoft.Authorization/roleAssignments/write" in details[0]["message"]


@pytest.mark.parametrize("number", [1, 5, 14])
def test_a_failure_at_the_nth_resource_leaves_the_others_and_a_repetition_goes_on(
    simulator: Simulator, number: int
) -> None:
    rule: dict[str, Any] = {
        "service": "deployment",
        "status": 409,
        "code": "AllocationFailed",
        "message": "no capacity",
    }
    simulator.add_fault("^PUT ", after=number - 1, times=1, **rule)
    assert list(failures(simulator, stack.stack()).values()) == ["AllocationFailed"]
    record = simulator.arm("GET", f"{KIND}/lab").json()["properties"]
    assert record["provisioningState"] == "Failed"
    assert record["error"]["details"][0]["message"] == "no capacity"
    done = simulator.arm("GET", f"{KIND}/lab/operations").json()["value"]
    assert [item["properties"]["provisioningState"] for item in done].count("Failed") == 1
    made = [item["name"] for item in simulator.arm("GET", "/resources").json()["value"]]
    assert deploy(simulator, stack.stack()).properties.provisioning_state == "Succeeded"
    assert set(made) <= {item["name"] for item in simulator.arm("GET", "/resources").json()["value"]}


def test_nothing_is_made_that_depends_on_a_failure(simulator: Simulator) -> None:
    simulator.add_fault("^PUT .*/a$", service="deployment", status=500, times=1)
    resources = [plain("a"), plain("b", "a"), plain("c", "b"), plain("d")]
    assert failures(simulator, resources) == {"a": "InternalServerError"}
    assert states(simulator) == {"a": "Failed", "d": "Succeeded"}


def test_quota_can_be_gone_between_validation_and_deployment(simulator: Simulator) -> None:
    assert simulator.arm("POST", f"{KIND}/lab/validate", stack.template(stack.stack())).status_code == 200
    simulator.add_fault("^PUT .*virtualMachines/ctl$", service="deployment", status=409, code="QuotaExceeded", times=1)
    assert failures(simulator, stack.stack()) == {"ctl": "QuotaExceeded"}
    assert "compute" in states(simulator)


def test_a_name_has_one_deployment_at_a_time(simulator: Simulator) -> None:
    simulator.add_fault("^PUT ", "hang", service="deployment", times=1)
    body = stack.template([plain("a"), plain("b", "a")])
    assert simulator.arm("PUT", f"{KIND}/lab", body).status_code == 201
    for method, path, code in (
        ("PUT", f"{KIND}/lab", "DeploymentActive"),
        ("DELETE", f"{KIND}/lab", "DeploymentActive"),
    ):
        answer = simulator.arm(method, path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, code)
    assert simulator.arm("PUT", f"{KIND}/other", stack.template([plain("c")])).status_code == 201
    assert simulator.arm("GET", f"{KIND}/lab").json()["properties"]["provisioningState"] == "Running"
    assert simulator.arm("POST", f"{KIND}/lab/cancel").status_code == 204
    simulator.clear()
    simulator.wait()
    assert simulator.arm("GET", f"{KIND}/lab").json()["properties"]["provisioningState"] == "Canceled"
    assert states(simulator) == {"a": "Succeeded"}
    assert [item["name"] for item in simulator.arm("GET", KIND).json()["value"]] == ["other", "lab"]
    assert simulator.arm("DELETE", f"{KIND}/lab").status_code == 202
    simulator.wait()
    assert simulator.arm("GET", f"{KIND}/lab").status_code == 404
    assert simulator.arm("GET", stack.rid(plain("a")["type"], "a")).status_code == 200


def test_an_existing_scale_set_loses_what_the_template_omits(simulator: Simulator) -> None:
    deploy(simulator, stack.stack())
    compute = simulator.compute().virtual_machine_scale_sets
    compute.begin_update(stack.GROUP, "compute", {"sku": {"capacity": 2}}).result()
    again = stack.scale_set()
    del again["properties"]["overprovision"], again["tags"], again["dependsOn"]
    deploy(simulator, [again])
    shown = compute.get(stack.GROUP, "compute")
    assert (shown.sku.capacity, shown.overprovision, shown.tags) == (0, True, {})
    without = stack.scale_set(capacity=None)
    del without["dependsOn"]
    assert (
        invalid(simulator, [without])["details"][0]["message"] == "Required parameter 'sku.capacity' is missing (null)."
    )


def test_a_deployment_of_the_subscription_makes_groups(simulator: Simulator) -> None:
    body = stack.template([stack.resource("Microsoft.Resources/resourceGroups", "second")]) | {"location": "westus3"}
    path = "/providers/Microsoft.Resources/deployments/groups"
    assert simulator.arm("PUT", path, body).status_code == 201
    simulator.wait()
    assert simulator.arm("GET", path).json()["properties"]["provisioningState"] == "Succeeded"
    assert simulator.arm("GET", "/resourceGroups/second").json()["tags"] == stack.TAGS
