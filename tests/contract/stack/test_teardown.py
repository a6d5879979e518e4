# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Teardown of a stack on a simulated subscription: what is deleted, what stays, and what a second run does."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import remove
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds

from .cloud import Azure, smallest

NO_DATA: dict[str, Any] = {"storage": {"containers": []}, "shared_home": {"source": "none"}}


def deletions(azure: Azure) -> list[str]:
    """The last parts of the ids that were deleted, in order."""
    return [path.rsplit("/", 1)[-1] for method, path in azure.sent() if method == "DELETE"]


def test_everything_that_was_made_is_deleted(azure: Azure) -> None:
    wanted = smallest(**NO_DATA, network={"ssh_from": ["192.0.2.0/24"]})
    made = {one["resource"] for one in azure.run(wanted)["changes"]}
    azure.simulator.clear()
    foreseen = azure.run(wanted, check=True, state="absent")
    assert azure.sent() == []
    done = azure.run(wanted, state="absent")

    assert foreseen["deleted"] == done["deleted"]
    # A secret goes with its vault.
    assert set(done["deleted"]) == {one for one in made if "/secrets/" not in one}
    assert done["stays"] == []
    assert not azure.exists(azure.names().of(kinds.VM, "hpcai-controller"))
    assert azure.simulator.model.resource_groups == {}
    again = azure.run(wanted, state="absent")
    assert (again["changed"], again["deleted"], again["stays"]) == (False, [], [])


def test_stack_can_be_made_again_after_its_teardown(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    azure.run(wanted, state="absent", purge_vault=True)
    azure.run(wanted)

    assert azure.run(wanted)["changed"] is False


def test_data_stays_until_it_is_named(azure: Azure) -> None:
    azure.run()
    account = azure.names().account
    done = azure.run(state="absent")

    assert {text.split(" stays: ")[0] for text in done["stays"]} == {
        f"storageAccounts/{account.rsplit('/', 1)[-1]}",
        "disks/hpcai-home",
        "resourceGroups/hpcai",
    }
    assert azure.exists(account)
    azure.simulator.clear()
    again = azure.run(state="absent")
    assert (again["changed"], azure.sent()) == (False, [])
    last = azure.run(state="absent", data=["hpcai-home", account.rsplit("/", 1)[-1]])
    assert last["stays"] == []
    assert azure.simulator.model.resource_groups == {}


def test_stack_takes_its_kept_data_back(azure: Azure) -> None:
    azure.run()
    azure.run(state="absent", purge_vault=True)
    made = azure.run()

    actions = {one["label"].split("/")[0]: one["action"] for one in made["changes"]}
    assert "disks" not in actions
    # Its rules for the subnets have no effect until they are sent again.
    assert actions["storageAccounts"] == "patch"
    assert azure.run()["changed"] is False


def test_foreign_disk_in_our_group_survives_and_is_named(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    disk = azure.names().of(kinds.DISK, "thesis")
    azure.put(
        disk,
        {
            "location": "southcentralus",
            "sku": {"name": "Premium_LRS"},
            "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 64},
        },
    )
    done = azure.run(wanted, state="absent")

    assert done["stays"] == [
        "disks/thesis stays: the stack did not make it",
        "resourceGroups/hpcai stays: there are other resources in it",
    ]
    assert azure.exists(disk)
    assert not azure.exists(azure.names().controller)
    again = azure.run(wanted, state="absent")
    assert (again["changed"], again["deleted"]) == (False, [])
    azure.simulator.arm("DELETE", disk)
    assert azure.run(wanted, state="absent")["stays"] == []
    assert azure.simulator.model.resource_groups == {}


def test_tag_copied_onto_a_foreign_resource_is_no_proof(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    owner = azure.run(wanted)["owner"]
    address = azure.names().of(kinds.PUBLIC_ADDRESS, "copied")
    azure.put(
        address,
        {
            "location": "southcentralus",
            "tags": {"hpcai_stack": owner},
            "sku": {"name": "Standard", "tier": "Regional"},
            "properties": {"publicIPAllocationMethod": "Static"},
        },
    )
    done = azure.run(wanted, state="absent")

    assert "publicIPAddresses/copied stays: the stack did not make it" in done["stays"]
    assert azure.exists(address)


def test_machine_made_again_by_somebody_else_stays(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    controller = azure.names().controller
    azure.simulator.instance("hpcai-controller").vm_id = "99999999-0000-4000-8000-000000000001"
    done = azure.run(wanted, state="absent")

    assert "virtualMachines/hpcai-controller stays: it is not what the stack made: its vmId is 99999999" in next(
        text for text in done["stays"] if "controller stays" in text
    )
    assert azure.exists(controller)
    assert azure.exists(azure.names().network)
    assert not azure.exists(azure.names().of(kinds.SCALE_SET, "compute"))


def test_scale_set_made_again_by_somebody_else_stays(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    scale_set = azure.names().of(kinds.SCALE_SET, "compute")
    azure.simulator.scale_set("compute").unique_id = "99999999-0000-4000-8000-000000000002"
    done = azure.run(wanted, state="absent")

    (why,) = [text for text in done["stays"] if text.startswith("virtualMachineScaleSets/compute stays")]
    assert " stays: it is not what the stack made: its uniqueId is 99999999" in why
    assert azure.exists(scale_set)
    assert azure.exists(azure.names().network)
    assert not azure.exists(azure.names().controller)


@pytest.mark.parametrize("where", ["subscription", "group", "resource"])
def test_lock_is_named_and_nothing_is_deleted(azure: Azure, where: str) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    scope = azure.names().controller
    if where != "resource":
        scope = scope.split("/resourceGroups/" if where == "subscription" else "/providers/")[0]
    lock = f"{scope}/providers/{kinds.LOCK}/keep"
    azure.put(lock, {"properties": {"level": "CanNotDelete"}})
    azure.simulator.clear()

    with pytest.raises(InventoryError, match=r"^Nothing was deleted: the lock keep \(CanNotDelete\) on ") as refused:
        azure.run(wanted, state="absent")
    assert f"az lock delete --ids {lock}".lower() in str(refused.value).lower()
    assert azure.sent() == []


def test_teardown_that_fails_is_continued(azure: Azure) -> None:
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    azure.simulator.add_fault("DELETE .*/virtualNetworks/", times=1, status=409, code="InUse", message="In use.")

    with pytest.raises(
        InventoryError, match=r"could not delete virtualNetworks/hpcai-vnet: 409 InUse: In use\."
    ) as failed:
        azure.run(wanted, state="absent")
    assert "Deleted: roleAssignments/" in str(failed.value)
    assert ", virtualMachineScaleSets/compute, " in str(failed.value)
    azure.simulator.clear()
    done = azure.run(wanted, state="absent")

    assert "compute" not in deletions(azure)
    assert done["stays"] == []
    assert azure.simulator.model.resource_groups == {}


def test_interfaces_that_azure_reserves_for_deleted_machines_are_waited_for(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove, "_RETRY_S", 0.5)
    azure.simulator.limits.nic_reserved_s = 2
    wanted = smallest(**NO_DATA)
    azure.run(wanted)
    done = azure.run(wanted, state="absent")

    assert done["stays"] == []
    assert azure.simulator.model.resource_groups == {}
    assert deletions(azure).count("hpcai-controller-nic") > 1


def test_teardown_after_a_first_run_that_failed_at_a_machine(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove, "_RETRY_S", 0.5)
    azure.simulator.limits.nic_reserved_s = 2
    wanted = smallest(**NO_DATA)
    azure.simulator.add_fault(
        "PUT .*/virtualMachines/hpcai-controller$",
        service="deployment",
        status=409,
        code="SkuNotAvailable",
        message="Not there.",
    )
    with pytest.raises(InventoryError, match="SkuNotAvailable"):
        azure.run(wanted)
    done = azure.run(wanted, state="absent")

    assert done["stays"] == []
    assert azure.simulator.model.resource_groups == {}
    assert deletions(azure).count("hpcai-controller-nic") > 1


def test_interrupted_first_run_must_be_finished_before_a_teardown(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.apply import Apply

    def killed(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    wanted = smallest(**NO_DATA)
    with monkeypatch.context() as patched:
        patched.setattr(Apply, "_record", killed)
        with pytest.raises(KeyboardInterrupt):
            azure.run(wanted)
    azure.simulator.clear()
    with pytest.raises(InventoryError, match="A tag alone proves nothing"):
        azure.run(wanted, state="absent")
    assert azure.sent() == []
    azure.run(wanted)
    azure.run(wanted, state="absent")

    assert azure.simulator.model.resource_groups == {}


def test_teardown_of_a_stack_that_never_was_does_nothing(azure: Azure) -> None:
    done = azure.run(state="absent")

    assert (done["changed"], done["deleted"], done["stays"]) == (False, [], [])
