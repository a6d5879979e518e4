# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ownership of resources: the tag on each, and the record of those that the stack made. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._azure.resources import tag_value
from .model import TAG, Stack
from .resource import GROUP, UNIQUE, UNTAGGED, Resource, admitted

SCHEMA = 1
"""Version of the record."""
OUTPUT = "record"
"""The output of the record's deployment."""


@dataclass(frozen=True)
class Record:
    """What the stack made. It is the output of a deployment without resources in the stack's group.

    :ivar owner: the value of the tag.
    :ivar resources: the made resources: for machines the id that their successor of the same name does not have, else
        an empty text, by resource id.
    :ivar admitted: the public ranges that the stack admits to vault and storage account, by lower-case resource id.
        Other ranges were added by hand.
    """

    owner: str
    resources: Mapping[str, str] = field(default_factory=dict)
    admitted: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def has(self, resource_id: str) -> bool:
        """Say whether the stack made a resource."""
        return resource_id.lower() in {key.lower() for key in self.resources}

    def unique(self, resource_id: str) -> str:
        """Return the recorded id of a machine, or an empty text."""
        return next((value for key, value in self.resources.items() if key.lower() == resource_id.lower()), "")

    def ranges(self, resource_id: str) -> frozenset[str]:
        """Return the public ranges that the stack has admitted to a resource."""
        return self.admitted.get(resource_id.lower(), frozenset())

    def as_output(self) -> dict[str, Any]:
        """Return it as the outputs of a template."""
        content = {"schema": SCHEMA, "stack": self.owner, "resources": dict(sorted(self.resources.items()))}
        if self.admitted:
            # Older releases ignore it, and older records have none.
            content["admitted"] = {key: sorted(value) for key, value in sorted(self.admitted.items())}
        return {OUTPUT: {"type": "object", "value": content}}


def record_from(deployment: Mapping[str, Any] | None, owner: str) -> Record | None:
    """Return the record in a deployment; None if it has none of this stack.

    :raises ValueError: a newer release of the collection wrote it.
    """
    outputs = ((deployment or {}).get("properties") or {}).get("outputs") or {}
    content = (outputs.get(OUTPUT) or {}).get("value") or {}
    if content.get("stack") != owner:
        return None
    if content.get("schema") != SCHEMA:
        raise ValueError(
            f"the record of the stack has schema {content.get('schema')}, and this release reads {SCHEMA}: upgrade the "
            "collection."
        )
    ranges = {key: frozenset(value) for key, value in (content.get("admitted") or {}).items()}
    return Record(owner, dict(content.get("resources") or {}), ranges)


def next_record(
    stack: Stack, before: Record | None, resources: Iterable[Resource], found: Mapping[str, Any], made: frozenset[str]
) -> Record:
    """Return the record after a run.

    A machine keeps its recorded id unless this run made it: otherwise somebody else's machine would become ours.

    :param found: what Azure has after the run, by lower-case id.
    :param made: lower-case ids of the resources that this run made.
    """
    known = dict(before.resources) if before else {}
    ranges = dict(before.admitted) if before else {}
    spelt = {key.lower(): key for key in known}
    for one in resources:
        there = found.get(one.id.lower())
        if one.adopted or there is None:
            continue
        # A range whose removal failed is still ours.
        ranges[one.id.lower()] = one.admits | (ranges.get(one.id.lower(), frozenset()) & admitted(there))
        if before and before.has(one.id) and one.id.lower() not in made:
            continue
        known.pop(spelt.get(one.id.lower(), ""), None)
        known[one.id] = unique_of(one.kind, there)
    return Record(stack.owner, known, {key: value for key, value in ranges.items() if value})


def unique_of(kind: str, found: Mapping[str, Any]) -> str:
    """Return the id of a machine that its successor does not have; an empty text for other resources."""
    return str((found.get("properties") or {}).get(UNIQUE[kind], "")) if kind in UNIQUE else ""


def owner_of(found: Mapping[str, Any]) -> str | None:
    """Return the value of the stack's tag, or None."""
    return tag_value({str(key): str(value) for key, value in (found.get("tags") or {}).items()}, TAG)


def why_foreign(resource: Resource, found: Mapping[str, Any], owner: str, record: Record | None) -> str:
    """Return why an existing resource does not belong to the stack; an empty text if it does."""
    if resource.kind in UNTAGGED:
        return ""
    tag = owner_of(found)
    if tag == owner:
        return ""
    recorded = tag is None and record is not None and record.has(resource.id)
    # If its tag was removed, only the recorded id proves that a machine is not a successor of the same name.
    if recorded and record and record.unique(resource.id).lower() == unique_of(resource.kind, found).lower():
        return ""
    has = f"its tag {TAG} is {tag}" if tag else f"it has no tag {TAG}"
    advice = "Give hpcai_stack another name" if resource.kind != GROUP else "Name another group"
    return (
        f"{resource.label} exists, and is not of this stack: {has}, not {owner}. {advice}, adopt it by its id if "
        "hpcai_stack can, or remove it."
    )
