# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a subscription may have: quotas, sold sizes, images, rights, policies, registered providers, reserved names.

A scenario sets them below ``limits``, a test on ``Simulator.limits``, and ``PATCH /_simulator/limits`` while it runs.
The defaults allow everything. ``limits.json`` is the catalog of sizes and images; its numbers are Azure's published
ones, its families and quotas are examples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from simulator.scenario import Scenario, ScenarioError

CATALOG: dict[str, Any] = json.loads(Path(__file__).with_name("limits.json").read_text(encoding="utf-8"))
ALL_RIGHTS = {"actions": ["*"], "notActions": [], "dataActions": [], "notDataActions": []}


@dataclass
class Limits:
    """The limits of one subscription. All names are compared without case."""

    quotas: dict[str, Any] = field(default_factory=dict)
    """Limits by name of the usage (a family, ``cores``, ``lowPriorityCores`` ...). Others have ``quota``."""
    quota: int = 1_000_000
    """The limit of every usage that ``quotas`` does not name."""
    used: dict[str, int] = field(default_factory=dict)
    """Cores that other users of the subscription have, by name of the usage."""
    sizes: list[dict[str, Any]] = field(default_factory=lambda: list(CATALOG["sizes"]))
    """The sizes that Azure has. ``cached_gib`` and ``temp_gib`` limit ephemeral system disks; ``several_groups`` says
    that a set cannot have a single placement group."""
    restrictions: list[dict[str, Any]] = field(default_factory=list)
    """``{"size": ..., "type": "Location" or "Zone", "zones": [...], "reason": "NotAvailableForSubscription"}``"""
    images: list[dict[str, Any]] = field(default_factory=lambda: list(CATALOG["images"]))
    """``{"publisher", "offer", "sku", "versions", "generation", "plan"}``; ``plan`` is absent or name and product."""
    accepted: list[str] = field(default_factory=list)
    """Plans whose terms are accepted, as publisher/product/name."""
    permissions: list[dict[str, Any]] = field(default_factory=lambda: [dict(ALL_RIGHTS)])
    """The rights of whoever has the token, in the format of Microsoft.Authorization/permissions. One with the key
    ``scope`` applies to this resource, group or subscription and what is in it, the others everywhere."""
    policies: list[dict[str, Any]] = field(default_factory=list)
    """``{"name": ..., "type": a type that is denied, "path": ..., "value": ...}``. With a dotted path in the resource
    only if that has the value; absent counts as null."""
    unregistered: list[str] = field(default_factory=list)
    """Resource providers that the subscription is not registered for."""
    deleted_vaults: list[str] = field(default_factory=list)
    """Names of soft-deleted key vaults of others, which block the name."""
    foreign_names: list[str] = field(default_factory=list)
    """Names of key vaults and storage accounts that others have."""
    prices: list[dict[str, Any]] = field(default_factory=list)
    """List prices, with the fields of the Retail Prices API; ``arm/prices.py`` has the defaults."""
    caller_address: str = "198.51.100.7"
    """The public address from which the client reaches storage accounts."""
    added_identities: list[str] = field(default_factory=list)
    """Identities that a policy with the effect Modify adds to machines and scale sets whenever they are made or
    changed: ``SystemAssigned``, or ids of user-assigned ones. Azure has such policies for its agents."""
    nic_reserved_s: float = 0
    """How long an interface stays reserved for a machine that was deleted, or whose creation failed in a deployment;
    180 in Azure."""
    role_delay_s: float = 0
    """How long a role assignment, a new role or a new identity needs until it takes effect."""
    role_flap_s: float = 0
    """For how long after that the first and then each seventh check of it still meets a server that does not know
    it."""

    @classmethod
    def of(cls, scenario: Scenario) -> Limits:
        """The limits of a scenario."""
        limits = cls()
        limits.change(scenario.limits)
        return limits

    def change(self, wanted: Mapping[str, Any]) -> None:
        """Set several limits. Raises ScenarioError for an unknown one or a wrong type."""
        known = {item.name for item in fields(self)}
        for key, value in wanted.items():
            if key not in known:
                raise ScenarioError(f"limits: unknown key {key!r}; known are {', '.join(sorted(known))}")
            seconds = ("nic_reserved_s", "role_delay_s", "role_flap_s")
            kind = (int, float) if key in ("quota", *seconds) else type(getattr(self, key))
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ScenarioError(f"limits.{key} must not be {value!r}")
        for key, value in wanted.items():
            setattr(self, key, value)

    def size(self, name: str) -> dict[str, Any] | None:
        """The size with this name."""
        return next((item for item in self.sizes if item["name"].lower() == name.lower()), None)

    def limit(self, usage: str) -> Any:
        """The limit of a usage."""
        wanted = fold(usage)
        return next((value for name, value in self.quotas.items() if fold(name) == wanted), self.quota)

    def restricted(self, size: str) -> list[dict[str, Any]]:
        """The restrictions of a size."""
        return [item for item in self.restrictions if item["size"].lower() == size.lower()]

    def image(self, publisher: str, offer: str, sku: str) -> dict[str, Any] | None:
        """A publisher's image."""
        wanted = (publisher.lower(), offer.lower(), sku.lower())
        for item in self.images:
            if (item["publisher"].lower(), item["offer"].lower(), item["sku"].lower()) == wanted:
                return item
        return None


def reservable(size: Mapping[str, Any]) -> bool:
    """Whether capacity of a size can be reserved. The overview of reservations excludes all sizes with InfiniBand."""
    return bool(size.get("reservable", not size.get("rdma")))


def fold(name: str) -> str:
    """The name of a usage or family without blanks and case, in which Azure's lists differ."""
    return name.replace(" ", "").lower()
