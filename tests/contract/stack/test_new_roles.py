# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Roles, role assignments and identities that are so new that not all of Azure's servers know them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import apply

from .cloud import Azure, smallest
from .test_provision_faults import complete, failure


def number_of_deployments(azure: Azure) -> int:
    """How often the deployment of the stack was started."""
    return len([path for _method, path in azure.sent() if path.endswith("/deployments/hpcai-hpcai")])


def test_roles_that_take_a_minute_to_spread_do_not_stop_the_run(azure: Azure) -> None:
    """The directory does not know new identities yet."""
    azure.simulator.limits.role_delay_s = 60
    azure.run()
    complete(azure)


@pytest.mark.parametrize("code", ["RoleDefinitionDoesNotExist", "PrincipalNotFound"])
def test_a_role_or_identity_that_azure_does_not_know_yet_is_tried_once_more(
    azure: Azure, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(apply, "_SPREAD_S", 0.1)
    assigned = "PUT .*/roleAssignments/"
    rule: dict[str, Any] = {"service": "deployment", "status": 400, "code": code, "message": "Not here."}
    azure.simulator.add_fault(assigned, times=1, **rule)
    assert azure.run()["changed"] is True
    assert number_of_deployments(azure) == 2
    complete(azure)


def test_a_role_that_azure_does_not_know_twice_is_explained(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_SPREAD_S", 0.1)
    rule: dict[str, Any] = {"service": "deployment", "status": 404, "code": "RoleDefinitionDoesNotExist"}
    azure.simulator.add_fault("PUT .*/roleAssignments/", message="No such role.", **rule)
    message = failure(azure)
    assert "RoleDefinitionDoesNotExist: No such role." in message
    # What the first attempt made is named too.
    assert "Made and recorded: resourceGroups/hpcai, " in message
    assert message.endswith("it continues from there.")
    assert number_of_deployments(azure) == 2
    azure.simulator.faults.clear()
    azure.run()
    complete(azure)


def test_a_deployment_that_also_fails_for_another_reason_is_not_tried_again(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "_SPREAD_S", 0.1)
    rule: dict[str, Any] = {"service": "deployment", "status": 404, "message": "No."}
    azure.simulator.add_fault("PUT .*/roleAssignments/", times=1, code="RoleDefinitionDoesNotExist", **rule)
    azure.simulator.add_fault("PUT .*/disks/", times=1, code="QuotaExceeded", **rule)
    message = failure(azure)
    assert "RoleDefinitionDoesNotExist: No." in message
    assert "QuotaExceeded: No." in message
    assert number_of_deployments(azure) == 1


def test_the_roles_of_elastic_sets_that_spread_slowly_do_not_stop_the_run(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roles are made by the same deployment that assigns them."""
    monkeypatch.setattr(apply, "_SPREAD_S", 2.5)
    azure.simulator.limits.role_delay_s = 2
    wanted = smallest(scale_sets=[{**smallest()["scale_sets"][0], "elastic": {}}])
    azure.run(wanted)
    assert number_of_deployments(azure) == 2
    complete(azure, wanted)
