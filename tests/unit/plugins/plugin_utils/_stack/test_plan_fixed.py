# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run does with fields of scale sets that it cannot change, or that Azure does not return."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import Plan, plan

from .azure import Answers, answers, at, record_of, resources_of
from .stacks import GROUP_ID, sets, stack

CPU = "Standard_D8s_v5"


def planned(wanted: Stack, found: Answers) -> Plan:
    return plan(wanted, resources_of(wanted), found, record_of(wanted))


def without_fixed_fields(found: Answers, wanted: Stack) -> Answers:
    """Azure's answers, as it gives them about a set that was made without the fields with a default."""
    properties = at(found, Names(wanted).of(kinds.SCALE_SET, "compute0"))["properties"]
    for field in ("orchestrationMode", "singlePlacementGroup", "platformFaultDomainCount"):
        del properties[field]
    del properties["virtualMachineProfile"]["priority"]
    return found


@pytest.mark.parametrize("size", ["Standard_ND96asr_v4", CPU])
def test_fixed_fields_that_azure_does_not_return_have_their_default(size: str) -> None:
    wanted = stack(scale_sets=sets(1, vm_size=size))
    result = planned(wanted, without_fixed_fields(answers(wanted), wanted))

    assert (result.changes, result.problems) == ((), ())


def test_another_value_than_the_default_is_refused() -> None:
    wanted = stack(scale_sets=sets(1, priority="spot"))
    result = planned(wanted, without_fixed_fields(answers(wanted), wanted))

    assert not result.changes
    assert "virtualMachineProfile.priority is Regular, not Spot, and Azure cannot change it" in result.problems[0]


def test_capacity_reservation_is_never_patched() -> None:
    reserved = f"{GROUP_ID}/providers/Microsoft.Compute/capacityReservationGroups/ours"
    with_one = stack(scale_sets=sets(1, vm_size=CPU, capacity_reservation_group=reserved))
    result = planned(with_one, answers(stack(scale_sets=sets(1, vm_size=CPU))))

    assert not result.changes
    assert "capacityReservationGroup.id is none, not" in result.problems[0]
    assert not planned(with_one, answers(with_one)).problems
