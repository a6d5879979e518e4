# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is missing in a subscription, found over HTTP with the real SDK."""

from __future__ import annotations

import sys
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import GROUP, IDENTITY, LOCK, VAULT

from .conftest import GIVEN, IMAGE, LOCATION, STACK, Subscription

GPU_FAMILY = "standardNDASv4_A100Family"
CONTRIBUTOR = {"actions": ["*"], "notActions": ["Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"]}
READER = {"actions": ["*/read"], "notActions": []}
SET = STACK["scale_sets"][0]


@pytest.mark.parametrize("exists", [True, False], ids=["group", "no group"])
def test_an_empty_subscription_with_quota_passes(azure: Subscription, exists: bool) -> None:
    changes: dict[str, Any] = {"group": azure.group} if exists else {}
    verdicts = azure.preflight(**changes)
    assert not [one for one in verdicts if one.verdict != "pass"]
    assert {one.check for one in verdicts} > {"quota", "size", "image", "rights", "subnet", "names", "policies"}


@pytest.mark.parametrize("exists", [True, False], ids=["group", "no group"])
def test_changes_nothing(azure: Subscription, exists: bool) -> None:
    azure.simulator.clear()
    groups = list(azure.simulator.model.resource_groups)
    changes: dict[str, Any] = {"group": azure.group} if exists else {}
    azure.preflight(**changes)
    sent = {f"{one['method']} {one['path'].rpartition('/')[2]}" for one in azure.simulator.requests()}
    assert {one for one in sent if not one.startswith("GET ")} == {"POST checkNameAvailability", "POST validate"}
    assert list(azure.simulator.model.resource_groups) == groups
    assert not azure.simulator.model.deployments


def test_the_number_of_requests_is_bounded(azure: Subscription) -> None:
    def asked(count: int) -> int:
        azure.preflight(group=azure.group, scale_sets=[{**SET, "name": f"gpu{number}"} for number in range(count)])
        return azure.requests

    three = asked(3)
    assert three < 60
    # Only the plan reads each set.
    assert asked(30) == three + 27


def test_no_quota(azure: Subscription) -> None:
    azure.limit(quotas={GPU_FAMILY: 0})
    found = azure.bad()["quota"]
    assert (found.verdict, found.about) == ("fail", "Standard NDASv4_A100 Family")
    assert "raise the limit from 0 to at least 384 vCPUs" in found.action


def test_quota_that_others_use(azure: Subscription) -> None:
    azure.limit(quotas={GPU_FAMILY: 480}, used={GPU_FAMILY: 192})
    found = azure.bad()["quota"]
    assert (found.verdict, found.limit) == ("warn", "480, of which 192 are used")
    assert "to at least 576 vCPUs" in found.action


def test_no_quota_for_spot(azure: Subscription) -> None:
    azure.limit(quotas={"lowPriorityCores": 0, GPU_FAMILY: 0})
    found = azure.bad(scale_sets=[{**SET, "priority": "spot"}])["quota"]
    assert (found.verdict, found.about) == ("fail", "lowPriorityCores")


def test_a_limit_that_is_not_a_number_is_unknown(azure: Subscription) -> None:
    azure.limit(quotas={GPU_FAMILY: None})
    assert azure.bad()["quota"].verdict == "unknown"


def test_a_size_that_is_not_in_this_zone(azure: Subscription) -> None:
    found = azure.bad(scale_sets=[{**SET, "zone": "2"}])["size"]
    assert (found.verdict, found.about) == ("fail", "Standard_ND96asr_v4 in southcentralus zone 2")
    assert "it is sold in zones 1, 3" in found.summary


@pytest.mark.parametrize(
    ("restriction", "words"),
    [
        ({"type": "Zone", "zones": ["1"]}, "in zone 1 (NotAvailableForSubscription)"),
        ({"type": "Location", "reason": "QuotaId"}, "in this region (QuotaId)"),
    ],
)
def test_a_size_that_is_restricted(azure: Subscription, restriction: dict[str, Any], words: str) -> None:
    azure.limit(restrictions=[{"size": "Standard_ND96asr_v4", **restriction}])
    found = azure.bad()["size"]
    assert found.verdict == "fail"
    assert words in found.summary


def test_a_size_that_azure_does_not_have(azure: Subscription) -> None:
    found = azure.bad(scale_sets=[{**SET, "vm_size": "Standard_ND96isrf_H200_v5"}])
    assert (found["size"].verdict, found["quota"].verdict) == ("fail", "unknown")


def test_an_image_version_that_does_not_exist(azure: Subscription) -> None:
    found = azure.bad(controller={"image": IMAGE[:-1] + "9"})["image"]
    assert found.verdict == "fail"
    assert "az vm image list" in found.action


def test_an_image_of_another_generation(azure: Subscription) -> None:
    sizes = [{**size, "generations": "V1"} for size in azure.simulator.model.limits.sizes if "ND96asr" in size["name"]]
    azure.limit(sizes=[*sizes, *(one for one in azure.simulator.model.limits.sizes if "ND96asr" not in one["name"])])
    found = azure.bad()["image"]
    assert found.summary == "the image has generation V2, Standard_ND96asr_v4 starts V1 only"


def test_the_terms_of_a_marketplace_image(azure: Subscription) -> None:
    image = "almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.2025071801"
    plan = "almalinux:almalinux-hpc:8_10-hpc-gen2"
    assert f"Set plan: {plan}" in azure.bad(login={"image": image})["image"].action
    login = {"image": image, "plan": plan}
    refused = azure.bad(login=login)["image"]
    assert refused.summary == f"the terms of its marketplace plan {plan} are not accepted in this subscription"
    azure.limit(accepted=[plan.replace(":", "/")])
    assert "image" not in azure.bad(login=login)


def test_no_right_to_write_roles(azure: Subscription) -> None:
    azure.limit(permissions=[CONTRIBUTOR])
    found = azure.bad(group=azure.group)
    assert {check: one.verdict for check, one in found.items()} == {"role_rights": "fail"}
    commands = found["role_rights"].action
    assert commands.count("az role assignment create --role ") == 4
    assert "--assignee-object-id $(az identity show --ids " in commands
    assert "assign_roles to false" in commands


def test_owners_who_assign_the_roles_get_the_same_commands(azure: Subscription) -> None:
    azure.limit(permissions=[CONTRIBUTOR])
    found = azure.bad(group=azure.group, identities={"assign_roles": False})
    assert {check: one.verdict for check, one in found.items()} == {"role_rights": "warn"}


def test_no_rights(azure: Subscription) -> None:
    azure.limit(permissions=[READER])
    found = azure.bad(group=azure.group)
    assert (found["rights"].verdict, found["role_rights"].verdict) == ("fail", "fail")
    assert f"--role Contributor --scope {azure.group['adopt']}" in found["rights"].action
    # Nor may it ask for a validation.
    assert found["policies"].verdict == "unknown"
    assert "Microsoft.Resources/deployments/validate/action" in found["policies"].summary


@pytest.mark.parametrize(
    ("action", "checks"),
    [
        ("Microsoft.Resources/deployments/whatIf/action", {"rights"}),
        # Azure's validation finds this too.
        ("Microsoft.Network/networkSecurityGroups/join/action", {"rights", "validation"}),
    ],
)
def test_a_right_that_only_the_deployment_needs(azure: Subscription, action: str, checks: set[str]) -> None:
    azure.limit(permissions=[{"actions": ["*"], "notActions": [action]}])
    found = azure.bad(group=azure.group)
    assert {check: one.verdict for check, one in found.items()} == dict.fromkeys(checks, "fail")
    assert found["rights"].summary == f"the identity lacks {action}"


def test_no_rights_on_adopted_resources(azure_with: Callable[[dict[str, Any]], Subscription]) -> None:
    used = azure_with({"virtual_networks": [{"name": "hub", "subnet": "nodes"}]})
    subnet = next(iter(used.simulator.model.subnets.values())).id
    central = f"/subscriptions/{used.simulator.subscription_id}/resourceGroups/central"
    identity = f"{central}/providers/{IDENTITY}/nodes"
    for one, kind in ((central, GROUP), (identity, IDENTITY)):
        used.send("PUT", one, kind, {"location": LOCATION})
    adopted: dict[str, Any] = {
        "network": {"adopt": subnet.rpartition("/subnets/")[0], "subnets": {"cluster": "nodes", "compute": "nodes"}},
        "controller": {"private_ip": str(ip_network(used.simulator.model.subnets[subnet.lower()].prefix)[9])},
        "identities": {"nodes": identity},
        "group": used.group,
    }
    group = used.group["adopt"]
    lacking = ["Microsoft.Network/virtualNetworks/subnets/*", "*/assign/action"]
    used.limit(permissions=[{"actions": ["*"], "notActions": lacking}, {"actions": ["*"], "scope": group}])
    found = {one.about: one for one in used.preflight(**adopted) if one.check == "rights"}
    assert {about: one.verdict for about, one in found.items()} == {subnet: "fail", identity: "fail", group: "pass"}
    assert found[identity].summary == f"the identity lacks {IDENTITY}/assign/action"
    assert f"--role 'Managed Identity Operator' --scope {identity}" in found[identity].action
    assert "subnets/joinViaServiceEndpoint/action" in found[subnet].summary
    used.limit(permissions=[{"actions": ["*"]}])
    assert "rights" not in {one.check for one in used.preflight(**adopted) if one.verdict != "pass"}


def test_a_full_subnet(azure_with: Callable[[dict[str, Any]], Subscription]) -> None:
    used = azure_with(
        {
            "virtual_networks": [
                {
                    "name": "hub",
                    "address_prefixes": ["10.9.0.0/24"],
                    "subnet": "nodes",
                    "subnet_prefix": "10.9.0.0/28",
                }
            ],
            "scale_sets": [{"name": "other", "capacity": 8}],
        }
    )
    hub = next(iter(used.simulator.model.subnets.values())).id.rpartition("/subnets/")[0]
    adopted = {
        "network": {"adopt": hub, "subnets": {"cluster": "nodes", "compute": "nodes"}},
        "controller": {"private_ip": "10.9.0.13"},
    }
    # 16 addresses, of which Azure keeps 5, and the other set has 8.
    found = used.bad(**adopted)["subnet"]
    assert (found.verdict, found.value, found.limit) == ("fail", "6 addresses needed", "3 free")


def test_a_subnet_that_does_not_exist(azure: Subscription) -> None:
    hub = f"{azure.group['adopt']}/providers/Microsoft.Network/virtualNetworks/hub"
    network = {"adopt": hub, "subnets": {"cluster": "a", "compute": "b"}}
    found = azure.preflight(network=network, controller={"private_ip": "10.9.0.4"})
    assert [one.about for one in found if one.check == "subnet" and one.verdict == "fail"] == ["a", "b"]


def test_the_name_of_a_soft_deleted_vault(azure: Subscription) -> None:
    vault = f"{azure.group['adopt']}/providers/{VAULT}/hpc-deleted"
    body = {
        "location": LOCATION,
        "properties": {
            "tenantId": azure.simulator.subscription_id,
            "sku": {"family": "A", "name": "standard"},
            "enableRbacAuthorization": True,
            "softDeleteRetentionInDays": 7,
        },
    }
    azure.send("PUT", vault, VAULT, body)
    azure.send("DELETE", vault, VAULT)
    found = azure.bad(key_vault={"name": "hpc-deleted"})["names"]
    assert (found.verdict, found.about) == ("fail", "key vault hpc-deleted")
    assert "soft-deleted, and blocks it until 20" in found.summary
    assert "az keyvault purge --name hpc-deleted --location southcentralus" in found.action


@pytest.mark.parametrize("key", ["key_vault", "storage"])
def test_a_name_that_somebody_else_has(azure: Subscription, key: str) -> None:
    azure.limit(foreign_names=["takenname"])
    found = azure.bad(**{key: {"name": "takenname"}})["names"]
    assert (found.verdict, found.value) == ("fail", "AlreadyExists")


def test_a_policy_that_denies_public_addresses(azure: Subscription) -> None:
    azure.limit(policies=[{"name": "no-public-ip", "type": "Microsoft.Network/publicIPAddresses"}])
    denied = [one for one in azure.preflight(group=azure.group) if one.verdict != "pass"]
    assert {(one.check, one.verdict) for one in denied} == {("policies", "fail")}
    assert "no-public-ip" in denied[0].summary
    assert f"an exemption of {azure.group['adopt']}" in denied[0].action


@pytest.mark.parametrize(
    "policy",
    [
        {"name": "no-public-ip", "type": "Microsoft.Network/publicIPAddresses"},
        {"name": "cost-center", "type": "Microsoft.Resources/resourceGroups", "path": "tags.cost-center"},
    ],
    ids=["resource", "group"],
)
def test_a_policy_is_found_before_there_is_a_resource_group(azure: Subscription, policy: dict[str, Any]) -> None:
    azure.limit(policies=[policy])
    found = azure.bad()
    assert {check: one.verdict for check, one in found.items()} == {"policies": "fail"}
    assert policy["name"] in found["policies"].summary


@pytest.mark.parametrize(("level", "verdict"), [("ReadOnly", "fail"), ("CanNotDelete", "warn")])
def test_a_lock(azure: Subscription, level: str, verdict: str) -> None:
    lock = f"{azure.group['adopt']}/providers/{LOCK}/hands-off"
    azure.send("PUT", lock, LOCK, {"properties": {"level": level}})
    try:
        found = azure.bad(group=azure.group)
        assert found.pop("locks").verdict == verdict
        # The validation refuses the same.
        assert set(found) == ({"validation"} if level == "ReadOnly" else set())
        # It does not concern a stack in another group.
        assert "locks" not in azure.bad()
    finally:
        azure.send("DELETE", lock, LOCK)


def test_an_unregistered_provider(azure: Subscription) -> None:
    azure.limit(unregistered=["Microsoft.KeyVault"])
    found = azure.bad()["providers"]
    assert (found.verdict, found.about) == ("fail", "Microsoft.KeyVault")
    assert found.action.startswith("az provider register --namespace Microsoft.KeyVault ")


def test_a_foreign_resource_of_the_same_name(azure_with: Callable[[dict[str, Any]], Subscription]) -> None:
    used = azure_with({})
    used.provision(group=used.group, name="theirs")
    # Both stacks have a set of the default name.
    found = used.bad(group=used.group)["resources"]
    assert found.verdict == "fail"
    assert "virtualMachineScaleSets/compute exists, and is not of this stack" in found.summary


def test_a_provisioned_stack_passes(azure_with: Callable[[dict[str, Any]], Subscription]) -> None:
    used = azure_with({})
    used.provision(group=used.group)
    verdicts = used.preflight(group=used.group)
    assert not [one for one in verdicts if one.verdict != "pass"]
    assert "it is the stack's own" in {one.summary for one in verdicts}


def test_a_provisioned_stack_needs_quota_only_for_what_is_missing(
    azure_with: Callable[[dict[str, Any]], Subscription],
) -> None:
    used = azure_with({})
    used.provision(group=used.group)
    used.simulator.compute().virtual_machine_scale_sets.begin_update(
        GIVEN, "compute", {"sku": {"capacity": 3}}
    ).result()
    used.limit(quotas={GPU_FAMILY: 384})
    assert not used.bad(group=used.group)
    used.limit(quotas={GPU_FAMILY: 383})
    found = used.bad(group=used.group)["quota"]
    assert (found.verdict, found.limit) == ("warn", "383, of which 288 are used")


def test_the_wrong_tenant(azure: Subscription) -> None:
    azure.simulator.add_fault(
        ".*",
        status=401,
        code="InvalidAuthenticationTokenTenant",
        message="The access token is from the wrong issuer 'https://sts.windows.net/a/'. It must match the tenant 'b'.",
    )
    verdicts = azure.preflight()
    assert (verdicts[0].check, verdicts[0].verdict) == ("subscription", "fail")
    assert "wrong issuer" in verdicts[0].summary
    assert "az login --tenant" in verdicts[0].action
    assert {one.verdict for one in verdicts[1:] if one.check != "cost"} == {"unknown"}
    assert azure.requests <= 2


def test_throttling_for_a_moment_is_waited_for(azure: Subscription) -> None:
    azure.simulator.add_fault("/skus", status=429, code="TooManyRequests", headers={"Retry-After": "0"}, times=3)
    assert not azure.bad()


def test_throttling_for_minutes_makes_only_its_check_unknown(azure: Subscription) -> None:
    azure.simulator.add_fault("/usages", status=429, code="TooManyRequests", headers={"Retry-After": "3600"})
    found = azure.bad(timeout=500)
    assert {check: one.verdict for check, one in found.items()} == {"quota": "unknown"}
    assert "Azure throttles it" in found["quota"].summary
    assert "asks to wait 3600 seconds" in found["quota"].summary


def test_a_server_error_makes_only_its_check_unknown(azure: Subscription) -> None:
    azure.simulator.add_fault("/permissions", status=500, code="InternalServerError")
    found = azure.preflight(group=azure.group)
    assert {one.check for one in found if one.verdict != "pass"} == {"rights", "role_rights"}


def test_a_missing_permission_is_named(azure: Subscription) -> None:
    azure.simulator.add_fault("/locks", status=403, code="AuthorizationFailed")
    found = azure.bad(group=azure.group)["locks"]
    assert found.verdict == "unknown"
    assert "Give the identity the action Microsoft.Authorization/locks/read" in found.summary


def test_a_missing_package_for_validation(azure: Subscription, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.mgmt.resource.deployments", None)
    found = azure.bad(group=azure.group)["policies"]
    assert found.verdict == "unknown"
    assert "the Python package azure-mgmt-resource-deployments is missing" in found.summary


def test_a_missing_package_without_which_nothing_can_be_asked(
    azure: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "azure.mgmt.compute", None)
    with pytest.raises(InventoryError, match="the Python package azure-mgmt-compute is missing"):
        azure.preflight()
