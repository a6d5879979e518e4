# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all types of resources have in common, and the steps that a type may change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from simulator.arm.context import Context
from simulator.arm.errors import ArmError
from simulator.arm.provision.targets import Target
from simulator.effects import Work
from simulator.resources import Document, Instance, Resource, ScaleSet


@dataclass
class Change:
    """A PUT of one resource, alone or in a deployment."""

    state: Context
    target: Target
    body: dict[str, Any]
    """The request without null and read-only fields."""
    existing: Resource | None
    planned: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For a validation: the bodies of the deployment's other resources, by lower-case id."""
    cores: dict[str, int] = field(default_factory=dict)
    """For a validation: the cores that the deployment's other resources need, by name of the usage."""

    version: str = ""
    """The api-version."""
    before: dict[str, Any] = field(default_factory=dict)
    """The body of the existing document."""

    def __post_init__(self) -> None:
        if isinstance(self.existing, Document):
            self.before = copy.deepcopy(self.existing.body)

    @property
    def properties(self) -> dict[str, Any]:
        """The properties in the request."""
        found: dict[str, Any] = self.body.get("properties") or {}
        return found

    @property
    def dry(self) -> bool:
        """Whether this is a validation."""
        return bool(self.planned)

    def resource(self, azure_id: str) -> dict[str, Any] | None:
        """The body of an existing or planned resource."""
        wanted = azure_id.lower()
        if wanted in self.planned:
            return self.planned[wanted]
        parent, _slash, name = wanted.rpartition("/")
        parent, _slash, key = parent.rpartition("/")
        for item in ((self.planned.get(parent) or {}).get("properties") or {}).get(key) or []:
            if str(item.get("name")).lower() == name:
                found: dict[str, Any] = item
                return found
        return body_of(self.state, azure_id)

    def need(self, azure_id: Any, what: str) -> dict[str, Any]:
        """The body of a resource that the request refers to. Raises ArmError if there is none."""
        found = self.resource(azure_id) if isinstance(azure_id, str) else None
        if found is None:
            raise ArmError(
                400,
                "InvalidResourceReference",
                f"Resource {azure_id} referenced by resource {self.target.id} was not found ({what}). Please make sure "
                "that the referenced resource exists, and that both resources are in the same region.",
            )
        return found

    def missing(self, path: str) -> ArmError:
        """The error for a required field that the request does not have."""
        return ArmError(400, "InvalidParameter", f"Required parameter '{path}' is missing (null).")

    def immutable(self, path: str) -> ArmError:
        """The error for a field that cannot be changed."""
        return ArmError(409, "PropertyChangeNotAllowed", f"Changing property '{path}' is not allowed.")


class Kind:
    """A type of resource. Subclasses add what is special."""

    located = True
    """Whether it has a location of its own, and tags."""
    typed = True
    """Whether answers have its type."""
    embedded = ""
    """The list in the parent's properties that holds resources of this type."""
    preflight = True
    """Whether the validation of a deployment checks it beyond rights, policies and locks."""
    asynchronous = False
    """Whether making one takes time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find(self, state: Context, target: Target) -> Resource | None:
        """The existing resource."""
        return state.model.documents.get(target.id)

    def check(self, change: Change) -> None:
        """Raise ArmError if the request cannot be carried out."""

    def make(self, change: Change) -> Work | None:
        """Carry out a checked request. Returns the part that takes time."""
        document = self.store(change)
        self.settle(change, document)
        return None

    def settle(self, change: Change, document: Document) -> None:
        """Add to a stored document what the service adds."""
        document.properties["provisioningState"] = "Succeeded"

    def store(self, change: Change) -> Document:
        """Store the request as the resource's document. Everything that it does not contain is gone."""
        model, target = change.state.model, change.target
        body = copy.deepcopy(change.body)
        location, tags = str(body.pop("location", "")), body.pop("tags", None) or {}
        for key in ("id", "name", "type", "etag", "systemData"):
            body.pop(key, None)
        document = model.documents.get(target.id)
        if document is None:
            document = Document(
                subscription=model.subscription,
                resource_group=target.group,
                name=target.name,
                location=location,
                tags={},
                serial=model.next_serial(),
                kind=target.kind,
                id=target.id,
                body={},
            )
            model.documents.add(document)
        document.body, document.tags = body, tags
        return document

    def removable(self, state: Context, item: Resource) -> None:
        """Raise ArmError if the resource cannot be deleted now."""

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Delete the resource. Returns the part that takes time."""
        state.model.documents.remove(id_of(item))
        return None

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The resource as a GET returns it."""
        assert isinstance(item, Document)
        answer: dict[str, Any] = {"id": item.id, "name": item.name}
        if self.typed:
            answer["type"] = item.kind
        if self.located:
            answer["location"] = item.location
        if item.tags:
            answer["tags"] = dict(item.tags)
        return answer | copy.deepcopy(item.body)


def id_of(item: Resource) -> str:
    """The id of a resource."""
    assert isinstance(item, Document | Instance | ScaleSet)
    return item.id


def kind_of(item: Resource) -> str:
    """The type of a resource."""
    if isinstance(item, Document):
        return item.kind
    return (
        "Microsoft.Compute/virtualMachineScaleSets"
        if isinstance(item, ScaleSet)
        else ("Microsoft.Compute/virtualMachines")
    )


def body_of(state: Context, azure_id: str) -> dict[str, Any] | None:
    """The body of an existing resource, or of a resource that is embedded in one."""
    model, wanted = state.model, azure_id.lower().rstrip("/")
    document = model.documents.get(wanted)
    if document is not None:
        return document.body | {"location": document.location}
    machine = model.machines.get(wanted)
    if machine is not None or wanted in model.scale_sets:
        return {}
    parent, _slash, name = wanted.rpartition("/")
    parent, _slash, kind = parent.rpartition("/")
    above = model.documents.get(parent)
    for item in (above.properties.get(kind) or []) if above is not None else []:
        if item["name"].lower() == name:
            found: dict[str, Any] = item
            return found
    return None


def references(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The ids of other resources in a body, with their dotted paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "id" and isinstance(item, str) and item.lower().startswith("/subscriptions/"):
                yield path, item
            else:
                yield from references(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from references(item, path)


def users(state: Context, azure_id: str) -> list[str]:
    """The ids of the documents, machines and scale sets that refer to a resource or to something below it.

    Network rules of storage accounts and key vaults do not count: Azure lets a subnet in them be deleted.
    """
    wanted = azure_id.lower()
    found: list[str] = []
    for item in [*state.model.documents, *state.model.machines.values(), *state.model.scale_sets.values()]:
        own = id_of(item)
        if f"{own.lower()}/".startswith(f"{wanted}/") or wanted.startswith(f"{own.lower()}/"):
            continue
        if isinstance(item, Document):
            content: Any = item.body
        else:
            content = [item.sent or {}, item.profile if isinstance(item, ScaleSet) else {}]
            if item.subnet.id.lower() == wanted or item.subnet.id.lower().startswith(wanted + "/"):
                found.append(own)
                continue
        if any(
            (other.lower() == wanted or other.lower().startswith(wanted + "/")) and ".networkAcls." not in path
            for path, other in references(content)
        ):
            found.append(own)
    return found
