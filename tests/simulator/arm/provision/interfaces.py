# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a network: NAT gateways, addresses, interfaces, bastion hosts, private endpoints, links of DNS zones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from simulator.addresses import AddressesExhausted, AddressPool
from simulator.arm.context import Context
from simulator.arm.errors import ArmError
from simulator.arm.network_payloads import mac_number
from simulator.arm.provision.kinds import Change, Kind, id_of, users
from simulator.arm.provision.network import NetworkKind
from simulator.effects import Work
from simulator.resources import NETWORK, Document, Resource, now

BASTION_SUBNET = "AzureBastionSubnet"


class NatGateway(NetworkKind):
    """A NAT gateway."""

    in_use = "InUseNatGatewayCannotBeDeleted"

    def check(self, change: Change) -> None:
        """Check the SKU and the addresses."""
        if not change.body.get("sku"):
            raise change.missing("sku")
        for address in change.properties.get("publicIpAddresses") or []:
            found = change.need(address.get("id"), "publicIpAddresses")
            if (found.get("sku") or {}).get("name") != "Standard":
                raise ArmError(400, "NatGatewayPublicIpSkuMismatch", f"{address['id']} must have the SKU Standard.")

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The gateway with its subnets."""
        answer = super().answer(state, item)
        found = _subnets_with(state, "natGateway", id_of(item))
        if found:
            answer["properties"]["subnets"] = [{"id": subnet} for subnet in found]
        return answer


class PublicAddress(NetworkKind):
    """A public address."""

    in_use = "PublicIPAddressCannotBeDeleted"

    def check(self, change: Change) -> None:
        """Check SKU and allocation."""
        standard = (change.body.get("sku") or {}).get("name") == "Standard"
        if standard and change.properties.get("publicIPAllocationMethod", "Dynamic") != "Static":
            raise ArmError(
                400,
                "InvalidParameter",
                f"{change.target.name}: an address of SKU Standard must be allocated statically.",
            )

    def settle(self, change: Change, document: Document) -> None:
        """Assign the address."""
        properties = document.properties
        held = (change.before.get("properties") or {}).get("ipAddress")
        properties.setdefault("publicIPAllocationMethod", "Dynamic")
        properties.setdefault("publicIPAddressVersion", "IPv4")
        properties.setdefault("idleTimeoutInMinutes", 4)
        document.body.setdefault("sku", {"name": "Basic", "tier": "Regional"})
        properties["ipAddress"] = held or take(change.state.model.public, document.id)
        super().settle(change, document)

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Free the address."""
        assert isinstance(item, Document)
        state.model.public.release(item.properties["ipAddress"])
        return super().remove(state, item)

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The address with what has it."""
        answer = super().answer(state, item)
        for interface in state.model.documents.of(f"{NETWORK}/networkInterfaces"):
            for configuration in interface.properties.get("ipConfigurations") or []:
                held = (configuration["properties"].get("publicIPAddress") or {}).get("id", "")
                if held.lower() == id_of(item).lower():
                    answer["properties"]["ipConfiguration"] = {"id": configuration["id"]}
        return answer


class Interface(NetworkKind):
    """A network interface of a virtual machine."""

    in_use = "NicInUse"

    def check(self, change: Change) -> None:
        """Check the subnet and the public address."""
        super().check(change)
        configurations = change.properties.get("ipConfigurations")
        if not configurations:
            raise change.missing("ipConfigurations")
        for configuration in configurations:
            properties = configuration.get("properties") or {}
            subnet = (properties.get("subnet") or {}).get("id")
            change.need(subnet, "subnet")
            public = (properties.get("publicIPAddress") or {}).get("id")
            if public:
                change.need(public, "publicIPAddress")
                self._free(change, public)

    def _free(self, change: Change, public: str) -> None:
        for other in users(change.state, public):
            if other.lower() != change.target.id.lower():
                raise ArmError(400, "PublicIPAddressInUse", f"Resource {public} is used by {other}.")

    def settle(self, change: Change, document: Document) -> None:
        """Assign addresses. An interface keeps its address as long as its subnet stays."""
        properties, model = document.properties, change.state.model
        before = change.before.get("properties") or {}
        held = {item["name"].lower(): item["properties"] for item in before.get("ipConfigurations") or []}
        for number, configuration in enumerate(properties["ipConfigurations"]):
            own = configuration["properties"]
            configuration["id"] = f"{document.id}/ipConfigurations/{configuration['name']}"
            own.setdefault("privateIPAllocationMethod", "Dynamic")
            own.setdefault("privateIPAddressVersion", "IPv4")
            own["primary"] = own.get("primary", number == 0)
            own["provisioningState"] = "Succeeded"
            subnet = model.subnets[own["subnet"]["id"].lower()]
            own["subnet"] = {"id": subnet.id}
            old = held.pop(configuration["name"].lower(), None)
            wanted = own.get("privateIPAddress") if own["privateIPAllocationMethod"] == "Static" else None
            stays = old is not None and old["subnet"]["id"].lower() == subnet.id.lower()
            if old is not None and stays and wanted in (None, old["privateIPAddress"]):
                own["privateIPAddress"] = old["privateIPAddress"]
                continue
            if old is not None:
                _release(change.state, old)
            own["privateIPAddress"] = take(subnet.private, subnet.id, wanted)
        for old in held.values():
            _release(change.state, old)
        properties.setdefault("dnsSettings", {}).setdefault("dnsServers", [])
        properties["dnsSettings"].setdefault("appliedDnsServers", [])
        properties.setdefault("enableAcceleratedNetworking", False)
        properties.setdefault("enableIPForwarding", False)
        properties["primary"] = True
        properties["macAddress"] = before.get("macAddress") or mac_number(document.serial)
        if "virtualMachine" in before:
            properties["virtualMachine"] = before["virtualMachine"]
        super().settle(change, document)

    def removable(self, state: Context, item: Resource) -> None:
        """Refuse while a machine has it."""
        assert isinstance(item, Document)
        machine = item.properties.get("virtualMachine")
        if machine:
            raise ArmError(
                400,
                self.in_use,
                f"Network Interface {item.id} is used by existing resource {machine['id']}. In order to delete the "
                "network interface, it must be dissociated from the resource. See aka.ms/deletenic.",
            )
        check_reserved(item)

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Free the addresses."""
        assert isinstance(item, Document)
        for configuration in item.properties["ipConfigurations"]:
            _release(state, configuration["properties"])
        return super().remove(state, item)


def reserve(state: Context, properties: dict[str, Any], machine: str) -> None:
    """Reserve the interfaces of a machine that is gone or could not be made."""
    seconds = state.model.limits.nic_reserved_s
    for item in (properties.get("networkProfile") or {}).get("networkInterfaces") or []:
        interface = state.model.documents.get(str(item.get("id")))
        if interface is not None and seconds:
            interface.reserved = machine, now() + timedelta(seconds=seconds)


def check_reserved(interface: Document, machine: str = "") -> None:
    """Raise ArmError if an interface is reserved for another machine."""
    if interface.reserved is None or interface.reserved[1] <= now():
        return
    if interface.reserved[0].lower() != machine.lower():
        # As quoted in https://github.com/gardenlinux/gardenlinux/issues/4133.
        raise ArmError(
            400,
            "NicReservedForAnotherVm",
            "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. Please provide another nic(s) "
            f"or retry after 180 seconds. Reserved VM: {interface.reserved[0]}",
        )


class Bastion(NetworkKind):
    """A bastion host."""

    def check(self, change: Change) -> None:
        """Check its subnet, which must have a certain name."""
        for configuration in change.properties.get("ipConfigurations") or []:
            properties = configuration.get("properties") or {}
            subnet = (properties.get("subnet") or {}).get("id")
            change.need(subnet, "subnet")
            change.need((properties.get("publicIPAddress") or {}).get("id"), "publicIPAddress")
            if str(subnet).rpartition("/")[2] != BASTION_SUBNET:
                raise ArmError(
                    400, "BastionSubnetNameInvalid", f"The subnet of a bastion host must be called {BASTION_SUBNET}."
                )

    def settle(self, change: Change, document: Document) -> None:
        """Add the defaults."""
        document.body.setdefault("sku", {"name": "Standard"})
        document.properties["dnsName"] = f"bst-{document.serial:08x}.bastion.azure.com"
        super().settle(change, document)


class PrivateEndpoint(NetworkKind):
    """A private endpoint. It has an address, but nothing answers at it."""

    def check(self, change: Change) -> None:
        """Check its subnet and its service."""
        change.need((change.properties.get("subnet") or {}).get("id"), "subnet")
        for connection in change.properties.get("privateLinkServiceConnections") or []:
            change.need((connection.get("properties") or {}).get("privateLinkServiceId"), "privateLinkServiceId")

    def settle(self, change: Change, document: Document) -> None:
        """Assign an address."""
        properties = document.properties
        before = change.before.get("properties") or {}
        subnet = change.state.model.subnets[properties["subnet"]["id"].lower()]
        held = before.get("customDnsConfigs") or [{"ipAddresses": [take(subnet.private, subnet.id)]}]
        properties["customDnsConfigs"] = held
        for connection in properties.get("privateLinkServiceConnections") or []:
            connection["id"] = f"{document.id}/privateLinkServiceConnections/{connection['name']}"
            connection["properties"]["privateLinkServiceConnectionState"] = {
                "status": "Approved",
                "description": "",
                "actionsRequired": "None",
            }
        super().settle(change, document)

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Free the address."""
        assert isinstance(item, Document)
        subnet = state.model.subnets.get(item.properties["subnet"]["id"].lower())
        if subnet is not None:
            subnet.private.release(item.properties["customDnsConfigs"][0]["ipAddresses"][0])
        return super().remove(state, item)


class ZoneLink(Kind):
    """A link of a private DNS zone to a network, whose machines find the zone's names then."""

    def check(self, change: Change) -> None:
        """Refuse a network that is linked to another zone of the same name.

        Codes and messages as in Azure/azure-cli issue 23351 and MicrosoftDocs/azure-aks-docs issue 212. The operation
        fails, not the validation of a deployment.
        """
        network = str((change.properties.get("virtualNetwork") or {}).get("id"))
        if change.resource(network) is None:
            raise ArmError(400, "BadRequest", f"Virtual network resource not found for '{network}'")
        if change.dry:
            return
        zone = change.target.parent.rpartition("/")[2]
        for other in change.state.model.documents.of(self.name):
            same = other.properties["virtualNetwork"]["id"].lower() == network.lower()
            above = other.id.rsplit("/", 2)[0]
            name = above.rpartition("/")[2]
            if same and name.lower() == zone.lower() and above.lower() != change.target.parent.lower():
                raise ArmError(
                    400,
                    "BadRequest",
                    "A virtual network cannot be linked to multiple zones with overlapping namespaces. You tried to "
                    f"link virtual network with '{zone}' and '{name}' zones.",
                )


def take(pool: AddressPool, where: str, wanted: str | None = None) -> str:
    """An address of a pool. Raises ArmError if there is none."""
    try:
        return pool.take(wanted)
    except AddressesExhausted as error:
        if wanted is not None:
            raise ArmError(
                400, "PrivateIPAddressInUse", f"IP address {wanted} is already in use in {where}."
            ) from error
        raise ArmError(400, "SubnetIsFull", f"Subnet {where} does not have enough capacity: {error}") from error


def _release(state: Context, configuration: dict[str, Any]) -> None:
    subnet = state.model.subnets.get(configuration["subnet"]["id"].lower())
    if subnet is not None:
        subnet.private.release(configuration["privateIPAddress"])


def _subnets_with(state: Context, path: str, azure_id: str) -> list[str]:
    found: list[str] = []
    for network in state.model.documents.of(f"{NETWORK}/virtualNetworks"):
        for subnet in network.properties.get("subnets") or []:
            if ((subnet["properties"].get(path) or {}).get("id") or "").lower() == azure_id.lower():
                found.append(subnet["id"])
    return found
