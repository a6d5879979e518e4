# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run changes: only what the model sets, only what is the stack's own, and nothing the second time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import (
    CREATE,
    PATCH,
    UPDATE,
    Plan,
    assignments_to_request,
    plan,
)

from .azure import FOREIGN_RULE, Answers, answers, at, known, record_of, resources_of
from .stacks import GROUP_ID, IMAGE, sets, stack

PUBLIC = {"ssh_from": ["192.0.2.0/24"]}


def planned(wanted: Stack, found: Answers, record: Record | None = None) -> Plan:
    return plan(wanted, resources_of(wanted), found, record or record_of(wanted))


def with_set(**more: Any) -> dict[str, Any]:
    return {"scale_sets": sets(1, **more)}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"network": PUBLIC, "login": {"count": 0}},
        {"shared_home": {"source": "azure_files", "size_gib": 1024}},
        {"scale_sets": sets(3, priority="spot", zone="2", health_extension=True), "storage": {"containers": []}},
        {"identities": {"assign_roles": False}, "network": {"nat": False}},
    ],
)
def test_second_run_changes_nothing(keys: dict[str, Any]) -> None:
    wanted = stack(**keys)
    found = planned(wanted, answers(wanted))

    assert not found.changed
    assert (found.changes, found.problems, found.notes) == ((), (), ())
    assert found.diff() == {"before": "", "after": ""}


def test_first_run_makes_everything_in_the_order_of_needs() -> None:
    wanted = stack()
    found = plan(wanted, resources_of(wanted), {}, None)

    assert {one.how for one in found.changes} == {CREATE}
    position = {one.resource.id: number for number, one in enumerate(found.changes)}
    assert all(position[need] < position[one.resource.id] for one in found.changes for need in one.resource.needs)


def test_scale_sets_are_born_with_capacity_0_and_without_what_would_move_machines() -> None:
    wanted = stack(scale_sets=sets(1, zone="3"))
    body = next(one.body for one in resources_of(wanted) if one.kind == kinds.SCALE_SET)

    assert body["sku"] == {"name": "Standard_ND96asr_v4", "tier": "Standard", "capacity": 0}
    assert body["zones"] == ["3"]
    properties = body["properties"]
    assert properties["overprovision"] is False
    assert properties["singlePlacementGroup"] is True
    assert properties["automaticRepairsPolicy"] == {"enabled": False}
    assert properties["upgradePolicy"] == {"mode": "Manual"}


def test_capacity_of_an_existing_set_is_neither_compared_nor_sent() -> None:
    wanted = stack(**with_set(vm_size="Standard_ND96amsr_A100_v4"))
    before = answers(stack(**with_set()))
    found = planned(wanted, before, record_of(wanted))

    (change,) = found.changes
    assert change.how == PATCH
    assert change.body == {"sku": {"name": "Standard_ND96amsr_A100_v4"}}


def test_new_image_patches_only_the_image() -> None:
    before = answers(stack(**with_set()))
    scale_set = at(before, Names(stack()).of(kinds.SCALE_SET, "compute0"))["properties"]["virtualMachineProfile"]
    scale_set["storageProfile"]["imageReference"]["exactVersion"] = IMAGE.rsplit(":", 1)[-1]
    wanted = stack(**with_set(image=IMAGE.replace("010101", "020202")))
    # The controller's image follows the set's, and an existing machine keeps its own.
    (change,) = planned(wanted, before).changes

    assert change.how == PATCH
    publisher, offer, sku, _version = IMAGE.split(":")
    assert change.body["properties"]["virtualMachineProfile"] == {
        "storageProfile": {
            "imageReference": {"publisher": publisher, "offer": offer, "sku": sku, "version": "22.04.2025020202"}
        }
    }


BAKED = f"{GROUP_ID}/providers/Microsoft.Compute/galleries/hpc/images/node/versions/1.0.0"
ALMA = {"image": "almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.1", "plan": "almalinux:almalinux-hpc:8_10-hpc-gen2"}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({}, {"image": BAKED}, "between a marketplace image and a gallery"),
        ({"image": BAKED}, {}, "between a marketplace image and a gallery"),
        (ALMA, {"image": IMAGE}, "only the version of a marketplace image with a plan"),
        (ALMA, {**ALMA, "image": ALMA["image"].replace("8.10.1", "8.10.2")}, ""),
        ({"image": BAKED}, {"image": BAKED.replace("node/versions/1.0.0", "other/versions/2.0.0")}, ""),
        ({}, {"image": IMAGE.replace("2204:22.04", "2404:24.04")}, ""),
    ],
)
def test_image_that_azure_cannot_give_to_an_existing_set_is_refused(
    before: dict[str, Any], after: dict[str, Any], reason: str
) -> None:
    found = planned(stack(**with_set(**after)), answers(stack(**with_set(**before))))

    assert len(found.changes) == 1
    assert bool(found.problems) == bool(reason)
    for problem in found.problems:
        assert problem.startswith("virtualMachineScaleSets/compute0 has the image ")
        assert reason in problem
        assert "Make another scale set" in problem


def test_lustre_file_system_is_only_read() -> None:
    lustre = f"{GROUP_ID}/providers/{kinds.LUSTRE}/fast"
    wanted = stack(shared_home={"source": "amlfs", "adopt": lustre})
    found = answers(wanted)

    assert not planned(wanted, found).changed
    assert lustre not in {one.resource.id for one in plan(wanted, resources_of(wanted), {}, None).changes}
    at(found, lustre)["location"] = "West Europe"
    (problem,) = planned(wanted, found).problems
    assert problem.startswith("amlFilesystems/fast is adopted, so it is not changed, but location is West Europe")
    found[lustre.lower()] = None
    (problem,) = planned(wanted, found).problems
    assert problem.startswith("amlFilesystems/fast is adopted, and does not exist: ")


def test_rule_changed_by_hand_is_one_line_and_one_resource() -> None:
    wanted = stack(network=PUBLIC)
    found = answers(wanted)
    nsg = at(found, Names(wanted).nsg)
    nsg["properties"]["securityRules"][0]["properties"]["sourceAddressPrefixes"] = ["0.0.0.0/0"]
    result = planned(wanted, found)

    (change,) = result.changes
    assert change.how == UPDATE
    rules = change.body["properties"]["securityRules"]
    assert [rule["name"] for rule in rules] == ["hpcai-ssh", FOREIGN_RULE["name"]]
    assert rules[0]["properties"]["sourceAddressPrefixes"] == ["192.0.2.0/24"]
    assert "defaultSecurityRules" not in change.body["properties"]
    where = "networkSecurityGroups/hpcai-nsg properties.securityRules[hpcai-ssh].properties.sourceAddressPrefixes"
    assert result.diff() == {
        "before": f"{where}: ['0.0.0.0/0']\n",
        "after": f"{where}: ['192.0.2.0/24']\n",
    }


def test_own_rule_that_is_no_longer_wanted_is_removed_and_a_foreign_one_stays() -> None:
    before = answers(stack(network=PUBLIC))
    wanted = stack()
    found = answers(wanted) | {Names(wanted).nsg.lower(): before[Names(wanted).nsg.lower()]}

    (change,) = planned(wanted, found).changes
    assert [rule["name"] for rule in change.body["properties"]["securityRules"]] == [FOREIGN_RULE["name"]]


def test_changed_network_keeps_foreign_subnets_and_ranges() -> None:
    wanted = stack()
    found = answers(wanted)
    network = at(found, Names(wanted).network)
    network["properties"]["subnets"][0]["properties"].pop("natGateway")

    (change,) = planned(wanted, found).changes
    properties = change.body["properties"]
    assert [subnet["name"] for subnet in properties["subnets"]] == [
        "cluster",
        "compute",
        "AzureBastionSubnet",
        "peering",
    ]
    assert properties["addressSpace"]["addressPrefixes"] == ["10.42.0.0/16", "10.99.0.0/16"]
    assert "ipConfigurations" not in properties["subnets"][0]["properties"]
    assert change.body["tags"]["costCentre"] == "4711"


def test_tags_that_were_removed_come_back_and_foreign_ones_stay() -> None:
    wanted = stack()
    found = answers(wanted)
    at(found, Names(wanted).controller)["tags"] = {"owner": "me"}

    (change,) = planned(wanted, found).changes
    assert change.how == PATCH
    assert change.body == {
        "tags": {
            "owner": "me",
            "hpcai_stack": wanted.owner,
            "hpcai_cluster": "hpcai",
            "hpcai_role": "controller",
        }
    }


def test_foreign_tags_stay_whatever_their_names_are() -> None:
    wanted = stack()
    names = Names(wanted)
    found = answers(wanted)
    foreign = {"purpose": "training", "state": "productive", "Type": "hpc", "id": "4711", "etag": "x"}
    for one in (names.controller, names.network):
        at(found, one)["tags"] = {**foreign}

    # One is sent as what differs, the other one completely.
    for change in planned(wanted, found).changes:
        assert foreign.items() <= change.body["tags"].items()
        assert change.body["tags"]["hpcai_stack"] == wanted.owner


def test_record_of_an_older_release_closes_no_range() -> None:
    before = stack(key_vault={"allow_from": ["192.0.2.8", "198.51.100.0/24"]})
    wanted = stack(key_vault={"allow_from": ["198.51.100.0/24"]})
    result = planned(wanted, answers(before), record_of(before))

    # It is not known who added the range. From now on, the record has those of the stack.
    assert result.changes == ()
    (note,) = result.notes
    assert "also admits 192.0.2.8, which hpcai_stack does not name" in note
    assert result.record is not None
    assert result.record.ranges(Names(wanted).vault) == {"198.51.100.0/24"}


def test_identity_that_a_policy_adds_stays() -> None:
    wanted = stack()
    names = Names(wanted)
    found = answers(wanted)
    identity = at(found, names.controller)["identity"]
    identity |= {"type": "SystemAssigned, UserAssigned", "principalId": "of-the-policy", "tenantId": "the-tenant"}
    assert not planned(wanted, found).changed

    foreign = names.of(kinds.IDENTITY, "foreign")
    identity |= {"type": "SystemAssigned", "userAssignedIdentities": {foreign: {"clientId": "1", "principalId": "2"}}}
    (change,) = planned(wanted, found).changes
    # What Azure derives is not sent.
    assert change.body == {
        "identity": {
            "type": "SystemAssigned, UserAssigned",
            "userAssignedIdentities": {foreign: {}, names.controller_identity: {}},
        }
    }
    at(found, names.controller)["identity"] = {"type": "None"}
    (change,) = planned(wanted, found).changes
    assert change.body["identity"]["type"] == "UserAssigned"


def test_resource_of_somebody_else_under_our_name_is_refused() -> None:
    wanted = stack()
    found = answers(wanted)
    at(found, Names(wanted).network)["tags"] = {"hpcai_stack": "hpcai/other"}
    at(found, Names(wanted).nat)["tags"] = {}
    # The record proves that we made the NAT gateway, and its tag was removed; a foreign tag is another owner.
    result = planned(wanted, found)

    assert [text.split(" exists")[0] for text in result.problems] == ["virtualNetworks/hpcai-vnet"]
    assert "its tag hpcai_stack is hpcai/other" in result.problems[0]
    result = plan(wanted, resources_of(wanted), found, None)
    assert len(result.problems) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"zone": "2"}, r"zones is none, not \['2'\], and Azure cannot change it"),
        ({"priority": "spot"}, "virtualMachineProfile.priority is Regular, not Spot, and Azure cannot change it"),
    ],
)
def test_what_azure_cannot_change_is_refused(change: dict[str, Any], words: str) -> None:
    result = planned(stack(**with_set(**change)), answers(stack(**with_set())))

    assert not result.changes
    assert re.search(words, result.problems[0])


def test_another_region_is_one_problem_and_no_change() -> None:
    wanted = stack(location="westeurope")
    result = plan(wanted, resources_of(wanted), answers(stack()), record_of(stack()))

    assert result.changes == ()
    (problem,) = result.problems
    assert problem.startswith("hpcai_stack.location is westeurope, but the stack has resources in Sweden Central")


def test_half_made_resource_is_sent_again() -> None:
    wanted = stack(**with_set())
    found = answers(wanted)
    names = Names(wanted)
    at(found, names.nat)["properties"]["provisioningState"] = "Failed"
    scale_set = at(found, names.of(kinds.SCALE_SET, "compute0"))
    scale_set["properties"]["provisioningState"] = "Failed"
    scale_set["sku"]["capacity"] = 0

    changes = planned(wanted, found).changes
    assert {one.resource.label: one.how for one in changes} == {
        "natGateways/hpcai-nat": UPDATE,
        "virtualMachineScaleSets/compute0": PATCH,
    }
    assert [set(one.body) for one in changes if one.how == PATCH] == [{"tags"}]


def test_scale_set_that_could_not_grow_is_left_to_whoever_grows_it() -> None:
    wanted = stack(**with_set())
    found = answers(wanted)
    scale_set = at(found, Names(wanted).of(kinds.SCALE_SET, "compute0"))
    scale_set["properties"]["provisioningState"] = "Failed"

    assert not planned(wanted, found).changed
    # A request about something else does not claim to correct the state.
    scale_set["tags"] = {}
    (change,) = planned(wanted, found).changes
    assert {one.path.split(".")[0] for one in change.differs} == {"tags"}


def test_machine_that_is_not_the_recorded_one_is_reported() -> None:
    wanted = stack()
    found = answers(wanted)
    at(found, Names(wanted).controller)["properties"]["vmId"] = "another"
    result = planned(wanted, found)

    assert not result.changed
    assert "is not the machine that the stack made" in result.notes[0]


def test_machine_without_our_tag_is_refused_if_it_is_not_the_recorded_one() -> None:
    wanted = stack(**with_set())
    found = answers(wanted)
    controller, scale_set = Names(wanted).controller, Names(wanted).of(kinds.SCALE_SET, "compute0")
    at(found, controller)["properties"]["vmId"] = "another"
    at(found, scale_set)["properties"]["uniqueId"] = "another"
    for one in (controller, scale_set):
        at(found, one)["tags"] = {"owner": "somebody else"}
    result = planned(wanted, found)

    assert result.changes == ()
    assert [text.split(" exists")[0] for text in result.problems] == [
        "virtualMachines/hpcai-controller",
        "virtualMachineScaleSets/compute0",
    ]


def test_resource_that_left_the_model_stays_and_is_named() -> None:
    before = stack(scale_sets=sets(2))
    wanted = stack(scale_sets=sets(1))
    result = planned(wanted, answers(wanted), record_of(before))

    assert not result.changed
    assert result.notes == (
        "virtualMachineScaleSets/compute1 is no longer in hpcai_stack. It stays until the teardown of the stack.",
    )


def test_every_role_is_returned_if_the_stack_may_not_write_any() -> None:
    wanted = stack(identities={"assign_roles": False})

    assert len(assignments_to_request(wanted, known(wanted))) == 4
    assert not [one for one in resources_of(wanted) if one.kind == kinds.ROLE_ASSIGNMENT]


def test_dangling_role_assignment_names_the_command() -> None:
    wanted = stack()
    found = answers(wanted)
    one = next(item for item in resources_of(wanted) if item.kind == kinds.ROLE_ASSIGNMENT)
    at(found, one.id)["properties"]["principalId"] = "gone"

    (problem,) = planned(wanted, found).problems
    assert f"az role assignment delete --ids {one.id}" in problem


def test_missing_record_is_a_change() -> None:
    wanted = stack()
    result = plan(wanted, resources_of(wanted), answers(wanted), None)

    assert not result.changes
    assert result.changed
    assert result.record == record_of(wanted)
