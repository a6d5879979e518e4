# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resource of the stack as Azure Resource Manager has it, and the versions of its interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GROUP = "Microsoft.Resources/resourceGroups"
IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
NSG = "Microsoft.Network/networkSecurityGroups"
PUBLIC_ADDRESS = "Microsoft.Network/publicIPAddresses"
NAT = "Microsoft.Network/natGateways"
VNET = "Microsoft.Network/virtualNetworks"
BASTION_HOST = "Microsoft.Network/bastionHosts"
NIC = "Microsoft.Network/networkInterfaces"
ENDPOINT = "Microsoft.Network/privateEndpoints"
ENDPOINT_ZONES = "Microsoft.Network/privateEndpoints/privateDnsZoneGroups"
DNS_ZONE = "Microsoft.Network/privateDnsZones"
DNS_LINK = "Microsoft.Network/privateDnsZones/virtualNetworkLinks"
VAULT = "Microsoft.KeyVault/vaults"
SECRET = "Microsoft.KeyVault/vaults/secrets"
ACCOUNT = "Microsoft.Storage/storageAccounts"
BLOBS = "Microsoft.Storage/storageAccounts/blobServices"
CONTAINER = "Microsoft.Storage/storageAccounts/blobServices/containers"
FILES = "Microsoft.Storage/storageAccounts/fileServices"
SHARE = "Microsoft.Storage/storageAccounts/fileServices/shares"
DISK = "Microsoft.Compute/disks"
VM = "Microsoft.Compute/virtualMachines"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
LUSTRE = "Microsoft.StorageCache/amlFilesystems"
ROLE_ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
ROLE = "Microsoft.Authorization/roleDefinitions"
LOCK = "Microsoft.Authorization/locks"
SUBSCRIPTION = "Microsoft.Resources/subscriptions"
DEPLOYMENT = "Microsoft.Resources/deployments"
DELETED_VAULT = "Microsoft.KeyVault/locations/deletedVaults"

_NETWORK = "2024-05-01"
_PRIVATE_DNS = "2020-06-01"
_STORAGE = "2023-05-01"
_COMPUTE = "2024-07-01"
_VAULT = "2023-07-01"
API_VERSIONS: Mapping[str, str] = {
    SUBSCRIPTION: "2022-12-01",
    **dict.fromkeys((GROUP, DEPLOYMENT), "2022-09-01"),
    LOCK: "2020-05-01",
    **dict.fromkeys((ROLE_ASSIGNMENT, ROLE), "2022-04-01"),
    IDENTITY: "2023-01-31",
    **dict.fromkeys((NSG, PUBLIC_ADDRESS, NAT, VNET, BASTION_HOST, NIC, ENDPOINT, ENDPOINT_ZONES), _NETWORK),
    **dict.fromkeys((DNS_ZONE, DNS_LINK), _PRIVATE_DNS),
    **dict.fromkeys((VAULT, SECRET, DELETED_VAULT), _VAULT),
    **dict.fromkeys((ACCOUNT, BLOBS, CONTAINER, FILES, SHARE), _STORAGE),
    **dict.fromkeys((VM, SCALE_SET), _COMPUTE),
    DISK: "2024-03-02",
    LUSTRE: "2024-03-01",
}
"""The version of Azure's interface for each type of resource: of reads, deployments and deletions alike."""

EXPAND = {VM: "userData", SCALE_SET: "userData"}
"""Azure returns the user data only on request."""
MACHINES = frozenset({VM, SCALE_SET})
PATCHED = MACHINES | {GROUP, IDENTITY, VAULT, ACCOUNT, CONTAINER, SHARE, DISK}
"""Existing resources of these types get only what differs. Others know no such request, and get what Azure has, merged
with what differs: what a complete resource omits would go back to Azure's defaults."""
UNIQUE = {VM: "vmId", SCALE_SET: "uniqueId"}
"""The property that differs between a machine and its successor of the same name."""
DIRECT = frozenset({GROUP, IDENTITY})
"""Types that exist before the deployment: it runs in the group, and contains the identities' ids."""
UNTAGGED = frozenset({BLOBS, CONTAINER, FILES, SHARE, ROLE_ASSIGNMENT, ROLE, SECRET, ENDPOINT_ZONES})
"""Types without tags. They belong to whom the resource belongs that contains them."""


@dataclass(frozen=True)
class Resource:
    """One resource.

    :ivar id: its resource id.
    :ivar kind: its type, a key of API_VERSIONS.
    :ivar body: what the stack sets, in the format of Azure Resource Manager.
    :ivar needs: ids of resources that must exist first.
    :ivar once: dotted paths of fields that are sent when it is made, and then never compared: Azure cannot change or
        does not return them, or others own them from then on.
    :ivar fixed: dotted paths of fields that Azure cannot change later. A difference is an error.
    :ivar defaults: what fields have that Azure does not return, by dotted path.
    :ivar owned: dotted path of a list in which all entries whose name starts with ``prefix`` belong to the stack. Its
        other entries are foreign.
    :ivar prefix: see ``owned``.
    :ivar adopted: whether it must exist already, and is only read.
    :ivar withdrawn: public ranges that an earlier run admitted, and that the stack no longer admits.
    :ivar data: whether it contains users' data, so that it is deleted only if it is named.
    """

    id: str
    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    once: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    owned: str = ""
    prefix: str = ""
    adopted: bool = False
    withdrawn: frozenset[str] = frozenset()
    data: bool = False

    @property
    def name(self) -> str:
        """The last part of its id."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def label(self) -> str:
        """Short type and name, for messages: ``virtualNetworks/hpc-vnet``."""
        return label_of(self.id)

    @property
    def admits(self) -> frozenset[str]:
        """The public ranges that its firewall should admit, see ``admitted``."""
        return admitted(self.body)

    @property
    def url(self) -> str:
        """Path and query of its requests."""
        return url_of(self.id, self.kind)


def admitted(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the public ranges that the firewall in a body admits; single addresses without ``/32``."""
    rules = ((body.get("properties") or {}).get("networkAcls") or {}).get("ipRules") or []
    return frozenset(address_of(one) for one in rules)


def address_of(rule: Mapping[str, Any]) -> str:
    """Return the range of a firewall's rule. Azure writes a single address with and without ``/32``."""
    return str(rule.get("value")).lower().removesuffix("/32")


def url_of(resource_id: str, kind: str) -> str:
    """Return path and query of requests about a resource."""
    return f"{resource_id}?api-version={API_VERSIONS[kind]}"


def label_of(resource_id: str) -> str:
    """Return the short type and the name of a resource, or for a part of a resource, all names."""
    provider = resource_id.rsplit("/providers/", 1)[-1].split("/")
    if provider[0] == "":
        return "/".join(resource_id.split("/")[-2:])
    return "/".join(provider[1:])


def kind_of(resource_id: str) -> str:
    """Return the type in a resource id, spelt as in API_VERSIONS; as it is, if it is not known."""
    if "/providers/" not in resource_id:
        return GROUP
    provider, *parts = resource_id.rsplit("/providers/", 1)[1].split("/")
    found = "/".join([provider, *parts[::2]])
    return next((kind for kind in API_VERSIONS if kind.lower() == found.lower()), found)
