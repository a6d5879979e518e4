# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Read the facts, plan and apply: used by both the module and hpcnode."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ...forms import check_seconds
from ...machine.atomic import remove_file, write_file
from ...machine.config import as_config
from ...machine.lock import Locked, only_one
from ...machine.root import Root
from ...machine.run import Run
from .apply import Applier, settle
from .disks import Refused
from .facts import RECORD, ScratchFacts, read_facts
from .mounting import check_names
from .options import SETTINGS, ScratchOptions
from .plan import plan_absent, plan_down, plan_present
from .steps import NEW, ScratchPlan

LOCK = "/run/hpcai/scratch.lock"
"""Not in /run/lock, where a user could create and lock a file of this name."""
_UNIT = "hpcai-scratch.service"
_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# After an array is assembled or a disk appears, the plan may no longer match the machine, so it is made again.
_MOST_ROUNDS = 4

PRESENT, ABSENT, DOWN, CONFIGURED = "present", "absent", "down", "configured"


def _plan_configured(_facts: ScratchFacts, options: ScratchOptions) -> ScratchPlan:
    """Plan nothing, because only the settings are written: an image has no disks to look at."""
    check_names(options)
    return ScratchPlan()


_PLANNERS: Mapping[str, Callable[[ScratchFacts, ScratchOptions], ScratchPlan]] = {
    PRESENT: plan_present,
    ABSENT: plan_absent,
    DOWN: plan_down,
    CONFIGURED: _plan_configured,
}


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be done.

    :ivar changed: whether anything was changed.
    :ivar steps: the changes in words, in order.
    :ivar before: the scratch and its settings before.
    :ivar after: the scratch and its settings after.
    :ivar device: path of what is mounted; None if nothing is mounted or it is not created yet.
    :ivar devices: paths of its disks.
    :ivar filesystem: type of its file system; None if there is none.
    :ivar size_bytes: size of the device that contains it.
    """

    changed: bool
    steps: tuple[str, ...]
    warnings: tuple[str, ...]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    device: str | None = None
    devices: tuple[str, ...] = ()
    filesystem: str | None = None
    mountpoint: str | None = None
    size_bytes: int = 0
    adopted: bool = False
    facts: ScratchFacts | None = field(default=None, repr=False)


def ensure(
    goal: str,
    options: ScratchOptions,
    root: Root,
    run: Run,
    check: bool = False,
    lock_timeout_s: float = 60,
    settings: Mapping[str, Any] | None = None,
    keeps_settings: bool = False,
) -> Outcome:
    """Bring the scratch to the state ``goal``.

    :param check: only return what would be done.
    :param settings: content for /etc/hpcai/scratch.json; None to remove the file.
    :param keeps_settings: leave that file unchanged, whatever ``settings`` says.
    :raises Refused: the change is not allowed; nothing was changed, unless the message says so.
    :raises CommandFailed: a command failed; started work was undone.
    :raises ValueError: ``lock_timeout_s`` is not a valid timeout.
    """
    lock_timeout_s = check_seconds("lock_timeout", lock_timeout_s, zero=True)
    if root.is_this_machine and os.geteuid() != 0:
        raise Refused("reading and changing disks needs root. Run with become.")
    text = None if settings is None else as_config(dict(settings))
    try:
        with only_one(root.at(LOCK), lock_timeout_s) if root.is_this_machine else contextlib.nullcontext():
            return _ensure(goal, options, root, run, check, None if keeps_settings else (text,))
    except Locked as error:
        raise Refused(f"another run is changing the scratch: {error}") from error


def _ensure(
    goal: str, options: ScratchOptions, root: Root, run: Run, check: bool, settings: tuple[str | None] | None
) -> Outcome:
    facts = read_facts(options, root, run) if goal != CONFIGURED else ScratchFacts({}, {})
    first = plan = _PLANNERS[goal](facts, options)
    applier = Applier(options, root, run)
    if plan.steps and not check:
        if not root.is_this_machine:
            raise Refused(f"{root.path} is a captured tree and cannot be changed. Use check mode.")
        # udev may still be opening the disks or assembling an array, so wait for it before deciding.
        settle(run)
        for _round in range(_MOST_ROUNDS):
            facts = read_facts(options, root, run)
            try:
                plan = _PLANNERS[goal](facts, options)
            except Refused as error:
                raise Refused(f"{error} {applier.done_so_far()}" if applier.done else str(error)) from error
            if not plan.steps:
                break
            applier.apply(plan)
        else:
            raise Refused(f"the scratch did not converge after {_MOST_ROUNDS} attempts. {applier.done_so_far()}")
    settings_before = root.text(SETTINGS)
    differs = settings is not None and (settings[0] or "").strip() != (settings_before or "")
    if differs and settings is not None and not check:
        if not root.is_this_machine:
            raise Refused(f"{root.path} is a captured tree and cannot be changed. Use check mode.")
        if settings[0] is None:
            remove_file(root.at(SETTINGS))
        else:
            write_file(root.at(SETTINGS), settings[0])
    if goal == ABSENT and applier.done:
        remove_file(root.at(RECORD))
    return _as_outcome(goal, options, root, facts, first, plan, tuple(applier.done), settings, settings_before)


def _as_outcome(
    goal: str,
    options: ScratchOptions,
    root: Root,
    facts: ScratchFacts,
    first: ScratchPlan,
    last: ScratchPlan,
    done: tuple[str, ...],
    settings: tuple[str | None] | None,
    settings_before: str | None,
) -> Outcome:
    steps = list(done or (str(step) for step in first.steps))
    before, after = dict(first.before), dict(first.after)
    if done and last.after.get("device"):
        after["device"] = last.after["device"]
    warnings = list(dict.fromkeys([*first.warnings, *last.warnings]))
    if settings is not None:
        text = settings[0]
        before["settings"], after["settings"] = bool(settings_before), text is not None
        if (text or "").strip() != (settings_before or ""):
            steps.append(f"write {SETTINGS}" if text is not None else f"remove {SETTINGS}")
            before["settings"] = settings_before
            after["settings"] = text
        if text is not None and not any(root.exists(f"{folder}/{_UNIT}") for folder in _UNIT_FOLDERS):
            warnings.append(
                f"{_UNIT} is not installed, so the scratch is not mounted after a reboot. "
                f"The role hpcai.azure.node_tools installs it"
            )
    if not steps:
        after = before
    is_present = goal == PRESENT and bool(last.members)
    name = last.device if is_present and last.device != NEW else ""
    device = facts.devices.get(name)
    return Outcome(
        changed=bool(steps),
        steps=tuple(steps),
        warnings=tuple(warnings),
        before=before,
        after=after,
        device=f"/dev/{name}" if name else None,
        devices=tuple(f"/dev/{member}" for member in last.members) if is_present else (),
        filesystem=after.get("filesystem") if is_present else None,
        mountpoint=options.mountpoint if is_present else None,
        size_bytes=device.size_bytes
        if device
        else sum(facts.devices[m].size_bytes for m in last.members if m in facts.devices),
        adopted=last.adopted,
        facts=facts,
    )


def as_results(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as data: what the module returns and ``hpcnode scratch --json`` prints."""
    return {
        "changed": outcome.changed,
        "actions": list(outcome.steps),
        "array": outcome.device,
        "devices": list(outcome.devices),
        "filesystem": outcome.filesystem,
        "mountpoint": outcome.mountpoint,
        "size_bytes": outcome.size_bytes,
        "adopted": outcome.adopted,
    }
