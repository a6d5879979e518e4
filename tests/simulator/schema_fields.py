# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes schema_fields.json, the fields of Azure's published schemas, for the resources that a client may PUT.

    python -m simulator.schema_fields FOLDER... > tests/simulator/schema_fields.json

FOLDERs are where the packages in ``PACKAGES`` are installed that this project does not need itself
(``pip install --no-deps --target FOLDER PACKAGE``). Azure's Python packages are generated from the schemas in
Azure/azure-rest-api-specs. The repository contains only the names and types of the fields.
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.metadata
import json
import re
import sys
import types
import typing
from typing import Any

PACKAGES = {
    "network": ("azure-mgmt-network", "azure.mgmt.network.models"),
    "compute": ("azure-mgmt-compute", "azure.mgmt.compute.models"),
    "keyvault": ("azure-mgmt-keyvault", "azure.mgmt.keyvault.models"),
    "storage": ("azure-mgmt-storage", "azure.mgmt.storage.models"),
    "msi": ("azure-mgmt-msi", "azure.mgmt.msi.v2024_11_30.models"),
    "authorization": ("azure-mgmt-authorization", "azure.mgmt.authorization.v2022_04_01.models"),
    "privatedns": ("azure-mgmt-privatedns", "azure.mgmt.privatedns.models"),
    "resources": ("azure-mgmt-resource", "azure.mgmt.resource.resources.models"),
    "locks": ("azure-mgmt-resource-locks", "azure.mgmt.resource.locks.models"),
    "deployments": ("azure-mgmt-resource-deployments", "azure.mgmt.resource.deployments.models"),
    "marketplace": ("azure-mgmt-marketplaceordering", "azure.mgmt.marketplaceordering.models"),
}

BODIES = {
    "Microsoft.Resources/resourceGroups": "resources.ResourceGroup",
    "Microsoft.Network/virtualNetworks": "network.VirtualNetwork",
    "Microsoft.Network/virtualNetworks/subnets": "network.Subnet",
    "Microsoft.Network/networkSecurityGroups": "network.NetworkSecurityGroup",
    "Microsoft.Network/networkSecurityGroups/securityRules": "network.SecurityRule",
    "Microsoft.Network/natGateways": "network.NatGateway",
    "Microsoft.Network/publicIPAddresses": "network.PublicIPAddress",
    "Microsoft.Network/networkInterfaces": "network.NetworkInterface",
    "Microsoft.Network/bastionHosts": "network.BastionHost",
    "Microsoft.Network/privateEndpoints": "network.PrivateEndpoint",
    "Microsoft.Network/privateEndpoints/privateDnsZoneGroups": "network.PrivateDnsZoneGroup",
    "Microsoft.Network/privateDnsZones": "privatedns.PrivateZone",
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks": "privatedns.VirtualNetworkLink",
    "Microsoft.ManagedIdentity/userAssignedIdentities": "msi.Identity",
    "Microsoft.KeyVault/vaults": "keyvault.VaultCreateOrUpdateParameters",
    "Microsoft.KeyVault/vaults/secrets": "keyvault.SecretCreateOrUpdateParameters",
    "Microsoft.Storage/storageAccounts": "storage.StorageAccountCreateParameters",
    "Microsoft.Storage/storageAccounts/blobServices": "storage.BlobServiceProperties",
    "Microsoft.Storage/storageAccounts/blobServices/containers": "storage.BlobContainer",
    "Microsoft.Storage/storageAccounts/fileServices": "storage.FileServiceProperties",
    "Microsoft.Storage/storageAccounts/fileServices/shares": "storage.FileShare",
    "Microsoft.Authorization/roleAssignments": "authorization.RoleAssignmentCreateParameters",
    "Microsoft.Authorization/roleDefinitions": "authorization.RoleDefinition",
    "Microsoft.Authorization/locks": "locks.ManagementLockObject",
    "Microsoft.Compute/virtualMachines": "compute.VirtualMachine",
    "Microsoft.Compute/virtualMachineScaleSets": "compute.VirtualMachineScaleSet",
    "Microsoft.Compute/disks": "compute.Disk",
    "Microsoft.Compute/galleries": "compute.Gallery",
    "Microsoft.Compute/galleries/images": "compute.GalleryImage",
    "Microsoft.Compute/galleries/images/versions": "compute.GalleryImageVersion",
}
"""The model of the body of each type of resource, as PACKAGE.CLASS."""

ANSWERS = {
    "Microsoft.KeyVault/vaults": "keyvault.Vault",
    "Microsoft.KeyVault/vaults/secrets": "keyvault.Secret",
    "Microsoft.KeyVault/deletedVaults": "keyvault.DeletedVault",
    "Microsoft.Storage/storageAccounts": "storage.StorageAccount",
    "Microsoft.Authorization/roleAssignments": "authorization.RoleAssignment",
    "Microsoft.Authorization/permissions": "authorization.Permission",
    "Microsoft.Compute/locations/usages": "compute.Usage",
    "Microsoft.Compute/skus": "compute.ResourceSku",
    "Microsoft.Compute/locations/publishers/versions": "compute.VirtualMachineImage",
    "Microsoft.Network/virtualNetworks/usages": "network.VirtualNetworkUsage",
    "Microsoft.Resources/deployments": "deployments.DeploymentExtended",
    "Microsoft.Resources/deployments/operations": "deployments.DeploymentOperation",
    "Microsoft.Resources/deployments/whatIf": "deployments.WhatIfOperationResult",
    "Microsoft.Resources/providers": "resources.Provider",
    "Microsoft.MarketplaceOrdering/agreements": "marketplace.AgreementTerms",
}
"""The model of the answer, where it is another one than that of the body, or where there is no PUT."""

OPEN_CHOICES = {"VirtualMachineSizeTypes"}
"""Enumerations that have only examples."""
OLD_TYPES = {"str", "int", "bool", "float", "object", "iso-8601"}
WRAPPERS = {"_deserialize_with_optional", "_deserialize_multiple_sequence"}


class Collector:
    """The models that have been met, with their fields."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, Any]] = {}
        self._modules = {name: importlib.import_module(path) for name, (_package, path) in PACKAGES.items()}

    def add(self, package: str, name: str) -> str:
        """Add a model and everything below it. Returns its name in the document."""
        key = f"{package}.{name}"
        if key not in self.models:
            self.models[key] = {}
            self.models[key] = self._fields(package, getattr(self._modules[package], name))
        return key

    def _fields(self, package: str, model: Any) -> dict[str, Any]:
        if hasattr(model, "_attribute_map"):
            return self._old_fields(package, model)
        model.__new__(model)  # the package collects the fields of a class when it makes the first object
        found: dict[str, Any] = {}
        for field in model._attr_to_rest_field.values():
            writable = field._visibility is None or set(field._visibility) != {"read"}
            kind = self._type(package, field._type)
            found[field._rest_name] = kind if writable else {"read-only": kind}
        return found

    def _type(self, package: str, kind: Any) -> Any:
        """The type of a field in the document: a model's name, a list of one type, a dict for mappings, or a word."""
        if isinstance(kind, types.FunctionType | types.BuiltinFunctionType) or kind is None:
            return "any"
        if isinstance(kind, functools.partial):
            name = kind.func.__name__
            if name in WRAPPERS:
                return self._type(package, kind.args[0])
            if name == "_deserialize_model":
                return self.add(package, kind.args[0].__name__)
            if name == "_deserialize_sequence":
                return [self._type(package, kind.args[0])]
            if name == "_deserialize_dict":
                return {"*": self._type(package, kind.args[0])}
            if name == "_deserialize_with_union":
                found = [self._type(package, part) for part in kind.args[0]]
                return next((part for part in found if part != "str"), "str")
            return self._type(package, kind.args[0]) if kind.args else "any"
        if isinstance(kind, type):
            if kind.__name__ in OPEN_CHOICES:
                return "str"
            if issubclass(kind, enum.Enum):
                return "|".join(str(member.value) for member in kind)
            return {str: "str", int: "int", bool: "bool", float: "float"}.get(kind, "str")
        return "any"

    def _old_fields(self, package: str, model: Any) -> dict[str, Any]:
        """The fields of a model in the older style, where one model describes several levels."""
        found: dict[str, Any] = {}
        for attribute, about in model._attribute_map.items():
            path = [part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", about["key"])]
            place = found
            for part in path[:-1]:
                place = place.setdefault(part, {})
            read_only = model._validation.get(attribute, {}).get("readonly", False)
            kind = self._old_type(package, about["type"])
            place[path[-1]] = {"read-only": kind} if read_only else kind
        return {name: self._inline(f"{package}.{model.__name__}", name, value) for name, value in found.items()}

    def _inline(self, model: str, name: str, value: Any) -> Any:
        if not isinstance(value, dict) or set(value) in ({"*"}, {"read-only"}):
            return value
        key = f"{model}.{name}"
        self.models[key] = value
        return key

    def _old_type(self, package: str, kind: str) -> Any:
        if kind.startswith("["):
            return [self._old_type(package, kind[1:-1])]
        if kind.startswith("{"):
            return {"*": self._old_type(package, kind[1:-1])}
        if kind in OLD_TYPES:
            return {"object": "any", "iso-8601": "str"}.get(kind, kind)
        return self.add(package, kind)


def collect() -> dict[str, Any]:
    """The document of all bodies."""
    collector = Collector()
    bodies = {kind: collector.add(*path.split(".")) for kind, path in BODIES.items()}
    answers = bodies | {kind: collector.add(*path.split(".")) for kind, path in ANSWERS.items()}
    packages = {package: importlib.metadata.version(package) for package, _module in PACKAGES.values()}
    return {"packages": packages, "bodies": bodies, "answers": answers, "models": collector.models}


def main() -> int:
    """Print the document."""
    for folder in sys.argv[1:]:
        sys.path.append(folder)
        for name in ("azure", "azure.mgmt", "azure.mgmt.resource"):
            path: typing.Any = (sys.modules.get(name) or importlib.import_module(name)).__path__
            path.append(f"{folder}/{name.replace('.', '/')}")
    document = collect()
    parts = [f'{{\n"packages": {json.dumps(document["packages"], indent=1)},\n"bodies": ']
    parts += [json.dumps(document["bodies"], indent=1), ',\n"answers": ']
    parts += [json.dumps(document["answers"], indent=1), ',\n"models": {\n']
    parts += [
        ",\n".join(
            f" {json.dumps(name)}: {{\n"
            + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(fields.items()))
            + "\n }"
            for name, fields in sorted(document["models"].items())
        )
    ]
    sys.stdout.write("".join([*parts, "\n}\n}\n"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
