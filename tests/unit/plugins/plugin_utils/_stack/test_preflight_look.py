# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the preflight checks conclude from Azure's answer to a validation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

from azure.mgmt.resource.deployments.models import DeploymentValidateResult

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.apply import AzureState
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import Answer, Refusal
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_look import validate

from .azure import known, resources_of
from .stacks import GROUP_ID, stack

SHORT_CIRCUITED = {
    "code": "NestedDeploymentShortCircuited",
    "level": "Warning",
    "message": "A nested deployment got short-circuited and all its resources got skipped from validation.",
}


def validated(result: dict[str, Any], **keys: Any) -> tuple[Answer[list[Refusal]], mock.Mock]:
    """The conclusion from this result for a subscription without any resource, and the client's operations."""
    wanted = stack(**keys)
    resources = resources_of(wanted)
    state = AzureState(known(wanted), resources, {one.id.lower(): None for one in resources}, None, "")
    operations = mock.Mock()
    answered = DeploymentValidateResult(result)
    operations.begin_validate_at_subscription_scope.return_value.result.return_value = answered
    clients: Any = SimpleNamespace(deployments=lambda _subscription: SimpleNamespace(deployments=operations))
    return validate(clients, wanted, Answer(state), Answer(state.plan(wanted))), operations


def test_the_group_and_a_deployment_in_it_are_validated_at_the_subscription() -> None:
    wanted = stack()
    found, operations = validated({"properties": {"provisioningState": "Succeeded"}})
    name, body = operations.begin_validate_at_subscription_scope.call_args.args
    group, nested = body["properties"]["template"]["resources"]

    assert found == Answer([])
    assert (name, body["location"]) == (Names(wanted).deployment, "swedencentral")
    assert (group["name"], set(group["tags"])) == (wanted.group.name, {"hpcai_stack"})
    assert (nested["resourceGroup"], nested["dependsOn"]) == (wanted.group.name, [wanted.group_id])
    assert {one["mode"] for one in (body["properties"], nested["properties"])} == {"Incremental"}
    # Azure allows it only beside a deployment at the subscription.
    assert "location" not in nested
    assert len(nested["properties"]["template"]["resources"]) > 10


def test_resources_that_azure_skipped_are_no_success() -> None:
    found, _operations = validated({"properties": {"diagnostics": [SHORT_CIRCUITED]}})
    assert found.value is None
    assert SHORT_CIRCUITED["message"] in found.problem


def test_a_missing_group_that_the_stack_does_not_make_is_named() -> None:
    found, operations = validated({}, group={"adopt": GROUP_ID})
    assert "resource group hpc does not exist" in found.problem
    assert not operations.mock_calls
