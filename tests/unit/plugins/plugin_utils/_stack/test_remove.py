# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a teardown deletes the group, and what it reports if Azure does not follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import remove
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.teardown import Choices, Teardown

from .stacks import stack

WANTED = stack()
NAT, NSG = Names(WANTED).nat, Names(WANTED).nsg


class Arm:
    """Azure, whose list of the group changes from one look to the next."""

    def __init__(self, *lists: list[str], refuses: str = "") -> None:
        self.lists = list(lists)
        self.refuses = refuses
        self.deleted: list[str] = []
        self.waited = 0.0
        self.deadline = Deadline(600, clock=lambda: self.waited, sleep=self._wait)

    def _wait(self, seconds: float) -> None:
        self.waited += seconds

    def read_list(self, *_asked: str) -> list[dict[str, Any]]:
        shown = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return [{"id": one} for one in shown]

    def begin(self, method: str, resource_id: str, _kind: str) -> Callable[[], None]:
        if resource_id == self.refuses:
            raise InventoryError("409 InUse.")
        self.deleted.append(resource_id)
        return lambda: None


class Deployments:
    """The records of the stack."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.recorded: list[str] = []

    def run(self, name: str, _template: Any) -> None:
        if self.refuses:
            raise InventoryError(self.refuses)
        self.recorded.append(name)


def removed(arm: Any, deployments: Any) -> remove.Removed:
    record = Record(WANTED.owner, {WANTED.group_id: "", NAT: "", NSG: ""})
    plan = Teardown(delete=(NAT, NSG), group=True, record=record)
    return remove.remove(WANTED, arm, deployments, plan, Choices(), lambda _words: None)


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


def test_error_of_the_deletion_is_not_lost_if_recording_fails_too() -> None:
    with pytest.raises(InventoryError) as failed:
        removed(Arm([], refuses=NSG), Deployments("no answer."))

    assert str(failed.value) == (
        "409 InUse. Deleted: natGateways/hpcai-nat. This could not be recorded: no answer. Correct this, and run it "
        "again."
    )
