# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which scale sets and stand-alone VMs are wanted, decided before their instances are listed."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import tags as tagging
from .instance_facts import InstanceFacts
from .scale_set_facts import ScaleSetFacts
from .scope import is_named

NONE = "none"
TAGGED = "tagged"
ALL = "all"


@dataclass(frozen=True)
class Selection:
    """What to list. Two equal selections of one identity get equal answers, so an answer is cached under its selection.

    :ivar scale_sets: NAME or GROUP/NAME, without case; NAME may be a glob; none means all.
    :ivar include_vms: stand-alone VMs: none, those that carry the role tag, or all.
    """

    subscription_ids: tuple[str, ...]
    resource_groups: tuple[str, ...] = ()
    scale_sets: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    tags: tagging.Wanted = field(default_factory=dict)
    include_vms: str = NONE
    role_tag: str = "hpcai_role"
    public_addresses: bool = False
    virtual_networks: bool = True

    def wants_scale_set(self, scale_set: ScaleSetFacts) -> bool:
        """Say whether the instances of a scale set are to be listed."""
        if self.scale_sets and not is_named(scale_set["resource_group"], scale_set["name"], self.scale_sets):
            return False
        return self._in_locations(scale_set["location"]) and tagging.matches(scale_set["tags"], self.tags)

    def wants_stand_alone(self, facts: InstanceFacts) -> bool:
        """Say whether a stand-alone VM is wanted."""
        if self.include_vms == NONE or not self._in_locations(facts["azure_location"]):
            return False
        if self.include_vms == TAGGED and not tagging.roles_of(facts["azure_tags"], self.role_tag):
            return False
        return tagging.matches(facts["azure_tags"], self.tags)

    def wants_instance(self, facts: InstanceFacts) -> bool:
        """Say whether an instance of a wanted scale set is wanted: its own tags may take it out."""
        return tagging.matches(facts["azure_tags"], self.tags)

    def _in_locations(self, location: str | None) -> bool:
        if not self.locations:
            return True
        return location in [wanted.replace(" ", "").lower() for wanted in self.locations]
