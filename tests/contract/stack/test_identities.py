# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines with identities that Azure Policy added, next to the one that the stack gives them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import imds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from simulator.imds import INSTANCE_HEADER
from simulator.roles import identity_allows

from .cloud import Azure

READ = "Microsoft.KeyVault/vaults/secrets/getSecret/action"
VAULT = "https://vault.azure.net"


def added(azure: Azure, kind: str) -> str:
    """The identity that a policy adds: SystemAssigned, or the id of a new user-assigned one."""
    if kind == "SystemAssigned":
        return kind
    group = f"/subscriptions/{azure.simulator.subscription_id}/resourceGroups/agents"
    azure.put(group, {"location": "southcentralus"})
    identity = f"{group}/providers/{kinds.IDENTITY}/agent"
    azure.put(identity, {"location": "southcentralus"})
    return identity


def may_read_the_key(azure: Azure, names: Names, machine: str, client_id: str | None) -> bool:
    """Whether a machine gets a token with this client id, and may read the munge key with it."""
    header = {INSTANCE_HEADER: machine}
    token = imds.read_token(VAULT, client_id, 10, azure.simulator.imds_endpoint, header)
    model = azure.simulator.model
    grant = model.tokens.find(token)
    assert grant is not None
    return identity_allows(model, grant.principals, names.secret, READ)


def asked_for(azure: Azure, machine: str) -> str | None:
    """The client id in the user data of a machine, as the machine itself reads it."""
    compute = imds.read_compute(10, azure.simulator.imds_endpoint, {INSTANCE_HEADER: machine})
    text = base64.b64decode(compute["userData"]).decode().removeprefix("#cloud-config\n")
    found: str | None = json.loads(text)["hpcai"]["key"]["client_id"]
    return found


@pytest.mark.parametrize("kind", ["SystemAssigned", "UserAssigned"])
def test_machines_get_the_munge_key_next_to_an_identity_of_a_policy(azure: Azure, kind: str) -> None:
    azure.simulator.limits.added_identities = [added(azure, kind)]
    azure.run()
    names = azure.names()
    azure.simulator.arm("PATCH", names.of(kinds.SCALE_SET, "compute"), {"sku": {"capacity": 1}})
    azure.simulator.wait()

    for machine in ("hpcai-controller", "hpcai-login-1", "compute_0"):
        assert may_read_the_key(azure, names, machine, asked_for(azure, machine)), machine
        if kind == "SystemAssigned":
            assert not may_read_the_key(azure, names, machine, None)
        else:
            with pytest.raises(imds.TokenRefused, match="Multiple user assigned identities exist"):
                may_read_the_key(azure, names, machine, None)
    # What the policy added stays, and does not differ.
    assert azure.run()["changed"] is False


def test_machines_of_an_earlier_release_get_the_client_id_once(azure: Azure) -> None:
    azure.run()
    names = azure.names()
    machines = (names.controller, names.login(1), names.of(kinds.SCALE_SET, "compute"))
    for one in machines:
        version = f"{kinds.API_VERSIONS[kinds.kind_of(one)]}&$expand=userData"
        properties = azure.get(one, version)["properties"]
        encoded = properties.get("virtualMachineProfile", properties)["userData"]
        text = base64.b64decode(encoded).decode()
        before, _key, after = text.partition('"client_id": "')
        older = base64.b64encode(f'{before}"client_id": null{after[37:]}'.encode()).decode()
        body: dict[str, Any] = {"userData": older}
        is_set = kinds.kind_of(one) == kinds.SCALE_SET
        azure.simulator.arm("PATCH", one, {"properties": {"virtualMachineProfile": body} if is_set else body})
    azure.simulator.wait()
    assert asked_for(azure, "hpcai-controller") is None
    assert may_read_the_key(azure, names, "hpcai-controller", None)

    changes = {one["resource"]: (one["action"], one["fields"]) for one in azure.run()["changes"]}
    assert changes == {
        one: ("patch", [f"properties.{'virtualMachineProfile.' if 'ScaleSet' in one else ''}userData"])
        for one in machines
    }
    assert asked_for(azure, "hpcai-controller")
    assert azure.run()["changed"] is False


def test_site_gets_the_identity_of_each_machine(azure: Azure, tmp_path: Path) -> None:
    assert "hpcai_identity_client_id" not in azure.run(state="planned")["variables"]
    owner = azure.run(inventory_to=str(tmp_path))["owner"]
    stated = yaml.safe_load((tmp_path / "group_vars/all/hpcai_stack.yml").read_text(encoding="utf-8"))
    template = Environment().from_string(stated["hpcai_identity_client_id"])
    names = azure.names()
    nodes, controller = (
        azure.get(one)["properties"]["clientId"] for one in (names.nodes_identity, names.controller_identity)
    )
    ours = {"hpcai_stack": owner}

    assert nodes != controller
    assert template.render(azure_tags=ours, group_names=["hpcai_controller", "hpcai_login"]) == controller
    assert template.render(azure_tags=ours, group_names=["hpcai_compute"]) == nodes
    # A machine that somebody else made for this cluster has neither identity.
    assert template.render(azure_tags={"hpcai_cluster": "hpcai"}, group_names=["hpcai_compute"]) == ""
    assert template.render(azure_tags=None, group_names=["hpcai_compute"]) == ""
    assert template.render(group_names=["hpcai_compute"]) == ""
