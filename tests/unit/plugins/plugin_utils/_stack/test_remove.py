# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a teardown deletes the group, and what it reports if Azure does not follow."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import remove
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.arm import Refused
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.teardown import Choices, Teardown

from .stacks import stack

WANTED = stack()
NAT, NSG = Names(WANTED).nat, Names(WANTED).nsg


class Arm:
    """Azure, whose list of the group changes from one look to the next."""

    def __init__(self, *lists: list[str], refuses: str = "", code: str = "InUse", times: int = 1000) -> None:
        self.lists = list(lists)
        self.refuses, self.code, self.times = refuses, code, times
        self.deleted: list[str] = []
        self.waited = 0.0
        self.deadline = Deadline(600, clock=lambda: self.waited, sleep=self._wait)

    def _wait(self, seconds: float) -> None:
        self.waited += seconds

    def read_list(self, *_asked: str) -> list[dict[str, Any]]:
        shown = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return [{"id": one} for one in shown]

    def begin(self, method: str, resource_id: str, _kind: str) -> Callable[[], None]:
        if resource_id == self.refuses and self.times > 0:
            self.times -= 1
            raise Refused(f"409 {self.code}.", Answer(self.code))
        self.deleted.append(resource_id)
        return lambda: None


class Answer(Exception):
    """An error of Azure's SDK."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.error = SimpleNamespace(code=code)


class Deployments:
    """The records of the stack."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.recorded: list[str] = []

    def run(self, name: str, _template: Any) -> None:
        if self.refuses:
            raise InventoryError(self.refuses)
        self.recorded.append(name)


def removed(arm: Any, deployments: Any, said: list[str] | None = None) -> remove.Removed:
    record = Record(WANTED.owner, {WANTED.group_id: "", NAT: "", NSG: ""})
    plan = Teardown(delete=(NAT, NSG), group=True, record=record)
    return remove.remove(WANTED, arm, deployments, plan, Choices(), (said if said is not None else []).append)


def test_group_is_deleted_as_soon_as_azure_no_longer_lists_what_is_gone() -> None:
    arm = Arm([NAT, NSG], [NSG], [])
    done = removed(arm, Deployments())

    assert arm.deleted == [NAT, NSG, WANTED.group_id]
    assert arm.waited == 10
    assert done.plan.stays == ()


def test_group_in_which_something_was_made_stays_and_that_is_said() -> None:
    arm, deployments = Arm([f"{WANTED.group_id}/providers/Microsoft.Compute/disks/thesis"]), Deployments()
    done = removed(arm, deployments)

    assert arm.deleted == [NAT, NSG]
    assert str(done.plan.stays[0]) == (
        "resourceGroups/hpcai stays: Azure lists disks/thesis in it. Run this again to delete what is ours"
    )
    assert deployments.recorded == [Names(WANTED).record]


@pytest.mark.parametrize(
    "code",
    [
        "NicReservedForAnotherVm",
        "InUseNetworkSecurityGroupCannotBeDeleted",
        "PublicIPAddressCannotBeDeleted",
        "RoleDefinitionHasAssignments",
    ],
)
def test_what_azure_still_considers_to_be_in_use_is_deleted_some_minutes_later(code: str) -> None:
    arm, said = Arm([], refuses=NSG, code=code, times=12), list[str]()
    removed(arm, Deployments(), said)

    assert arm.deleted == [NAT, NSG, WANTED.group_id]
    assert arm.waited == 180
    assert said.count(f"waiting, because Azure reports as in use: networkSecurityGroups/hpcai-nsg ({code})") == 12


def test_what_stays_in_use_is_an_error_after_four_minutes() -> None:
    arm = Arm([], refuses=NSG, code="NicReservedForAnotherVm")
    with pytest.raises(InventoryError, match=r"^409 NicReservedForAnotherVm\. Deleted: natGateways/hpcai-nat\."):
        removed(arm, Deployments())

    assert arm.waited == 240


def test_other_errors_are_not_waited_for() -> None:
    arm = Arm([], refuses=NSG, code="ScopeLocked")
    with pytest.raises(InventoryError, match=r"^409 ScopeLocked\."):
        removed(arm, Deployments())

    assert arm.waited == 0


def test_error_of_the_deletion_is_not_lost_if_recording_fails_too() -> None:
    with pytest.raises(InventoryError) as failed:
        removed(Arm([], refuses=NSG), Deployments("no answer."))

    assert str(failed.value) == (
        "409 InUse. Deleted: natGateways/hpcai-nat. This could not be recorded: no answer. Correct this, and run it "
        "again."
    )
