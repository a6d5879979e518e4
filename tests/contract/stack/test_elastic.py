# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack with an elastic scale set on a simulated subscription: made, unchanged, made of a static one, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds

from .cloud import IMAGE, Azure, smallest

ROLES = "2022-04-01"


def with_set(**more: Any) -> dict[str, Any]:
    """A stack with one scale set and no data."""
    one = {"name": "burst", "vm_size": "Standard_ND96asr_v4", "max": 2, "image": IMAGE, **more}
    return smallest(scale_sets=[one], storage={"containers": []}, shared_home={"source": "none"})


def test_an_elastic_set_is_made_once_and_deleted_with_its_role(azure: Azure) -> None:
    wanted = with_set(elastic={"idle_s": 60})
    made = azure.run(wanted)
    azure.simulator.clear()
    again = azure.run(wanted)

    names = azure.names(wanted)
    assert made["variables"]["hpcai_elastic"]["burst"]["idle_s"] == 60
    assert (again["changed"], azure.sent()) == (False, [])
    for one in (names.elastic_role, names.operations_role):
        assert azure.get(one, ROLES)["properties"]["assignableScopes"] == [one.partition("/providers/")[0]]
    azure.simulator.clear()
    done = azure.run(wanted, state="absent")
    assert done["stays"] == []
    assert azure.simulator.model.resource_groups == {}
    deleted = [path for method, path in azure.sent() if method == "DELETE"]
    # Without its role, the controller cannot grow a set that is about to be deleted.
    order = [number for number, path in enumerate(deleted) if "/roleassignments/" in path.lower()]
    assert max(order) < next(number for number, path in enumerate(deleted) if path.endswith("/burst"))
    assert not azure.exists(names.elastic_role)
    assert not azure.exists(names.operations_role)


def test_a_stack_of_an_older_version_gets_the_right_to_read_operations(azure: Azure) -> None:
    """It had one role, assigned on the set only, with the action for operations, which has no effect there."""
    wanted = with_set(elastic={})
    azure.run(wanted)
    names = azure.names(wanted)
    group = names.elastic_role.partition("/providers/")[0]
    role = azure.get(names.elastic_role, ROLES)["properties"]
    view, reads = (
        f"Microsoft.Compute/{one}/read" for one in ("virtualMachineScaleSets/instanceView", "locations/operations")
    )
    [permissions] = role["permissions"]
    older = [*(one for one in permissions["actions"] if one != view), reads]
    body = {"properties": {**role, "permissions": [{**permissions, "actions": older}]}}
    azure.simulator.arm("PUT", names.elastic_role, body, version=ROLES).raise_for_status()
    assigned = names.assignment(
        group, names.controller_identity, azure.get(names.operations_role, ROLES)["properties"]["roleName"]
    )
    for one in (assigned, names.operations_role):
        azure.simulator.arm("DELETE", one, version=ROLES).raise_for_status()

    changed = azure.run(wanted)
    assert {(one["label"].split("/")[0], one["action"]) for one in changed["changes"]} == {
        ("roleDefinitions", "create"),
        ("roleDefinitions", "update"),
        ("roleAssignments", "create"),
    }
    assert azure.get(names.elastic_role, ROLES)["properties"]["permissions"][0]["actions"] == permissions["actions"]
    assert azure.exists(assigned)
    assert azure.run(wanted)["changed"] is False


def test_a_static_set_becomes_elastic_without_a_new_set(azure: Azure) -> None:
    azure.run(with_set())
    changed = azure.run(with_set(elastic={}))

    actions = {one["label"].split("/")[0]: one for one in changed["changes"]}
    assert {name: one["action"] for name, one in actions.items()} == {
        "virtualMachineScaleSets": "patch",
        "roleDefinitions": "create",
        "roleAssignments": "create",
    }
    one = azure.get(azure.names().of(kinds.SCALE_SET, "burst"), "2024-07-01")
    assert one["tags"]["hpcai_role"] == "elastic"
    assert azure.run(with_set(elastic={}))["changed"] is False


def test_a_static_set_with_machines_does_not_become_elastic(azure: Azure) -> None:
    azure.run(with_set())
    one = azure.names().of(kinds.SCALE_SET, "burst")
    azure.simulator.arm("PATCH", one, {"sku": {"capacity": 1}}, version="2024-07-01").raise_for_status()
    azure.simulator.clear()
    with pytest.raises(
        InventoryError, match=r"has capacity 1\. If it became elastic, the daemon would delete these machines"
    ):
        azure.run(with_set(elastic={}))
    assert azure.sent() == []
    assert azure.get(one, "2024-07-01")["tags"]["hpcai_role"] == "compute"


def test_an_elastic_set_becomes_static_only_without_machines(azure: Azure) -> None:
    azure.run(with_set(elastic={}))
    one = azure.names().of(kinds.SCALE_SET, "burst")
    azure.simulator.arm("PATCH", one, {"sku": {"capacity": 1}}, version="2024-07-01").raise_for_status()
    azure.simulator.clear()
    with pytest.raises(InventoryError, match=r"is elastic and has capacity 1\. If it became static, Slurm would lose"):
        azure.run(with_set())
    assert azure.sent() == []

    azure.simulator.arm("PATCH", one, {"sku": {"capacity": 0}}, version="2024-07-01").raise_for_status()
    changed = azure.run(with_set())
    assert azure.get(one, "2024-07-01")["tags"]["hpcai_role"] == "compute"
    assert changed["variables"]["hpcai_elastic"] == {}
    assert "stop the daemon on the controller" in " ".join(changed["notes"])
    assert "stop the daemon" not in " ".join(azure.run(with_set())["notes"])


def test_check_mode_names_the_role(azure: Azure) -> None:
    wanted = with_set(elastic={})
    foreseen = azure.run(wanted, check=True)
    assert azure.sent() == []
    assert azure.run(wanted)["changes"] == foreseen["changes"]
