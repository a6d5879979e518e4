# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of the stack: NSG, NAT, subnets, Bastion, as resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import resource as kinds
from .model import AZURE_FILES, BASTION, BASTION_SUBNET, CLUSTER, COMPUTE, ENDPOINTS, PUBLIC, Stack
from .names import Names
from .resource import Resource

RULE_PREFIX = "hpcai-"
"""Rules of the NSG with this prefix belong to the stack, all others to somebody else."""
_KEY_VAULT, _STORAGE = "Microsoft.KeyVault", "Microsoft.Storage"
_STANDARD = {"name": "Standard", "tier": "Regional"}


def network_resources(stack: Stack, names: Names, common: dict[str, Any]) -> Iterator[Resource]:
    """Yield the network's resources.

    :param common: location and tags of each resource.
    """
    if stack.network.adopt:
        yield Resource(names.network, kinds.VNET, {"location": stack.location}, adopted=True)
        return
    yield _nsg(stack, names, common)
    if stack.network.nat:
        yield public_address(names.nat_address, common)
        yield Resource(
            names.nat,
            kinds.NAT,
            {
                **common,
                "sku": {"name": "Standard"},
                "properties": {
                    "publicIpAddresses": [{"id": names.nat_address}],
                    # Azure's default of 4 minutes ends idle connections of long downloads.
                    "idleTimeoutInMinutes": 10,
                },
            },
            needs=(names.nat_address,),
        )
    yield Resource(
        names.network,
        kinds.VNET,
        {
            **common,
            "properties": {
                "addressSpace": {"addressPrefixes": list(stack.network.address_space)},
                "subnets": list(_subnets(stack, names)),
            },
        },
        needs=(names.nsg, *([names.nat] if stack.network.nat else [])),
    )
    if stack.network.access == BASTION:
        yield public_address(names.bastion_address, common)
        yield Resource(
            names.bastion,
            kinds.BASTION_HOST,
            {
                **common,
                # Ansible's ssh goes through a tunnel, which only this tier has.
                "sku": {"name": "Standard"},
                "properties": {
                    "enableTunneling": True,
                    "ipConfigurations": [
                        {
                            "name": "ip",
                            "properties": {
                                "subnet": {"id": names.subnet(BASTION_SUBNET)},
                                "publicIPAddress": {"id": names.bastion_address},
                            },
                        }
                    ],
                },
            },
            needs=(names.network, names.bastion_address),
        )


def lacking_endpoints(stack: Stack, subnet: Mapping[str, Any]) -> list[str]:
    """Return the service endpoints that an adopted subnet lacks. Azure refuses firewalls with rules for such a subnet.

    :param subnet: the subnet in Azure's answer about its network.
    """
    needed = [] if stack.key_vault.adopt else [_KEY_VAULT]
    if stack.storage.containers and not stack.storage.adopt:
        needed.append(_STORAGE)
    # The second form also connects to accounts of other regions. A subnet has only one of the two.
    there = {service.lower().removesuffix(".global") for service in endpoints_of(subnet)}
    return [service for service in needed if service.lower() not in there]


def endpoints_of(subnet: Mapping[str, Any]) -> list[str]:
    """Return the services for which a subnet has service endpoints."""
    return [str(one.get("service")) for one in (subnet.get("properties") or {}).get("serviceEndpoints") or []]


def public_address(address: str, common: dict[str, Any]) -> Resource:
    """Return a fixed public address."""
    return Resource(
        address,
        kinds.PUBLIC_ADDRESS,
        {
            **common,
            "sku": _STANDARD,
            "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
        },
        fixed=frozenset({"sku.name", "properties.publicIPAllocationMethod"}),
    )


def _nsg(stack: Stack, names: Names, common: dict[str, Any]) -> Resource:
    """Return the NSG. Azure's default rules allow everything inside the network, and refuse the internet."""
    rules = []
    if stack.network.access == PUBLIC:
        rules.append(
            {
                "name": f"{RULE_PREFIX}ssh",
                "properties": {
                    "priority": 200,
                    "direction": "Inbound",
                    "access": "Allow",
                    "protocol": "Tcp",
                    "sourceAddressPrefixes": list(stack.network.ssh_from),
                    "sourcePortRange": "*",
                    "destinationAddressPrefix": stack.network.subnets[CLUSTER],
                    "destinationPortRange": "22",
                },
            }
        )
    return Resource(
        names.nsg,
        kinds.NSG,
        {**common, "properties": {"securityRules": rules}},
        owned="properties.securityRules",
        prefix=RULE_PREFIX,
    )


def _subnets(stack: Stack, names: Names) -> Iterator[dict[str, Any]]:
    used = [CLUSTER, COMPUTE]
    if stack.shared_home.source == AZURE_FILES:
        used.append(ENDPOINTS)
    for name in used:
        properties: dict[str, Any] = {
            "addressPrefix": stack.network.subnets[name],
            "networkSecurityGroup": {"id": names.nsg},
            # New subnets have no outbound connection of their own; stated, so that it does not depend on Azure's date.
            "defaultOutboundAccess": False,
            "serviceEndpoints": [{"service": service} for service in (_KEY_VAULT, _STORAGE)],
        }
        if stack.network.nat:
            properties["natGateway"] = {"id": names.nat}
        yield {"name": name, "properties": properties}
    if stack.network.access == BASTION:
        # Azure refuses an NSG here that lacks Bastion's own rules.
        yield {
            "name": "AzureBastionSubnet",
            "properties": {"addressPrefix": stack.network.subnets[BASTION_SUBNET]},
        }
