# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which disks may be used, and why the others may not."""

from __future__ import annotations

from collections.abc import Iterable

from ...machine.disks import BlockDevice
from ...machine.run import CommandFailed
from ...machine.signatures import RAID_MEMBER, Signature
from .facts import ScratchFacts, is_our_array, is_our_filesystem
from .options import REMOTE_MODELS, ScratchOptions


class Refused(CommandFailed):
    """It would destroy, hide or disturb something; the message names what, and what to do. Nothing was changed."""


def why_not(facts: ScratchFacts, wanted: ScratchOptions, name: str, ours: frozenset[str]) -> str | None:
    """Return why a disk must not be used, in plain words; None if it may be.

    :param ours: kernel names of arrays of ours, which may hold it.
    """
    device = facts.devices.get(name)
    if device is None or not device.is_disk:
        return "is no whole disk"
    never = _never(facts, device, ours)
    if never:
        return never
    signatures = facts.signatures.get(name)
    if signatures is None:
        return "cannot be read (run as root; below another root than / its content is not known)"
    if name in facts.forced:
        return None
    if device.partitions:
        return f"has partitions ({', '.join(p.name for p in device.partitions)}){_FORCE}"
    foreign = next((s for s in signatures if not _is_ours(s, wanted)), None)
    return f"holds {_describe(foreign)}{_FORCE}" if foreign else None


_FORCE = ", and is not in force_devices"


def _never(facts: ScratchFacts, device: BlockDevice, ours: frozenset[str]) -> str | None:
    """What no force beats: the disk is in use, or was never ours to use."""
    names = {device.name, *(partition.name for partition in device.partitions)}
    if names & facts.swaps:
        return "is swapped to"
    if device.name in facts.os_disks:
        return "is the operating system's disk"
    if device.model.startswith(REMOTE_MODELS):
        return f"is a remote, managed disk (model {device.model})"
    mounts = facts.mounts_of(device.name)
    if mounts and not any(is_our_filesystem(s.uuid) for s in facts.signatures.get(device.name) or ()):
        return f"is mounted on {mounts[0].mountpoint}"
    holders = [*device.holders, *(holder for partition in device.partitions for holder in partition.holders)]
    others = [holder for holder in holders if holder not in ours]
    if others:
        return _held_by(facts, others[0])
    # A loop device does not show as the holder of the device that it shows.
    loops = [d.path for d in facts.devices.values() if d.backing_file in {f"/dev/{name}" for name in names}]
    if loops:
        return f"is held by {loops[0]}"
    if device.name in facts.busy and not mounts:
        return "is in use by a program that keeps it for itself"
    return None


def _held_by(facts: ScratchFacts, holder: str) -> str:
    device = facts.devices.get(holder)
    if device is None or device.array is None:
        return f"is held by {holder}{_mounted(facts, holder)}"
    return (
        f"is a member of {holder} ({device.array.level or 'md'}, {device.array.state}{_mounted(facts, holder)}), "
        f"which this module did not make: adopt=true uses it as it is, or stop it and force the disk"
    )


def _mounted(facts: ScratchFacts, name: str) -> str:
    mounts = facts.mounts_of(name)
    return f", mounted on {mounts[0].mountpoint}" if mounts else ""


def _is_ours(signature: Signature, wanted: ScratchOptions) -> bool:
    if signature.type == RAID_MEMBER:
        return is_our_array(signature.label, wanted.array_name)
    return is_our_filesystem(signature.uuid)


def _describe(signature: Signature) -> str:
    named = f" {signature.label!r}" if signature.label else ""
    if signature.type == RAID_MEMBER:
        return f"a superblock of the md array{named or ' ' + signature.uuid}"
    if signature.type in ("gpt", "dos", "PMBR"):
        return "a partition table"
    return f"a file system or other data of type {signature.type}{named}"


# Who made what is in the way: services of Azure's images that set up local disks themselves, and the cure.

EPHEMERAL_SERVICE = "azure-ephemeral-disk-setup.service"
# azure-vm-utils, ephemeral-disk-setup: name of its array, label of its file system, mark of its lines in fstab.
_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL = "azure-ephemeral-md", "AzureEphmDsk"
_EPHEMERAL_MARK = "comment=azure-ephemeral-disk-setup"
_CLOUD_INIT_MARK = "comment=cloudconfig"


def set_up_by(facts: ScratchFacts, name: str) -> str:
    """Return who set up a disk, what holds it, or what is mounted of it, and what to do; empty where nobody is known.

    The answer goes on where a reason ends.
    """
    names = [name]
    for found in names:
        device = facts.devices.get(found)
        parts = device.partitions if device else ()
        holders = [*(device.holders if device else ()), *(holder for part in parts for holder in part.holders)]
        names += [holder for holder in holders if holder not in names]
    labels = {mark.label.rpartition(":")[2] for found in names for mark in facts.signatures.get(found) or ()}
    mounts = [mount.mountpoint for found in names for mount in facts.mounts_of(found)]
    return _named_service(facts, mounts, bool(labels & {_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL}))


def mounted_by(facts: ScratchFacts, mountpoint: str) -> str:
    """Return likewise who mounts something there at each boot."""
    return _named_service(facts, [mountpoint], False)


def _named_service(facts: ScratchFacts, mountpoints: Iterable[str], ephemeral: bool) -> str:
    marks = {option for path in mountpoints for option in facts.fstab.get(path, ())}
    if ephemeral or _EPHEMERAL_MARK in marks:
        return (
            f"; {EPHEMERAL_SERVICE} did that: switch it off (scratch_mask_azure_ephemeral=true), remove its line from "
            f"/etc/fstab, unmount and stop what it made, and force the disks once"
        )
    if _CLOUD_INIT_MARK in marks:
        return (
            "; cloud-init mounts it, by /etc/fstab: take it out of 'mounts' and 'fs_setup' of the cloud-config, remove "
            "that line and unmount it"
        )
    return ""
