# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual networks and their parts, without machines."""

from __future__ import annotations

import copy
import ipaddress
from typing import Any

from simulator.addresses import AddressPool
from simulator.arm.context import Context
from simulator.arm.errors import ArmError
from simulator.arm.provision.kinds import Change, Kind, id_of, users
from simulator.arm.provision.targets import Target
from simulator.effects import Work
from simulator.resources import NETWORK, Document, Resource, Subnet

KEEPS_SUBNETS = "2023-09-01"
"""The first api-version in which a PUT without a list of subnets keeps them."""
DEFAULT_RULES = (
    ("AllowVnetInBound", 65000, "Inbound", "Allow", "VirtualNetwork", "VirtualNetwork"),
    ("AllowAzureLoadBalancerInBound", 65001, "Inbound", "Allow", "AzureLoadBalancer", "*"),
    ("DenyAllInBound", 65500, "Inbound", "Deny", "*", "*"),
    ("AllowVnetOutBound", 65000, "Outbound", "Allow", "VirtualNetwork", "VirtualNetwork"),
    ("AllowInternetOutBound", 65001, "Outbound", "Allow", "*", "Internet"),
    ("DenyAllOutBound", 65500, "Outbound", "Deny", "*", "*"),
)


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
        # Azure keeps the subnets if the request has no list, since a certain version; an empty list deletes them.
        kept = [] if "" < change.version < KEEPS_SUBNETS else list(before.values())
        wanted = change.properties.get("subnets", kept)
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
        properties.setdefault("subnets", [] if "" < change.version < KEEPS_SUBNETS else before)
        properties.setdefault("virtualNetworkPeerings", [])
        properties.setdefault("enableDdosProtection", False)
        properties["provisioningState"] = "Succeeded"
        arrange_subnets(change.state, document)
        return None

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Forget the subnets' addresses. Storage accounts keep their rules for them, which then have no effect."""
        gone = {subnet["id"].lower() for subnet in self._subnets(item)}
        for subnet in gone:
            state.model.subnets.pop(subnet, None)
        for account in state.model.documents.of("Microsoft.Storage/storageAccounts"):
            for rule in (account.properties.get("networkAcls") or {}).get("virtualNetworkRules") or []:
                if rule["id"].lower() in gone:
                    rule["state"] = "NetworkSourceDeleted"
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


def _network(prefix: Any, name: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(prefix)
    except ValueError as error:
        raise ArmError(
            400, "InvalidAddressPrefixFormat", f"Address prefix {prefix} of resource {name} is not formatted correctly."
        ) from error
