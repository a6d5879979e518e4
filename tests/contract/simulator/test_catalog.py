# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight reads: usages, sizes, images, terms, providers, rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator import sample_stack as stack
from simulator.arm.provision import schema
from simulator.testing import Simulator, running

COMPUTE = "/providers/Microsoft.Compute"
HERE = f"{COMPUTE}/locations/{stack.LOCATION}"
A100 = "standardNDASv4_A100Family"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """A subscription with four A100 machines."""
    with running({"scale_sets": [{"name": "uni", "capacity": 4}]}) as simulated:
        yield simulated


def values(simulator: Simulator, path: str, kind: str) -> list[dict[str, Any]]:
    """The items of a list, which have only published fields."""
    found: list[dict[str, Any]] = simulator.arm("GET", path).json()["value"]
    assert [schema.published(kind, item) for item in found] == found
    return found


def test_usages_count_the_machines_and_write_families_in_their_own_way(simulator: Simulator) -> None:
    simulator.limits.change({"quotas": {A100: 480, "lowPriorityCores": "many"}, "used": {"cores": 16}})
    found = values(simulator, f"{HERE}/usages", "Microsoft.Compute/locations/usages")
    usages = {item["name"]["value"]: (item["currentValue"], item["limit"]) for item in found}
    assert usages["Standard NDASv4_A100 Family"] == (384, 480)
    assert usages["cores"] == (400, simulator.limits.quota)
    assert usages["lowPriorityCores"] == (0, "many")
    assert usages["virtualMachineScaleSets"][0] == 1
    sdk = {item.name.value: item.current_value for item in simulator.compute().usage.list(stack.LOCATION)}
    assert sdk["Standard NDASv4_A100 Family"] == 384


def test_growing_needs_quota_too(simulator: Simulator) -> None:
    simulator.limits.change({"quotas": {A100: 480}})
    path = f"/resourceGroups/hpcai-sim{COMPUTE}/virtualMachineScaleSets/uni"
    answer = simulator.arm("PATCH", path, {"sku": {"capacity": 6}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OperationNotAllowed")
    assert "Current Limit: 480, Current Usage: 384, Additional Required: 192" in answer.json()["error"]["message"]


def test_an_instance_that_was_never_made_needs_quota_although_the_capacity_stays() -> None:
    with running({"scale_sets": [{"name": "uni", "capacity": 1}]}) as simulated:
        path = f"/resourceGroups/hpcai-sim{COMPUTE}/virtualMachineScaleSets/uni"
        simulated.faults.add(service="scale", match="^CREATE ", action="omit", times=1)
        assert simulated.arm("PATCH", path, {"sku": {"capacity": 2}}).status_code == 200
        simulated.limits.change({"quotas": {A100: 96}})
        answer = simulated.arm("PATCH", path, {"sku": {"capacity": 2}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OperationNotAllowed")
        assert "Current Usage: 96, Additional Required: 96" in answer.json()["error"]["message"]


def test_sizes_have_zones_abilities_and_restrictions(simulator: Simulator) -> None:
    restrictions = [
        {"size": "Standard_D4s_v5", "type": "Location", "reason": "QuotaId"},
        {"size": "Standard_ND96asr_v4", "type": "Zone", "zones": ["1"]},
    ]
    simulator.limits.change({"restrictions": restrictions})
    path = f"{COMPUTE}/skus?$filter=location eq '{stack.LOCATION}'"
    found = {item["name"]: item for item in values(simulator, path, "Microsoft.Compute/skus")}
    nd = found["Standard_ND96asr_v4"]
    abilities = {item["name"]: item["value"] for item in nd["capabilities"]}
    assert (abilities["vCPUs"], abilities["GPUs"], abilities["RdmaEnabled"]) == ("96", "8", "True")
    assert nd["locationInfo"][0]["zones"] == ["1", "3"]
    assert nd["restrictions"][0]["restrictionInfo"] == {"locations": [stack.LOCATION], "zones": ["1"]}
    assert found["Standard_D4s_v5"]["restrictions"][0]["reasonCode"] == "QuotaId"
    assert found["Standard_D8s_v5"]["restrictions"] == []
    sdk = simulator.compute().resource_skus.list(filter=f"location eq '{stack.LOCATION}'")
    assert {item.family for item in sdk if item.name == "Standard_ND96asr_v4"} == {A100}
    assert simulator.arm("GET", f"{COMPUTE}/skus?$filter=size eq 'x'").status_code == 400


def test_images_have_versions_a_generation_and_sometimes_a_plan(simulator: Simulator) -> None:
    images = simulator.compute().virtual_machine_images
    versions = images.list(stack.LOCATION, "microsoft-dsvm", "ubuntu-hpc", "2204")
    assert [item.name for item in versions] == ["22.04.2025041101", "22.04.2025091101"]
    image = images.get(stack.LOCATION, "microsoft-dsvm", "ubuntu-hpc", "2204", "22.04.2025091101")
    assert (image.hyper_v_generation, image.plan) == ("V2", None)
    alma = images.get(stack.LOCATION, "almalinux", "almalinux-hpc", "8_10-hpc-gen2", "8.10.2025071801")
    assert (alma.plan.publisher, alma.plan.product, alma.plan.name) == ("almalinux", "almalinux-hpc", "8_10-hpc-gen2")
    for version in ("22.04.1", "latest"):
        path = f"{HERE}/publishers/microsoft-dsvm/artifacttypes/vmimage/offers/ubuntu-hpc/skus/2204/versions/{version}"
        assert simulator.arm("GET", path).status_code == 404


def test_terms_are_accepted_once(simulator: Simulator) -> None:
    path = (
        "/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/almalinux/offers/almalinux-hpc"
        "/plans/8_10-hpc-gen2/agreements/current"
    )
    terms = simulator.arm("GET", path).json()
    assert terms["properties"]["accepted"] is False
    assert schema.published("Microsoft.MarketplaceOrdering/agreements", terms) == terms
    terms["properties"]["accepted"] = True
    assert simulator.arm("PUT", path, terms).json()["properties"]["accepted"] is True
    assert simulator.limits.accepted == ["almalinux/almalinux-hpc/8_10-hpc-gen2"]
    assert simulator.arm("GET", path.replace("8_10", "9_1")).status_code == 400


def test_providers_are_registered_by_a_request(simulator: Simulator) -> None:
    simulator.limits.change({"unregistered": ["Microsoft.KeyVault"]})
    found = values(simulator, "/providers", "Microsoft.Resources/providers")
    states = {item["namespace"]: item["registrationState"] for item in found}
    assert states["Microsoft.KeyVault"] == "NotRegistered"
    assert states["Microsoft.Compute"] == "Registered"
    assert simulator.arm("POST", "/providers/Microsoft.KeyVault/register").status_code == 200
    assert simulator.arm("GET", "/providers/Microsoft.KeyVault").json()["registrationState"] == "Registered"


def test_rights_and_roles_can_be_read(simulator: Simulator) -> None:
    for scope in ("", "/resourceGroups/hpcai-sim"):
        path = f"{scope}/providers/Microsoft.Authorization"
        found = values(simulator, f"{path}/permissions", "Microsoft.Authorization/permissions")
        assert found[0]["actions"] == ["*"]
        roles = simulator.arm("GET", f"{path}/roleDefinitions?$filter=roleName eq 'Key Vault Secrets User'")
        (role,) = roles.json()["value"]
        assert role["name"] == "4633458b-17de-408a-b874-0445c86b69e6"
        assert simulator.arm("GET", role["id"]).json() == role
    assert simulator.arm("GET", "").json()["subscriptionId"] == simulator.subscription_id


def test_limits_can_be_changed_over_http(simulator: Simulator) -> None:
    url = f"{simulator.endpoint}/_simulator/limits"
    assert requests.patch(url, json={"quotas": {"cores": 1}}, timeout=10).status_code == 200
    assert simulator.limits.limit("CORES") == 1
    refused: tuple[dict[str, Any], ...] = ({"quotes": {}}, {"quota": "many"}, {"policies": {}})
    for wrong in refused:
        assert requests.patch(url, json=wrong, timeout=10).status_code == 400


def test_a_network_of_the_scenario_and_its_subnet_can_be_read(simulator: Simulator) -> None:
    network = f"/resourceGroups/hpcai-sim{COMPUTE.replace('Compute', 'Network')}/virtualNetworks/sim"
    subnet = simulator.arm("GET", f"{network}/subnets/nodes").json()
    assert subnet["properties"]["addressPrefix"] == "10.77.0.0/24"
    usage = values(simulator, f"{network}/usages", "Microsoft.Network/virtualNetworks/usages")[0]
    assert (usage["currentValue"], usage["limit"]) == (4, 251)
    assert len(simulator.arm("GET", network).json()["properties"]["subnets"][0]["properties"]["ipConfigurations"]) == 4
