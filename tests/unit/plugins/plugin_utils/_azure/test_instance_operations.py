# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which scale sets get their capacity back after instances were deleted."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.instance_operations import count_by_set, sets_to_refill
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.targets import SetName, Target, instance_ids

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
SET = SetName("s", "g", "compute")


def member(number: str) -> Target:
    return Target(f"{GROUP}/virtualMachineScaleSets/Compute/virtualMachines/{number}", f"vm-{number}")


def test_restores_the_capacity_that_the_deletions_reduced() -> None:
    assert sets_to_refill({SET: 10}, {SET: 8}, {SET: 2}) == [SET]


@pytest.mark.parametrize("after", [10, 9, 7, 0, 12])
def test_does_not_restore_a_capacity_that_others_changed(after: int) -> None:
    assert sets_to_refill({SET: 10}, {SET: after}, {SET: 2}) == []


def test_counts_instances_by_scale_set() -> None:
    other = Target(f"{GROUP}/virtualMachineScaleSets/other/virtualMachines/0", "vm-x")
    assert count_by_set([member("3"), member("4"), other]) == {SET: 2, SetName("s", "g", "other"): 1}


def test_refuses_machines_outside_uniform_scale_sets() -> None:
    with pytest.raises(InventoryError, match=r"Nothing was done\. .*/virtualMachines/ctl: not in a Uniform scale set"):
        count_by_set([member("3"), Target(f"{GROUP}/virtualMachines/ctl", "vm-ctl")])


@pytest.mark.parametrize("names", [[], ["*"], ["3", "*"], ["three"]])
def test_refuses_ids_that_azure_would_read_as_all_instances(names: list[str]) -> None:
    with pytest.raises(InventoryError, match="not instance ids of scale set compute"):
        instance_ids(SET, [member(name) for name in names])
