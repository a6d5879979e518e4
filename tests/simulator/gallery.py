# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute Galleries: image definitions and versions, and their replication to regions."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulator.operations import OperationFailed
from simulator.resources import now

STEPS = (25, 60, 100)
"""Progress of a region's replication, in percent."""
STEP_S = 0.02


def folded(region: str) -> str:
    """A region's name as Azure compares it: ``South Central US`` is southcentralus."""
    return region.replace(" ", "").lower()


@dataclass(eq=False)
class Version:
    """An image version.

    :ivar progress: percent per target region, by the region's name as the request spelled it.
    """

    id: str
    name: str
    location: str
    tags: dict[str, str]
    source: dict[str, Any]
    regions: list[dict[str, Any]]
    progress: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    provisioning_state: str = "Creating"
    created: datetime = field(default_factory=now)

    def in_region(self, region: str) -> bool:
        """Whether machines of this region can be made from it."""
        return any(folded(name) == folded(region) and done == 100 for name, done in self.progress.items())


@dataclass(eq=False)
class Definition:
    """An image definition: the properties that all of its versions have."""

    id: str
    name: str
    location: str
    properties: dict[str, Any]
    versions: dict[str, Version] = field(default_factory=dict)


@dataclass(eq=False)
class Gallery:
    """A gallery with its image definitions, by lower-case name."""

    id: str
    name: str
    location: str
    tags: dict[str, str]
    definitions: dict[str, Definition] = field(default_factory=dict)


class Galleries:
    """All galleries, by lower-case id, and how their replication fails."""

    def __init__(self) -> None:
        self.by_id: dict[str, Gallery] = {}
        self.failing: dict[str, str] = {}
        """Regions whose replication fails, with Azure's words."""
        self.stuck: set[str] = set()
        """Regions whose replication stays at its first step until they are taken out of this set."""
        self._lock = threading.Lock()

    def version(self, version_id: str) -> Version | None:
        """The version with this id, in any case."""
        words = version_id.lower().rstrip("/").split("/")
        gallery = self.by_id.get("/".join(words[:-4]))
        definition = gallery.definitions.get(words[-3]) if gallery is not None and len(words) > 4 else None
        return definition.versions.get(words[-1]) if definition is not None else None

    def replicate(self, version: Version) -> None:
        """Copy a version to its target regions. This is the work of an operation."""
        wanted = [str(region["name"]) for region in version.regions]
        with self._lock:
            version.progress = {name: version.progress.get(name, 0) for name in wanted}
            version.failed = {}
        for done in STEPS:
            for name in wanted:
                self._advance(version, name, done)
            threading.Event().wait(STEP_S)
        while any(version.progress[name] < 100 for name in wanted if name not in version.failed):
            threading.Event().wait(STEP_S)
            for name in wanted:
                self._advance(version, name, 100)
        version.provisioning_state = "Failed" if version.failed else "Succeeded"
        if version.failed:
            raise OperationFailed("ReplicationFailed", "; ".join(version.failed.values()))

    def _advance(self, version: Version, name: str, done: int) -> None:
        region = folded(name)
        if region in self.failing:
            version.failed[name] = self.failing[region]
        elif region not in self.stuck or done == STEPS[0]:
            version.progress[name] = max(version.progress[name], done)


def payload(version: Version, status: bool) -> dict[str, Any]:
    """A version in Resource Manager's format, with the replication status if the request asks for it."""
    properties: dict[str, Any] = {
        "publishingProfile": {
            "targetRegions": [
                {"regionalReplicaCount": 1, "storageAccountType": "Standard_LRS", "excludeFromLatest": False, **region}
                for region in version.regions
            ],
            "replicaCount": 1,
            "publishedDate": version.created.isoformat(),
            "storageAccountType": "Standard_LRS",
        },
        "storageProfile": {"source": version.source, "osDiskImage": {"sizeInGB": 64, "hostCaching": "ReadWrite"}},
        "safetyProfile": {"allowDeletionOfReplicatedLocations": False},
        "provisioningState": version.provisioning_state,
    }
    if status:
        properties["replicationStatus"] = {"aggregatedState": _aggregated(version), "summary": _summary(version)}
    body = {"id": version.id, "name": version.name, "location": version.location, "properties": properties}
    return {**body, "tags": dict(version.tags)} if version.tags else body


def _aggregated(version: Version) -> str:
    if version.failed:
        return "Failed"
    return "Completed" if version.provisioning_state == "Succeeded" else "InProgress"


def _summary(version: Version) -> list[dict[str, Any]]:
    return [
        {
            "region": name,
            "state": "Failed" if name in version.failed else "Completed" if done == 100 else "Replicating",
            "details": version.failed.get(name, ""),
            "progress": done,
        }
        for name, done in version.progress.items()
    ]
