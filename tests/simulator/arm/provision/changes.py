# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a PUT, a PATCH and a DELETE, the same for single requests and deployments."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from simulator.arm import versions
from simulator.arm.context import Context
from simulator.arm.errors import ArmError, group_not_found
from simulator.arm.provision import interfaces, machines, network, rights, schema, services, sets
from simulator.arm.provision.expressions import has_references
from simulator.arm.provision.kinds import Change, Kind, kind_of
from simulator.arm.provision.targets import GROUPS, Target, target
from simulator.effects import Work
from simulator.resources import Document, Resource

NETWORKS = network.VirtualNetwork("Microsoft.Network/virtualNetworks")
SECURITY_GROUPS = network.SecurityGroup("Microsoft.Network/networkSecurityGroups")
ALL: tuple[Kind, ...] = (
    NETWORKS,
    network.Embedded("Microsoft.Network/virtualNetworks/subnets", "subnets", NETWORKS),
    SECURITY_GROUPS,
    network.Embedded("Microsoft.Network/networkSecurityGroups/securityRules", "securityRules", SECURITY_GROUPS),
    interfaces.NatGateway("Microsoft.Network/natGateways"),
    interfaces.PublicAddress("Microsoft.Network/publicIPAddresses"),
    interfaces.Interface("Microsoft.Network/networkInterfaces"),
    interfaces.Bastion("Microsoft.Network/bastionHosts"),
    interfaces.PrivateEndpoint("Microsoft.Network/privateEndpoints"),
    services.Plain("Microsoft.Network/privateEndpoints/privateDnsZoneGroups", located=False, typed=False),
    services.Plain("Microsoft.Network/privateDnsZones"),
    interfaces.ZoneLink("Microsoft.Network/privateDnsZones/virtualNetworkLinks"),
    services.Identity("Microsoft.ManagedIdentity/userAssignedIdentities"),
    services.KeyVault("Microsoft.KeyVault/vaults"),
    services.VaultSecret("Microsoft.KeyVault/vaults/secrets"),
    services.StorageAccount("Microsoft.Storage/storageAccounts"),
    services.StorageService("Microsoft.Storage/storageAccounts/blobServices"),
    services.Container("Microsoft.Storage/storageAccounts/blobServices/containers"),
    services.StorageService("Microsoft.Storage/storageAccounts/fileServices"),
    services.Container("Microsoft.Storage/storageAccounts/fileServices/shares"),
    services.RoleAssignment("Microsoft.Authorization/roleAssignments"),
    services.RoleDefinition("Microsoft.Authorization/roleDefinitions"),
    services.Lock(rights.LOCKS),
    machines.Machine("Microsoft.Compute/virtualMachines"),
    sets.Set("Microsoft.Compute/virtualMachineScaleSets"),
    services.Disk("Microsoft.Compute/disks"),
)
KINDS = {kind.name.lower(): kind for kind in ALL}
NAMES = {lower: kind.name for lower, kind in KINDS.items()}


@dataclass(frozen=True)
class Done:
    """A carried out PUT."""

    item: Resource
    kind: Kind
    created: bool
    work: Work | None
    """The part that takes time."""


def kind(name: str) -> Kind:
    """The type with this name."""
    return KINDS[name.lower()]


def find(state: Context, azure_id: str) -> Resource | None:
    """The resource with this id."""
    place = target(azure_id, NAMES)
    if place is None:
        return None
    if place.kind == GROUPS:
        return state.model.resource_groups.get(place.group.lower())
    return kind(place.kind).find(state, place)


def prepared(
    state: Context,
    place: Target,
    body: Any,
    planned: dict[str, dict[str, Any]] | None = None,
    cores: dict[str, int] | None = None,
    version: str = "",
    sent: dict[str, Any] | None = None,
) -> Change:
    """A request after all checks. Raises ArmError. With ``planned`` it is only validated.

    :param sent: of a PATCH, what it contains.
    """
    own = kind(place.kind)
    rights.check_provider(state, place.kind)
    group = f"/subscriptions/{state.model.subscription}/resourceGroups/{place.group}".lower()
    if place.group and place.group.lower() not in state.model.resource_groups and group not in (planned or {}):
        raise group_not_found(place.group)
    rights.check_action(state, f"{place.kind}/write", place.scope)
    change = Change(
        state,
        place,
        schema.cleaned(place.kind, body),
        own.find(state, place),
        {} if planned is None else planned,
        {} if cores is None else cores,
        version,
    )
    rights.check_links(state, place, change.body if sent is None else sent)
    rights.check_locks(state, place.id, place.kind, deletes=False)
    rights.check_policies(change)
    if own.located:
        _check_location(change)
    if change.dry and (not own.preflight or has_references(change.body)):
        return change
    if place.parent and change.resource(place.parent) is None:
        raise ArmError(
            404,
            "ParentResourceNotFound",
            f"Failed to perform 'write' on resource(s) of type '{place.kind.partition('/')[2]}', because the parent "
            f"resource '{place.parent.partition('/providers/')[2]}' could not be found.",
        )
    own.check(change)
    return change


def check_group(state: Context, place: Target, body: Any) -> dict[str, Any]:
    """The checked request for a resource group. Raises ArmError."""
    wanted, found = schema.cleaned(GROUPS, body), state.model.resource_groups.get(place.group.lower())
    rights.check_action(state, f"{GROUPS}/write", place.id)
    rights.check_policies(Change(state, place, wanted, found))
    wanted["location"] = location = str(wanted.get("location") or "").replace(" ", "").lower()
    if not location:
        raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
    if found is not None and found.location.lower() != location:
        raise ArmError(
            409,
            "InvalidResourceGroupLocation",
            f"Invalid resource group location '{location}'. The Resource group already exists in location "
            f"'{found.location}'.",
        )
    return wanted


def _check_location(change: Change) -> None:
    wanted = change.body.get("location")
    if not wanted:
        raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
    change.body["location"] = wanted = str(wanted).replace(" ", "").lower()
    old = change.existing
    if old is not None and old.location.lower() != wanted:
        raise ArmError(
            409,
            "InvalidResourceLocation",
            f"The resource '{old.name}' already exists in location '{old.location}' in resource group "
            f"'{old.resource_group}'. A resource with the same name cannot be created in location '{wanted}'. Please "
            "select a new resource name.",
        )


def put(state: Context, place: Target, body: Any, version: str) -> Done:
    """Make or replace a resource, as an api-version does it. Raises ArmError."""
    own = kind(place.kind)
    with state.model.lock:
        change = prepared(state, place, body, version=version)
        work = own.make(change)
        item = own.find(state, place)
        assert item is not None
        return Done(item, own, change.existing is None, work)


def patch(state: Context, place: Target, body: Any) -> Done:
    """Change some properties of a resource: maps are merged, lists and tags replaced.

    That tags are replaced is in Azure's rules for resource providers (typespec-azure issue 1234). A PATCH of
    Microsoft.Resources/tags can merge them.
    """
    own = kind(place.kind)
    with state.model.lock:
        item = own.find(state, place)
        if item is None:
            raise not_found(place)
        wanted = schema.cleaned(place.kind, body)
        rights.check_action(state, f"{place.kind}/write", place.scope)
        rights.check_locks(state, place.id, place.kind, deletes=False)
        if set(wanted) <= {"tags"}:
            item.tags = dict(wanted.get("tags", item.tags))
            return Done(item, own, False, None)
        # Without what the service added, which a request must not contain.
        merged = schema.writable(place.kind, request_of(item))
        for key, value in wanted.items():
            merged[key] = value if key == "tags" else _merged(merged.get(key), value)
        change = prepared(state, place, merged, sent=wanted)
        return Done(item, own, False, own.make(change))


def request_of(item: Resource) -> dict[str, Any]:
    """The body of a PUT that would make the resource as it is."""
    sent = item.body if isinstance(item, Document) else getattr(item, "sent", None) or {}
    return copy.deepcopy(sent) | {"location": item.location, "tags": dict(item.tags)}


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merged(old.get(key), value) for key, value in new.items()}
    return new


def delete(state: Context, place: Target) -> Work | None:
    """Delete a resource. Returns the part that takes time. Raises ArmError if it cannot be deleted or is missing."""
    own = kind(place.kind)
    with state.model.lock:
        item = own.find(state, place)
        if item is None:
            raise not_found(place)
        rights.check_action(state, f"{place.kind}/delete", place.scope)
        rights.check_locks(state, place.id, place.kind, deletes=True)
        own.removable(state, item)
        work = own.remove(state, item)
        for document in state.model.documents.below(place.id):
            state.model.documents.remove(document.id)
        return work


def not_found(place: Target) -> ArmError:
    """The error for a missing resource."""
    if place.kind == GROUPS:
        return group_not_found(place.group)
    return ArmError(
        404,
        "ResourceNotFound",
        f"The Resource '{place.id.rpartition('/providers/')[2]}' under resource group '{place.group or '<null>'}' was "
        "not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def resources(state: Context, group: str | None) -> list[Resource]:
    """The resources of a group or of the subscription that have a location of their own, without children."""
    model = state.model
    documents = [item for item in model.documents if item.kind.count("/") == 1 and kind(item.kind).located]
    found: list[Resource] = [*documents, *model.machines.values(), *model.scale_sets.values()]
    if group is not None:
        found = [item for item in found if item.resource_group.lower() == group.lower()]
    return sorted(found, key=lambda item: item.serial)


def answer(state: Context, item: Resource) -> dict[str, Any]:
    """A resource as a GET returns it."""
    return kind(kind_of(item)).answer(state, item)


def properties_of(state: Context, azure_id: str, version: str) -> dict[str, Any]:
    """The properties of an existing resource, as a template's reference reads them. Raises ArmError."""
    place = target(azure_id, NAMES)
    item = find(state, azure_id)
    if place is None or item is None:
        raise no_reference(azure_id, version)
    versions.check(place.kind, version)
    found: dict[str, Any] = answer(state, item).get("properties") or {}
    return found


def no_reference(azure_id: str, version: str) -> ArmError:
    """The error for a reference to a missing resource."""
    return ArmError(404, "ResourceNotFound", f"The Resource '{azure_id}' was not found (api-version {version}).")


def delete_group(state: Context, name: str) -> Work:
    """Delete a resource group with everything in it. Returns the part that takes time."""
    model = state.model
    group = model.resource_groups.get(name.lower())
    if group is None:
        raise group_not_found(name)
    rights.check_action(state, f"{GROUPS}/delete", group.id)
    rights.check_locks(state, group.id, GROUPS, deletes=True)
    group.properties["provisioningState"] = "Deleting"

    def work() -> None:
        machines = [item for item in resources(state, name) if not isinstance(item, Document)]
        for item in machines:
            own = kind(kind_of(item)).remove(state, item)
            if own is not None:
                own()
        with model.lock:
            inside = [item for item in model.documents if item.resource_group.lower() == name.lower()]
            # Interfaces before addresses: each frees what it has.
            for document in sorted(inside, key=lambda item: item.serial, reverse=True):
                if model.documents.get(document.id) is not None:
                    kind(document.kind).remove(state, document)
            for azure_id in [key for key in model.deployments if key.startswith(f"{group.id.lower()}/")]:
                del model.deployments[azure_id]
            model.resource_groups.pop(name.lower(), None)

    return work
