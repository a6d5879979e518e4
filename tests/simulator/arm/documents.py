# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource groups, and all resources that have no routes of their own."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response, request

from simulator import roles
from simulator.arm import lookup
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError, bad_parameter, group_not_found
from simulator.arm.longrunning import accepted
from simulator.arm.paging import page, query
from simulator.arm.provision import changes, rights, schema
from simulator.arm.provision.changes import Done
from simulator.arm.provision.kinds import id_of, kind_of
from simulator.arm.provision.targets import GROUPS, Target, target
from simulator.model import Listing
from simulator.resources import Document, Instance, Resource

blueprint = Blueprint("documents", __name__)
ALL = "/subscriptions/<subscription>/resourcegroups"
GROUP = f"{ALL}/<group>"
WRITES = ["PUT", "PATCH", "DELETE"]


def path() -> str:
    """The path as the client wrote it."""
    return str(request.environ["simulator.path"])


def body() -> Any:
    """The request's JSON, or None."""
    return request.get_json(silent=True)


def encode(payload: Any) -> bytes:
    """JSON."""
    return json.dumps(payload, separators=(",", ":")).encode()


def encode_item(item: Resource) -> bytes:
    """A resource as a GET returns it."""
    payload = changes.answer(context(), item)
    if context().options.only_published:
        payload = schema.published(kind_of(item), payload)
    return encode(payload)


def listed(items: list[Any]) -> Response:
    """A page of resources."""
    found, next_link = page(Listing(items), context().options.page_size)
    return many([encode_item(item) for item in found], next_link)


def answered(done: Done) -> Response:
    """The answer of a PUT or PATCH."""
    encoded = encode_item(done.item)
    code = 201 if done.created else 200
    if done.work is None:
        return one(encoded, code)
    provider = done.kind.name.partition("/")[0]
    what = f"write {done.item.name}"
    return accepted(what, done.item.location, done.work, encoded, status=code, final=False, provider=provider)


# Resource groups


def group_payload(item: Document) -> dict[str, Any]:
    """A resource group as a GET returns it."""
    return {
        "id": item.id,
        "name": item.name,
        "type": item.kind,
        "location": item.location,
        "tags": dict(item.tags),
        "properties": dict(item.properties),
    }


@blueprint.get(ALL)
def list_groups(subscription: str) -> Response:
    """All resource groups."""
    found, next_link = page(
        Listing(sorted(context().model.resource_groups.values(), key=lambda item: item.serial)),
        context().options.page_size,
    )
    return many([encode(group_payload(item)) for item in found], next_link)


@blueprint.route(GROUP, methods=["GET", "HEAD"])
def show_group(subscription: str, group: str) -> Response:
    """One resource group. HEAD answers 204 or 404."""
    found = context().model.resource_groups.get(group)
    if request.method == "HEAD":
        return Response(status=204 if found else 404)
    if found is None:
        raise group_not_found(group)
    return one(encode(group_payload(found)))


@blueprint.route(GROUP, methods=["PUT", "PATCH"])
def put_group(subscription: str, group: str) -> Response:
    """Make a resource group, or change its tags, which are replaced."""
    name, model = path().rstrip("/").rpartition("/")[2], context().model
    azure_id = f"/subscriptions/{model.subscription}/resourceGroups/{name}"
    found = model.resource_groups.get(group)
    if request.method == "PATCH":
        wanted = schema.cleaned(GROUPS, body())
        rights.check_action(context(), f"{GROUPS}/write", azure_id)
        if found is None:
            raise group_not_found(name)
        found.tags = dict(wanted.get("tags", found.tags))
        return one(encode(group_payload(found)))
    wanted = changes.check_group(context(), Target(azure_id, GROUPS, name, name, "", ""), body())
    if found is None:
        return one(encode(group_payload(model.add_group(name, wanted["location"], wanted.get("tags")))), 201)
    found.tags = dict(wanted.get("tags") or {})
    return one(encode(group_payload(found)))


@blueprint.delete(GROUP)
def delete_group(subscription: str, group: str) -> Response:
    """Delete a resource group with everything in it."""
    found = context().model.resource_groups.get(group)
    work = changes.delete_group(context(), group)
    return accepted(f"delete {group}", found.location if found else "", work, provider="Microsoft.Resources")


@blueprint.get("/subscriptions/<subscription>/resources")
@blueprint.get(f"{GROUP}/resources")
def list_resources(subscription: str, group: str | None = None) -> Response:
    """The resources of a group or of the subscription, without their properties."""
    lookup.group(group)
    found, next_link = page(Listing(_filtered(changes.resources(context(), group))), context().options.page_size)
    return many([encode(_brief(item)) for item in found], next_link)


def _filtered(items: list[Resource]) -> list[Resource]:
    """The resources that match $filter: resourceType eq, or tagName eq with tagValue eq."""
    text = query().get("$filter")
    for part in (text or "").split(" and "):
        key, found, value = part.strip().partition(" eq ")
        if not text:
            break
        value = value.strip().strip("'")
        if not found or key not in ("resourceType", "tagName", "tagValue"):
            raise bad_parameter("$filter", f"'{text}' is not supported: resourceType, tagName and tagValue with eq")
        if key == "resourceType":
            items = [item for item in items if kind_of(item).lower() == value.lower()]
        elif key == "tagName":
            items = [item for item in items if value in item.tags]
        else:
            items = [item for item in items if value in item.tags.values()]
    return items


def _brief(item: Resource) -> dict[str, Any]:
    whole = changes.answer(context(), item)
    keys = ("id", "name", "type", "location", "tags", "sku", "kind", "identity", "zones", "managedBy", "plan")
    return {key: whole[key] for key in keys if key in whole and (key != "tags" or whole[key])}


# Everything else


@blueprint.get("/subscriptions/<subscription>/<path:rest>")
def show(subscription: str, rest: str) -> Response:
    """One resource, or a list of a type's resources in a group, in a resource, or in the subscription."""
    place = target(path(), changes.NAMES)
    if place is None:
        return _list()
    if place.group:
        lookup.group(place.group)
    item = changes.kind(place.kind).find(context(), place)
    if item is None:
        raise changes.not_found(place)
    return one(encode_item(item))


def _list() -> Response:
    """The resources of the type at the end of the path."""
    text = path().rstrip("/")
    probe = target(f"{text}/x", changes.NAMES)
    if probe is None or probe.kind == GROUPS:
        raise ArmError(404, "InvalidResourceType", f"The resource type could not be found: {text}")
    lookup.group(probe.group or None)
    if probe.parent and changes.find(context(), probe.parent) is None:
        raise ArmError(404, "ParentResourceNotFound", f"The parent resource '{probe.parent}' could not be found.")
    kind = changes.kind(probe.kind)
    if kind.embedded:
        parent = context().model.documents.get(probe.parent)
        assert parent is not None
        names = [item["name"] for item in parent.properties.get(kind.embedded) or []]
        found = [kind.find(context(), target(f"{text}/{name}", changes.NAMES) or probe) for name in names]
        return many([encode_item(item) for item in found if item is not None], None)
    items = [
        item
        for item in context().model.documents.of(probe.kind)
        if (not probe.group or item.resource_group.lower() == probe.group.lower())
        and (not probe.parent or item.id.lower().rpartition("/")[0] == text.lower())
    ]
    return listed(items)


@blueprint.route("/subscriptions/<subscription>/<path:rest>", methods=WRITES)
def write(subscription: str, rest: str) -> Response:
    """Make, change or delete a resource."""
    place = target(path(), changes.NAMES)
    if place is None:
        raise ArmError(405, "HttpMethodNotAllowed", f"The resource does not support http method '{request.method}'.")
    return write_at(place)


def write_at(place: Target) -> Response:
    """Carry out a request for one resource."""
    if request.method == "DELETE":
        if place.group and place.group.lower() not in context().model.resource_groups:
            raise group_not_found(place.group)
        existing = changes.kind(place.kind).find(context(), place)
        if existing is None:
            return Response(status=204)
        work = changes.delete(context(), place)
        if work is None:
            gone = place.kind in (roles.ASSIGNMENTS, roles.DEFINITIONS)
            return one(encode_item(existing)) if gone else Response(status=200)
        provider = place.kind.partition("/")[0]
        return accepted(f"delete {place.name}", existing.location, work, provider=provider)
    if request.method == "PATCH":
        return answered(changes.patch(context(), place, body()))
    return answered(changes.put(context(), place, body(), query()["api-version"]))


TAGS = "/providers/microsoft.resources/tags/default"


@blueprint.route(f"/subscriptions/<subscription>/<path:rest>{TAGS}", methods=["GET", *WRITES])
def tags(subscription: str, rest: str) -> Response:
    """The tags of a resource or group. PATCH merges, replaces or deletes some, as its ``operation`` says."""
    scope = path()[: -len(TAGS)] if path().lower().endswith(TAGS) else path()
    item = changes.find(context(), scope)
    if item is None:
        raise ArmError(404, "ResourceNotFound", f"The Resource '{scope}' was not found.")
    given: dict[str, str] = ((body() or {}).get("properties") or {}).get("tags") or {}
    operation = (body() or {}).get("operation", "") if request.method == "PATCH" else request.method
    if request.method != "GET":
        rights.check_locks(context(), scope, "Microsoft.Resources/tags", deletes=False)
    with context().model.lock:
        if operation in ("Replace", "PUT"):
            item.tags = dict(given)
        elif operation == "Merge":
            item.tags = dict(item.tags) | given
        elif operation == "Delete":
            item.tags = {key: value for key, value in item.tags.items() if given.get(key) != value}
        elif operation == "DELETE":
            item.tags = {}
        elif operation != "GET":
            raise bad_parameter("operation", f"{operation!r} is not Merge, Replace or Delete")
        if isinstance(item, Instance):
            item.touch()
    own = id_of(item) + "/providers/Microsoft.Resources/tags/default"
    payload = {"id": own, "name": "default", "type": "Microsoft.Resources/tags", "properties": {"tags": item.tags}}
    return one(encode(payload))
