# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identities, key vaults, storage accounts, roles and locks."""

from __future__ import annotations

import re
import uuid
from typing import Any

from flask import has_request_context, request

from simulator import roles
from simulator.arm.compute_payloads import timestamp
from simulator.arm.context import Context
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.provision.firewalls import check_subnets
from simulator.arm.provision.kinds import Change, Kind
from simulator.arm.provision.rights import CALLER, storage_taken
from simulator.effects import Work
from simulator.keyvault.store import DeletedVault, Vault
from simulator.resources import Document, Resource, now
from simulator.scenario import VAULT_NAME, VaultScenario

STORAGE_NAME = re.compile(r"[a-z0-9]{3,24}")
CONTAINER_NAME = re.compile(r"[a-z0-9](?!.*--)[a-z0-9-]{1,61}[a-z0-9]")
RETENTION = {"blobServices": "deleteRetentionPolicy", "fileServices": "shareDeleteRetentionPolicy"}
SECRET_NAME = re.compile(r"[A-Za-z0-9-]{1,127}")


class Identity(Kind):
    """A user-assigned identity. It can be deleted while machines have it."""

    def settle(self, change: Change, document: Document) -> None:
        """Give it its ids, which it keeps."""
        model = change.state.model
        before = change.before.get("properties") or {}
        document.properties.update(
            tenantId=model.subscription,
            principalId=before.get("principalId") or model.identities.uuid(),
            clientId=before.get("clientId") or model.identities.uuid(),
        )


class KeyVault(Kind):
    """A key vault. A deleted one blocks its name until somebody purges it."""

    preflight = False

    def check(self, change: Change) -> None:
        """Check the name, which is unique in Azure, and what a vault must have."""
        name, properties = change.target.name, change.properties
        if not VAULT_NAME.fullmatch(name):
            raise ArmError(
                400,
                "VaultNameNotValid",
                f"The vault name '{name}' is invalid. A vault's name must be between 3-24 "
                "alphanumeric characters. The name must begin with a letter, end with a letter or digit, and not "
                "contain consecutive hyphens.",
            )
        for key in ("tenantId", "sku"):
            if not properties.get(key):
                raise ArmError(400, "BadRequest", f"The parameter {key} is not specified.")
        if not properties.get("enableRbacAuthorization") and properties.get("accessPolicies") is None:
            raise ArmError(400, "BadRequest", "The parameter accessPolicies is not specified.")
        if properties.get("enablePurgeProtection") is False:
            raise ArmError(400, "BadRequest", 'The property "enablePurgeProtection" cannot be set to false.')
        check_subnets(change)
        if change.existing is None:
            taken = name_taken(change.state, name)
            if taken and not (
                properties.get("createMode") == "recover" and name.lower() in change.state.model.deleted_vaults
            ):
                raise taken

    def make(self, change: Change) -> Work | None:
        """Make the vault, or recover a deleted one with its secrets."""
        model, name = change.state.model, change.target.name
        recovered = model.deleted_vaults.pop(name.lower(), None)
        if recovered is not None:
            model.documents.add(recovered.document)
            model.vaults[name.lower()] = recovered.vault
            if change.properties.get("createMode") == "recover":
                return None
        document = self.store(change)
        properties = document.properties
        properties.pop("createMode", None)
        properties.setdefault("accessPolicies", [])
        properties.setdefault("enabledForDeployment", False)
        properties.setdefault("enableSoftDelete", True)
        properties.setdefault("softDeleteRetentionInDays", 90)
        properties.setdefault("enableRbacAuthorization", False)
        properties.setdefault("publicNetworkAccess", "Enabled")
        properties["vaultUri"] = f"https://{name.lower()}.vault.azure.net/"
        properties["provisioningState"] = "Succeeded"
        if name.lower() not in model.vaults:
            vault = Vault(VaultScenario(name, readers=()))
            vault.azure_id = document.id
            model.vaults[name.lower()] = vault
        model.vaults[name.lower()].policies = tuple(
            (policy["objectId"].lower(), tuple(policy["permissions"].get("secrets") or ()))
            for policy in properties["accessPolicies"]
        )
        return None

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Delete it softly."""
        assert isinstance(item, Document)
        vault = state.model.vaults.pop(item.name.lower())
        state.model.deleted_vaults[item.name.lower()] = DeletedVault(item, vault, now())
        for below in state.model.documents.below(item.id):
            if below.kind == "Microsoft.KeyVault/vaults/secrets":
                state.model.documents.remove(below.id)
        return super().remove(state, item)


def name_taken(state: Context, name: str) -> ArmError | None:
    """The error for the name of a key vault that cannot be used."""
    lower, limits = name.lower(), state.model.limits
    deleted = {*state.model.deleted_vaults, *(item.lower() for item in limits.deleted_vaults)}
    if lower in deleted:
        return ArmError(
            409,
            "ConflictError",
            "A vault with the same name already exists in deleted state. You need to either recover or purge existing "
            "key vault. Follow this link https://go.microsoft.com/fwlink/?linkid=2149745 for more information on soft "
            "delete.",
        )
    if lower in state.model.vaults or lower in [item.lower() for item in limits.foreign_names]:
        return ArmError(
            409,
            "VaultAlreadyExists",
            f"The vault name '{name}' is already in use. Vault names are globally unique so it is possible that the "
            "name is already taken.",
        )
    return None


class VaultSecret(Kind):
    """A secret that Resource Manager writes into a vault. It never returns the value."""

    preflight = False

    located = False

    def check(self, change: Change) -> None:
        """Check the name and the value."""
        if not SECRET_NAME.fullmatch(change.target.name):
            raise ArmError(400, "BadRequest", f"The secret name '{change.target.name}' is invalid.")
        if change.properties.get("value") is None:
            raise ArmError(400, "BadRequest", "The parameter value is not specified.")

    def settle(self, change: Change, document: Document) -> None:
        """Put the value into the vault."""
        properties = document.properties
        vault = change.state.model.vaults[change.target.parent.rpartition("/")[2].lower()]
        secret = vault.put(change.target.name, properties.pop("value"))
        moment = int(secret.created.timestamp())
        properties["attributes"] = {"enabled": True} | (properties.get("attributes") or {})
        properties["attributes"] |= {"created": moment, "updated": moment}
        properties["secretUri"] = f"{vault.url}/secrets/{secret.name}"
        properties["secretUriWithVersion"] = f"{vault.url}/secrets/{secret.name}/{secret.version}"
        if change.body.get("tags"):
            document.body["tags"] = dict(change.body["tags"])


class StorageAccount(Kind):
    """A storage account. It has a blob and a file service from the beginning."""

    def check(self, change: Change) -> None:
        """Check the name, which is unique in Azure, and what an account must have."""
        name = change.target.name
        if not STORAGE_NAME.fullmatch(name):
            raise ArmError(
                400,
                "AccountNameInvalid",
                f"{name} is not a valid storage account name. Storage account name must be "
                "between 3 and 24 characters in length and use numbers and lower-case letters only.",
            )
        for key in ("sku", "kind"):
            if not change.body.get(key):
                raise ArmError(400, "InvalidParameter", f"Required parameter '{key}' is missing (null).")
        if change.existing is None and storage_taken(change.state, name):
            raise ArmError(409, "StorageAccountAlreadyTaken", f"The storage account named {name} is already taken.")
        if change.before.get("kind", change.body["kind"]) != change.body["kind"]:
            raise change.immutable("kind")
        check_subnets(change)

    def settle(self, change: Change, document: Document) -> None:
        """Add endpoints, state and the services."""
        properties, body = document.properties, document.body
        body["sku"]["tier"] = body["sku"]["name"].partition("_")[0]
        properties.setdefault("accessTier", "Hot")
        properties.setdefault("minimumTlsVersion", "TLS1_2")
        properties.setdefault("allowBlobPublicAccess", False)
        properties.setdefault("supportsHttpsTrafficOnly", True)
        properties.setdefault("networkAcls", {"bypass": "AzureServices", "defaultAction": "Allow"})
        properties["networkAcls"].setdefault("virtualNetworkRules", [])
        properties["networkAcls"].setdefault("ipRules", [])
        properties["creationTime"] = timestamp(document.created)
        properties["primaryLocation"], properties["statusOfPrimary"] = document.location, "available"
        hosts = ("blob", "file", "queue", "table", "dfs", "web")
        properties["primaryEndpoints"] = {host: f"https://{document.name}.{host}.core.windows.net/" for host in hosts}
        super().settle(change, document)
        for service in ("blobServices", "fileServices"):
            azure_id = f"{document.id}/{service}/default"
            if change.state.model.documents.get(azure_id) is None:
                change.state.model.documents.add(
                    Document(
                        subscription=document.subscription,
                        resource_group=document.resource_group,
                        name="default",
                        location=document.location,
                        tags={},
                        serial=change.state.model.next_serial(),
                        kind=f"Microsoft.Storage/storageAccounts/{service}",
                        id=azure_id,
                        body={"properties": {"cors": {"corsRules": []}, RETENTION[service]: {"enabled": False}}},
                    )
                )

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The simulator has the blobs of all accounts at its own address."""
        found = super().answer(state, item)
        if has_request_context() and "primaryEndpoints" in found["properties"]:
            found["properties"]["primaryEndpoints"]["blob"] = f"{request.host_url}storage/{found['name']}/blob/"
        return found


class StorageService(Kind):
    """The blob or file service of an account. What a PUT omits is off."""

    located = False

    def check(self, change: Change) -> None:
        """There is only one, called default."""
        if change.target.name.lower() != "default":
            raise ArmError(400, "InvalidRequestPropertyName", "The name of the service must be 'default'.")

    def settle(self, change: Change, document: Document) -> None:
        """Add the defaults."""
        document.properties.setdefault("cors", {"corsRules": []})
        document.properties.setdefault(RETENTION[document.kind.rpartition("/")[2]], {"enabled": False})


class Container(Kind):
    """A blob container or a file share."""

    located = False

    def check(self, change: Change) -> None:
        """Check the name."""
        if not CONTAINER_NAME.fullmatch(change.target.name):
            raise ArmError(
                400, "InvalidResourceName", f"The specified resource name '{change.target.name}' is invalid."
            )

    def settle(self, change: Change, document: Document) -> None:
        """Add the state."""
        document.properties["lastModifiedTime"] = timestamp(now())
        if document.kind.endswith("containers"):
            document.properties.setdefault("publicAccess", "None")
            document.properties.update({"leaseStatus": "Unlocked", "leaseState": "Available"})
            document.properties.update({"hasImmutabilityPolicy": False, "hasLegalHold": False})
        else:
            document.properties.setdefault("shareQuota", 5120)
            document.properties.setdefault("enabledProtocols", "SMB")


class RoleAssignment(Kind):
    """A role assignment. Its name is a GUID, and it outlives its principal."""

    located = False
    preflight = False

    def check(self, change: Change) -> None:
        """Check role, principal and what exists."""
        model, name, properties = change.state.model, change.target.name, change.properties
        try:
            uuid.UUID(name)
        except ValueError:
            raise ArmError(
                400,
                "InvalidRoleAssignmentId",
                f"The role assignment ID '{name}' is not valid. The role assignment ID must be a GUID.",
            ) from None
        for key in ("roleDefinitionId", "principalId"):
            if not properties.get(key):
                raise ArmError(400, "BadRequestFormat", f"The request was incorrectly formatted: {key} is missing.")
        if not roles.is_known(model, properties["roleDefinitionId"]):
            raise ArmError(
                404,
                "RoleDefinitionDoesNotExist",
                f"The specified role definition with ID "
                f"'{properties['roleDefinitionId'].rpartition('/')[2]}' does not exist.",
            )
        self._check_principal(change, properties["principalId"])
        self._check_others(change, properties)

    @staticmethod
    def _check_principal(change: Change, principal: str) -> None:
        """Without principalType the service looks the principal up, and may not find a new one yet."""
        known = roles.known_principals(change.state.model)
        identity = known.get(principal.lower())
        young = identity is not None and not roles.has_spread(change.state.model, identity)
        if change.properties.get("principalType") is None and (principal.lower() not in known or young):
            raise ArmError(
                400,
                "PrincipalNotFound",
                f"Principal {principal.replace('-', '')} does not exist in the directory "
                f"{change.state.model.subscription}. Check that you have the correct principal ID. If you are creating "
                "this principal and then immediately assigning a role, this error might be related to a replication "
                "delay. In this case, set the role assignment principalType property to a value, such as "
                "ServicePrincipal, User, or Group. See https://aka.ms/docs-principaltype",
            )

    @staticmethod
    def _check_others(change: Change, properties: dict[str, Any]) -> None:
        role = properties["roleDefinitionId"].rpartition("/")[2].lower()
        for item in change.state.model.documents.of(roles.ASSIGNMENTS):
            own = item.properties
            same = (
                own["principalId"].lower() == properties["principalId"].lower()
                and own["roleDefinitionId"].rpartition("/")[2].lower() == role
                and own["scope"].lower() == change.target.scope.lower()
            )
            if item.name.lower() == change.target.name.lower() and not same:
                raise ArmError(
                    400,
                    "RoleAssignmentUpdateNotPermitted",
                    "Tenant ID, application ID, principal ID, and scope are not allowed to be updated.",
                )
            if same and item.id.lower() != change.target.id.lower():
                raise ArmError(
                    409,
                    "RoleAssignmentExists",
                    f"The role assignment already exists. The ID of the existing role assignment is {item.name}.",
                )

    def settle(self, change: Change, document: Document) -> None:
        """Add what the service knows."""
        moment = timestamp(document.created)
        document.properties.setdefault("principalType", "ServicePrincipal")
        document.properties.update({"scope": change.target.scope, "createdOn": moment, "updatedOn": moment})
        document.properties.update({"createdBy": CALLER, "updatedBy": CALLER})


class RoleDefinition(Kind):
    """A role of the client's own."""

    located = False
    preflight = False

    def settle(self, change: Change, document: Document) -> None:
        """Mark it as the client's own."""
        document.properties["type"] = "CustomRole"


class Lock(Kind):
    """A management lock."""

    located = False
    preflight = False

    def check(self, change: Change) -> None:
        """Check its level."""
        if change.properties.get("level") not in ("CanNotDelete", "ReadOnly"):
            raise bad_parameter("level", "must be CanNotDelete or ReadOnly")

    def settle(self, change: Change, document: Document) -> None:
        """Nothing is added."""


class Plain(Kind):
    """A type without rules of its own: what was sent is returned."""

    def __init__(self, name: str, *, located: bool = True, typed: bool = True) -> None:
        super().__init__(name)
        self.located, self.typed = located, typed


class Disk(Kind):
    """A managed disk."""

    def settle(self, change: Change, document: Document) -> None:
        """Add the state, and keep the machine that has it."""
        before = change.before.get("properties") or {}
        document.properties.setdefault("diskSizeGB", 64)
        document.properties["uniqueId"] = before.get("uniqueId") or change.state.model.identities.uuid()
        document.properties["diskState"] = before.get("diskState", "Unattached")
        if "managedBy" in change.before:
            document.body["managedBy"] = change.before["managedBy"]
        super().settle(change, document)

    def removable(self, state: Context, item: Resource) -> None:
        """Refuse while a machine has it."""
        assert isinstance(item, Document)
        if item.body.get("managedBy"):
            raise ArmError(409, "OperationNotAllowed", f"Disk {item.name} is attached to VM {item.body['managedBy']}.")
