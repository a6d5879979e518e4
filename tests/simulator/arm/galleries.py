# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute Galleries, and the capture of virtual machines as image versions."""

from __future__ import annotations

import json
import re
from typing import Any

from flask import Blueprint, Response, request

from simulator import gallery as galleries
from simulator.arm import lookup
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError, bad_parameter, conflict, resource_not_found
from simulator.arm.longrunning import accepted
from simulator.arm.paging import query
from simulator.gallery import Definition, Gallery, Version, folded
from simulator.resources import COMPUTE

blueprint = Blueprint("galleries", __name__)
GROUP = "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.compute"
ONE = f"{GROUP}/galleries/<gallery>"
IMAGE = f"{ONE}/images/<image>"
VERSIONS = f"{IMAGE}/versions"
NAME = re.compile(r"\d+\.\d+\.\d+")
VM = f"{GROUP}/virtualmachines/<name>/generalize"


def _gallery(group: str, name: str) -> Gallery:
    lookup.group(group)
    found = context().model.galleries.by_id.get(_id(group, name).lower())
    if found is None:
        raise resource_not_found(f"{COMPUTE}/galleries", name, group)
    return found


def _definition(group: str, gallery: str, image: str) -> Definition:
    found = _gallery(group, gallery).definitions.get(image.lower())
    if found is None:
        raise resource_not_found(f"{COMPUTE}/galleries/images", f"{gallery}/{image}", group)
    return found


def _version(group: str, gallery: str, image: str, name: str) -> Version:
    found = _definition(group, gallery, image).versions.get(name.lower())
    if found is None:
        raise resource_not_found(f"{COMPUTE}/galleries/images/versions", f"{gallery}/{image}/{name}", group)
    return found


def _id(group: str, name: str) -> str:
    return f"/subscriptions/{context().model.subscription}/resourceGroups/{group}/providers/{COMPUTE}/galleries/{name}"


def _written(names: int) -> list[str]:
    """The last names of the path, as the request spelled them."""
    words = str(request.environ["simulator.path"]).rstrip("/").split("/")
    return words[::-2][:names][::-1]


def _body() -> dict[str, Any]:
    body = request.get_json(silent=True)
    if not isinstance(body, dict):
        raise ArmError(400, "InvalidRequestContent", "The request content was invalid and could not be deserialized.")
    return body


@blueprint.get(ONE)
def show_gallery(subscription: str, group: str, gallery: str) -> Response:
    """One gallery."""
    return one(context().encode("gallery", gallery_payload(_gallery(group, gallery))))


def gallery_payload(found: Gallery) -> dict[str, Any]:
    """A gallery in Resource Manager's format."""
    return {
        "id": found.id,
        "name": found.name,
        "location": found.location,
        "properties": {"identifier": {"uniqueName": found.name.upper()}, "provisioningState": "Succeeded"},
    }


@blueprint.put(ONE)
def put_gallery(subscription: str, group: str, gallery: str) -> Response:
    """Make a gallery."""
    lookup.group(group)
    (name,), body = _written(1), _body()
    made = Gallery(_id(group, name), name, str(body.get("location")), dict(body.get("tags") or {}))
    with context().model.lock:
        found = context().model.galleries.by_id.setdefault(made.id.lower(), made)
    encoded = context().encode("gallery", gallery_payload(found))
    return accepted(f"make {name}", found.location, _nothing, encoded, 201, final=False)


@blueprint.get(IMAGE)
def show_definition(subscription: str, group: str, gallery: str, image: str) -> Response:
    """One image definition."""
    return one(context().encode("gallery_image", definition_payload(_definition(group, gallery, image))))


def definition_payload(found: Definition) -> dict[str, Any]:
    """An image definition in Resource Manager's format."""
    properties = {**found.properties, "provisioningState": "Succeeded"}
    return {"id": found.id, "name": found.name, "location": found.location, "properties": properties}


@blueprint.put(IMAGE)
def put_definition(subscription: str, group: str, gallery: str, image: str) -> Response:
    """Make an image definition."""
    parent, (name,), body = _gallery(group, gallery), _written(1), _body()
    properties = dict(body.get("properties") or {})
    missing = [key for key in ("osType", "osState", "identifier") if not properties.get(key)]
    if missing:
        raise bad_parameter(missing[0], "The parameter is required.")
    made = Definition(f"{parent.id}/images/{name}", name, str(body.get("location")), properties)
    with context().model.lock:
        found = parent.definitions.setdefault(name.lower(), made)
    encoded = context().encode("gallery_image", definition_payload(found))
    return accepted(f"make {name}", found.location, _nothing, encoded, 201, final=False)


@blueprint.get(VERSIONS)
def list_versions(subscription: str, group: str, gallery: str, image: str) -> Response:
    """The versions of an image definition."""
    with context().model.lock:
        found = list(_definition(group, gallery, image).versions.values())
    return many([_encoded(version, False) for version in found], None)


@blueprint.get(f"{VERSIONS}/<name>")
def show_version(subscription: str, group: str, gallery: str, image: str, name: str) -> Response:
    """One version."""
    expand = (query().get("$expand") or "").lower()
    if expand not in ("", "replicationstatus"):
        raise bad_parameter("$expand", f"'{expand}' is not supported")
    return one(_encoded(_version(group, gallery, image, name), bool(expand)))


@blueprint.put(f"{VERSIONS}/<name>")
def put_version(subscription: str, group: str, gallery: str, image: str, name: str) -> Response:
    """Make a version, or change the regions and tags of an existing one. Its source cannot be changed."""
    parent, body = _definition(group, gallery, image), _body()
    if not NAME.fullmatch(name):
        raise bad_parameter("galleryImageVersionName", f"'{name}' is not of the form MajorVersion.MinorVersion.Patch")
    properties = body.get("properties") or {}
    source = (properties.get("storageProfile") or {}).get("source") or {}
    regions = _regions(properties, str(body.get("location")))
    with context().model.lock:
        found = parent.versions.get(name)
        if found is not None and found.source != source:
            raise ArmError(
                409,
                "PropertyChangeNotAllowed",
                "Changing property 'galleryImageVersion.properties.storageProfile.source' is not allowed.",
            )
        if found is None:
            location = str(body.get("location"))
            _check_source(source, parent, location)
            found = Version(f"{parent.id}/versions/{name}", name, location, {}, source, regions)
            parent.versions[name] = found
        found.regions, found.tags = regions, {str(key): str(value) for key, value in (body.get("tags") or {}).items()}
        if found.provisioning_state != "Creating":
            found.provisioning_state, found.failed = "Updating", {}
        encoded = _encoded(found, False)
    store = context().model.galleries
    return accepted(f"replicate {name}", found.location, lambda: store.replicate(found), encoded, 201, final=False)


def _regions(properties: dict[str, Any], location: str) -> list[dict[str, Any]]:
    regions = list((properties.get("publishingProfile") or {}).get("targetRegions") or [])
    # Azure stores the original in the version's own region.
    if folded(location) not in [folded(str(region.get("name"))) for region in regions]:
        raise bad_parameter(
            "targetRegions", f"The version's own region '{location}' must be one of the target regions."
        )
    return regions


def _check_source(source: dict[str, Any], parent: Definition, location: str) -> None:
    """Check that a virtual machine can be captured. Other sources are not checked.

    The messages are those of azure-compute-docs, troubleshooting-shared-images.md, and for the security type of
    hashicorp/packer-plugin-azure#304.
    """
    azure_id = source.get("virtualMachineId")
    if not azure_id:
        if source.get("id"):
            return
        raise bad_parameter("storageProfile.source", "The parameter is required.")
    machine = context().model.find_instance(str(azure_id))
    if machine is None or folded(machine.location) != folded(location):
        raise ArmError(
            404,
            "NotFound",
            f"Source {azure_id} is not found. Please check source exists, and is in the same region as gallery image "
            "version being created",
        )
    if not machine.generalized:
        raise conflict(f"The virtual machine '{machine.name}' is not generalized.")
    if machine.ephemeral:
        raise _refused(f"Source virtual machine {azure_id} cannot contain an ephemeral OS disk")
    sent = machine.sent or {}
    theirs, ours = _plan(sent.get("plan")), _plan(parent.properties.get("purchasePlan"))
    if theirs != ours:
        raise _refused(
            f"The resource with id {azure_id} has a different plan [{theirs}] than the parent gallery image plan "
            f"[{ours}]"
        )
    features = {item["name"]: item["value"] for item in parent.properties.get("features") or []}
    allowed = features.get("SecurityType", "Standard")
    security = ((sent.get("properties") or {}).get("securityProfile") or {}).get("securityType", "Standard")
    if allowed != security:
        raise _refused(f"The security type '{allowed}' is not supported for the source id '{azure_id}'.")


def _plan(found: dict[str, Any] | None) -> str:
    return json.dumps({key: found.get(key) for key in ("name", "publisher", "product")}) if found else "'null'"


def _refused(message: str) -> ArmError:
    return ArmError(400, "InvalidParameter", message)


@blueprint.post(VM)
def generalize(subscription: str, group: str, name: str) -> Response:
    """Mark a stopped virtual machine as generalised."""
    machine = lookup.machine(group, name)
    if machine.power_state not in ("deallocated", "stopped"):
        raise conflict(f"Operation 'generalize' is not allowed on VM '{machine.name}' since the VM is running.")
    machine.generalized = True
    machine.touch()
    return Response(b"", status=200)


def require_image(body: dict[str, Any], location: str) -> None:
    """Refuse a scale set's model with an image version that does not exist, or not in this region."""
    profile = (body.get("properties") or {}).get("virtualMachineProfile") or {}
    wanted = ((profile.get("storageProfile") or {}).get("imageReference") or {}).get("id")
    if not wanted or "/galleries/" not in str(wanted).lower():
        return
    found = context().model.galleries.version(str(wanted))
    if found is None or not found.in_region(location):
        raise ArmError(
            404, "GalleryImageNotFound", f"The gallery image {wanted} is not available in {location} region."
        )


def _encoded(version: Version, status: bool) -> bytes:
    return context().encode("gallery_image_version", galleries.payload(version, status))


def _nothing() -> None:
    """An operation that ends at once."""
