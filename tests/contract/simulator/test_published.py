# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's answers contain only fields of Azure's published examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator import published
from simulator import sample_stack as stack
from simulator.arm import compute_payloads, impacts, network_payloads
from simulator.arm.provision import changes
from simulator.keyvault import app as keyvault
from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
SCENARIO: dict[str, Any] = {
    "key_vaults": [{"name": "hpcai-sim"}],
    "virtual_machines": [{"name": "ctl", "public_ip": True, "priority": "Spot", "zone": "1", "tags": {"a": "b"}}],
    "scale_sets": [
        {
            "name": "uni",
            "capacity": 2,
            "public_ip": True,
            "zones": ["1"],
            "priority": "Spot",
            "tags": {"a": "b"},
            "instance_tags": {"c": "d"},
        },
        {"name": "flex", "capacity": 2, "orchestration_mode": "Flexible", "public_ip": True, "zones": ["1", "2"]},
    ],
}
REPORT = {
    "startDateTime": "2026-11-22T16:40:00Z",
    "impactedResourceId": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v",
    "impactCategory": "Resource.Hpc.Unhealthy.HpcMissingGpu",
    "impactDescription": "7 of 8 GPUs",
    "additionalProperties": {"PhysicalHostName": "GGBB90904476"},
}
"""All fields that a report of this collection contains."""
UNPUBLISHED: dict[str, set[str]] = {
    # The schema has these fields, but they are younger than the example.
    "key_vault": {f"properties.{name}" for name in ("enableSoftDelete", "publicNetworkAccess")}
    | {"properties.softDeleteRetentionInDays"},
    "storage_account": {f"properties.{name}" for name in ("accessTier", "allowBlobPublicAccess")},
    # The example of another version has them.
    "role_assignment": {f"properties.{name}" for name in ("createdOn", "createdBy", "updatedOn", "updatedBy")},
    # The example is of a deployment that has just begun.
    "deployment": {f"properties.{name}" for name in ("outputs", "outputResources")},
    # Azure's schema has it, and clients count the addresses in use with it.
    "virtual_network": {"properties.subnets.properties.ipConfigurations"},
}
"""Fields that the simulator sends although no example has them, by kind of resource, each with its reason."""


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """A simulator with every kind of resource."""
    with running(SCENARIO) as simulated:
        yield simulated


def payloads(simulator: Simulator) -> list[tuple[str, dict[str, Any]]]:
    """Every kind of resource with every field that the simulator ever sends."""
    model, uni, flex = simulator.model, simulator.scale_set("uni"), simulator.scale_set("flex")
    alone, uniform = simulator.instance("ctl"), next(iter(uni.members.values()))
    flexible = next(iter(flex.members.values()))
    vault = model.vaults["hpcai-sim"]
    (network,) = model.documents.of("Microsoft.Network/virtualNetworks")
    return [
        ("scale_set", compute_payloads.scale_set(uni, "dGV4dA==")),
        ("scale_set", compute_payloads.scale_set(flex)),
        ("scale_set_view", compute_payloads.scale_set_view(uni)),
        ("uniform_instance", compute_payloads.uniform_instance(model, uniform, True)),
        ("uniform_view", compute_payloads.uniform_view(uniform)),
        ("machine", compute_payloads.machine(model, flexible, True)),
        ("machine", compute_payloads.machine(model, alone, True)),
        ("machine_status", compute_payloads.machine_status(alone)),
        ("machine_view", compute_payloads.machine_view(alone)),
        ("interface", network_payloads.interface(flexible)),
        ("set_interface", network_payloads.interface(uniform)),
        ("public_address", network_payloads.public_address(alone)),
        ("set_public_address", network_payloads.public_address(uniform)),
        ("virtual_network", changes.answer(simulator._server.context, network)),
        ("workload_impact", impacts.payload(model.subscription, "report-001", REPORT, model.identities.uuid())),
        ("secret", keyvault.payload(vault, vault.put("key", "value"))),
    ]


def test_no_answer_contains_an_unpublished_field(simulator: Simulator) -> None:
    beyond: dict[str, set[str]] = {}
    for kind, payload in payloads(simulator):
        found = published.unpublished(kind, payload)
        if found:
            beyond.setdefault(kind, set()).update(found)
    assert beyond == {kind: fields for kind, fields in UNPUBLISHED.items() if kind not in MADE}


MADE = {
    "security_group": stack.NSG,
    "nat_gateway": stack.NAT,
    "key_vault": stack.VAULT,
    "vault_secret": f"{stack.VAULT}/secrets/munge-key",
    "identity": stack.IDENTITY,
    "role_assignment": f"{stack.VAULT}/providers/Microsoft.Authorization/roleAssignments/{stack.ASSIGNMENT}",
    "storage_account": stack.STORAGE,
    "deployment": f"{stack.GROUP_ID}/providers/Microsoft.Resources/deployments/lab",
}
"""Resources of a stack by kind."""


def paths(value: Any, prefix: str = "") -> set[str]:
    """The dotted paths in a body."""
    found: set[str] = set()
    for item in value if isinstance(value, list) else [value]:
        for key, below in item.items() if isinstance(item, dict) else ():
            found |= {f"{prefix}{key}"} | paths(below, f"{prefix}{key}.")
    return found


def test_what_the_simulator_adds_to_requests_is_in_examples() -> None:
    resources = [*stack.stack(), stack.assignment()]
    sent = {"tags"}.union(*(paths(item) for item in resources))
    with running(stack.EMPTY) as simulator:
        simulator.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION})
        client = simulator.deployments().deployments
        client.begin_create_or_update(stack.GROUP, "lab", stack.template(resources, stack="x")).result()
        for kind, azure_id in MADE.items():
            answer = simulator.arm("GET", azure_id)
            assert answer.status_code == 200
            assert published.unpublished(kind, answer.json()) - sent == UNPUBLISHED.get(kind, set()), kind
        preview = client.begin_what_if(stack.GROUP, "lab", stack.template(stack.network())).result().as_dict()
        preview["properties"]["changes"] = [
            {key: value for key, value in change.items() if key not in ("before", "after", "delta")}
            for change in preview["properties"]["changes"]
        ]
        assert published.unpublished("what_if", preview) == set()


def test_the_list_has_exactly_the_kinds_that_the_simulator_sends(simulator: Simulator) -> None:
    known = json.loads(published.FILE.read_text(encoding="utf-8"))["kinds"]
    assert set(known) == {kind for kind, _payload in payloads(simulator)} | {*MADE, "what_if"}
    assert all(source["commit"] and source["path"] for kind in known.values() for source in kind["sources"])


def test_pruning_removes_unpublished_fields_at_any_depth() -> None:
    payload = {
        "name": "x",
        "invented": 1,
        "tags": {"any": "thing"},
        "properties": {"ipConfigurations": [{"name": "y", "properties": {"primary": True, "guess": 2}}]},
    }
    assert published.prune("interface", payload) == {
        "name": "x",
        "properties": {"ipConfigurations": [{"name": "y", "properties": {"primary": True}}]},
    }
    assert published.unpublished("interface", payload) == {
        "invented",
        "tags",
        "properties.ipConfigurations.properties.guess",
    }


def test_tags_keep_their_keys() -> None:
    assert published.prune("machine", {"tags": {"hpcai_role": "compute"}}) == {"tags": {"hpcai_role": "compute"}}


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError, match="no published example"):
        published.prune("moon", {})


def test_the_sdk_works_with_only_published_fields() -> None:
    with running(SCENARIO, only_published=True, poll_ms=20) as simulator:
        compute, network = simulator.compute(), simulator.network()
        found = list(compute.virtual_machine_scale_set_vms.list(GROUP, "uni", expand="instanceView"))
        assert [item.instance_id for item in found] == ["0", "2"] or len(found) == 2
        assert all(item.instance_view.placement_group_id and item.os_profile.computer_name for item in found)
        assert {item.sku.name for item in found} == {"Standard_ND96asr_v4"}
        for item in compute.virtual_machine_scale_sets.list_all():
            assert item.orchestration_mode
            assert item.sku.capacity == 2
        interfaces = list(network.network_interfaces.list_all())
        assert all(item.ip_configurations[0].private_ip_address for item in interfaces)
        assert len(interfaces) == 3
        result = compute.virtual_machine_scale_sets.begin_update(GROUP, "uni", {"sku": {"capacity": 3}}).result()
        assert result.sku.capacity == 3


def test_only_published_removes_an_unpublished_field(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compute_payloads.scale_set
    monkeypatch.setattr(compute_payloads, "scale_set", lambda item: real(item) | {"invented": True})

    def keys(**options: Any) -> set[str]:
        with running(SCENARIO, **options) as simulator:
            url = (
                f"{simulator.endpoint}/subscriptions/{simulator.subscription_id}"
                "/providers/Microsoft.Compute/virtualMachineScaleSets?api-version=2024-11-01"
            )
            answer = requests.get(url, headers={"Authorization": f"Bearer {simulator.token}"}, timeout=10)
            return set(answer.json()["value"][0])

    assert "invented" in keys()
    assert "invented" not in keys(only_published=True)
