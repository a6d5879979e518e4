# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Decide what is to be done so that the scratch is gone, or only at rest. Pure."""

from __future__ import annotations

from ...machine.disks import RAID_MEMBER
from .existing import Existing, find_adoptable, find_ours
from .facts import Facts
from .identity import is_our_array, is_our_filesystem
from .mounting import unmount_steps
from .plan import describe
from .steps import Plan, Step
from .wanted import Wanted


def plan_absent(facts: Facts, wanted: Wanted) -> Plan:
    """Return the steps after which nothing of ours is left. An adopted array is unmounted and stays as it is."""
    ours = find_ours(facts, wanted)
    steps: list[Step] = []
    warnings: list[str] = []
    for found in ours:
        steps += unmount_steps(facts, found.mounts)
        # The file system first: a new array on the same disks would show it again.
        if found.is_array and found.running and found.filesystem and not found.foreign:
            steps.append(Step("erase", device=found.device))
        if found.is_array and found.device:
            steps.append(Step("stop", device=found.device, disks=found.members))
        clean = tuple(name for name in found.members if _is_only_ours(facts, wanted, name))
        mixed = [name for name in found.members if name not in clean and name in facts.devices]
        warnings += [f"/dev/{name} also holds what is not ours, and was left as it is" for name in mixed]
        if clean:
            steps.append(Step("forget", disks=clean) if found.is_array else Step("wipe", disks=clean))
    return _as_plan(facts, wanted, ours, steps, warnings)


def plan_down(facts: Facts, wanted: Wanted) -> Plan:
    """Return the steps after which the scratch is unmounted and stopped, with all that is in it."""
    steps: list[Step] = []
    ours = find_ours(facts, wanted)
    for found in ours:
        steps += unmount_steps(facts, found.mounts)
        if found.is_array and found.device:
            steps.append(Step("stop", device=found.device, disks=found.members))
    # Stopped members are as they should be: nothing that shows in the diff.
    shown = tuple(found for found in ours if found.device and (found.is_array or found.mounts))
    return _as_plan(facts, wanted, shown, steps, [])


def _is_only_ours(facts: Facts, wanted: Wanted, name: str) -> bool:
    signatures = facts.signatures.get(name)
    return bool(signatures) and all(
        is_our_array(s.label, wanted.array_name) if s.type == RAID_MEMBER else is_our_filesystem(s.uuid)
        for s in signatures or ()
    )


def _as_plan(facts: Facts, wanted: Wanted, ours: tuple[Existing, ...], steps: list[Step], warnings: list[str]) -> Plan:
    here, device = facts.mount_at(wanted.mountpoint)
    adopted = None
    if here is not None and device not in {found.device for found in ours}:
        adopted = next((found for found in find_adoptable(facts, wanted) if found.device == device), None)
        if adopted and (wanted.adopt or facts.record.get("adopted") == device):
            steps = [*steps, Step("unmount", where=wanted.mountpoint)]
        else:
            warnings = [*warnings, f"{wanted.mountpoint} is a mount of {here.source}, which is not ours: it stays"]
            adopted = None
    was = [*ours, *([adopted] if adopted else [])]
    before = describe(facts, wanted, was[0]) if was else {}
    return Plan(tuple(steps), tuple(warnings), before, {}, adopted=adopted is not None)
