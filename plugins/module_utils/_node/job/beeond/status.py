# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What jobs have on this node, and whether it is as it should be."""

from __future__ import annotations

from typing import Any

from . import mounting, sweep, units
from .settings import Settings
from .stop import Machine


def look(settings: Settings, machine: Machine) -> list[dict[str, Any]]:
    """Return what there is of each job: plain JSON values."""
    live = sweep.live_here(machine.root)
    told = []
    for one in sweep.found(settings, machine.root, machine.run):
        held = one.held
        mounted = mounting.mount_at(held.mount_point, machine.root)
        told.append(
            {
                "job": held.job,
                "kind": held.kind,
                "mount_point": held.mount_point,
                "mounted": bool(mounted and mounting.is_ours(mounted)),
                "data": held.data,
                "daemons": list(held.daemons),
                "dead": units.dead(held.daemons, held.job, machine.run) if held.daemons else [],
                "runs": held.job in live,
            }
        )
    return told


def in_words(told: list[dict[str, Any]]) -> list[str]:
    """Return it for people, a line each."""
    if not told:
        return ["no job has a file system here"]
    lines = []
    for one in told:
        parts = [f"{one['mount_point']} {'mounted' if one['mounted'] else 'not mounted'}"]
        parts += [f"{daemon} {'ended' if daemon in one['dead'] else 'runs'}" for daemon in one["daemons"]]
        owner = "" if one["runs"] else " (no slurmstepd of it here)"
        lines.append(f"job {one['job']}{owner}: {', '.join(parts)}")
    return lines


def is_bad(told: list[dict[str, Any]]) -> bool:
    """Whether a live job lacks something."""
    return any(one["runs"] and (one["dead"] or not one["mounted"]) for one in told)
