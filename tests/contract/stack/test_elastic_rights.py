# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles that provision makes for the controller suffice for the daemon of elastic sets, and each action is needed.

The daemon has a token of the controller that the stack made, and Resource Manager checks its roles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.data import _ELASTIC_ACTIONS, _OPERATIONS_ACTIONS
from contract.elastic_world import World

from .cloud import Azure
from .test_elastic import ROLES, with_set

VIEW = "Microsoft.Compute/virtualMachineScaleSets/instanceView/read"
[OPERATIONS] = _OPERATIONS_ACTIONS


def world_of(azure: Azure, folder: Path, *without: str) -> World:
    """The daemon of a new stack.

    :param without: actions that are removed from its roles.
    """
    wanted = with_set(elastic={})
    azure.run(wanted)
    names = azure.names(wanted)
    for one in (names.elastic_role, names.operations_role):
        role: dict[str, Any] = azure.get(one, ROLES)["properties"]
        [permissions] = role["permissions"]
        permissions["actions"] = [action for action in permissions["actions"] if action not in without]
        body = {"properties": {**role, "permissions": [permissions]}}
        azure.simulator.arm("PUT", one, body, version=ROLES).raise_for_status()
    azure.simulator.clear()
    controller = names.controller.rpartition("/")[2]
    where: dict[str, Any] = {"size": 2, "name": "burst", "controller": controller}
    return World(azure.simulator, azure.simulator.endpoint, folder, **where, idle_s=60, order_s=300)


def order_that_fails(world: World, azure: Azure, code: str = "ZonalAllocationFailed") -> str:
    """Submit a job whose order fails, and return its words, which it must get long before the order's deadline."""
    azure.simulator.add_fault("^CREATE ", "omit", service="scale", times=1, code=code)
    job = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: bool(job.words)), world.lines
    world.slurm.cancel(job)
    return job.words[0]


def open_again(world: World) -> None:
    """An administrator opens the set, and the capacity that the failed order left behind is no longer waited for."""
    world.open_again()
    world.advance(150)


def refusals(world: World) -> list[str]:
    """The lines of the log about operations that cannot be read."""
    return [line for line in world.lines if "does not show the results of orders" in line]


def test_with_its_role_the_daemon_grows_and_shrinks_the_set_and_may_do_nothing_else(
    azure: Azure, tmp_path: Path
) -> None:
    world = world_of(azure, tmp_path)
    job = world.slurm.submit(2, 60)
    assert world.advance(300, world.runs(job)), world.lines
    assert world.advance(900, lambda: not world.members)
    assert not [one for one in azure.simulator.requests() if one["status"] in (401, 403)]
    names = azure.names(with_set(elastic={}))
    for method, path in (
        ("GET", names.controller.partition("/providers/")[0]),
        ("GET", names.of(kinds.VNET, "x")),
        ("DELETE", names.of(kinds.SCALE_SET, "burst")),
        ("POST", f"{names.of(kinds.SCALE_SET, 'burst')}/restart"),
        ("PATCH", names.of(kinds.SCALE_SET, "other")),
    ):
        assert azure.simulator.arm(method, path, token=world.token()).status_code == 403, path


@pytest.mark.parametrize("action", [one for one in _ELASTIC_ACTIONS if one != VIEW])
def test_without_one_action_of_its_role_the_daemon_names_it(azure: Azure, tmp_path: Path, action: str) -> None:
    world = world_of(azure, tmp_path, action)
    job = world.slurm.submit(1, 60)
    ran = world.advance(300, world.runs(job))
    world.advance(600)
    assert ran is action.endswith("/delete/action")
    # An instance without a known address gets no job, and a list that is not complete deletes nothing.
    assert len(world.members) == action.endswith(("/delete/action", "/networkInterfaces/read"))
    assert any(action in line and "AuthorizationFailed" in line for line in world.lines), world.lines
    if action.endswith("/write"):
        # A new role may act late.
        assert world.advance(2400, lambda: any("stopped" in line for line in world.lines))
        assert any("stopped: AuthorizationFailed" in line and "roles of guide_elastic" in line for line in world.lines)


def test_with_its_roles_the_daemon_reads_why_an_order_failed(azure: Azure, tmp_path: Path) -> None:
    world = world_of(azure, tmp_path)
    assert "hpcai: elastic: ZonalAllocationFailed" in order_that_fails(world, azure)
    read = [one["path"] for one in azure.simulator.requests() if one["method"] == "GET"]
    assert [path for path in read if "/operations/" in path]
    assert not [path for path in read if path.endswith("/instanceView")]
    assert not refusals(world)


@pytest.mark.parametrize(
    ("code", "waits"), [("ZonalAllocationFailed", True), ("QuotaExceeded", False)], ids=["capacity", "quota"]
)
def test_without_the_right_to_read_operations_the_set_says_why_an_order_failed(
    azure: Azure, tmp_path: Path, code: str, waits: bool
) -> None:
    world = world_of(azure, tmp_path, OPERATIONS)
    assert f"hpcai: elastic: {code}" in order_that_fails(world, azure, code)
    assert [line for line in world.lines if ("closed for 600 s" if waits else f"stopped: {code}") in line]
    open_again(world)
    order_that_fails(world, azure, code)
    [refusal] = refusals(world)
    assert OPERATIONS in refusal
    assert "guide_elastic" in refusal


def test_the_right_to_read_operations_must_be_on_the_group(azure: Azure, tmp_path: Path) -> None:
    """Azure: with a role on the resource only, an identity can start an operation, but not read its result."""
    world = world_of(azure, tmp_path)
    names = azure.names(with_set(elastic={}))
    group = names.operations_role.partition("/providers/")[0]
    role = azure.get(names.operations_role, ROLES)["properties"]["roleName"]
    on_group = names.assignment(group, names.controller_identity, role)
    properties = azure.get(on_group, ROLES)["properties"]
    body = {"properties": {key: properties[key] for key in ("roleDefinitionId", "principalId", "principalType")}}
    on_set = names.assignment(names.of(kinds.SCALE_SET, "burst"), names.controller_identity, role)
    azure.simulator.arm("DELETE", on_group, version=ROLES).raise_for_status()
    azure.simulator.arm("PUT", on_set, body, version=ROLES).raise_for_status()
    order_that_fails(world, azure)
    assert len(refusals(world)) == 1
    statuses = {one["status"] for one in azure.simulator.requests() if "/operations/" in one["path"]}
    assert 403 in statuses

    # provision assigns it on the group, and the problem ends.
    azure.simulator.arm("DELETE", on_set, version=ROLES).raise_for_status()
    azure.run(with_set(elastic={}))
    azure.simulator.clear()
    open_again(world)
    order_that_fails(world, azure)
    assert {one["status"] for one in azure.simulator.requests() if "/operations/" in one["path"]} == {200}
    assert len(refusals(world)) == 1
    assert not [one for one in world.daemon.one_pass(world.now, world.now)[0].problems if "results of orders" in one]


def test_without_both_rights_an_order_fails_at_once_without_a_cause(azure: Azure, tmp_path: Path) -> None:
    world = world_of(azure, tmp_path, OPERATIONS, VIEW)
    words = order_that_fails(world, azure)
    assert "hpcai: elastic: Failed" in words
    assert "instance view cannot be read" in words


def test_roles_that_azures_servers_do_not_all_know_yet_do_not_stop_the_set(azure: Azure, tmp_path: Path) -> None:
    world = world_of(azure, tmp_path)
    azure.simulator.limits.role_flap_s = 1e6
    for one in azure.simulator.model.documents.of(kinds.ROLE_ASSIGNMENT):
        # So that the change is refused, and not only reading.
        one.asked = 4
    jobs = [world.slurm.submit(1, 60) for _number in range(2)]
    assert world.advance(1800, lambda: all(job.state == "DONE" for job in jobs)), world.lines
    assert world.changes("PATCH") == [403, 200]
    assert not [line for line in world.lines if "stopped" in line]
    assert world.advance(1800, lambda: not world.members), world.lines


def test_an_order_in_progress_whose_operation_cannot_be_read_waits(azure: Azure, tmp_path: Path) -> None:
    world = world_of(azure, tmp_path, OPERATIONS)
    # The state of the set is that of its last change, so an earlier failure must not end a later order.
    order_that_fails(world, azure)
    azure.simulator.add_fault("^GROW ", "hang", service="scale", times=1, code="SkuNotAvailable")
    open_again(world)
    job = world.slurm.submit(1, 60)
    world.advance(200)
    assert (job.state, job.words) == ("CONFIGURING", [])
    azure.simulator.faults.clear()
    assert world.advance(60, lambda: bool(job.words)), world.lines
    assert "hpcai: elastic: SkuNotAvailable" in job.words[0]
