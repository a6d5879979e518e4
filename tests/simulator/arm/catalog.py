# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the subscription may have and what is known about it: usages, sizes, images, providers, names."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any

from flask import Blueprint, Response, request

from simulator.arm.compute_payloads import timestamp
from simulator.arm.context import context, many, one
from simulator.arm.documents import encode, path
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.longrunning import accepted
from simulator.arm.paging import query
from simulator.arm.provision import changes, network, rights, services, sizing
from simulator.arm.provision.network import prefix_of
from simulator.limits import CATALOG, fold, reservable
from simulator.model import Model
from simulator.resources import Document

blueprint = Blueprint("catalog", __name__)
SUBSCRIPTION = "/subscriptions/<subscription>"
COMPUTE = f"{SUBSCRIPTION}/providers/microsoft.compute"
VAULTS = f"{SUBSCRIPTION}/providers/microsoft.keyvault"
IMAGES = (
    f"{COMPUTE}/locations/<location>/publishers/<publisher>/artifacttypes/vmimage/offers/<offer>/skus/<sku>/versions"
)
PROVIDERS = sorted({kind.name.partition("/")[0] for kind in changes.ALL} | {"Microsoft.Resources"})


def _values(items: list[dict[str, Any]]) -> Response:
    return many([encode(item) for item in items], None)


@blueprint.get(SUBSCRIPTION)
def show_subscription(subscription: str) -> Response:
    """The subscription."""
    own = context().model.subscription
    return one(
        encode(
            {
                "id": f"/subscriptions/{own}",
                "subscriptionId": own,
                "tenantId": own,
                "displayName": "simulated",
                "state": "Enabled",
                "subscriptionPolicies": {"locationPlacementId": "Public_2014-09-01", "spendingLimit": "Off"},
                "authorizationSource": "RoleBased",
            }
        )
    )


# Compute


@blueprint.get(f"{COMPUTE}/locations/<location>/usages")
def list_usages(subscription: str, location: str) -> Response:
    """Cores in use and their limits: in total, for Spot, and by family. Its names differ from those of the sizes."""
    model = context().model
    used = sizing.used(model)
    families = dict.fromkeys(str(size["family"]) for size in model.limits.sizes)
    found = [
        ("availabilitySets", "Availability Sets", 0),
        ("cores", "Total Regional vCPUs", used.get("cores", 0)),
        ("virtualMachines", "Virtual Machines", len(model.instances())),
        ("virtualMachineScaleSets", "Virtual Machine Scale Sets", len(model.scale_sets)),
        *((CATALOG["usages"].get(family, family), _title(family), used.get(fold(family), 0)) for family in families),
        (sizing.SPOT, "Total Regional Low-priority vCPUs", used.get(fold(sizing.SPOT), 0)),
    ]
    return _values(
        [
            {
                "limit": model.limits.limit(name),
                "unit": "Count",
                "currentValue": number,
                "name": {"value": name, "localizedValue": title},
            }
            for name, title, number in found
        ]
    )


def _title(family: str) -> str:
    return f"Standard {family[len('standard') : -len('Family')]} Family vCPUs"


@blueprint.get(f"{COMPUTE}/skus")
def list_skus(subscription: str) -> Response:
    """The sizes with their abilities, and why the subscription cannot have some."""
    text = query().get("$filter") or ""
    key, found, location = text.partition(" eq ")
    if text and (key.strip() != "location" or not found):
        raise bad_parameter("$filter", f"'{text}' is not supported: location eq '<location>'")
    location = location.strip().strip("'").lower() or "southcentralus"
    return _values([_sku(context().model, size, location) for size in context().model.limits.sizes])


def _sku(model: Model, size: dict[str, Any], location: str) -> dict[str, Any]:
    zones = list(size["zones"])
    abilities = {
        "vCPUs": size["vcpus"],
        "MemoryGB": size["memory_gib"],
        "GPUs": size.get("gpus", 0),
        "RdmaEnabled": bool(size.get("rdma")),
        "MaxNetworkInterfaces": size["nics"],
        "HyperVGenerations": size.get("generations", "V1,V2"),
        "EphemeralOSDiskSupported": size.get("ephemeral", True),
        "AcceleratedNetworkingEnabled": size.get("accelerated_networking", True),
        "CapacityReservationSupported": reservable(size),
        "LowPriorityCapable": True,
        "PremiumIO": True,
        "CpuArchitectureType": size.get("architecture", "x64"),
    }
    if "cached_gib" in size:
        abilities["CachedDiskBytes"] = size["cached_gib"] << 30
    if "temp_gib" in size:
        abilities["MaxResourceVolumeMB"] = size["temp_gib"] << 10
    restrictions = []
    for item in model.limits.restricted(size["name"]):
        by_zone = item["type"] == "Zone"
        info: dict[str, Any] = {"locations": [location]} | ({"zones": list(item["zones"])} if by_zone else {})
        restrictions.append(
            {
                "type": item["type"],
                "values": [location],
                "restrictionInfo": info,
                "reasonCode": item.get("reason", "NotAvailableForSubscription"),
            }
        )
    return {
        "resourceType": "virtualMachines",
        "name": size["name"],
        "tier": "Standard",
        "size": size["name"].partition("_")[2],
        "family": size["family"],
        "locations": [location],
        "locationInfo": [{"location": location, "zones": zones, "zoneDetails": []}],
        "capabilities": [
            {"name": name, "value": str(value)} for name, value in abilities.items() if name != "GPUs" or value
        ],
        "restrictions": restrictions,
    }


def _image(publisher: str, offer: str, sku: str) -> dict[str, Any]:
    found = context().model.limits.image(publisher, offer, sku)
    if found is None:
        raise ArmError(404, "NotFound", f"Artifact: VMImage was not found: {publisher}, {offer}, {sku}.")
    return found


@blueprint.get(IMAGES)
def list_images(subscription: str, location: str, publisher: str, offer: str, sku: str) -> Response:
    """The versions of an image, as a bare list."""
    image = _image(publisher, offer, sku)
    base = path().rstrip("/")
    return one(
        encode([{"location": location, "name": name, "id": f"{base}/{name}"} for name in sorted(image["versions"])])
    )


@blueprint.get(f"{IMAGES}/<version>")
def show_image(subscription: str, location: str, publisher: str, offer: str, sku: str, version: str) -> Response:
    """One version of an image, with its plan."""
    image = _image(publisher, offer, sku)
    if version not in image["versions"]:
        raise ArmError(404, "NotFound", f"Artifact: VMImage version {version} was not found.")
    properties: dict[str, Any] = {
        "hyperVGeneration": image["generation"],
        "architecture": "x64",
        "osDiskImage": {"operatingSystem": "Linux"},
        "dataDiskImages": [],
        "automaticOSUpgradeProperties": {"automaticOSUpgradeSupported": False},
    }
    if image.get("plan"):
        properties["plan"] = {"publisher": image["publisher"], **image["plan"]}
    return one(encode({"id": path(), "name": version, "location": location, "properties": properties}))


AGREEMENT = (
    f"{SUBSCRIPTION}/providers/microsoft.marketplaceordering/offertypes/virtualmachine/publishers/<publisher>"
    "/offers/<offer>/plans/<plan>/agreements/current"
)


@blueprint.route(AGREEMENT, methods=["GET", "PUT"])
def agreement(subscription: str, publisher: str, offer: str, plan: str) -> Response:
    """The terms of a plan. PUT with accepted: true accepts them."""
    limits, name = context().model.limits, f"{publisher}/{offer}/{plan}"
    plans = [item for item in limits.images if item.get("plan")]
    if name not in [f"{item['publisher']}/{item['plan']['product']}/{item['plan']['name']}".lower() for item in plans]:
        raise ArmError(400, "BadRequest", f"The plan {name} was not found.")
    if request.method == "PUT":
        others = [item for item in limits.accepted if item.lower() != name]
        sent = (request.get_json(silent=True) or {}).get("properties") or {}
        limits.accepted = [*others, name] if sent.get("accepted") else others
    return one(
        encode(
            {
                "id": path(),
                "name": plan,
                "type": "Microsoft.MarketplaceOrdering/offertypes",
                "properties": {
                    "publisher": publisher,
                    "product": offer,
                    "plan": plan,
                    "licenseTextLink": "https://example.org/terms",
                    "privacyPolicyLink": "https://example.org/privacy",
                    "signature": "SIMULATED",
                    "accepted": name in [item.lower() for item in limits.accepted],
                },
            }
        )
    )


# Providers


def _provider(name: str) -> dict[str, Any]:
    known = next((item for item in PROVIDERS if item.lower() == name.lower()), name)
    off = [*context().options.unregistered, *context().model.limits.unregistered]
    registered = known.lower() not in [item.lower() for item in off]
    types = sorted({kind.name.partition("/")[2] for kind in changes.ALL if kind.name.startswith(known + "/")})
    return {
        "id": f"/subscriptions/{context().model.subscription}/providers/{known}",
        "namespace": known,
        "registrationPolicy": "RegistrationRequired",
        "registrationState": "Registered" if registered else "NotRegistered",
        "resourceTypes": [{"resourceType": kind, "locations": [], "apiVersions": []} for kind in types],
    }


@blueprint.get(f"{SUBSCRIPTION}/providers")
def list_providers(subscription: str) -> Response:
    """The providers and whether the subscription is registered for them."""
    return _values([_provider(name) for name in PROVIDERS])


@blueprint.get(f"{SUBSCRIPTION}/providers/<name>")
def show_provider(subscription: str, name: str) -> Response:
    """One provider."""
    return one(encode(_provider(name)))


@blueprint.post(f"{SUBSCRIPTION}/providers/<name>/register")
def register(subscription: str, name: str) -> Response:
    """Register the subscription for a provider."""
    rights.check_action(context(), f"{name}/register/action", f"/subscriptions/{context().model.subscription}")
    limits = context().model.limits
    limits.unregistered = [item for item in limits.unregistered if item.lower() != name.lower()]
    return one(encode(_provider(name)))


# Names


@blueprint.post(f"{VAULTS}/checknameavailability")
def check_vault_name(subscription: str) -> Response:
    """Whether a key vault can have a name."""
    name = str((request.get_json(silent=True) or {}).get("name", ""))
    taken = services.name_taken(context(), name)
    if taken is None:
        return one(encode({"nameAvailable": True}))
    return one(encode({"nameAvailable": False, "reason": "AlreadyExists", "message": taken.message}))


@blueprint.post(f"{SUBSCRIPTION}/providers/microsoft.storage/checknameavailability")
def check_storage_name(subscription: str) -> Response:
    """Whether a storage account can have a name."""
    name = str((request.get_json(silent=True) or {}).get("name", ""))
    if not services.STORAGE_NAME.fullmatch(name):
        return one(encode({"nameAvailable": False, "reason": "AccountNameInvalid", "message": f"{name} is not valid."}))
    if rights.storage_taken(context(), name):
        message = f"The storage account named {name} is already taken."
        return one(encode({"nameAvailable": False, "reason": "AlreadyExists", "message": message}))
    return one(encode({"nameAvailable": True}))


def _deleted_vault(name: str) -> dict[str, Any]:
    deleted = context().model.deleted_vaults[name]
    document = deleted.document
    days = document.properties.get("softDeleteRetentionInDays", 90)
    own = f"/subscriptions/{document.subscription}/providers/Microsoft.KeyVault/locations/{document.location}"
    return {
        "id": f"{own}/deletedVaults/{document.name}",
        "name": document.name,
        "type": "Microsoft.KeyVault/deletedVaults",
        "properties": {
            "vaultId": document.id,
            "location": document.location,
            "deletionDate": timestamp(deleted.deleted),
            "scheduledPurgeDate": timestamp(deleted.deleted + timedelta(days=days)),
            "tags": dict(document.tags),
            "purgeProtectionEnabled": bool(document.properties.get("enablePurgeProtection")),
        },
    }


@blueprint.get(f"{VAULTS}/deletedvaults")
def list_deleted_vaults(subscription: str) -> Response:
    """The soft-deleted key vaults of the subscription."""
    return _values([_deleted_vault(name) for name in context().model.deleted_vaults])


@blueprint.get(f"{VAULTS}/locations/<location>/deletedvaults/<name>")
def show_deleted_vault(subscription: str, location: str, name: str) -> Response:
    """One soft-deleted key vault."""
    if name not in context().model.deleted_vaults:
        raise ArmError(404, "DeletedVaultNotFound", f"The deleted vault {name} does not exist.")
    return one(encode(_deleted_vault(name)))


@blueprint.post(f"{VAULTS}/locations/<location>/deletedvaults/<name>/purge")
def purge_vault(subscription: str, location: str, name: str) -> Response:
    """Free the name of a soft-deleted key vault."""
    model = context().model
    deleted = model.deleted_vaults.get(name)
    if deleted is None:
        raise ArmError(404, "DeletedVaultNotFound", f"The deleted vault {name} does not exist.")
    if deleted.document.properties.get("enablePurgeProtection"):
        raise ArmError(
            409, "DeletedVaultPurge", f"Operation 'DeletedVaultPurge' is not allowed: {name} has purge protection."
        )

    def work() -> None:
        model.deleted_vaults.pop(name, None)

    return accepted(f"purge {name}", location, work, provider="Microsoft.KeyVault")


# Networks


@blueprint.get(f"{SUBSCRIPTION}/resourcegroups/<group>/providers/microsoft.network/virtualnetworks/<name>/usages")
def list_network_usages(subscription: str, group: str, name: str) -> Response:
    """Used and all addresses of each subnet. Azure's own five are neither."""
    found = changes.find(context(), path().rstrip("/").rpartition("/")[0])
    if not isinstance(found, Document):
        raise ArmError(404, "ResourceNotFound", f"The virtual network {name} was not found.")
    held = network.addresses_in(context())
    return _values(
        [
            {
                "id": subnet["id"],
                "currentValue": len(held.get(subnet["id"].lower(), [])),
                "limit": ipaddress.IPv4Network(prefix_of(subnet)).num_addresses - 5,
                "unit": "Count",
                "name": {"value": "SubnetSpace", "localizedValue": "Subnet size and usage"},
            }
            for subnet in found.properties["subnets"]
        ]
    )
