# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack as a template, for tests: what an empty subscription needs for a small cluster."""

from __future__ import annotations

import base64
from typing import Any

from simulator.arm import versions
from simulator.scenario import SUBSCRIPTION
from simulator.testing import TEST_KEY

LOCATION = "southcentralus"
GROUP = "lab"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
TAGS = {"hpcai_stack": "lab/4d0c1f3e-0000-4000-8000-000000000001"}
EMPTY: dict[str, Any] = {"virtual_networks": []}
SECRETS_USER = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/" + (
    "4633458b-17de-408a-b874-0445c86b69e6"
)
ASSIGNMENT = "11111111-2222-4333-8444-555555555555"
PRINCIPAL = "aaaaaaaa-2222-4333-8444-555555555555"


def rid(kind: str, *names: str) -> str:
    """The id of a resource in the group."""
    namespace, *words = kind.split("/")
    return f"{GROUP_ID}/providers/{namespace}/" + "/".join(f"{w}/{n}" for w, n in zip(words, names, strict=True))


VNET = rid("Microsoft.Network/virtualNetworks", "lab")
SUBNET = f"{VNET}/subnets/nodes"
NSG = rid("Microsoft.Network/networkSecurityGroups", "lab")
NAT = rid("Microsoft.Network/natGateways", "lab")
NAT_IP = rid("Microsoft.Network/publicIPAddresses", "lab-nat")
CTL_IP = rid("Microsoft.Network/publicIPAddresses", "ctl")
NIC = rid("Microsoft.Network/networkInterfaces", "ctl")
IDENTITY = rid("Microsoft.ManagedIdentity/userAssignedIdentities", "lab")
VAULT = rid("Microsoft.KeyVault/vaults", "labvault")
STORAGE = rid("Microsoft.Storage/storageAccounts", "labstore")
CTL = rid("Microsoft.Compute/virtualMachines", "ctl")
COMPUTE = rid("Microsoft.Compute/virtualMachineScaleSets", "compute")


def resource(kind_: str, name: str, depends: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """A resource of a template."""
    found: dict[str, Any] = {"type": kind_, "apiVersion": versions.newest(kind_), "name": name, **more}
    if kind_.count("/") == 1 and "Authorization" not in kind_:
        found = {**found, "location": LOCATION, "tags": dict(TAGS)}
    return {**found, "dependsOn": list(depends)} if depends else found


def network() -> list[dict[str, Any]]:
    """Security group, NAT gateway and virtual network."""
    rule = {
        "protocol": "Tcp",
        "sourcePortRange": "*",
        "destinationPortRange": "22",
        "sourceAddressPrefix": "192.0.2.0/24",
        "destinationAddressPrefix": "*",
        "access": "Allow",
        "priority": 1000,
        "direction": "Inbound",
    }
    subnet = {
        "addressPrefix": "10.77.0.0/24",
        "networkSecurityGroup": {"id": NSG},
        "natGateway": {"id": NAT},
        "defaultOutboundAccess": False,
    }
    return [
        resource(
            "Microsoft.Network/networkSecurityGroups",
            "lab",
            properties={"securityRules": [{"name": "ssh", "properties": rule}]},
        ),
        public_address("lab-nat"),
        resource(
            "Microsoft.Network/natGateways",
            "lab",
            (NAT_IP,),
            sku={"name": "Standard"},
            properties={"idleTimeoutInMinutes": 10, "publicIpAddresses": [{"id": NAT_IP}]},
        ),
        resource(
            "Microsoft.Network/virtualNetworks",
            "lab",
            (NSG, NAT),
            properties={
                "addressSpace": {"addressPrefixes": ["10.77.0.0/16"]},
                "subnets": [{"name": "nodes", "properties": subnet}],
            },
        ),
    ]


def public_address(name: str) -> dict[str, Any]:
    """A public address."""
    return resource(
        "Microsoft.Network/publicIPAddresses",
        name,
        sku={"name": "Standard", "tier": "Regional"},
        properties={"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
    )


def services() -> list[dict[str, Any]]:
    """Identity, key vault with a secret, storage account with a container."""
    return [
        resource("Microsoft.ManagedIdentity/userAssignedIdentities", "lab"),
        resource(
            "Microsoft.KeyVault/vaults",
            "labvault",
            properties={
                "tenantId": SUBSCRIPTION,
                "sku": {"family": "A", "name": "standard"},
                "enableRbacAuthorization": True,
            },
        ),
        resource(
            "Microsoft.KeyVault/vaults/secrets", "labvault/munge-key", (VAULT,), properties={"value": "generated"}
        ),
        resource(
            "Microsoft.Storage/storageAccounts",
            "labstore",
            sku={"name": "Standard_LRS"},
            kind="StorageV2",
            properties={"allowSharedKeyAccess": False, "minimumTlsVersion": "TLS1_2"},
        ),
        resource(
            "Microsoft.Storage/storageAccounts/blobServices",
            "labstore/default",
            (STORAGE,),
            properties={"isVersioningEnabled": True, "deleteRetentionPolicy": {"enabled": True, "days": 7}},
        ),
        resource(
            "Microsoft.Storage/storageAccounts/blobServices/containers",
            "labstore/default/models",
            (f"{STORAGE}/blobServices/default",),
            properties={},
        ),
    ]


def login() -> dict[str, Any]:
    """An administrator with a key."""
    key = {"path": "/home/azureuser/.ssh/authorized_keys", "keyData": TEST_KEY}
    return {
        "adminUsername": "azureuser",
        "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}},
    }


IMAGE = {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "22.04.2025091101"}


def machine() -> list[dict[str, Any]]:
    """The controller with its address and interface."""
    configuration = {"subnet": {"id": SUBNET}, "publicIPAddress": {"id": CTL_IP}}
    return [
        public_address("ctl"),
        resource(
            "Microsoft.Network/networkInterfaces",
            "ctl",
            (VNET, CTL_IP),
            properties={
                "enableAcceleratedNetworking": True,
                "ipConfigurations": [{"name": "ipconfig1", "properties": configuration}],
            },
        ),
        resource(
            "Microsoft.Compute/virtualMachines",
            "ctl",
            (NIC, IDENTITY),
            identity={"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}},
            properties={
                "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
                "storageProfile": {
                    "imageReference": IMAGE,
                    "osDisk": {"name": "ctl-os", "createOption": "FromImage", "deleteOption": "Delete"},
                },
                "osProfile": {"computerName": "ctl", **login()},
                "networkProfile": {"networkInterfaces": [{"id": NIC, "properties": {"primary": True}}]},
                "userData": base64.b64encode(b'{"hpcai": {"schema": 1}}').decode(),
            },
        ),
    ]


def scale_set(name: str = "compute", capacity: int | None = 0) -> dict[str, Any]:
    """A scale set for InfiniBand."""
    sku: dict[str, Any] = {"name": "Standard_ND96asr_v4", "tier": "Standard", "capacity": capacity}
    configuration = {"name": "ipconfig1", "properties": {"primary": True, "subnet": {"id": SUBNET}}}
    return resource(
        "Microsoft.Compute/virtualMachineScaleSets",
        name,
        (VNET, IDENTITY),
        sku={key: value for key, value in sku.items() if value is not None},
        identity={"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}},
        properties={
            "orchestrationMode": "Uniform",
            "overprovision": False,
            "singlePlacementGroup": True,
            "platformFaultDomainCount": 1,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {
                "osProfile": {"computerNamePrefix": name, **login()},
                "storageProfile": {"imageReference": IMAGE, "osDisk": {"createOption": "FromImage"}},
                "networkProfile": {
                    "networkInterfaceConfigurations": [
                        {"name": "nic", "properties": {"primary": True, "ipConfigurations": [configuration]}}
                    ]
                },
                "userData": base64.b64encode(b'{"hpcai": {"schema": 1, "functions": ["compute"]}}').decode(),
            },
        },
    )


def assignment(principal: str = PRINCIPAL) -> dict[str, Any]:
    """The right to read the vault's secrets."""
    return resource(
        "Microsoft.Authorization/roleAssignments",
        ASSIGNMENT,
        (VAULT,),
        scope="Microsoft.KeyVault/vaults/labvault",
        properties={
            "roleDefinitionId": SECRETS_USER,
            "principalId": principal,
            "principalType": "ServicePrincipal",
        },
    )


def stack() -> list[dict[str, Any]]:
    """Everything."""
    return [*network(), *services(), *machine(), scale_set()]


def template(resources: list[dict[str, Any]], **outputs: Any) -> dict[str, Any]:
    """The body of a deployment."""
    document: dict[str, Any] = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": resources,
        "outputs": {name: {"type": "string", "value": value} for name, value in outputs.items()},
    }
    return {"properties": {"mode": "Incremental", "template": document}}
