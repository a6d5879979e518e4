# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual networks and what stands in them, without machines."""

from __future__ import annotations

import copy
import ipaddress
from typing import Any

from simulator.addresses import AddressesExhausted, AddressPool
from simulator.arm.context import Context
from simulator.arm.errors import ArmError
from simulator.arm.network_payloads import mac_number
from simulator.arm.provision.kinds import Change, Kind, id_of, users
from simulator.arm.provision.targets import Target
from simulator.effects import Work
from simulator.resources import NETWORK, Document, Resource, Subnet

DEFAULT_RULES = (
    ("AllowVnetInBound", 65000, "Inbound", "Allow", "VirtualNetwork", "VirtualNetwork"),
    ("AllowAzureLoadBalancerInBound", 65001, "Inbound", "Allow", "AzureLoadBalancer", "*"),
    ("DenyAllInBound", 65500, "Inbound", "Deny", "*", "*"),
    ("AllowVnetOutBound", 65000, "Outbound", "Allow", "VirtualNetwork", "VirtualNetwork"),
    ("AllowInternetOutBound", 65001, "Outbound", "Allow", "*", "Internet"),
    ("DenyAllOutBound", 65500, "Outbound", "Deny", "*", "*"),
)
BASTION_SUBNET = "AzureBastionSubnet"


def prefix_of(subnet: dict[str, Any]) -> str:
    """The address range of a subnet's body."""
    properties = subnet.get("properties") or {}
    return str(properties.get("addressPrefix") or next(iter(properties.get("addressPrefixes") or [""])))


class NetworkKind(Kind):
    """A type that must not be deleted while others refer to it."""

    in_use = ""
    """The error code for that."""

    def check(self, change: Change) -> None:
        """Check that everything exists to which the request refers."""
        for path in ("networkSecurityGroup", "natGateway"):
            if isinstance(change.properties.get(path), dict):
                change.need(change.properties[path].get("id"), path)

    def removable(self, state: Context, item: Resource) -> None:
        """Refuse while another resource refers to it."""
        found = users(state, id_of(item)) if self.in_use else []
        if found:
            raise ArmError(400, self.in_use, f"{id_of(item)} is in use by {found[0]} and cannot be deleted.")


class VirtualNetwork(NetworkKind):
    """A virtual network with its subnets."""

    in_use = "InUseSubnetCannotBeDeleted"

    def check(self, change: Change) -> None:
        """Check the addresses of the network and its subnets."""
        prefixes = (change.properties.get("addressSpace") or {}).get("addressPrefixes")
        if not prefixes:
            raise change.missing("addressSpace.addressPrefixes")
        space = [_network(prefix, change.target.name) for prefix in prefixes]
        model = change.state.model
        if change.state.options.real and not all(part.subnet_of(ipaddress.IPv4Network(model.range)) for part in space):
            raise ArmError(400, "SimulatorRange", f"this simulator's machines have addresses of {model.range} only")
        before = {item["name"].lower(): item for item in self._subnets(change.existing)}
        # Azure keeps the subnets if the request has no list; an empty list deletes them.
        wanted = change.properties.get("subnets", list(before.values()))
        self._check_subnets(change, wanted, space)
        for name, subnet in before.items():
            after = next((item for item in wanted if str(item.get("name")).lower() == name), None)
            used = users(change.state, subnet["id"])
            if after is None and used:
                raise ArmError(
                    400,
                    self.in_use,
                    f"Subnet {subnet['name']} is in use by {used[0]} and cannot be deleted. In order to delete the "
                    "subnet, delete all the resources within the subnet. See aka.ms/deletesubnet.",
                )
            if after is not None and used and prefix_of(after) != prefix_of(subnet):
                raise ArmError(400, "InUsePrefixCannotBeDeleted", f"IpPrefix {prefix_of(subnet)} is in use.")

    def _check_subnets(self, change: Change, wanted: list[dict[str, Any]], space: list[ipaddress.IPv4Network]) -> None:
        ranges: list[ipaddress.IPv4Network] = []
        for subnet in wanted:
            name = str(subnet.get("name"))
            network = _network(prefix_of(subnet), name)
            if not any(network.subnet_of(part) for part in space):
                raise ArmError(
                    400,
                    "NetcfgSubnetRangeOutsideVnet",
                    f"Subnet '{name}' is not valid because its IP address range is outside the IP address range of "
                    f"virtual network '{change.target.name}'.",
                )
            if network.prefixlen > 29:
                raise ArmError(400, "NetcfgInvalidSubnet", f"Subnet '{name}' is too small.")
            if any(network.overlaps(other) for other in ranges):
                raise ArmError(
                    400,
                    "NetcfgSubnetRangesOverlap",
                    f"Subnet '{name}' is not valid because its IP address range overlaps with that of an existing "
                    f"subnet in virtual network '{change.target.name}'.",
                )
            ranges.append(network)
            for path in ("networkSecurityGroup", "natGateway"):
                other = (subnet.get("properties") or {}).get(path)
                if isinstance(other, dict):
                    change.need(other.get("id"), path)

    @staticmethod
    def _subnets(item: Resource | None) -> list[dict[str, Any]]:
        return list(item.properties.get("subnets") or []) if isinstance(item, Document) else []

    def make(self, change: Change) -> Work | None:
        """Store the network, and give its subnets their ids and addresses."""
        before = copy.deepcopy(self._subnets(change.existing))
        document = self.store(change)
        properties = document.properties
        properties.setdefault("subnets", before)
        properties.setdefault("virtualNetworkPeerings", [])
        properties.setdefault("enableDdosProtection", False)
        properties["provisioningState"] = "Succeeded"
        arrange_subnets(change.state, document)
        return None

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Forget the subnets' addresses."""
        for subnet in self._subnets(item):
            state.model.subnets.pop(subnet["id"].lower(), None)
        return super().remove(state, item)

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The network. Each subnet lists the address configurations in it."""
        answer = super().answer(state, item)
        held = addresses_in(state)
        for subnet in answer["properties"]["subnets"]:
            inside = held.get(subnet["id"].lower())
            if inside:
                subnet["properties"]["ipConfigurations"] = [{"id": azure_id} for azure_id in inside]
        return answer


def arrange_subnets(state: Context, document: Document) -> None:
    """Give every subnet of a network its id and its pool of addresses."""
    model = state.model
    wanted: dict[str, dict[str, Any]] = {}
    for subnet in document.properties["subnets"]:
        subnet["id"] = f"{document.id}/subnets/{subnet['name']}"
        subnet.pop("type", None)
        properties = subnet.setdefault("properties", {})
        properties["provisioningState"] = "Succeeded"
        properties.pop("ipConfigurations", None)
        wanted[subnet["id"].lower()] = subnet
    for azure_id in [key for key in model.subnets if key.startswith(f"{document.id.lower()}/subnets/")]:
        if azure_id not in wanted or model.subnets[azure_id].prefix != prefix_of(wanted[azure_id]):
            del model.subnets[azure_id]
    for azure_id, subnet in wanted.items():
        if azure_id not in model.subnets:
            network = ipaddress.IPv4Network(prefix_of(subnet))
            last = network.broadcast_address - 1
            if network.network_address < model.public.first <= last:
                last = model.public.first - 1
            pool = AddressPool(network.network_address + 4, last)
            model.subnets[azure_id] = Subnet(subnet["id"], str(network), pool, model.public)


def addresses_in(state: Context) -> dict[str, list[str]]:
    """The ids of all address configurations, by the lower-case id of their subnet."""
    found: dict[str, list[str]] = {}
    for document in state.model.documents.of(f"{NETWORK}/networkInterfaces"):
        for configuration in document.properties.get("ipConfigurations") or []:
            found.setdefault(configuration["properties"]["subnet"]["id"].lower(), []).append(configuration["id"])
    for item in state.model.instances():
        if not item.interface_id:
            own = f"{item.group_id}{item.interface_path}/ipConfigurations/ipconfig1"
            found.setdefault(item.subnet.id.lower(), []).append(own)
    return found


class Embedded(Kind):
    """A resource that is also an item of a list in the resource above it."""

    located = False

    def __init__(self, name: str, embedded: str, above: NetworkKind) -> None:
        super().__init__(name)
        self.embedded = embedded
        self._above = above

    def _items(self, state: Context, target: Target) -> tuple[Document, list[dict[str, Any]]]:
        document = state.model.documents.get(target.parent)
        if document is None:
            raise ArmError(404, "ParentResourceNotFound", f"The parent resource {target.parent} could not be found.")
        return document, document.properties.setdefault(self.embedded, [])

    def find(self, state: Context, target: Target) -> Resource | None:
        """The item, as a document of its own."""
        parent = state.model.documents.get(target.parent)
        for item in (parent.properties.get(self.embedded) or []) if parent is not None else []:
            if item["name"].lower() == target.name.lower():
                body = {key: value for key, value in item.items() if key not in ("id", "name", "type")}
                return Document(
                    subscription=state.model.subscription,
                    resource_group=target.group,
                    name=item["name"],
                    location=parent.location if parent is not None else "",
                    tags={},
                    serial=0,
                    kind=self.name,
                    id=item["id"],
                    body=copy.deepcopy(body),
                )
        return None

    def _put(self, change: Change) -> Change:
        """The PUT of the resource above that has the same effect."""
        parent, items = self._items(change.state, change.target)
        body = {key: value for key, value in change.body.items() if key not in ("id", "type", "etag")}
        body["name"] = change.target.name
        others = [copy.deepcopy(item) for item in items if item["name"].lower() != change.target.name.lower()]
        above = copy.deepcopy(parent.body) | {"location": parent.location, "tags": dict(parent.tags)}
        above["properties"][self.embedded] = [*others, body]
        target = Target(parent.id, parent.kind, parent.resource_group, parent.name, "", "")
        return Change(change.state, target, above, parent, change.planned, change.cores)

    def check(self, change: Change) -> None:
        """Check it together with the others of its list."""
        if change.target.parent.lower() not in change.planned:
            self._above.check(self._put(change))

    def make(self, change: Change) -> Work | None:
        """Add or replace the item."""
        return self._above.make(self._put(change))

    def removable(self, state: Context, item: Resource) -> None:
        """Refuse while another resource refers to it."""
        self._above.removable(state, item)

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Delete the item."""
        assert isinstance(item, Document)
        parent = state.model.documents.get(item.id.rsplit("/", 2)[0])
        if parent is not None:
            items = parent.properties[self.embedded]
            parent.properties[self.embedded] = [other for other in items if other["id"] != item.id]
            state.model.subnets.pop(item.id.lower(), None)
        return None


class SecurityGroup(NetworkKind):
    """A network security group with its rules."""

    in_use = "InUseNetworkSecurityGroupCannotBeDeleted"

    def check(self, change: Change) -> None:
        """Check the rules' priorities."""
        taken: dict[tuple[str, int], str] = {}
        for rule in change.properties.get("securityRules") or []:
            name, properties = rule.get("name"), rule.get("properties") or {}
            for key in ("protocol", "access", "priority", "direction"):
                if properties.get(key) is None:
                    raise ArmError(
                        400, "SecurityRuleParameterNotSpecified", f"Security rule {name} has no value for '{key}'."
                    )
            place = properties["direction"], properties["priority"]
            if not 100 <= place[1] <= 4096:
                raise ArmError(
                    400,
                    "SecurityRuleInvalidPriority",
                    f"Security rule has invalid Priority. Value provided: {place[1]} Allowed range 100-4096.",
                )
            if place in taken:
                raise ArmError(
                    400,
                    "SecurityRuleConflict",
                    f"Security rule {name} conflicts with rule {taken[place]}. Rules cannot have the same Priority and "
                    "Direction.",
                )
            taken[place] = str(name)

    def settle(self, change: Change, document: Document) -> None:
        """Add the ids and the default rules."""
        properties = document.properties
        for rule in properties.setdefault("securityRules", []):
            rule["id"] = f"{document.id}/securityRules/{rule['name']}"
            rule["properties"]["provisioningState"] = "Succeeded"
        properties["defaultSecurityRules"] = [
            {
                "name": name,
                "id": f"{document.id}/defaultSecurityRules/{name}",
                "properties": {
                    "protocol": "*",
                    "sourcePortRange": "*",
                    "destinationPortRange": "*",
                    "sourceAddressPrefix": source,
                    "destinationAddressPrefix": destination,
                    "access": access,
                    "priority": priority,
                    "direction": direction,
                    "provisioningState": "Succeeded",
                },
            }
            for name, priority, direction, access, source, destination in DEFAULT_RULES
        ]
        super().settle(change, document)


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
        found = [subnet for subnet in _subnets_with(state, "natGateway", id_of(item))]
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
        held = change.existing.properties.get("ipAddress") if isinstance(change.existing, Document) else None
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
        before = change.existing.properties if isinstance(change.existing, Document) else {}
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
            if old is not None and old["subnet"]["id"].lower() == subnet.id.lower():
                if wanted in (None, old["privateIPAddress"]):
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

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Free the addresses."""
        assert isinstance(item, Document)
        for configuration in item.properties["ipConfigurations"]:
            _release(state, configuration["properties"])
        return super().remove(state, item)


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
        before = change.existing.properties if isinstance(change.existing, Document) else {}
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


def _network(prefix: Any, name: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(prefix)
    except ValueError as error:
        raise ArmError(
            400, "InvalidAddressPrefixFormat", f"Address prefix {prefix} of resource {name} is not formatted correctly."
        ) from error
