# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a teardown deletes, in which order, and what stays with which words."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import kind_of, label_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.teardown import (
    Choices,
    Content,
    GroupState,
    Lock,
    Teardown,
    remaining,
    teardown,
)

from .azure import Answers, answers, at, record_of
from .stacks import stack

NO_STORAGE: dict[str, Any] = {"storage": {"containers": []}, "shared_home": {"source": "none"}}


def listed(found: Answers, *foreign: str) -> list[dict[str, Any]]:
    """The list of the group's resources. Azure lists no parts, no role assignments, and not the group."""
    shown = [answer for answer in found.values() if answer and answer["type"] not in (*kinds.UNTAGGED, kinds.GROUP)]
    return [*shown, *({"id": one, "tags": {}} for one in foreign)]


def run(
    wanted: Stack,
    found: Answers,
    *foreign: str,
    record: Record | None = None,
    locks: tuple[Lock, ...] = (),
    **asked: Any,
) -> Teardown:
    choices = Choices(frozenset(asked.get("data", ())), asked.get("purge", False))
    inside = GroupState(found[wanted.group_id.lower()], listed(found, *foreign), locks)
    contents = asked.get("contents")
    return teardown(wanted.owner, wanted.group_id, record or record_of(wanted), found, inside, choices, contents)


def why(plan: Teardown, label: str) -> str:
    return next((one.why for one in plan.stays if label_of(one.id) == label), f"{label} does not stay")


def test_everything_goes_in_the_order_of_dependencies() -> None:
    wanted = stack(**NO_STORAGE)
    plan = run(wanted, answers(wanted))
    order = [kind_of(one) for one in plan.delete]

    assert not plan.stays
    assert plan.group
    for first, then in (
        (kinds.SCALE_SET, kinds.VNET),
        (kinds.VM, kinds.NIC),
        (kinds.NIC, kinds.VNET),
        (kinds.BASTION_HOST, kinds.PUBLIC_ADDRESS),
        (kinds.VNET, kinds.NAT),
        (kinds.NAT, kinds.PUBLIC_ADDRESS),
        (kinds.VNET, kinds.NSG),
        (kinds.ROLE_ASSIGNMENT, kinds.IDENTITY),
        (kinds.ROLE_ASSIGNMENT, kinds.VAULT),
    ):
        last = max(number for number, kind in enumerate(order) if kind == first)
        assert last < order.index(then), f"{first} before {then}"
    assert not {kinds.SECRET, kinds.GROUP} & set(order)


def test_deleted_vault_blocks_its_name_and_that_is_said() -> None:
    wanted = stack(**NO_STORAGE)

    (note,) = run(wanted, answers(wanted)).notes
    assert "for 7 days, and blocks its name" in note
    assert not run(wanted, answers(wanted), purge=True).notes


def test_data_stays_unless_it_is_named() -> None:
    wanted = stack()
    account = wanted.storage.name
    plan = run(wanted, answers(wanted))

    assert why(plan, f"storageAccounts/{account}") == (
        f"it may contain data (data); to delete it with its data, name it: teardown_data: [{account}]"
    )
    assert "it may contain data" in why(plan, "disks/hpcai-home")
    assert not plan.group
    assert why(plan, "resourceGroups/hpcai") == "there are other resources in it"
    # The network goes although the account has rules for its subnets, and the controller although it had the disk.
    assert {"virtualNetworks/hpcai-vnet", "virtualMachines/hpcai-controller"} <= {label_of(one) for one in plan.delete}
    plan = run(wanted, answers(wanted), data={account, "hpcai-home"})
    assert not plan.stays
    assert plan.group


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (Content(found="data/model.pt (an old version)"), "it contains data/model.pt (an old version); to delete it"),
        (Content(problem="its firewall is closed"), "it may contain data (data), because its firewall is closed; to"),
        # What was found before the list ended is enough.
        (Content("data/model.pt", "no answer"), "it contains data/model.pt; to delete it"),
    ],
)
def test_account_with_content_stays_and_says_what_is_in_it(content: Content, words: str) -> None:
    wanted = stack()
    account = Names(wanted).account
    plan = run(wanted, answers(wanted), contents={account.lower(): content})

    assert why(plan, label_of(account)).startswith(words)
    assert account not in plan.delete


def test_an_empty_account_goes_and_a_disk_stays() -> None:
    wanted = stack()
    account, disk = Names(wanted).account, Names(wanted).home_disk
    # A disk has no list, whatever is said about it.
    plan = run(wanted, answers(wanted), contents={account.lower(): Content()})

    assert account in plan.delete
    assert "it may contain data" in why(plan, label_of(disk))


def test_an_empty_account_of_somebody_else_stays() -> None:
    wanted = stack()
    account = Names(wanted).account
    found = answers(wanted)
    at(found, account)["tags"] = {"hpcai_stack": "other/1"}
    plan = run(wanted, found, contents={account.lower(): Content()})

    assert "its tag hpcai_stack is other/1" in why(plan, label_of(account))


def test_foreign_disk_in_our_group_stays_and_is_named() -> None:
    wanted = stack(**NO_STORAGE)
    disk = f"{wanted.group_id}/providers/Microsoft.Compute/disks/thesis"
    plan = run(wanted, answers(wanted), disk)

    assert disk not in plan.delete
    assert why(plan, "disks/thesis") == "the stack did not make it"
    assert not plan.group


def test_tag_copied_onto_a_foreign_resource_does_not_delete_it() -> None:
    wanted = stack(**NO_STORAGE)
    found = answers(wanted)
    copied = f"{wanted.group_id}/providers/Microsoft.Compute/virtualMachines/copied"
    found[copied.lower()] = {
        "id": copied,
        "type": kinds.VM,
        "tags": {"hpcai_stack": wanted.owner},
        "properties": {"vmId": "x"},
    }
    plan = run(wanted, found)

    assert copied not in plan.delete
    assert why(plan, "virtualMachines/copied") == "the stack did not make it"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tags": {}}, "its tag hpcai_stack is gone"),
        ({"tags": {"hpcai_stack": "hpcai/other"}}, "its tag hpcai_stack is hpcai/other"),
        ({"properties": {"vmId": "other"}}, "its vmId is other, and unique-hpcai-controller is recorded"),
    ],
)
def test_machine_that_is_no_longer_ours_stays_with_what_it_needs(change: dict[str, Any], words: str) -> None:
    wanted = stack(**NO_STORAGE)
    found = answers(wanted)
    machine = at(found, Names(wanted).controller)
    machine["properties"] = {**machine["properties"], **change.get("properties", {})}
    machine["tags"] = change.get("tags", machine["tags"])
    plan = run(wanted, found)

    assert words in why(plan, "virtualMachines/hpcai-controller")
    assert why(plan, "networkInterfaces/hpcai-controller-nic") == (
        "virtualMachines/hpcai-controller, which stays, needs it"
    )
    kept = {label_of(one.id) for one in plan.stays}
    assert {"virtualNetworks/hpcai-vnet", "natGateways/hpcai-nat", "userAssignedIdentities/hpcai-controller"} <= kept
    assert "virtualMachineScaleSets/compute" in {label_of(one) for one in plan.delete}


def test_network_with_a_foreign_machine_stays() -> None:
    wanted = stack(**NO_STORAGE)
    found = answers(wanted)
    nic = "/subscriptions/x/resourceGroups/other/providers/Microsoft.Network/networkInterfaces/scanner"
    network = at(found, Names(wanted).network)
    network["properties"]["subnets"][0]["properties"]["ipConfigurations"] = [
        {"id": f"{nic}/ipConfigurations/ip"},
        {"id": f"{Names(wanted).interface(Names(wanted).controller).upper()}/ipConfigurations/ip"},
    ]
    plan = run(wanted, found)

    assert why(plan, "virtualNetworks/hpcai-vnet") == "networkInterfaces/scanner uses it"
    assert why(plan, "networkSecurityGroups/hpcai-nsg").endswith("needs it")


def test_system_disk_goes_with_its_machine() -> None:
    wanted = stack(**NO_STORAGE)
    found = answers(wanted)
    disk = f"{wanted.group_id}/providers/Microsoft.Compute/disks/hpcai-controller-os"
    machine = at(found, Names(wanted).controller)
    machine["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"] = disk.upper()
    plan = run(wanted, found, disk)

    assert not plan.stays
    assert plan.group


def test_what_goes_with_a_machine_or_is_gone_keeps_no_group() -> None:
    wanted = stack(**NO_STORAGE)
    names, found = Names(wanted), answers(wanted)
    # Azure Policy installs agents. Azure lists deleted resources for a while.
    agent = f"{names.controller.upper()}/extensions/AzureMonitorLinuxAgent"
    found[names.bastion.lower()] = None
    plan = run(wanted, found, agent, names.bastion.upper())

    assert plan.gone == (names.bastion,)
    assert plan.stays == ()
    assert plan.group


@pytest.mark.parametrize("scope", ["group", "resource", "subscription"])
def test_lock_is_named_and_nothing_is_deleted(scope: str) -> None:
    wanted = stack(**NO_STORAGE)
    place = {
        "group": wanted.group_id,
        "resource": Names(wanted).network,
        "subscription": f"/subscriptions/{wanted.subscription}",
    }[scope]
    lock = Lock(f"{place}/providers/Microsoft.Authorization/locks/keep", "CanNotDelete")

    problems = run(wanted, answers(wanted), locks=(lock,)).problems
    assert len(problems) == 1
    assert problems[0].startswith("the lock keep (CanNotDelete) on ")
    assert problems[0].endswith(f"az lock delete --ids {lock.id}")


def test_adopted_network_is_not_deleted() -> None:
    hub = f"{stack().group_id}/providers/Microsoft.Network/virtualNetworks/hub"
    wanted = stack(
        **NO_STORAGE,
        network={"adopt": hub, "subnets": {"cluster": "services", "compute": "batch"}},
        controller={"private_ip": "10.1.0.9"},
    )
    found = answers(wanted)
    found[hub.lower()] = {"id": hub, "type": kinds.VNET, "tags": {}}
    plan = run(wanted, found)

    assert hub not in plan.delete
    assert why(plan, "virtualNetworks/hub") == "the stack did not make it"


def test_adopted_group_stays() -> None:
    wanted = stack(**NO_STORAGE, group={"adopt": stack().group_id})
    plan = run(wanted, answers(wanted))

    assert not plan.group
    assert why(plan, "resourceGroups/hpcai") == "the stack did not make it"


def test_without_a_record_nothing_is_deleted() -> None:
    wanted = stack()
    inside = GroupState(answers(wanted)[wanted.group_id.lower()], listed(answers(wanted)))
    plan = teardown(wanted.owner, wanted.group_id, None, {}, inside, Choices())

    assert not plan.delete
    assert ["A tag alone proves nothing" in problem for problem in plan.problems] == [True]
    assert teardown(wanted.owner, wanted.group_id, None, {}, GroupState({"tags": {}}), Choices()) == Teardown()
    assert teardown(wanted.owner, wanted.group_id, None, {}, GroupState(None), Choices()) == Teardown()


def test_second_teardown_has_nothing_to_do() -> None:
    wanted = stack()
    plan = run(wanted, answers(wanted))
    record = remaining(plan, frozenset(one.lower() for one in plan.delete))
    assert record is not None
    kept = {one.lower() for one in record.resources}
    found = {key: value if key in kept else None for key, value in answers(wanted).items()}
    again = run(wanted, found, record=record)

    assert again.delete == ()
    assert not again.group
    assert remaining(again, frozenset()) == record
    assert {kind_of(one) for one in kept} == {
        kinds.GROUP,
        kinds.ACCOUNT,
        kinds.BLOBS,
        kinds.CONTAINER,
        kinds.DISK,
    }


def test_nothing_is_left_to_record_if_only_an_adopted_group_stays() -> None:
    wanted = stack(**NO_STORAGE, group={"adopt": stack().group_id})
    plan = run(wanted, answers(wanted))

    assert remaining(plan, frozenset(one.lower() for one in plan.delete)) is None
