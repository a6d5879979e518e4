# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run does with networks and vaults that exist already: it reads and checks them, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import Plan, assignments_to_request, plan

from .azure import Answers, answers, known, record_of, resources_of
from .stacks import GROUP_ID, stack

HUB = f"{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/hub"
ADOPTED: dict[str, Any] = {
    "network": {"adopt": HUB, "subnets": {"cluster": "services", "compute": "batch"}},
    "controller": {"private_ip": "10.1.0.9"},
}


def planned(wanted: Stack, found: Answers) -> Plan:
    return plan(wanted, resources_of(wanted), found, record_of(wanted))


def hub(**more: Any) -> dict[str, Any]:
    endpoints = [{"service": "Microsoft.KeyVault"}, {"service": "Microsoft.Storage"}]
    subnets = [{"name": name, "properties": {"serviceEndpoints": endpoints}} for name in ("services", "batch")]
    return {"id": HUB, "location": "swedencentral", "properties": {"subnets": subnets}, **more}


def test_adopted_network_is_read_and_never_changed() -> None:
    wanted = stack(**ADOPTED)
    found = answers(wanted) | {HUB.lower(): hub(tags={"owner": "network team"})}
    result = planned(wanted, found)

    assert not result.changed
    assert not result.problems
    assert HUB not in record_of(wanted).resources
    made = {one.kind for one in resources_of(wanted) if not one.adopted}
    assert not made & {kinds.VNET, kinds.NSG, kinds.NAT, kinds.BASTION_HOST, kinds.PUBLIC_ADDRESS}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "virtualNetworks/hub is adopted, and does not exist"),
        (hub(location="westeurope"), "location is westeurope, and the stack needs swedencentral"),
        (hub(properties={"subnets": [{"name": "services"}]}), "has no subnet batch"),
    ],
)
def test_adopted_network_that_does_not_fit_is_a_problem(answer: dict[str, Any] | None, words: str) -> None:
    wanted = stack(**ADOPTED)
    result = planned(wanted, answers(wanted) | {HUB.lower(): answer})

    assert any(words in text for text in result.problems)


@pytest.mark.parametrize(
    ("keys", "lacking"),
    [
        ({}, "Microsoft.KeyVault and Microsoft.Storage"),
        ({"storage": {"containers": []}}, "Microsoft.KeyVault"),
        ({"key_vault": {"adopt": f"{GROUP_ID}/providers/Microsoft.KeyVault/vaults/central"}}, "Microsoft.Storage"),
    ],
)
def test_adopted_subnet_needs_service_endpoints_for_what_the_stack_makes(keys: dict[str, Any], lacking: str) -> None:
    wanted = stack(**ADOPTED, **keys)
    subnets = [{"name": "Services", "properties": {}}, hub()["properties"]["subnets"][1]]
    result = planned(wanted, answers(wanted) | {HUB.lower(): hub(properties={"subnets": subnets})})

    (problem,) = result.problems
    assert f"its subnet Services has no service endpoint for {lacking}, so Azure" in problem


def test_adopted_vault_gets_no_role_and_its_commands_are_returned() -> None:
    vault = f"{GROUP_ID}/providers/Microsoft.KeyVault/vaults/central"
    wanted = stack(key_vault={"adopt": vault}, identities={"assign_roles": True})
    commands = assignments_to_request(wanted, known(wanted))

    assert len(commands) == 2
    assert all(command.endswith(f"--scope {vault}/secrets/munge-key") for command in commands)
    assert "principal-nodes" in commands[1]
    scopes = {one.id.split("/providers/Microsoft.Authorization")[0] for one in resources_of(wanted) if "role" in one.id}
    assert vault not in scopes


def test_adopted_network_needs_the_subnet_of_the_private_endpoint() -> None:
    subnets = {"cluster": "services", "compute": "batch", "endpoints": "links"}
    home = {"source": "azure_files", "size_gib": 1024}
    wanted = stack(**{**ADOPTED, "network": {"adopt": HUB, "subnets": subnets}, "shared_home": home})
    result = planned(wanted, answers(wanted) | {HUB.lower(): hub()})

    assert any("has no subnet links, which hpcai_stack.network.subnets.endpoints" in text for text in result.problems)
