# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From an empty subscription to a stack, and what later runs send: only what differs, and nothing of others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import deployments
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from simulator.arm.provision import schema

from .cloud import IMAGE, Azure, smallest

PUBLIC = {"ssh_from": ["192.0.2.0/24"]}
MOST_READS = 40
"""For a stack of three scale sets."""


def sets(count: int, **more: Any) -> list[dict[str, Any]]:
    """Several scale sets."""
    return [
        {"name": f"compute{number}", "vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE, **more}
        for number in range(count)
    ]


def deployed(azure: Azure) -> list[dict[str, Any]]:
    """The resources in the template of the stack's last deployment."""
    deployment = azure.simulator.model.deployments[azure.names().of(kinds.DEPLOYMENT, "hpcai-hpcai").lower()]
    return list(deployment.template["resources"])


def test_second_run_sends_nothing_within_few_reads(azure: Azure) -> None:
    wanted = smallest(scale_sets=sets(3))
    first = azure.run(wanted)
    azure.simulator.clear()
    second = azure.run(wanted)

    assert first["changed"] is True
    assert second["changed"] is False
    assert (second["changes"], second["notes"], second["diff"]) == ([], [], {"before": "", "after": ""})
    assert azure.sent() == []
    assert second["requests"] == {"reads": len(azure.simulator.requests()), "writes": 0}
    assert second["requests"]["reads"] <= MOST_READS


def test_reads_grow_by_one_for_each_scale_set(azure: Azure) -> None:
    for count in (3, 30):
        azure.run(smallest(scale_sets=sets(count)))
    few, many = (azure.run(smallest(scale_sets=sets(count)))["requests"]["reads"] for count in (3, 30))

    # The 27 sets that are only in the larger description.
    assert many - few == 27


@pytest.mark.parametrize(
    "keys",
    [
        {"network": PUBLIC, "login": {"count": 2}},
        {"shared_home": {"source": "azure_files", "size_gib": 512}, "login": {"count": 0}},
        {
            "scale_sets": sets(1, priority="spot", max_price=4.5, zone="1", health_extension=True),
            "storage": {"containers": []},
            "identities": {"assign_roles": False},
            "network": {"nat": False, "access": "private"},
            "tags": {"costCentre": "4711"},
        },
    ],
)
@pytest.mark.daily(2)
def test_check_mode_is_truthful(azure: Azure, keys: dict[str, Any]) -> None:
    wanted = smallest(**keys)
    foreseen = azure.run(wanted, check=True)
    assert azure.sent() == []

    made = azure.run(wanted)
    assert foreseen["changed"] is True
    assert made["changes"] == foreseen["changes"]
    assert made["diff"] == foreseen["diff"]
    assert azure.run(wanted, check=True)["changed"] is False


def test_image_with_a_marketplace_plan_is_ordered_with_it(azure: Azure) -> None:
    plan = {"publisher": "almalinux", "product": "almalinux-hpc", "name": "8_10-hpc-gen2"}
    azure.simulator.limits.accepted = ["/".join(plan.values())]
    image = {"image": "almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.2025071801", "plan": ":".join(plan.values())}
    wanted = smallest(scale_sets=sets(1, **image))
    azure.run(wanted)

    # Controller and login nodes have the set's image and its plan.
    for kind, name in ((kinds.VM, "hpcai-controller"), (kinds.VM, "hpcai-login-1"), (kinds.SCALE_SET, "compute0")):
        assert azure.get(azure.names().of(kind, name), kinds.API_VERSIONS[kind])["plan"] == plan
    assert azure.run(wanted)["changed"] is False


def test_new_set_is_the_only_resource_that_is_deployed(azure: Azure) -> None:
    azure.run(smallest(scale_sets=sets(1)))
    result = azure.run(smallest(scale_sets=sets(2)))

    assert [one["label"] for one in result["changes"]] == ["virtualMachineScaleSets/compute1"]
    assert [one["name"] for one in deployed(azure)] == ["compute1"]


def test_capacity_that_somebody_changed_stays(azure: Azure) -> None:
    azure.run()
    scale_set = azure.names().of(kinds.SCALE_SET, "compute")
    assert azure.get(scale_set)["sku"]["capacity"] == 0
    grown = azure.simulator.arm("PATCH", scale_set, {"sku": {"capacity": 3}}, version="2024-07-01")
    assert grown.status_code < 300
    azure.simulator.clear()

    assert azure.run()["changed"] is False
    newer = smallest(
        scale_sets=[{"vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE.replace("2025041101", "2025091101")}]
    )
    result = azure.run(newer)

    assert [(one["label"], one["action"]) for one in result["changes"]] == [
        ("virtualMachineScaleSets/compute", "patch")
    ]
    assert [method for method, path in azure.sent() if path.endswith("/compute")] == ["PATCH"]
    found = azure.get(scale_set)
    assert found["sku"]["capacity"] == 3
    profile = found["properties"]["virtualMachineProfile"]
    assert profile["storageProfile"]["imageReference"]["version"] == "22.04.2025091101"


def test_rule_changed_by_hand_is_one_line_and_one_resource(azure: Azure) -> None:
    wanted = smallest(network=PUBLIC)
    azure.run(wanted)
    nsg = azure.get(azure.names(wanted).nsg)
    rule = nsg["properties"]["securityRules"][0]["properties"]
    rule["sourceAddressPrefixes"] = ["198.51.100.0/24"]
    foreign = {"name": "backup", "properties": {**rule, "priority": 300}}
    azure.put(
        nsg["id"],
        {
            "location": nsg["location"],
            "tags": {**nsg["tags"], "owner": "me"},
            "properties": {
                "securityRules": [{"name": "hpcai-ssh", "properties": rule}, foreign],
            },
        },
    )
    azure.simulator.clear()
    result = azure.run(wanted)

    assert result["diff"]["before"].count("\n") == result["diff"]["after"].count("\n") == 1
    assert "['198.51.100.0/24']" in result["diff"]["before"]
    assert [path.rsplit("/", 1)[-1] for _method, path in azure.sent()] == ["hpcai-hpcai"]
    assert [one["name"] for one in deployed(azure)] == ["hpcai-nsg"]
    found = azure.get(nsg["id"])
    assert found["tags"]["owner"] == "me"
    assert {
        one["name"]: one["properties"]["sourceAddressPrefixes"] for one in found["properties"]["securityRules"]
    } == {
        "hpcai-ssh": ["192.0.2.0/24"],
        "backup": ["198.51.100.0/24"],
    }


def test_drift_of_every_type_is_repaired_and_foreign_content_stays(azure: Azure) -> None:
    wanted = smallest(shared_home={"source": "azure_files", "size_gib": 512})
    azure.run(wanted)
    names = azure.names(wanted)
    documents = azure.simulator.model.documents

    def properties(resource_id: str) -> Any:
        found = documents.get(resource_id)
        assert found is not None, resource_id
        return found.properties

    properties(names.nat)["idleTimeoutInMinutes"] = 4
    properties(names.network)["subnets"][0]["properties"].pop("natGateway")
    properties(names.bastion)["enableTunneling"] = False
    properties(names.vault)["networkAcls"]["defaultAction"] = "Allow"
    properties(names.vault)["networkAcls"]["ipRules"] = [{"value": "203.0.113.9/32"}]
    properties(names.account)["allowBlobPublicAccess"] = True
    properties(f"{names.account}/blobServices/default")["isVersioningEnabled"] = False
    properties(names.container("data"))["publicAccess"] = "Blob"
    properties(names.home_share)["shareQuota"] = 100
    untagged = (
        names.nodes_identity,
        names.nat_address,
        names.interface(names.controller),
        names.home_account,
        names.home_endpoint,
        names.home_zone,
    )
    for one in untagged:
        found = documents.get(one)
        assert found is not None, one
        found.tags = {"owner": "me"}
    azure.simulator.instance("hpcai-login-1").tags = {"owner": "me"}
    subnet = {"name": "foreign", "properties": {"addressPrefix": "10.42.100.0/24"}}
    assert azure.simulator.arm("PUT", f"{names.network}/subnets/foreign", subnet).status_code < 300
    result = azure.run(wanted)

    changed = {one["resource"]: one["action"] for one in result["changes"]}
    assert set(untagged) <= changed.keys()
    assert len(changed) == len(untagged) + 9
    assert changed[names.network] == changed[f"{names.account}/blobServices/default"] == "update"
    assert changed[names.vault] == changed[names.account] == changed[names.login(1)] == "patch"
    assert azure.run(wanted)["diff"] == {"before": "", "after": ""}
    assert azure.get(names.nat_address)["tags"]["owner"] == "me"
    assert azure.get(names.vault, "2023-07-01")["properties"]["networkAcls"]["ipRules"] == [{"value": "203.0.113.9/32"}]
    subnets = {one["name"]: one["properties"] for one in azure.get(names.network)["properties"]["subnets"]}
    assert "foreign" in subnets
    assert "natGateway" in subnets["cluster"]


def ranges(azure: Azure, resource_id: str, kind: str) -> list[str]:
    """The public ranges that a firewall admits."""
    properties = azure.get(resource_id, kinds.API_VERSIONS[kind])["properties"]
    return [one["value"] for one in properties["networkAcls"]["ipRules"]]


def test_range_that_left_the_stack_is_closed_and_one_added_by_hand_stays(azure: Azure) -> None:
    def wanted(*allowed: str) -> dict[str, Any]:
        return smallest(key_vault={"allow_from": list(allowed)}, storage={"allow_from": list(allowed)})

    azure.run(wanted("192.0.2.0/24", "198.51.100.7"))
    vault, account = azure.names().vault, azure.names().account
    for one in (vault, account):
        found = azure.simulator.model.documents.get(one)
        assert found is not None
        found.properties["networkAcls"]["ipRules"].append({"value": "203.0.113.9"})
    assert azure.run(wanted("192.0.2.0/24", "198.51.100.7"))["changed"] is False

    # A removal that fails is tried again.
    azure.simulator.add_fault("PATCH .*/vaults/", times=1, status=403, code="AuthorizationFailed", message="No.")
    with pytest.raises(InventoryError, match="AuthorizationFailed"):
        azure.run(wanted("192.0.2.0/24"))
    foreseen = azure.run(wanted("192.0.2.0/24"), check=True)
    assert "properties.networkAcls.ipRules[198.51.100.7" in foreseen["diff"]["before"]
    azure.run(wanted("192.0.2.0/24"))
    assert ranges(azure, vault, kinds.VAULT) == ["192.0.2.0/24", "203.0.113.9"]
    assert ranges(azure, account, kinds.ACCOUNT) == ["192.0.2.0/24", "203.0.113.9"]
    last = azure.run(wanted())
    assert ranges(azure, vault, kinds.VAULT) == ranges(azure, account, kinds.ACCOUNT) == ["203.0.113.9"]
    assert any("also admits 203.0.113.9, which hpcai_stack does not name" in note for note in last["notes"])
    assert azure.run(wanted())["changed"] is False
    # The stack takes over what was added by hand, when it names it.
    azure.run(wanted("203.0.113.9"))
    azure.run(wanted())
    assert ranges(azure, vault, kinds.VAULT) == []


def test_munge_key_is_made_once_and_shown_nowhere(azure: Azure) -> None:
    result = azure.run()
    vault = next(iter(azure.simulator.model.vaults.values()))
    secret = vault.get("munge-key")
    assert secret is not None
    key = secret.value
    # Validation, preview and deployment carry it, each in a parameter whose value Azure does not store.
    assert re.fullmatch("[A-Za-z0-9]{128}", key)
    assert key not in json.dumps(result)
    templates = {one.name: json.dumps(one.template) for one in azure.simulator.model.deployments.values()}
    assert not [name for name, text in templates.items() if key in text]
    assert '"mungeKey": {"type": "securestring"' in templates["hpcai-hpcai"]
    azure.run(smallest(tags={"a": "b"}))
    assert vault.get("munge-key") == secret


def test_each_made_resource_is_tagged_and_recorded(azure: Azure) -> None:
    result = azure.run()
    record = azure.simulator.model.deployments[azure.names().of(kinds.DEPLOYMENT, "hpcai-hpcai-record").lower()]
    content = record.template["outputs"]["record"]["value"]

    assert content["stack"] == result["owner"]
    assert set(content["resources"]) == {one["resource"] for one in result["changes"]}
    controller = azure.names().controller
    assert content["resources"][controller] == azure.get(controller)["properties"]["vmId"]
    for one in content["resources"]:
        kind = kinds.kind_of(one)
        if kind not in kinds.UNTAGGED:
            assert azure.get(one, kinds.API_VERSIONS[kind])["tags"]["hpcai_stack"] == result["owner"], one


def test_files_for_the_next_step_are_written_once(azure: Azure, tmp_path: Path) -> None:
    places: dict[str, Any] = {"export_to": str(tmp_path / "stack.json"), "inventory_to": str(tmp_path / "inventory")}
    foreseen = azure.run(check=True, **places)
    assert not list(tmp_path.iterdir())
    made = azure.run(**places)
    again = azure.run(**places)

    assert (
        foreseen["files"]
        == made["files"]
        == [
            str(path)
            for path in (
                tmp_path / "stack.json",
                tmp_path / "inventory/azure_vmss.yml",
                tmp_path / "inventory/group_vars/all/hpcai_stack.yml",
            )
        ]
    )
    assert again["files"] == []
    assert again["changed"] is False
    inventory = yaml.safe_load((tmp_path / "inventory/azure_vmss.yml").read_text(encoding="utf-8"))
    assert inventory["endpoint"] == azure.simulator.endpoint
    assert "token" not in inventory
    assert json.loads((tmp_path / "stack.json").read_text(encoding="utf-8"))["resources"]


def test_planned_changes_nothing_but_writes_the_template(azure: Azure, tmp_path: Path) -> None:
    result = azure.run(state="planned", export_to=str(tmp_path / "stack.json"))

    assert azure.sent() == []
    assert result["pending"] is True
    assert (tmp_path / "stack.json").exists()


@pytest.mark.thorough
def test_simulator_answers_with_published_fields_about_everything_that_a_stack_has(azure: Azure) -> None:
    """A field that only the simulator has would hide that the module needs one that Azure does not return."""
    wanted = smallest(
        shared_home={"source": "azure_files", "name": "homes1", "size_gib": 512},
        scale_sets=sets(1, elastic={"idle_s": 60}),
    )
    made = [one["resource"] for one in azure.run(wanted)["changes"]]
    answers = {one: azure.get(one, kinds.API_VERSIONS[kinds.kind_of(one)]) for one in made}

    assert {kinds.kind_of(one) for one in made} == kinds.API_VERSIONS.keys() - {
        kinds.DISK,
        kinds.LUSTRE,
        kinds.LOCK,
        kinds.SUBSCRIPTION,
        kinds.DEPLOYMENT,
        kinds.DELETED_VAULT,
    }
    for one, answer in answers.items():
        assert schema.published(kinds.kind_of(one), answer) == answer, one


def test_progress_names_the_resources(
    azure: Azure, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "_WATCH_S", 0.1)
    azure.simulator.add_fault("PUT .*/virtualMachines/", "slow", delay_s=1, times=1, service="deployment")
    azure.run(smallest(login={"count": 0}))

    shown = capsys.readouterr().out
    assert "localhost: making resourceGroups/hpcai" in shown
    assert re.search(r"localhost: \d+ of 19 resources are made: .*virtualMachines/hpcai-controller", shown)
