# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources that a stack adopts: they are read and checked, and neither a run nor a teardown writes to them."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.data import ROLES

from .cloud import Azure, smallest

LOCATION = "southcentralus"


def foreign_group(azure: Azure, name: str) -> str:
    """Make a resource group of another team, and return its id."""
    group = f"/subscriptions/{azure.simulator.subscription_id}/resourceGroups/{name}"
    azure.put(group, {"location": LOCATION, "tags": {"owner": name}})
    return group


def hub(azure: Azure, **endpoints: list[str]) -> str:
    """Make a network of another team, and return its id.

    :param endpoints: services for which a subnet has service endpoints, if not for both that a stack needs.
    """
    network = f"{foreign_group(azure, 'hub')}/providers/Microsoft.Network/virtualNetworks/spoke"
    subnets = []
    for name, prefix in (("services", "10.1.0.0/24"), ("batch", "10.1.4.0/22")):
        services = [{"service": one} for one in endpoints.get(name, ["Microsoft.KeyVault", "Microsoft.Storage.Global"])]
        subnets.append({"name": name, "properties": {"addressPrefix": prefix, "serviceEndpoints": services}})
    properties = {"addressSpace": {"addressPrefixes": ["10.1.0.0/16"]}, "subnets": subnets}
    azure.put(network, {"location": LOCATION, "properties": properties})
    return network


def test_adopted_network_is_untouched_by_present_and_absent(azure: Azure) -> None:
    network = hub(azure)
    before = azure.get(network)
    wanted = smallest(
        network={"adopt": network, "subnets": {"cluster": "services", "compute": "batch"}},
        controller={"private_ip": "10.1.0.9"},
        shared_home={"source": "none"},
        storage={"containers": []},
    )
    azure.simulator.clear()
    azure.run(wanted)
    assert azure.run(wanted)["changed"] is False
    result = azure.run(wanted, state="absent")

    assert azure.run(wanted, state="absent")["changed"] is False
    assert network not in result["deleted"]
    assert not [path for _method, path in azure.sent() if "/resourcegroups/hub" in path.lower()]
    after = azure.get(network)
    for item in (before, after):
        item.pop("etag", None)
        for subnet in item["properties"]["subnets"]:
            subnet.pop("etag", None)
            subnet["properties"].pop("ipConfigurations", None)
    assert after == before


def test_missing_right_on_an_adopted_network_is_explained(azure: Azure) -> None:
    network = hub(azure)
    azure.simulator.limits.permissions = [
        {"actions": ["*"], "notActions": ["Microsoft.Network/virtualNetworks/subnets/join/action"]}
    ]
    wanted = smallest(
        network={"adopt": network, "subnets": {"cluster": "services", "compute": "batch"}},
        controller={"private_ip": "10.1.0.9"},
    )
    with pytest.raises(
        InventoryError, match=r"LinkedAuthorizationFailed: .*/subnets/(services|batch)' .*preflight shows"
    ):
        azure.run(wanted)


def test_adopted_network_that_does_not_exist_is_refused_before_the_first_write(azure: Azure) -> None:
    network = hub(azure)
    azure.simulator.clear()
    wanted = smallest(
        network={"adopt": f"{network}2", "subnets": {"cluster": "services", "compute": "batch"}},
        controller={"private_ip": "10.1.0.9"},
    )
    with pytest.raises(InventoryError, match=r"virtualNetworks/spoke2 is adopted, and does not exist"):
        azure.run(wanted)
    assert azure.sent() == []


def test_adopted_subnet_without_service_endpoints_is_refused_before_the_first_write(azure: Azure) -> None:
    network = hub(azure, services=["Microsoft.Sql", "Microsoft.KeyVault"], batch=[])
    azure.simulator.clear()
    wanted = smallest(
        network={"adopt": network, "subnets": {"cluster": "services", "compute": "batch"}},
        controller={"private_ip": "10.1.0.9"},
    )
    with pytest.raises(InventoryError, match=r"subnet batch has no service endpoint for Microsoft\.KeyVault ") as no:
        azure.run(wanted)
    assert f"--ids {network}/subnets/batch --service-endpoints Microsoft.KeyVault Microsoft.Storage." in str(no.value)
    # The command replaces the list, so it must name what the subnet has.
    also = f"--ids {network}/subnets/services --service-endpoints Microsoft.Sql Microsoft.KeyVault Microsoft.Storage."
    assert also in str(no.value)
    assert azure.sent() == []

    # Without a vault and an account of the stack's own, there is no firewall with rules for the subnets.
    central = Central(azure)
    central.make_key()
    azure.run({**central.stated, "network": wanted["network"], "controller": wanted["controller"]})


def hub_zone(azure: Azure, network: str) -> str:
    """Make the private DNS zone for shares that another team has for its network, and return its id."""
    zone = f"{network.partition('/providers/')[0]}/providers/{kinds.DNS_ZONE}/privatelink.file.core.windows.net"
    azure.put(zone, {"location": "global"})
    link = {"registrationEnabled": False, "virtualNetwork": {"id": network}}
    azure.put(f"{zone}/virtualNetworkLinks/hub", {"location": "global", "properties": link})
    return zone


def test_adopted_zone_of_shares_is_untouched_by_present_and_absent(azure: Azure) -> None:
    network = hub(azure)
    zone = hub_zone(azure, network)
    wanted = smallest(
        network={"adopt": network, "subnets": {"cluster": "services", "compute": "batch", "endpoints": "services"}},
        controller={"private_ip": "10.1.0.9"},
        shared_home={"source": "azure_files", "size_gib": 512, "dns_zone": zone},
    )
    azure.simulator.clear()
    azure.run(wanted)
    assert azure.run(wanted)["changed"] is False
    configs = azure.get(f"{azure.names(wanted).home_endpoint}/privateDnsZoneGroups/default")["properties"]
    assert [one["properties"]["privateDnsZoneId"] for one in configs["privateDnsZoneConfigs"]] == [zone]
    result = azure.run(wanted, state="absent", data=[azure.names(wanted).home_account.rsplit("/", 1)[-1]])

    assert zone not in result["deleted"]
    assert azure.exists(zone)
    assert azure.exists(f"{zone}/virtualNetworkLinks/hub")
    assert not [path for _method, path in azure.sent() if "/resourcegroups/hub" in path.lower()]


def test_second_zone_of_shares_for_a_network_is_explained(azure: Azure) -> None:
    network = hub(azure)
    hub_zone(azure, network)
    wanted = smallest(
        network={"adopt": network, "subnets": {"cluster": "services", "compute": "batch", "endpoints": "services"}},
        controller={"private_ip": "10.1.0.9"},
        shared_home={"source": "azure_files", "size_gib": 512},
    )
    with pytest.raises(InventoryError, match=r"multiple zones with overlapping namespaces.*shared_home\.dns_zone"):
        azure.run(wanted)


def test_adopted_group_is_used(azure: Azure) -> None:
    group = foreign_group(azure, "team")
    wanted = smallest(group={"adopt": group}, storage={"containers": []}, shared_home={"source": "none"})
    azure.run(wanted)

    assert azure.run(wanted)["changed"] is False
    azure.run(wanted, state="absent")
    assert azure.get(group)["tags"] == {"owner": "team"}


class Central:
    """Identities, a vault and a storage account of another team.

    :ivar ids: the resource ids.
    :ivar stated: the stack that adopts them.
    """

    def __init__(self, azure: Azure) -> None:
        self._azure = azure
        group = foreign_group(azure, "central")
        vault, account, secret = (
            f"{group}/providers/{kind}"
            for kind in (f"{kinds.VAULT}/keys", f"{kinds.ACCOUNT}/models", f"{kinds.VAULT}/keys/secrets/munge-key")
        )
        identities = [f"{group}/providers/{kinds.IDENTITY}/{name}" for name in ("nodes", "controller")]
        self.secret, self.vault = secret, vault
        bodies: dict[str, dict[str, Any]] = {one: {"location": LOCATION} for one in identities}
        bodies[vault] = {
            "location": LOCATION,
            "properties": {
                "tenantId": azure.simulator.subscription_id,
                "sku": {"family": "A", "name": "standard"},
                "enableRbacAuthorization": True,
            },
        }
        bodies[account] = {
            "location": LOCATION,
            "sku": {"name": "Standard_ZRS"},
            "kind": "StorageV2",
            "properties": {"allowSharedKeyAccess": True},
        }
        bodies[f"{account}/blobServices/default/containers/llm"] = {"properties": {}}
        for one, body in bodies.items():
            azure.put(one, body)
        self.ids = tuple(bodies)
        self.stated = smallest(
            identities={"nodes": identities[0], "controller": identities[1]},
            key_vault={"adopt": vault},
            storage={"adopt": account, "containers": ["llm"]},
            shared_home={"source": "none"},
        )

    def make_key(self) -> None:
        """Make the secret with the munge key."""
        self._azure.put(self.secret, {"properties": {"value": "k" * 64}})

    def state(self) -> list[dict[str, Any]]:
        """Everything that Azure says about the resources."""
        return [self._azure.get(one, kinds.API_VERSIONS[kinds.kind_of(one)]) for one in self.ids]


def test_adopted_vault_account_and_identities_are_untouched_by_present_and_absent(azure: Azure) -> None:
    central = Central(azure)
    central.make_key()
    before = central.state()
    azure.simulator.clear()
    made = azure.run(central.stated)
    again = azure.run(central.stated)
    deleted = azure.run(central.stated, state="absent")

    assert again["changed"] is False
    assert not [path for _method, path in azure.sent() if "/resourcegroups/central" in path.lower()]
    assert central.state() == before
    assert not [one for one in deleted["deleted"] if "/resourcegroups/central/" in one.lower()]
    assert azure.run(central.stated, state="absent")["changed"] is False
    # Their owners assign the roles on them.
    assert len(made["role_assignments"]) == 4
    assert made["variables"]["hpcai_key_vault"] == "https://keys.vault.azure.net"
    kept = azure.simulator.model.resource_groups
    assert [one.name for one in kept.values()] == ["central"]


def test_adopted_vault_must_have_the_key_and_roles(azure: Azure) -> None:
    central = Central(azure)
    azure.simulator.clear()
    with pytest.raises(InventoryError, match=r"secrets/munge-key is adopted, and does not exist: .* Create it: ") as no:
        azure.run(central.stated)
    assert "az keyvault secret set --vault-name keys --name munge-key" in str(no.value)
    assert azure.sent() == []

    central.make_key()
    vault = azure.get(central.vault)
    vault["properties"] |= {"enableRbacAuthorization": False, "accessPolicies": []}
    azure.put(central.vault, {key: vault[key] for key in ("location", "properties")})
    azure.simulator.clear()
    with pytest.raises(InventoryError, match=r"vaults/keys is adopted, so it is not changed, but properties\.enable"):
        azure.run(central.stated)
    assert azure.sent() == []


@pytest.mark.parametrize("name", ["models", "nodes", "llm"])
def test_adopted_resource_that_does_not_exist_is_refused_before_the_first_write(azure: Azure, name: str) -> None:
    central = Central(azure)
    central.make_key()
    (gone,) = [one for one in central.ids if one.endswith(f"/{name}")]
    azure.simulator.arm("DELETE", gone, version=kinds.API_VERSIONS[kinds.kind_of(gone)])
    azure.simulator.clear()

    with pytest.raises(InventoryError, match=f"/{name} is adopted, and does not exist: "):
        azure.run(central.stated)
    assert azure.sent() == []


def assign(azure: Azure, command: str) -> str:
    """Do what a command for the owner of an adopted resource does. Returns the id of the role assignment."""
    role, principal, scope = re.findall(r"--role '(.+)' --assignee-object-id (\S+) .* --scope (\S+)$", command)[0]
    assignment = f"{scope}/providers/{kinds.ROLE_ASSIGNMENT}/{uuid.uuid4()}"
    definition = f"/subscriptions/{azure.simulator.subscription_id}/providers/{kinds.ROLE}/{ROLES[role]}"
    properties = {"roleDefinitionId": definition, "principalId": principal, "principalType": "ServicePrincipal"}
    azure.put(assignment, {"properties": properties})
    return assignment


def test_roles_that_owners_gave_to_deleted_identities_are_named(azure: Azure) -> None:
    central = Central(azure)
    central.make_key()
    wanted = {**central.stated, "identities": {}}
    azure.run(wanted)
    # From the second run on, the commands contain the ids of the new principals.
    commands = azure.run(wanted)["role_assignments"]
    assigned = [assign(azure, one) for one in commands[:3]]
    of_others = assign(azure, re.sub(r"object-id \S+", f"object-id {uuid.uuid4()}", commands[3]))

    (note,) = azure.run(wanted, check=True, state="absent")["notes"]
    assert note.startswith("Owners of storageAccounts/models, vaults/keys/secrets/munge-key gave roles to identities ")
    assert note.partition("az role assignment delete --ids ")[2].split() == assigned
    assert azure.run(wanted, state="absent")["notes"] == [note]
    assert all(azure.exists(one) for one in (*assigned, of_others))
    assert azure.run(wanted, state="absent")["notes"] == []


def test_roles_that_cannot_be_listed_are_named_as_possible(azure: Azure) -> None:
    central = Central(azure)
    central.make_key()
    wanted = {**central.stated, "identities": {}}
    azure.run(wanted)
    azure.simulator.faults.add(match="GET .*/storageAccounts/models/.*/roleAssignments", action="status", status=403)

    (note,) = azure.run(wanted, state="absent")["notes"]
    assert note.startswith("On storageAccounts/models, owners may have given roles to identities that this deletes: ")
    assert "Microsoft.Authorization/roleAssignments/read" in note
