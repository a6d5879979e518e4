# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes, quotas and images: what the subscription lets a machine be."""

from __future__ import annotations

from typing import Any

from simulator.arm.context import Context
from simulator.arm.errors import ArmError, bad_parameter, conflict
from simulator.arm.provision.kinds import Change, body_of
from simulator.limits import fold
from simulator.model import Model
from simulator.resources import ScaleSet
from simulator.scenario import Image

SPOT = "lowPriorityCores"


def demand(model: Model, size: str, spot: bool, count: int) -> dict[str, int]:
    """The cores that machines need, by name of the usage. Spot machines need only those for Spot."""
    known = model.limits.size(size)
    if known is None:
        return {}
    cores = int(known["vcpus"]) * count
    return {SPOT: cores} if spot else {"cores": cores, str(known["family"]): cores}


def used(model: Model) -> dict[str, int]:
    """The usages of the subscription by folded name. Deallocated machines count too, as in Azure."""
    found = {fold(name): number for name, number in model.limits.used.items()}
    for item in model.instances():
        for name, cores in demand(model, item.vm_size, item.priority in ("Spot", "Low"), 1).items():
            found[fold(name)] = found.get(fold(name), 0) + cores
    return found


def check_quota(
    state: Context, location: str, wanted: dict[str, int], others: dict[str, int] | None = None, code: str = ""
) -> None:
    """Raise ArmError if machines need more than the quota leaves. ``others`` are planned with them."""
    if not any(number > 0 for number in wanted.values()):
        return
    now = used(state.model)
    for name, number in wanted.items():
        limit, usage = state.model.limits.limit(name), now.get(fold(name), 0)
        planned = (others or {}).get(name, 0)
        if isinstance(limit, int | float) and usage + planned + number > limit:
            raise ArmError(
                409,
                code or "OperationNotAllowed",
                f"Operation could not be completed as it results in exceeding approved {name} Cores quota. Additional "
                f"details - Deployment Model: Resource Manager, Location: {location}, Current Limit: {limit}, Current "
                f"Usage: {usage}, Additional Required: {planned + number}, (Minimum) New Limit Required: "
                f"{usage + planned + number}.",
            )


def need_cores(change: Change, wanted: dict[str, int]) -> None:
    """Check the quota for a request, together with the rest of its deployment if it is a validation."""
    check_quota(
        change.state,
        location_of(change),
        wanted,
        change.cores,
        "QuotaExceeded" if change.dry else "OperationNotAllowed",
    )
    for name, number in wanted.items():
        change.cores[name] = change.cores.get(name, 0) + number


def location_of(change: Change) -> str:
    """The location of the request."""
    return str(change.body.get("location", "")).replace(" ", "").lower()


def check_size(change: Change, size: str, zones: list[str]) -> None:
    """Raise ArmError if the size is not sold to the subscription there."""
    limits, location = change.state.model.limits, location_of(change)
    known = limits.size(size)
    if known is None:
        raise ArmError(
            400,
            "InvalidParameter",
            f"The value {size} provided for the VM size is not valid. The valid sizes in the current region are: "
            f"{','.join(item['name'] for item in limits.sizes)}.",
        )
    where = "location" if not zones else f"zone {','.join(zones)} of location"
    refusal = ArmError(
        409,
        "SkuNotAvailable",
        f"The requested VM size for resource '{change.target.id}' is currently not available in {where} '{location}'. "
        "Please try another size or deploy to a different location or different zone. See "
        "https://aka.ms/azureskunotavailable for details.",
    )
    if set(zones) - set(known["zones"]):
        raise refusal
    for item in limits.restricted(size):
        if item["type"] == "Location" or set(zones) & set(item.get("zones") or []):
            raise refusal


def check_ephemeral_disk(size: str, change: Change, disk: dict[str, Any]) -> None:
    """Raise ArmError if an ephemeral system disk is larger than its place on the host: the cache, if there is one."""
    known = change.state.model.limits.size(size) or {}
    place = "CacheDisk" if known.get("cached_gib") else "ResourceDisk"
    most = known.get("cached_gib") or known.get("temp_gib")
    if (disk.get("diffDiskSettings") or {}).get("option") and most and disk.get("diskSizeGB", 0) > most:
        # azure-compute-docs, ephemeral-os-disks.md.
        raise bad_parameter(
            "osDisk.diskSizeGB",
            f"OS disk of Ephemeral VM with size greater than {most} GB is not allowed for VM size {size} when the "
            f"DiffDiskPlacement is {place}.",
        )


def image_of(change: Change, profile: dict[str, Any], before: Image | None = None) -> Image:
    """The image that a storage profile names. Raises ArmError if there is none, or if its plan is not bought."""
    reference = profile.get("imageReference")
    if not reference:
        raise change.missing("storageProfile.imageReference")
    if reference.get("id"):
        return gallery_image(change, str(reference["id"]))
    parts = [str(reference.get(key) or "") for key in ("publisher", "offer", "sku", "version")]
    known = change.state.model.limits.image(*parts[:3])
    if known is None or (parts[3] != "latest" and parts[3] not in known["versions"]):
        raise ArmError(
            404,
            "PlatformImageNotFound",
            f"The platform image '{':'.join(parts)}' is not available. Verify that all fields in the storage profile "
            "are correct. For more details about storage profile information, please refer to https://aka.ms/storageprofile",
        )
    check_plan(change, known)
    exact = known["versions"][-1] if parts[3] == "latest" else parts[3]
    if before is not None and parts[3] == "latest" and before.version == "latest":
        exact = before.exact_version
    return Image(parts[0], parts[1], parts[2], parts[3], exact)


def check_same_product(scale_set: ScaleSet, profile: dict[str, Any]) -> None:
    """Raise ArmError if a request gives an existing scale set an image that Azure does not allow."""
    new = (profile.get("storageProfile") or {}).get("imageReference") or {}
    old = scale_set.profile["storageProfile"]["imageReference"]
    # MicrosoftDocs/azure-docs#89791 and #92371, Azure/azure-powershell#11817.
    if new and bool(new.get("id")) != bool(old.get("id")):
        raise conflict("The Image type for a Virtual Machine Scale Set may not be changed.")
    # Azure/azure-powershell#11911: only of images with a plan.
    for key in ("publisher", "offer", "sku") if (scale_set.sent or {}).get("plan") else ():
        if str(new.get(key) or old.get(key)).lower() != str(old.get(key)).lower():
            path = f"imageReference.{key}"
            raise ArmError(409, "PropertyChangeNotAllowed", f"Changing property '{path}' is not allowed.")


def gallery_image(change: Change, azure_id: str) -> Image:
    """An image version of a gallery, which must be in the region."""
    found = change.state.model.galleries.version(azure_id)
    if found is None or not found.in_region(location_of(change)):
        raise ArmError(
            404,
            "GalleryImageNotFound",
            f"The gallery image {azure_id} is not available in {location_of(change)} region.",
        )
    return Image(id=azure_id, exact_version=found.name)


def check_plan(change: Change, image: dict[str, Any]) -> None:
    """Raise ArmError if an image is sold with a plan that the request lacks or whose terms are not accepted."""
    plan = image.get("plan")
    if not plan:
        return
    sent = change.body.get("plan") or {}
    name = f"{image['publisher']}/{plan['product']}/{plan['name']}"
    if (sent.get("name"), sent.get("product")) != (plan["name"], plan["product"]):
        raise ArmError(
            400,
            "VMMarketplaceInvalidInput",
            "Creating a virtual machine from Marketplace image requires Plan information in the request. "
            f"VM: '{change.target.id}'.",
        )
    if name.lower() not in [item.lower() for item in change.state.model.limits.accepted]:
        raise ArmError(
            400,
            "MarketplacePurchaseEligibilityFailed",
            "Marketplace purchase eligibility check returned errors. Legal terms have not been accepted for this item "
            f"on this subscription: publisher {image['publisher']}, offer {plan['product']}, plan {plan['name']}.",
        )


def client_ids(state: Context, identity: dict[str, Any]) -> tuple[str, ...]:
    """The client ids of the user-assigned identities of a machine."""
    found: list[str] = []
    for azure_id in identity.get("userAssignedIdentities") or {}:
        body = body_of(state, azure_id)
        if body is not None:
            found.append(str(body["properties"]["clientId"]))
    return tuple(found)


def settle_identity(change: Change, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """The identity of a machine with the ids that the service adds. A system-assigned one keeps its principal."""
    identity = _with_added(change.body.get("identity") or {}, change.state.model.limits.added_identities)
    if not identity or identity.get("type") == "None":
        return None
    settled: dict[str, Any] = {"type": identity["type"]}
    if "SystemAssigned" in identity["type"]:
        settled["principalId"] = (before or {}).get("principalId") or change.state.model.identities.uuid()
        settled["tenantId"] = change.state.model.subscription
    for azure_id in identity.get("userAssignedIdentities") or {}:
        body = change.need(azure_id, "identity.userAssignedIdentities")
        own = {key: body["properties"][key] for key in ("principalId", "clientId")}
        settled.setdefault("userAssignedIdentities", {})[azure_id] = own
    return settled


def _with_added(identity: dict[str, Any], added: list[str]) -> dict[str, Any]:
    """The identity of a request with those that a policy adds."""
    if not added:
        return identity
    types = {one.strip() for one in str(identity.get("type") or "None").split(",")} - {"None"}
    assigned = dict(identity.get("userAssignedIdentities") or {})
    for one in added:
        if one == "SystemAssigned":
            types.add(one)
        else:
            types.add("UserAssigned")
            assigned.setdefault(one, {})
    return {"type": ", ".join(sorted(types)), **({"userAssignedIdentities": assigned} if assigned else {})}


def check_identity(change: Change) -> None:
    """Raise ArmError if an identity does not exist."""
    for azure_id in (change.body.get("identity") or {}).get("userAssignedIdentities") or {}:
        change.need(azure_id, "identity.userAssignedIdentities")
