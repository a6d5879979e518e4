# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which resources a source selects by names and filters, and why it found no hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypedDict

from . import resources as tagging
from .facts import InstanceFacts, Listing, ScaleSetFacts
from .resources import name_of, resource_group_of, subscription_of, tag_value


class Scope(TypedDict):
    """Resources that a source names: subscriptions, resource groups in them, and scale sets as GROUP/NAME."""

    subscription_ids: list[str]
    resource_groups: list[str]
    scale_sets: list[str]


def make_scope(subscription_ids: Iterable[str], resource_groups: Iterable[str], scale_sets: Iterable[str]) -> Scope:
    """Return the scope of a source's options.

    A scale set without its group is ignored, because anybody who can create a resource group can create a set of that
    name.
    """
    return {
        "subscription_ids": list(subscription_ids),
        "resource_groups": list(resource_groups),
        "scale_sets": [pattern for pattern in scale_sets if "/" in pattern],
    }


def is_limited(scope: Scope) -> bool:
    """Say whether a scope is smaller than entire subscriptions."""
    return bool(scope["resource_groups"] or scope["scale_sets"])


def covers(scope: Scope, host: Mapping[str, str | None]) -> bool:
    """Say whether a host is in a resource group or scale set of the scope, according to its ids in Azure."""
    azure_id = host.get("azure_id")
    if (subscription_of(azure_id) or "").lower() not in [item.lower() for item in scope["subscription_ids"]]:
        return False
    if (resource_group_of(azure_id) or "").lower() in [group.lower() for group in scope["resource_groups"]]:
        return True
    vmss_id = host.get("azure_vmss_id")
    return bool(vmss_id) and is_named(str(resource_group_of(vmss_id)), name_of(str(vmss_id)), scope["scale_sets"])


def is_named(resource_group: str, name: str, patterns: Iterable[str]) -> bool:
    """Say whether a scale set matches one of the patterns NAME or GROUP/NAME. Only NAME may contain wildcards."""
    for pattern in patterns:
        group, slash, name_pattern = pattern.lower().rpartition("/")
        if fnmatchcase(name.lower(), name_pattern) and (not slash or group == resource_group.lower()):
            return True
    return False


NONE = "none"
TAGGED = "tagged"
ALL = "all"


@dataclass(frozen=True)
class Selection:
    """What to list. The selection is part of the cache key, because equal selections of one identity get equal answers.

    :ivar scale_sets: NAME or GROUP/NAME, case is ignored. NAME may be a glob. Empty means all.
    :ivar include_vms: stand-alone VMs: none, those with the role tag, or all.
    """

    subscription_ids: tuple[str, ...]
    resource_groups: tuple[str, ...] = ()
    scale_sets: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    tags: tagging.TagFilter = field(default_factory=dict)
    include_vms: str = NONE
    role_tag: str = "hpcai_role"
    public_addresses: bool = False
    virtual_networks: bool = True

    def wants_scale_set(self, scale_set: ScaleSetFacts) -> bool:
        """Say whether to list the instances of a scale set."""
        if self.scale_sets and not is_named(scale_set["resource_group"], scale_set["name"], self.scale_sets):
            return False
        return self._in_locations(scale_set["location"]) and tagging.tags_match(scale_set["tags"], self.tags)

    def wants_stand_alone(self, facts: InstanceFacts) -> bool:
        """Say whether a stand-alone VM is selected."""
        if self.include_vms == NONE or not self._in_locations(facts["azure_location"]):
            return False
        if self.include_vms == TAGGED and not tagging.roles_of(facts["azure_tags"], self.role_tag):
            return False
        return tagging.tags_match(facts["azure_tags"], self.tags)

    def wants_instance(self, facts: InstanceFacts) -> bool:
        """Say whether an instance of a selected scale set is selected. Its own tags may exclude it."""
        return tagging.tags_match(facts["azure_tags"], self.tags)

    def _in_locations(self, location: str | None) -> bool:
        if not self.locations:
            return True
        return location in [item.replace(" ", "").lower() for item in self.locations]


_MOST_VALUES = 10
_NO_TAG = "(no such tag)"


class FilterValues:
    """The values that exist in Azure for each filter, whether they matched or not."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._values: dict[str, set[str]] = {}

    def scale_set(self, name: str, location: str | None, tags: Mapping[str, str]) -> None:
        """Record a scale set."""
        if self._selection.scale_sets:
            self._add("scale_sets", name)
        self._common(location, tags)

    def machine(self, location: str | None, tags: Mapping[str, str]) -> None:
        """Record a stand-alone VM, or an instance with its own tags."""
        if self._selection.include_vms == TAGGED:
            self._add(f"tag {self._selection.role_tag}", tag_value(tags, self._selection.role_tag))
        self._common(location, tags)

    def values(self) -> dict[str, list[str]]:
        """Return the first few values of each filter, in order."""
        return {field: sorted(values)[:_MOST_VALUES] for field, values in sorted(self._values.items())}

    def _common(self, location: str | None, tags: Mapping[str, str]) -> None:
        if self._selection.locations:
            self._add("locations", location)
        for name in self._selection.tags:
            self._add(f"tag {name}", tag_value(tags, name))

    def _add(self, field: str, value: str | None) -> None:
        self._values.setdefault(field, set()).add(_NO_TAG if value is None else value)


def explain_no_hosts(selection: Selection, answer: Listing) -> str:
    """Return why a source has no hosts, with the values that exist in Azure."""
    filter_values = answer.get("seen", {})
    if answer["instances"]:
        why = f"Azure has {len(answer['instances'])} such instances, but the option query excludes all of them."
    elif answer["scale_sets"]:
        why = f"These scale sets have no instance: {', '.join(item['name'] for item in answer['scale_sets'])}."
    elif filter_values:
        found = "; ".join(f"{field}: {', '.join(values)}" for field, values in filter_values.items())
        why = f"The options exclude everything that exists in Azure. Values found there: {found}."
    else:
        groups = ", ".join(selection.resource_groups)
        where = f"Resource groups {groups} of subscriptions" if groups else "Subscriptions"
        kinds = "no scale set" if selection.include_vms == NONE else "no scale set and no stand-alone VM"
        why = f"{where} {', '.join(selection.subscription_ids)} contain {kinds} that this identity can read."
    hint = " Stand-alone VMs are not listed, because of include_vms: none." if selection.include_vms == NONE else ""
    return f"no host was found. {why}{hint}"
