# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the upgrade of Slurm on all machines of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.installed import matches

from .cluster import natural


class Upgrade(TypedDict):
    """The plan. ``oldest`` is the oldest installed version; empty if no machine has Slurm."""

    oldest: str
    pending: list[str]
    found: str


def plan(versions: Mapping[str, str | None], target: str) -> Upgrade:
    """Return which machines to upgrade, and a text that lists the installed versions. Pure.

    :param versions: installed version by inventory name; empty or None if Slurm is not installed.
    :param target: the version for all machines, or its beginning.
    """
    present = sorted({version for version in versions.values() if version}, key=natural)
    by_version = {
        version or "no Slurm": sorted((name for name, found in versions.items() if found == version), key=natural)
        for version in (*present, *dict.fromkeys(found for found in versions.values() if not found))
    }
    return {
        "oldest": present[0] if present else "",
        "pending": sorted(
            (name for name, version in versions.items() if not version or not matches(version, target)), key=natural
        ),
        "found": "; ".join(f"{version} on {', '.join(names)}" for version, names in by_version.items()),
    }
