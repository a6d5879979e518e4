# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Key vault, storage, shares and role assignments of the stack, as resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import resource as kinds
from .model import AMLFS, AZURE_FILES, CLUSTER, COMPUTE, CONTROLLER_NFS, ENDPOINTS, Stack
from .names import Names
from .resource import Resource

SECRETS_USER = "Key Vault Secrets User"
BLOB_CONTRIBUTOR = "Storage Blob Data Contributor"
BLOB_DELEGATOR = "Storage Blob Delegator"
ROLES: Mapping[str, str] = {
    SECRETS_USER: "4633458b-17de-408a-b874-0445c86b69e6",
    BLOB_CONTRIBUTOR: "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    BLOB_DELEGATOR: "db58b8e5-c6ad-4a2a-8342-4190687cbf4a",
}
"""Ids of built-in roles. Source: MicrosoftDocs/azure-docs, built-in-roles."""
_ELASTIC_ACTIONS = (
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/virtualMachineScaleSets/instanceView/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read",
    "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read",
)
"""What the daemon does with an elastic set. A built-in role with these could also run commands on the machines."""
_OPERATIONS_ACTIONS = ("Microsoft.Compute/locations/operations/read",)
"""How the daemon reads the results of its changes. The URL of an operation is not below the set, so the role must be
assigned at the resource group. Source: MicrosoftDocs/azure-docs, azure-resource-manager/management/async-operations,
"Permission for tracking async status"."""


@dataclass(frozen=True)
class ControllerRole:
    """A role that the stack makes, for the controller and its elastic scale sets.

    :ivar id: its resource id.
    :ivar name: its name, which must be unique in the directory.
    :ivar scope: id of the group, in which it can be assigned.
    :ivar actions: what it allows.
    :ivar description: the same, for people.
    """

    id: str
    name: str
    scope: str
    actions: tuple[str, ...]
    description: str

    @property
    def permissions(self) -> dict[str, Any]:
        """What it allows, as Resource Manager has it."""
        return {"actions": list(self.actions), "notActions": []}

    @property
    def body(self) -> dict[str, Any]:
        """It, as Resource Manager has it."""
        return {
            "properties": {
                "roleName": self.name,
                "description": self.description,
                "type": "CustomRole",
                "permissions": [self.permissions],
                "assignableScopes": [self.scope],
            }
        }

    @property
    def command(self) -> str:
        """Return the command with which an owner of the group makes it."""
        stated = {"Name": self.name, "AssignableScopes": [self.scope], "Actions": list(self.actions)}
        return f"az role definition create --role-definition '{json.dumps(stated)}'"


class Assignment(NamedTuple):
    """A role that one of the stack's identities needs.

    :ivar scope: id of the resource that it is for.
    :ivar identity: id of the identity.
    :ivar role: name of the role, a key of ROLES, or that of ``own``.
    :ivar foreign: whether the stack does not write it: the scope is adopted, or ``assign_roles`` is false.
    :ivar own: the role, if the stack makes it.
    """

    scope: str
    identity: str
    role: str
    foreign: bool
    own: ControllerRole | None = None

    @property
    def role_id(self) -> str:
        """The role's GUID."""
        return self.own.id.rsplit("/", 1)[-1] if self.own else ROLES[self.role]

    def command(self, principal: str) -> str:
        """Return the command with which an owner of the scope assigns the role. A role of the stack is made first."""
        make = f"{self.own.command} && " if self.own else ""
        return (
            f"{make}az role assignment create --role '{self.role}' --assignee-object-id {principal} "
            f"--assignee-principal-type ServicePrincipal --scope {self.scope}"
        )


def data_resources(stack: Stack, names: Names, common: dict[str, Any], tenant: str) -> Iterator[Resource]:
    """Yield vault, storage and shared home.

    :param common: location and tags of each resource.
    :param tenant: id of the directory that the subscription trusts.
    """
    yield from _vault(stack, names, common, tenant)
    if stack.storage.containers:
        yield from _storage(stack, names, common)
    yield from _home(stack, names, common)


def assignments(stack: Stack, names: Names) -> list[Assignment]:
    """Return the roles that the identities need."""
    # In a vault of the stack there is only the munge key. In an adopted one, other secrets are none of our business.
    key_scope = names.secret if stack.key_vault.adopt else names.vault
    key_foreign = bool(stack.key_vault.adopt) or not stack.identities.assign_roles
    found = [
        Assignment(key_scope, identity, SECRETS_USER, key_foreign)
        for identity in (names.controller_identity, names.nodes_identity)
    ]
    if stack.storage.containers:
        foreign = bool(stack.storage.adopt) or not stack.identities.assign_roles
        found += [
            Assignment(names.account, names.nodes_identity, role, foreign)
            for role in (BLOB_CONTRIBUTOR, BLOB_DELEGATOR)
        ]
    found += _of_elastic_sets(stack, names)
    return found


def _of_elastic_sets(stack: Stack, names: Names) -> list[Assignment]:
    elastic = [names.of(kinds.SCALE_SET, one.name) for one in stack.scale_sets if one.elastic is not None]
    unique = f"{stack.name} {stack.uuid.hex[:8]}"
    changes = ControllerRole(
        names.elastic_role,
        f"hpcai elastic {unique}",
        stack.group_id,
        _ELASTIC_ACTIONS,
        "Grow scale sets, and delete their instances",
    )
    watches = ControllerRole(
        names.operations_role,
        f"hpcai operations {unique}",
        stack.group_id,
        _OPERATIONS_ACTIONS,
        "Read the results of changes of scale sets",
    )
    scopes = [(one, changes) for one in elastic] + ([(stack.group_id, watches)] if elastic else [])
    return [
        Assignment(scope, names.controller_identity, own.name, not stack.identities.assign_roles, own)
        for scope, own in scopes
    ]


def assignment_resources(stack: Stack, names: Names, principals: Mapping[str, str]) -> Iterator[Resource]:
    """Yield the role assignments that the stack writes, and the roles that it makes for elastic scale sets.

    :param principals: ids of the identities' principals by the identities' ids, of those that exist.
    """
    written = [one for one in assignments(stack, names) if not one.foreign]
    for own in dict.fromkeys(one.own for one in written if one.own):
        yield Resource(own.id, kinds.ROLE, own.body, needs=(stack.group_id,), fixed=frozenset({"properties.type"}))
    for one in written:
        principal = principals.get(one.identity, one.identity)
        yield Resource(
            names.assignment(one.scope, one.identity, one.role),
            kinds.ROLE_ASSIGNMENT,
            {
                "properties": {
                    "roleDefinitionId": f"/subscriptions/{stack.subscription}/providers/Microsoft.Authorization"
                    f"/roleDefinitions/{one.role_id}",
                    "principalId": principal,
                    # Without it, Azure looks for the principal, which a new identity's directory may not have yet.
                    "principalType": "ServicePrincipal",
                }
            },
            needs=(one.scope, one.identity, *([one.own.id] if one.own else [])),
            fixed=frozenset({"properties.principalId", "properties.roleDefinitionId"}),
        )


def _rules(stack: Stack, names: Names, allow_from: tuple[str, ...]) -> dict[str, Any]:
    subnets = [names.subnet(name) for name in (CLUSTER, COMPUTE)]
    return {
        "defaultAction": "Deny",
        "bypass": "AzureServices",
        "virtualNetworkRules": [{"id": subnet} for subnet in subnets],
        "ipRules": [{"value": item} for item in allow_from],
    }


def _vault(stack: Stack, names: Names, common: dict[str, Any], tenant: str) -> Iterator[Resource]:
    if stack.key_vault.adopt:
        yield Resource(names.vault, kinds.VAULT, {"properties": {"enableRbacAuthorization": True}}, adopted=True)
        yield Resource(names.secret, kinds.SECRET, adopted=True)
        return
    yield Resource(
        names.vault,
        kinds.VAULT,
        {
            **common,
            "properties": {
                "tenantId": tenant,
                "sku": {"family": "A", "name": "standard"},
                "enableRbacAuthorization": True,
                "enableSoftDelete": True,
                "softDeleteRetentionInDays": stack.key_vault.soft_delete_days,
                "publicNetworkAccess": "Enabled",
                "networkAcls": _rules(stack, names, stack.key_vault.allow_from),
            },
        },
        needs=(names.network,),
        # Azure refuses to change it later.
        once=frozenset({"properties.softDeleteRetentionInDays"}),
    )
    yield Resource(names.secret, kinds.SECRET, needs=(names.vault,))


def _storage(stack: Stack, names: Names, common: dict[str, Any]) -> Iterator[Resource]:
    if stack.storage.adopt:
        yield Resource(names.account, kinds.ACCOUNT, adopted=True)
        for name in stack.storage.containers:
            yield Resource(names.container(name), kinds.CONTAINER, adopted=True)
        return
    kept = {"enabled": True, "days": stack.storage.soft_delete_days}
    service = f"{names.account}/blobServices/default"
    yield Resource(
        names.account,
        kinds.ACCOUNT,
        {
            **common,
            "sku": {"name": f"Standard_{stack.storage.redundancy}"},
            "kind": "StorageV2",
            "properties": {
                "minimumTlsVersion": "TLS1_2",
                "supportsHttpsTrafficOnly": True,
                "allowBlobPublicAccess": False,
                "allowSharedKeyAccess": False,
                "publicNetworkAccess": "Enabled",
                # Storage refuses /32, and wants the address alone; the vault returns /32 for such an address.
                "networkAcls": _rules(
                    stack, names, tuple(item.removesuffix("/32") for item in stack.storage.allow_from)
                ),
            },
        },
        needs=(names.network,),
        fixed=frozenset({"kind"}),
        data=True,
    )
    yield Resource(
        service,
        kinds.BLOBS,
        {
            "properties": {
                "isVersioningEnabled": True,
                "deleteRetentionPolicy": kept,
                "containerDeleteRetentionPolicy": kept,
            }
        },
        needs=(names.account,),
    )
    for name in stack.storage.containers:
        yield Resource(
            names.container(name), kinds.CONTAINER, {"properties": {"publicAccess": "None"}}, needs=(service,)
        )


def _home(stack: Stack, names: Names, common: dict[str, Any]) -> Iterator[Resource]:
    home = stack.shared_home
    if home.source == AMLFS:
        yield Resource(home.adopt, kinds.LUSTRE, {"location": stack.location}, adopted=True)
    elif home.source == CONTROLLER_NFS:
        yield Resource(
            names.home_disk,
            kinds.DISK,
            {
                **common,
                "sku": {"name": "Premium_LRS"},
                "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": home.size_gib},
            },
            fixed=frozenset({"properties.creationData.createOption"}),
            data=True,
        )
    elif home.source == AZURE_FILES:
        yield from _share(stack, names, common)


def _share(stack: Stack, names: Names, common: dict[str, Any]) -> Iterator[Resource]:
    """Yield an NFS share with its private endpoint. NFS has no encryption, so it is reached from the network only."""
    yield Resource(
        names.home_account,
        kinds.ACCOUNT,
        {
            **common,
            "sku": {"name": "Premium_LRS"},
            "kind": "FileStorage",
            "properties": {
                "minimumTlsVersion": "TLS1_2",
                # Azure Files serves NFS only without it.
                "supportsHttpsTrafficOnly": False,
                "allowBlobPublicAccess": False,
                "publicNetworkAccess": "Disabled",
            },
        },
        fixed=frozenset({"kind"}),
        data=True,
    )
    service = f"{names.home_account}/fileServices/default"
    yield Resource(service, kinds.FILES, {"properties": {}}, needs=(names.home_account,))
    yield Resource(
        names.home_share,
        kinds.SHARE,
        {
            "properties": {
                "enabledProtocols": "NFS",
                "rootSquash": "NoRootSquash",
                "shareQuota": stack.shared_home.size_gib,
            }
        },
        needs=(service,),
        fixed=frozenset({"properties.enabledProtocols"}),
    )
    if stack.shared_home.dns_zone:
        # Its owners connect it to the network, often through a DNS server of another network.
        yield Resource(names.home_zone, kinds.DNS_ZONE, adopted=True)
    else:
        everywhere = {**common, "location": "global"}
        yield Resource(names.home_zone, kinds.DNS_ZONE, everywhere)
        yield Resource(
            f"{names.home_zone}/virtualNetworkLinks/{stack.name}",
            kinds.DNS_LINK,
            {**everywhere, "properties": {"registrationEnabled": False, "virtualNetwork": {"id": names.network}}},
            needs=(names.home_zone, names.network),
        )
    yield Resource(
        names.home_endpoint,
        kinds.ENDPOINT,
        {
            **common,
            "properties": {
                "subnet": {"id": names.subnet(ENDPOINTS)},
                "privateLinkServiceConnections": [
                    {
                        "name": "file",
                        "properties": {"privateLinkServiceId": names.home_account, "groupIds": ["file"]},
                    }
                ],
            },
        },
        needs=(names.network, names.home_account),
    )
    yield Resource(
        f"{names.home_endpoint}/privateDnsZoneGroups/default",
        kinds.ENDPOINT_ZONES,
        {
            "properties": {
                "privateDnsZoneConfigs": [{"name": "file", "properties": {"privateDnsZoneId": names.home_zone}}]
            }
        },
        needs=(names.home_endpoint, names.home_zone),
    )
