# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole stack from an empty subscription, with the real SDK, and its end."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from simulator import sample_stack as stack
from simulator.testing import Simulator, running

MADE = (
    stack.VNET,
    stack.SUBNET,
    stack.NSG,
    f"{stack.NSG}/securityRules/ssh",
    stack.NAT,
    stack.NAT_IP,
    stack.CTL_IP,
    stack.NIC,
    stack.IDENTITY,
    stack.VAULT,
    f"{stack.VAULT}/secrets/munge-key",
    stack.STORAGE,
    f"{stack.STORAGE}/blobServices/default",
    f"{stack.STORAGE}/blobServices/default/containers/models",
    stack.CTL,
    stack.COMPUTE,
)


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """An empty subscription with one resource group."""
    with running(stack.EMPTY) as simulated:
        assert simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION}).status_code == 201
        yield simulated


def deploy(simulator: Simulator, resources: list[dict[str, Any]], name: str = "lab", **outputs: Any) -> Any:
    """Deploy resources and return the deployment."""
    body = stack.template(resources, **outputs)
    return simulator.deployments().deployments.begin_create_or_update(stack.GROUP, name, body).result()


def get(simulator: Simulator, azure_id: str) -> dict[str, Any]:
    """A resource."""
    answer = simulator.arm("GET", azure_id)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_new_subscription_is_empty(simulator: Simulator) -> None:
    for path in ("/resources", f"/resourceGroups/{stack.GROUP}/resources", "/providers/Microsoft.Network/natGateways"):
        assert simulator.arm("GET", path).json() == {"value": []}
    assert [item["name"] for item in simulator.arm("GET", "/resourcegroups").json()["value"]] == [stack.GROUP]
    assert simulator.arm("HEAD", "/resourcegroups/other").status_code == 404
    assert simulator.arm("GET", stack.VNET).json()["error"]["code"] == "ResourceNotFound"
    assert simulator.arm("GET", stack.VNET.replace("/lab/", "/x/")).json()["error"]["code"] == "ResourceGroupNotFound"


def test_a_deployment_makes_everything_and_can_be_repeated(simulator: Simulator) -> None:
    client = simulator.deployments().deployments
    body = stack.template(stack.stack(), stack="lab/1")
    valid = client.begin_validate(stack.GROUP, "lab", body).result()
    assert valid.error is None
    assert simulator.arm("GET", "/resources").json() == {"value": []}
    preview = client.begin_what_if(stack.GROUP, "lab", body).result()
    assert {change.change_type for change in preview.changes} == {"Create"}

    done = deploy(simulator, stack.stack(), stack="lab/1")
    assert done.properties.provisioning_state == "Succeeded"
    assert done.properties.outputs == {"stack": {"type": "String", "value": "lab/1"}}
    first = {azure_id: get(simulator, azure_id) for azure_id in MADE}
    assert all(item["id"] == azure_id for azure_id, item in first.items())
    assert len(done.properties.output_resources) == len(stack.stack())
    operations = list(simulator.deployments().deployment_operations.list(stack.GROUP, "lab"))
    codes = {
        operation.properties.target_resource.resource_name: operation.properties.status_code for operation in operations
    }
    assert codes.pop("labstore/default") == "OK", "an account has its blob service from the beginning"
    assert set(codes.values()) == {"Created"}

    again = deploy(simulator, stack.stack())
    assert again.properties.provisioning_state == "Succeeded"
    second = {azure_id: get(simulator, azure_id) for azure_id in MADE}
    for changing in (f"{stack.VAULT}/secrets/munge-key", f"{stack.STORAGE}/blobServices/default/containers/models"):
        del first[changing], second[changing]
    assert second == first
    again_codes = {
        item.properties.status_code for item in simulator.deployments().deployment_operations.list("lab", "lab")
    }
    assert again_codes == {"OK"}


def test_the_made_machine_runs_with_what_the_requests_say(simulator: Simulator) -> None:
    deploy(simulator, stack.stack())
    machine = simulator.compute().virtual_machines.get(stack.GROUP, "ctl", expand="instanceView")
    assert machine.provisioning_state == "Succeeded"
    assert "PowerState/running" in [status.code for status in machine.instance_view.statuses]
    interface = simulator.network().network_interfaces.get(stack.GROUP, "ctl")
    assert interface.virtual_machine.id.lower() == stack.CTL.lower()
    assert interface.ip_configurations[0].private_ip_address == "10.77.0.4"
    assert [item.name for item in simulator.network().network_interfaces.list_all()] == ["ctl"]
    addresses = {item.name: item.ip_address for item in simulator.network().public_ip_addresses.list(stack.GROUP)}
    assert set(addresses) == {"lab-nat", "ctl"}
    made = simulator.instance("ctl")
    assert made.public_ipv4 == addresses["ctl"]
    shown = simulator.compute().virtual_machines.get(stack.GROUP, "ctl", expand="userData")
    assert base64.b64decode(shown.user_data) == b'{"hpcai": {"schema": 1}}'
    disk = get(simulator, stack.rid("Microsoft.Compute/disks", "ctl-os"))
    assert disk["managedBy"].lower() == stack.CTL.lower()
    assert disk["properties"]["diskState"] == "Attached"


def test_whatif_shows_a_changed_rule_and_leaves_the_rest_alone(simulator: Simulator) -> None:
    deploy(simulator, stack.stack())
    foreign = stack.rid("Microsoft.Compute/disks", "foreign")
    body = {"location": stack.LOCATION, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    assert simulator.arm("PUT", foreign, body).status_code == 201
    wanted = stack.network()
    wanted[0]["properties"]["securityRules"][0]["properties"]["sourceAddressPrefix"] = "198.51.100.0/24"
    client = simulator.deployments().deployments
    found = client.begin_what_if(stack.GROUP, "lab", stack.template(wanted)).result()
    changes = {change.resource_id: change for change in found.changes}
    assert changes[stack.NSG].change_type == "Modify"
    rule = changes[stack.NSG].delta[0].children[0].children[0]
    assert (rule.path, rule.before, rule.after) == (
        "properties.sourceAddressPrefix",
        "192.0.2.0/24",
        "198.51.100.0/24",
    )
    assert changes[foreign].change_type == "Ignore"
    assert get(simulator, stack.NSG)["properties"]["securityRules"][0]["properties"]["sourceAddressPrefix"] == (
        "192.0.2.0/24"
    )


def test_everything_can_be_deleted_in_its_order_only(simulator: Simulator) -> None:
    deploy(simulator, stack.stack())

    def refused(azure_id: str) -> str:
        return str(simulator.arm("DELETE", azure_id).json()["error"]["code"])

    assert refused(stack.NIC) == "NicInUse"
    assert refused(stack.VNET) == "InUseSubnetCannotBeDeleted"
    assert refused(stack.NSG) == "InUseNetworkSecurityGroupCannotBeDeleted"
    assert refused(stack.NAT) == "InUseNatGatewayCannotBeDeleted"
    assert refused(stack.CTL_IP) == "PublicIPAddressCannotBeDeleted"
    assert refused(stack.rid("Microsoft.Compute/disks", "ctl-os")) == "OperationNotAllowed"
    compute = simulator.compute()
    compute.virtual_machine_scale_sets.begin_delete(stack.GROUP, "compute").result()
    compute.virtual_machines.begin_delete(stack.GROUP, "ctl").result()
    assert simulator.arm("GET", stack.rid("Microsoft.Compute/disks", "ctl-os")).status_code == 404
    for azure_id in (stack.NIC, stack.CTL_IP, stack.VNET, stack.NAT, stack.NAT_IP, stack.NSG, stack.STORAGE):
        assert simulator.arm("DELETE", azure_id).status_code == 200, azure_id
        assert simulator.arm("DELETE", azure_id).status_code == 204, azure_id
    assert simulator.arm("GET", f"{stack.STORAGE}/blobServices/default/containers/models").status_code == 404
    left = simulator.arm("GET", f"/resourceGroups/{stack.GROUP}/resources").json()["value"]
    assert sorted(item["type"] for item in left) == [
        "Microsoft.KeyVault/vaults",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
    ]
    # The addresses are free again.
    assert simulator.model.public.take() == "10.77.200.0"


def test_deleting_the_group_deletes_everything(simulator: Simulator) -> None:
    deploy(simulator, stack.stack())
    answer = simulator.arm("DELETE", f"/resourceGroups/{stack.GROUP}")
    assert answer.status_code == 202
    simulator.wait()
    assert simulator.arm("GET", f"/resourceGroups/{stack.GROUP}").status_code == 404
    assert simulator.arm("GET", "/resources").json() == {"value": []}
    assert list(simulator.model.deleted_vaults) == ["labvault"]
