# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role that provision makes for the controller suffices for the daemon of elastic sets, and each action is needed.

The daemon has a token of the controller that the stack made, and Resource Manager checks its role.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.data import _ELASTIC_ACTIONS
from contract.elastic_world import World

from .cloud import Azure
from .test_elastic import ROLES, with_set


def world_of(azure: Azure, folder: Path, without: str = "") -> World:
    """The daemon of a new stack.

    :param without: an action that is removed from its role.
    """
    wanted = with_set(elastic={})
    azure.run(wanted)
    names = azure.names(wanted)
    if without:
        role: dict[str, Any] = azure.get(names.elastic_role, ROLES)["properties"]
        [permissions] = role["permissions"]
        permissions["actions"].remove(without)
        body = {"properties": {**role, "permissions": [permissions]}}
        azure.simulator.arm("PUT", names.elastic_role, body, version=ROLES).raise_for_status()
    azure.simulator.clear()
    controller = names.controller.rpartition("/")[2]
    where: dict[str, Any] = {"size": 2, "name": "burst", "controller": controller}
    return World(azure.simulator, azure.simulator.endpoint, folder, **where, idle_s=60, order_s=300)


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


@pytest.mark.parametrize("action", [one for one in _ELASTIC_ACTIONS if not one.endswith("/operations/read")])
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
        assert any("stopped: AuthorizationFailed" in line and "role of guide_elastic" in line for line in world.lines)


@pytest.mark.parametrize(("without", "code"), [("", "ZonalAllocationFailed"), ("operations/read", "OrderTimeout")])
def test_without_the_right_to_read_operations_the_cause_is_not_known(
    azure: Azure, tmp_path: Path, without: str, code: str
) -> None:
    world = world_of(azure, tmp_path, f"Microsoft.Compute/locations/{without}" if without else "")
    azure.simulator.add_fault("^CREATE ", "omit", service="scale", times=1, code="ZonalAllocationFailed")
    job = world.slurm.submit(1, 60)
    assert world.advance(400, lambda: bool(job.words))
    assert f"hpcai: elastic: {code}" in job.words[0]
