# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Plan the steps that create the scratch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from .disk_count import stated_count
from .disks import Existing, Refused, find_adoptable, find_ours, is_ours, set_up_by, why_not
from .facts import ScratchFacts
from .mounting import check_mountpoint, describe_folder, keep_mounted, mount_steps, unmount_steps
from .options import ScratchOptions
from .steps import NEW, ScratchPlan, Step


def plan_present(facts: ScratchFacts, options: ScratchOptions) -> ScratchPlan:
    """Return the steps after which the scratch exists and is mounted.

    :raises Refused: that would touch something that is not ours, or the disks are not the expected ones.
    """
    if len(options.devices) > len(facts.selected) + len(facts.absent):
        raise Refused(f"devices names a disk twice ({' '.join(options.devices)}). Name each disk once.")
    ours = find_ours(facts, options)
    complete = [found for found in ours if found.complete]
    if len(complete) > 1:
        listed = "; ".join(f"{found.device or 'a stopped array'} on {' '.join(found.members)}" for found in complete)
        raise Refused(f"there are {len(complete)} complete scratch arrays ({listed}). Run with state=absent first.")
    if complete:
        return _use(facts, options, complete[0])
    adopted = _adopt(facts, options) if options.adopt else None
    return adopted or _build(facts, options, ours)


def _use(facts: ScratchFacts, options: ScratchOptions, found: Existing) -> ScratchPlan:
    """Use our existing array or disk."""
    _compare(options, found)
    others = [name for name in found.members if name not in facts.selected]
    if options.devices and others:
        raise Refused(f"the scratch uses {' '.join(others)}, not in devices. Run with state=absent first.")
    warnings = _check_count(facts, options, found.members)
    spare = [name for name in facts.selected if name not in found.members]
    if spare:
        warnings += (
            f"{' '.join(spare)} are not part of the scratch. To add them, run state=absent, then state=present",
        )
    steps: list[Step] = []
    device = found.device
    if not found.running:
        if found.device:
            steps.append(Step("stop", device=found.device, disks=found.members))
        steps.append(Step("assemble", disks=found.members, uuid=found.uuid))
        device = NEW
    # The content of an array that is not assembled cannot be read; apply looks again before it mounts.
    if found.running and found.filesystem is None:
        _check_label(facts, options, {found.device, *found.members})
        steps += [*unmount_steps(found.mounts), _mkfs(options, device, found.members, found.uuid)]
        found_mounts: Sequence[Any] = ()
    else:
        found_mounts = found.mounts
    steps += mount_steps(facts, options, device, found_mounts, options.filesystem, found)
    return _as_plan(facts, options, steps, warnings, (found,), found.members, device)


def _compare(options: ScratchOptions, found: Existing) -> None:
    """Refuse an array or disk that was made with other options: changing it means making it again."""
    what = found.device or " ".join(found.members)
    if found.foreign:
        raise Refused(f"{what} is ours, but contains {found.foreign} that this module did not make. Remove that first.")
    differences = []
    if found.is_array and found.chunk_bytes and found.chunk_bytes != options.chunk_bytes:
        differences.append(f"chunk is {found.chunk_bytes // 1024}K, not {options.chunk_bytes // 1024}K")
    if found.filesystem and found.filesystem.type != options.filesystem:
        differences.append(f"filesystem is {found.filesystem.type}, not {options.filesystem}")
    if found.filesystem and found.filesystem.label != options.label:
        differences.append(f"label is {found.filesystem.label!r}, not {options.label!r}")
    if differences:
        raise Refused(
            f"{what} was made with other options ({', '.join(differences)}). To change them, it must be made again, "
            f"which destroys its data: run state=absent, then state=present."
        )


def _adopt(facts: ScratchFacts, options: ScratchOptions) -> ScratchPlan | None:
    """Use a healthy array that is not ours."""
    found = find_adoptable(facts, options)
    if not found:
        return None
    if len(found) > 1:
        raise Refused(
            f"adopt: found several arrays: {' '.join(one.device for one in found)}. List one's disks in devices."
        )
    array = found[0]
    if array.filesystem is None:
        raise Refused(f"adopt: {array.device} has no file system, and an adopted array is never formatted.")
    elsewhere = [mount.mountpoint for mount in array.mounts if mount.root == "/"]
    if elsewhere and options.mountpoint not in elsewhere:
        raise Refused(
            f"adopt: {array.device} is mounted on {elsewhere[0]}. Unmount it there and disable what mounts it, "
            f"or set mountpoint to {elsewhere[0]}."
        )
    warnings = _check_count(facts, options, array.members)
    steps = mount_steps(facts, options, array.device, array.mounts, array.filesystem.type, adopted=True)
    return _as_plan(facts, options, steps, warnings, (array,), array.members, array.device, adopted=True)


def _build(facts: ScratchFacts, options: ScratchOptions, pieces: tuple[Existing, ...]) -> ScratchPlan:
    """Create the scratch from blank disks and what is left of our arrays."""
    arrays = frozenset(piece.device for piece in pieces if piece.device)
    refusals = {name: reason for name in facts.selected if (reason := why_not(facts, options, name, arrays))}
    # If a member cannot be read at the moment, a healthy array looks broken.
    members = [name for piece in pieces for name in piece.members if name not in facts.selected]
    refusals.update({name: "cannot be read" for name in members if facts.signatures.get(name, ()) is None})
    if refusals:
        reasons = "; ".join(f"{_path(facts, name)} {reason}" for name, reason in refusals.items())
        raise Refused(f"{reasons}{''.join(dict.fromkeys(set_up_by(facts, name) for name in refusals))}.")
    disks = facts.selected
    if not disks and options.expected_count == 0:
        return ScratchPlan(before={}, after={})
    if not disks:
        raise Refused(_no_disks(facts, options))
    made_of = max((piece.raid_disks for piece in pieces), default=0)
    warnings = _check_count(facts, options, disks, made_of)
    lost = made_of - len(disks)
    if lost > 0:
        warnings += (f"the array had {lost + len(disks)} disks, and is made again from the {len(disks)} that are left",)
    _check_label(facts, options, {*disks, *arrays})
    steps: list[Step] = []
    for piece in pieces:
        steps += unmount_steps(piece.mounts)
        if piece.is_array and piece.device:
            steps.append(Step("stop", device=piece.device, disks=piece.members))
    check_mountpoint(facts, options, {*arrays, *disks})
    # A disk that is not blank belonged to our arrays, or is forced.
    filled = tuple(name for name in disks if facts.signatures[name] or facts.devices[name].partitions)
    if filled:
        steps.append(Step("wipe", disks=filled))
    if len(disks) == 1:
        device = disks[0]
        uuid = facts.devices[device].serial
    else:
        device, uuid = NEW, ""
        steps.append(Step("create", disks=disks))
    steps.append(_mkfs(options, device, disks, uuid))
    steps += mount_steps(facts, options, device, (), options.filesystem, fresh=True)
    return _as_plan(facts, options, steps, warnings, pieces, disks, device)


def _path(facts: ScratchFacts, name: str) -> str:
    """Return a disk's path for a message."""
    return facts.devices[name].path if name in facts.devices else f"/dev/{name}"


def _check_label(facts: ScratchFacts, options: ScratchOptions, ours: Set[str]) -> None:
    if facts.labelled and facts.labelled not in ours:
        raise Refused(f"label {options.label} is already used by /dev/{facts.labelled}. Set another label.")


def _no_disks(facts: ScratchFacts, options: ScratchOptions) -> str:
    if options.devices:
        return f"none of the devices exist ({', '.join(facts.absent)})."
    models = sorted({device.model for device in facts.devices.values() if device.model and device.is_disk})
    expected = f"{options.expected_count} local NVMe disks are expected, and " if options.expected_count else ""
    return (
        f"{expected}no disk has one of the models {', '.join(options.models)}; "
        f"models found: {', '.join(models) or 'none'}. "
        f"Set devices or models, or expected_count=0 if the VM size has no local NVMe disk."
    )


def _check_count(
    facts: ScratchFacts, options: ScratchOptions, members: Sequence[str], made_of: int = 0
) -> tuple[str, ...]:
    """Compare the number of disks with the expected number.

    :param made_of: how many disks our array had, if it has to be made again. A missing disk may only be late or faulty,
        so without another number, they are all expected.
    """
    stated = stated_count(options)
    expected = stated.count if stated else max(len(members), made_of)
    if len(members) == expected or options.on_count_mismatch == "ignore":
        return ()
    missing = f"; missing: {', '.join(facts.absent)}" if facts.absent else ""
    named = f" (found: {', '.join(map(facts.with_serial, members))}{missing})" if members or missing else ""
    text = f"there are {len(members)} local NVMe disks where {expected} are expected{named}"
    if options.on_count_mismatch == "warn":
        return (text,)
    raise Refused(f"{text}. The node may be faulty; on_count_mismatch=warn continues with these disks.")


def _mkfs(options: ScratchOptions, device: str, members: Sequence[str], uuid: str) -> Step:
    return Step("mkfs", device=device, disks=tuple(members), detail=f"{options.filesystem} {options.label}", uuid=uuid)


def _as_plan(
    facts: ScratchFacts,
    options: ScratchOptions,
    steps: Sequence[Step],
    warnings: tuple[str, ...],
    was: tuple[Existing, ...],
    members: tuple[str, ...],
    device: str,
    adopted: bool = False,
) -> ScratchPlan:
    before = describe(facts, options, was[0]) if was else {}
    makes = {step.verb for step in steps}
    after: dict[str, Any] = {**before, "devices": list(members)}
    if makes & {"create", "mkfs", "assemble"} or not before:
        after.update(device=device, filesystem=options.filesystem, label=options.label)
        after["chunk"] = f"{options.chunk_bytes // 1024}K" if len(members) > 1 else None
    if makes & {"mount", "remount", "own"} or not before:
        after.update(keep_mounted(options, adopted))
    return ScratchPlan(tuple(steps), warnings, before, after, members, device, adopted)


def describe(facts: ScratchFacts, options: ScratchOptions, found: Existing) -> Mapping[str, Any]:
    """Return the current state in the words of the options, for the diff."""
    here, _device = facts.mount_at(options.mountpoint)
    mounts = [mount for mount in found.mounts if mount.root == "/"]
    mount = here if here in mounts else (mounts[-1] if mounts else None)
    return {
        "device": found.device or None,
        "devices": list(found.members),
        "chunk": f"{found.chunk_bytes // 1024}K" if found.chunk_bytes else None,
        "filesystem": found.filesystem.type if found.filesystem else None,
        "label": found.filesystem.label if found.filesystem else None,
        "mountpoint": mount.mountpoint if mount else None,
        **(describe_folder(facts, options, mount) if mount else {}),
    }


# Plan the steps that remove or stop the scratch. Pure.


def plan_absent(facts: ScratchFacts, options: ScratchOptions) -> ScratchPlan:
    """Return the steps that remove everything that we made. An adopted array is unmounted, but not changed."""
    ours = find_ours(facts, options)
    steps: list[Step] = []
    warnings: list[str] = []
    for found in ours:
        steps += unmount_steps(found.mounts)
        # The file system first: otherwise it would show up again on a new array on the same disks.
        if found.is_array and found.running and found.filesystem and not found.foreign:
            steps.append(Step("erase", device=found.device))
        if found.is_array and found.device:
            steps.append(Step("stop", device=found.device, disks=found.members))
        clean = tuple(name for name in found.members if _is_only_ours(facts, options, name))
        mixed = [name for name in found.members if name not in clean and name in facts.devices]
        warnings += [f"/dev/{name} also contains foreign data, and was left unchanged" for name in mixed]
        if clean:
            steps.append(Step("forget", disks=clean) if found.is_array else Step("wipe", disks=clean))
    return _as_removal_plan(facts, options, ours, steps, warnings)


def plan_down(facts: ScratchFacts, options: ScratchOptions) -> ScratchPlan:
    """Return the steps that unmount and stop the scratch; its data stays."""
    steps: list[Step] = []
    ours = find_ours(facts, options)
    for found in ours:
        steps += unmount_steps(found.mounts)
        if found.is_array and found.device:
            steps.append(Step("stop", device=found.device, disks=found.members))
    # Stopped members need no change, so they are not in the diff.
    shown = tuple(found for found in ours if found.device and (found.is_array or found.mounts))
    return _as_removal_plan(facts, options, shown, steps, [])


def _is_only_ours(facts: ScratchFacts, options: ScratchOptions, name: str) -> bool:
    signatures = facts.signatures.get(name) or ()
    return bool(signatures) and all(is_ours(signature, options) for signature in signatures)


def _as_removal_plan(
    facts: ScratchFacts, options: ScratchOptions, ours: tuple[Existing, ...], steps: list[Step], warnings: list[str]
) -> ScratchPlan:
    here, device = facts.mount_at(options.mountpoint)
    adopted = None
    if here is not None and device not in {found.device for found in ours}:
        adopted = next((found for found in find_adoptable(facts, options) if found.device == device), None)
        if adopted and (options.adopt or facts.record.get("adopted") == device):
            steps = [*steps, Step("unmount", where=options.mountpoint)]
        else:
            warnings = [
                *warnings,
                f"{options.mountpoint} is a mount of {here.source}, which this module did not make. It stays",
            ]
            adopted = None
    was = [*ours, *([adopted] if adopted else [])]
    before = describe(facts, options, was[0]) if was else {}
    return ScratchPlan(tuple(steps), tuple(warnings), before, {}, adopted=adopted is not None)
