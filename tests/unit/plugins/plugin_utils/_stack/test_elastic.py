# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic scale sets of a stack: tag, user data, the controller's role, the variables, and their rights."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from stand_ins.preflight import facts, needs

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import Malformed
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.data import assignments
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.desired import TenantIds, desired
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import assignments_to_request
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import Answer, Permission
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_needs import needs_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_scope import judge_rights
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import Resource
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.site import variables_of

from .stacks import IMAGE, SUBSCRIPTION, smallest, stack

KNOWN = TenantIds(tenant="11111111-2222-4333-8444-555555555555")


def two_sets(**elastic: Any) -> list[dict[str, Any]]:
    """A static set and an elastic one."""
    one = {"vm_size": "Standard_ND96asr_v4", "max": 2, "image": IMAGE}
    return [{"name": "compute", **one}, {"name": "burst", **one, "elastic": elastic}]


def made(wanted: Stack, kind: str) -> list[Resource]:
    return [one for one in desired(wanted, KNOWN) if one.kind == kind]


def test_tag_and_user_data_say_that_the_set_is_elastic() -> None:
    static, elastic = made(stack(scale_sets=two_sets()), kinds.SCALE_SET)

    assert (static.body["tags"]["hpcai_role"], elastic.body["tags"]["hpcai_role"]) == ("compute", "elastic")
    stated = [
        json.loads(base64.b64decode(one.body["properties"]["virtualMachineProfile"]["userData"]))["hpcai"]
        for one in (static, elastic)
    ]
    assert "elastic" not in stated[0]
    assert stated[1] == {**stated[0], "elastic": True}
    assert elastic.body["sku"]["capacity"] == 0


def test_the_controller_may_change_elastic_sets_and_read_operations_and_nothing_else() -> None:
    wanted = stack(scale_sets=two_sets())
    names = Names(wanted)
    roles = {one.id: one for one in made(wanted, kinds.ROLE)}
    assigned = {one.id: one for one in made(wanted, kinds.ROLE_ASSIGNMENT) if roles.keys() & set(one.needs)}

    scopes = {one.partition("/providers/Microsoft.Authorization/")[0] for one in assigned}
    # The URL of an operation is not below the set, so a role on the set does not suffice for it.
    assert scopes == {names.of(kinds.SCALE_SET, "burst"), wanted.group_id}
    allowed: dict[str, list[str]] = {}
    for azure_id, one in assigned.items():
        assert one.body["properties"]["principalId"] == names.controller_identity
        [role] = [role for role in roles.values() if role.id in one.needs]
        assert one.body["properties"]["roleDefinitionId"].endswith(f"/roleDefinitions/{role.name}")
        properties = role.body["properties"]
        assert properties["assignableScopes"] == [wanted.group_id]
        [permissions] = properties["permissions"]
        allowed[azure_id.partition("/providers/Microsoft.Authorization/")[0]] = permissions["actions"]
    assert allowed[wanted.group_id] == ["Microsoft.Compute/locations/operations/read"]
    actions = [action for some in allowed.values() for action in some]
    assert not [action for action in actions if "*" in action or "runCommand" in action]
    assert not made(stack(), kinds.ROLE)


def test_one_assignment_on_the_group_is_enough_for_several_elastic_sets() -> None:
    one = {"vm_size": "Standard_ND96asr_v4", "max": 2, "image": IMAGE, "elastic": {}}
    wanted = stack(scale_sets=[{"name": "first", **one}, {"name": "second", **one}])
    own = [one.scope for one in assignments(wanted, Names(wanted)) if one.own]
    assert sorted(own) == sorted(
        [*(Names(wanted).of(kinds.SCALE_SET, name) for name in ("first", "second")), wanted.group_id]
    )
    assert len(made(wanted, kinds.ROLE)) == 2


def test_two_stacks_have_roles_of_different_names() -> None:
    first, second = (
        made(stack(name="lab", group={"name": group}, scale_sets=two_sets()), kinds.ROLE)[0] for group in ("one", "two")
    )
    assert first.body["properties"]["roleName"] != second.body["properties"]["roleName"]
    assert first.name != second.name


def test_an_owner_gets_the_commands_if_the_stack_may_assign_no_roles() -> None:
    wanted = stack(scale_sets=two_sets(), identities={"assign_roles": False})

    assert not made(wanted, kinds.ROLE)
    commands = [one for one in assignments_to_request(wanted, KNOWN) if "role definition create" in one]
    found = {}
    for command in commands:
        make, assign = command.split(" && ")
        stated = json.loads(make.partition("--role-definition '")[2].rstrip("'"))
        assert stated["AssignableScopes"] == [wanted.group_id]
        assert f"--role '{stated['Name']}'" in assign
        found[assign.partition(" --scope ")[2]] = stated["Actions"]
    assert found.keys() == {Names(wanted).of(kinds.SCALE_SET, "burst"), wanted.group_id}
    assert found[wanted.group_id] == ["Microsoft.Compute/locations/operations/read"]


def test_site_gets_the_settings_of_elastic_sets() -> None:
    wanted = stack(scale_sets=two_sets(idle_s=60, min=1, fallback=["compute"]))

    assert variables_of(wanted, {})["hpcai_elastic"] == {
        "burst": {
            "id": Names(wanted).of(kinds.SCALE_SET, "burst"),
            "vm_size": "Standard_ND96asr_v4",
            "max": 2,
            "min": 1,
            "idle_s": 60,
            "fallback": ("compute",),
        }
    }
    # site.yml removes the daemon only if the variable exists.
    assert variables_of(stack(), {})["hpcai_elastic"] == {}
    # A static set would have the capacity of whoever grows it; this one grows to its minimum.
    assert [one.minimum for one in needs_of(wanted).machines if one.is_set] == [0, 1]


def test_other_clouds_have_another_resource_manager() -> None:
    wanted = smallest(scale_sets=two_sets())
    found = variables_of(stack_of(wanted, SUBSCRIPTION, "AzureUSGovernment"), {})
    assert found["elastic_endpoint"] == "https://management.usgovcloudapi.net"
    assert "elastic_endpoint" not in variables_of(stack_of(wanted, SUBSCRIPTION), {})


@pytest.mark.parametrize(
    ("elastic", "words"),
    [
        ({"min": 3}, "scale_sets[1].elastic.min is 3, which is more than max (2)"),
        ({"fallback": ["spot"]}, "burst.elastic.fallback names spot, which is no other scale set"),
        ({"fallback": ["burst"]}, "burst.elastic.fallback names burst, which is no other scale set"),
        ({"idle": 3}, "scale_sets[1].elastic.idle is unknown; the nearest known key is idle_s"),
        ({"idle_s": 0}, "scale_sets[1].elastic.idle_s"),
    ],
)
def test_wrong_settings_are_refused_with_their_place(elastic: dict[str, Any], words: str) -> None:
    with pytest.raises(Malformed) as refused:
        stack(scale_sets=two_sets(**elastic))
    assert words in str(refused.value)


WRITE = "Microsoft.Authorization/roleAssignments/write"


@pytest.mark.parametrize(
    ("actions", "verdict", "words"),
    [
        (("*",), "pass", ""),
        ((WRITE, "Microsoft.Authorization/roleDefinitions/*"), "pass", ""),
        ((WRITE,), "fail", "the identity lacks Microsoft.Authorization/roleDefinitions/write"),
        ((), "fail", f"the identity lacks {WRITE}"),
    ],
)
def test_the_right_to_make_the_role_is_checked(actions: tuple[str, ...], verdict: str, words: str) -> None:
    wanted = stack(scale_sets=two_sets())
    elastic = tuple(one for one in assignments(wanted, Names(wanted)) if one.own)
    asked = replace(needs(), actions=(), assignments=elastic)
    found = list(judge_rights(asked, facts(permissions=Answer([Permission(actions)]), assigned=Answer([]))))[-1]

    assert found.verdict == verdict
    assert words in found.summary
    missing = 2 if verdict == "fail" else 0
    assert found.action.count("az role definition create") == missing
    assert (f"--scope {wanted.group_id}" in found.action.split("; ")[-1]) == bool(missing)
