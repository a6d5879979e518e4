# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the filters left out, for the user of a source without hosts: a typing error is seen beside the real value."""

from __future__ import annotations

from collections.abc import Mapping

from .answer import Answer
from .selection import NONE, TAGGED, Selection
from .tags import tag_value

_MOST_VALUES = 10
_NO_TAG = "(no such tag)"


class Seen:
    """The values of each filter's field that Azure has, whether they matched or not."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._values: dict[str, set[str]] = {}

    def scale_set(self, name: str, location: str | None, tags: Mapping[str, str]) -> None:
        """Note a scale set."""
        if self._selection.scale_sets:
            self._add("scale_sets", name)
        self._common(location, tags)

    def machine(self, location: str | None, tags: Mapping[str, str]) -> None:
        """Note a stand-alone VM, or an instance with tags of its own."""
        if self._selection.include_vms == TAGGED:
            self._add(f"tag {self._selection.role_tag}", tag_value(tags, self._selection.role_tag))
        self._common(location, tags)

    def values(self) -> dict[str, list[str]]:
        """Return the first few values of each field, in order."""
        return {field: sorted(values)[:_MOST_VALUES] for field, values in sorted(self._values.items())}

    def _common(self, location: str | None, tags: Mapping[str, str]) -> None:
        if self._selection.locations:
            self._add("locations", location)
        for name in self._selection.tags:
            self._add(f"tag {name}", tag_value(tags, name))

    def _add(self, field: str, value: str | None) -> None:
        self._values.setdefault(field, set()).add(_NO_TAG if value is None else value)


def explain_no_hosts(selection: Selection, answer: Answer) -> str:
    """Return why a source brings no host, with the values that Azure has."""
    seen = answer.get("seen", {})
    if answer["instances"]:
        why = f"Azure has {len(answer['instances'])} such instances, but the option query leaves out all of them."
    elif answer["scale_sets"]:
        why = f"These scale sets have no instance: {', '.join(item['name'] for item in answer['scale_sets'])}."
    elif seen:
        found = "; ".join(f"{field}: {', '.join(values)}" for field, values in seen.items())
        why = f"The options leave out everything that Azure has. Values found there: {found}."
    else:
        groups = ", ".join(selection.resource_groups)
        where = f"Resource groups {groups} of subscriptions" if groups else "Subscriptions"
        kinds = "no scale set" if selection.include_vms == NONE else "no scale set and no stand-alone VM"
        why = f"{where} {', '.join(selection.subscription_ids)} hold {kinds} that this identity may see."
    hint = " Stand-alone VMs are not listed: include_vms is none." if selection.include_vms == NONE else ""
    return f"no host was found. {why}{hint}"
