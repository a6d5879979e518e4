# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tags of instances: whose count, what roles they name, whether they match. Azure compares tag names without case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Wanted = Mapping[str, Sequence[str] | None]


def effective_tags(own: Mapping[str, str] | None, scale_set: Mapping[str, str] | None) -> dict[str, str]:
    """Return the tags of an instance: its own, and the scale set's where it has none of that name."""
    tags = {str(name): "" if value is None else str(value) for name, value in (own or {}).items()}
    if scale_set:
        taken = {name.lower() for name in tags}
        for name, value in scale_set.items():
            if name.lower() not in taken:
                tags[name] = value
    return tags


def tag_value(tags: Mapping[str, str], name: str) -> str | None:
    """Return the value of a tag, or None."""
    if name in tags:
        return tags[name]
    lowered = name.lower()
    return next((value for key, value in tags.items() if key.lower() == lowered), None)


def matches(tags: Mapping[str, str], wanted: Wanted) -> bool:
    """Say whether each wanted tag is there, with one of its wanted values; None stands for any value."""
    for name, values in wanted.items():
        value = tag_value(tags, name)
        if value is None or (values is not None and value not in values):
            return False
    return True


def roles_of(tags: Mapping[str, str], role_tag: str) -> list[str]:
    """Return the roles that the role tag names: lower case, in order, each once."""
    value = tag_value(tags, role_tag) or ""
    return list(dict.fromkeys(role for part in value.split(",") if (role := part.strip().lower())))
