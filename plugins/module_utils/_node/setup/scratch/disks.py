# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is on the disks: which are ours already, which may be used, and what set up the ones that may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...machine.disks import RAID_MEMBER, Array, BlockDevice, Signature
from ...machine.mounts import Mount
from ...machine.run import CommandFailed
from .facts import ScratchFacts, filesystem_uuid, is_our_array, is_our_filesystem
from .options import REMOTE_MODELS, ScratchOptions

# The states in Documentation/admin-guide/md.rst in which an array without redundancy can be used.
_USABLE = ("clean", "active", "active-idle", "write-pending", "readonly", "read-auto")


@dataclass(frozen=True)
class Existing:
    """An array, or a file system on a single disk.

    :ivar device: kernel name of what is or can be mounted; empty for an array that does not run.
    :ivar members: the disks that it consists of, if they are present.
    :ivar uuid: the array's UUID, or the disk's serial number; its file system's UUID is derived from it.
    :ivar complete: it can be used as it is, or after its members were assembled.
    :ivar running: it is assembled and can be used.
    :ivar raid_disks: how many disks it was made of; 0 if not known.
    :ivar chunk_bytes: stripe unit; 0 for a single disk, or if not known.
    :ivar filesystem: the file system on it; None if there is none, if its mkfs did not finish, or if it is a remnant of
        an earlier array.
    :ivar foreign: type of a signature on it that we did not make; empty if there is none.
    :ivar mounts: where it is mounted.
    """

    device: str
    members: tuple[str, ...]
    uuid: str
    complete: bool
    running: bool
    raid_disks: int = 0
    chunk_bytes: int = 0
    filesystem: Signature | None = None
    foreign: str = ""
    mounts: tuple[Mount, ...] = ()

    @property
    def is_array(self) -> bool:
        """True for an md array, False for a file system directly on a disk."""
        return (self.device,) != self.members


def find_ours(facts: ScratchFacts, options: ScratchOptions) -> tuple[Existing, ...]:
    """Return all our arrays and file systems, complete ones first."""
    held = [found for name in facts.devices if (found := _running_array(facts, options, name))]
    used = {member for found in held for member in found.members}
    loose = _loose_arrays(facts, options, used)
    single = [found for name in facts.devices if (found := _single_disk(facts, name))]
    return tuple(sorted([*held, *loose, *single], key=lambda found: (not found.complete, not found.mounts)))


def _running_array(facts: ScratchFacts, options: ScratchOptions, name: str) -> Existing | None:
    array = facts.devices[name].array
    if array is None:
        return None
    marks = {member: mark for member in array.members if (mark := _member_mark(facts, member, options))}
    uuids = {mark.uuid for mark in marks.values()}
    if len(uuids) != 1 or (array.level not in ("raid0", "") and array.state != "inactive"):
        return None
    uuid = uuids.pop()
    running = array.state in _USABLE and len(array.members) == array.raid_disks and len(marks) == array.raid_disks
    known = next((s for m in marks if (s := facts.superblocks.get(m))), None)
    # udev began to assemble it and never started it, because the last member appeared late or nothing started it.
    startable = array.state == "inactive" and known is not None and len(marks) == known.raid_disks
    filesystem, foreign = _content(facts, name, uuid) if running else (None, "")
    return Existing(
        device=name,
        members=array.members,
        uuid=uuid,
        complete=running or startable,
        running=running,
        raid_disks=array.raid_disks or (known.raid_disks if known else 0),
        chunk_bytes=array.chunk_bytes or (known.chunk_bytes if known else 0),
        filesystem=filesystem,
        foreign=foreign,
        mounts=facts.mounts_of(name),
    )


def _member_mark(facts: ScratchFacts, name: str, options: ScratchOptions) -> Signature | None:
    signatures = facts.signatures.get(name) or ()
    return next((s for s in signatures if s.type == RAID_MEMBER and is_our_array(s.label, options.array_name)), None)


def _loose_arrays(facts: ScratchFacts, options: ScratchOptions, used: set[str]) -> list[Existing]:
    members: dict[str, list[str]] = {}
    for name in facts.signatures:
        mark = _member_mark(facts, name, options)
        if mark and name not in used:
            members.setdefault(mark.uuid, []).append(name)
    found = []
    for uuid, names in members.items():
        known = [facts.superblocks[name] for name in names if name in facts.superblocks]
        roles = {superblock.role for superblock in known} - {None}
        complete = bool(known) and len(roles) == len(names) == known[0].raid_disks and known[0].level == "raid0"
        made_of, chunk = (known[0].raid_disks, known[0].chunk_bytes) if known else (0, 0)
        found.append(Existing("", tuple(names), uuid, complete, False, made_of, chunk))
    return found


def _single_disk(facts: ScratchFacts, name: str) -> Existing | None:
    signatures = facts.signatures.get(name) or ()
    if not facts.devices[name].is_disk or not any(is_our_filesystem(s.uuid) for s in signatures):
        return None
    serial = facts.devices[name].serial
    filesystem, foreign = _content(facts, name, serial)
    # A copy of another disk's file system, or one whose mkfs did not finish, is ours but cannot be used.
    complete = filesystem is not None and not foreign
    return Existing(name, (name,), serial, complete, complete, 1, 0, filesystem, foreign, facts.mounts_of(name))


def _content(facts: ScratchFacts, name: str, uuid: str) -> tuple[Signature | None, str]:
    signatures = facts.signatures.get(name)
    if signatures is None:
        return None, "unreadable data"
    foreign = next((s.type for s in signatures if not is_our_filesystem(s.uuid)), "")
    usable = [s for s in signatures if s.uuid == filesystem_uuid(uuid) and name not in facts.unfinished]
    return (usable[0] if usable else None), foreign


def find_adoptable(facts: ScratchFacts, options: ScratchOptions) -> tuple[Existing, ...]:
    """Return the healthy arrays that are not ours and consist of selected disks only."""
    found = []
    for name, device in facts.devices.items():
        array = device.array
        if array is None or not _is_healthy(array) or not set(array.members) <= set(facts.selected):
            continue
        if any(_member_mark(facts, member, options) for member in array.members):
            continue
        on_it = facts.signatures.get(name) or ()
        filesystem = on_it[0] if len(on_it) == 1 and on_it[0].uuid and on_it[0].type != RAID_MEMBER else None
        found.append(
            Existing(
                device=name,
                members=array.members,
                uuid="",
                complete=True,
                running=True,
                chunk_bytes=array.chunk_bytes,
                filesystem=filesystem,
                mounts=facts.mounts_of(name),
            )
        )
    return tuple(found)


def _is_healthy(array: Array) -> bool:
    return array.state in _USABLE and len(array.members) == array.raid_disks


# Which disks may be used, and why the others may not.


class Refused(CommandFailed):
    """The change would destroy, hide or disturb something. The message says what, and what to do. Nothing changed."""


def why_not(facts: ScratchFacts, options: ScratchOptions, name: str, ours: frozenset[str]) -> str | None:
    """Return why a disk must not be used, as part of a message; None if it may be used.

    :param ours: kernel names of our arrays; a disk may be a member of these.
    """
    device = facts.devices.get(name)
    if device is None or not device.is_disk:
        return "is not a whole disk"
    never = _never(facts, device, ours)
    if never:
        return never
    signatures = facts.signatures.get(name)
    if signatures is None:
        return "cannot be read (run as root; 'journalctl -k -b' shows read errors; captured disks are not readable)"
    if name in facts.forced:
        return None
    if device.partitions:
        return f"has partitions ({', '.join(p.name for p in device.partitions)}){_FORCE}"
    foreign = next((s for s in signatures if not is_ours(s, options)), None)
    return f"contains {_signature_words(foreign)}{_FORCE}" if foreign else None


_FORCE = ", and is not in force_devices"


def _never(facts: ScratchFacts, device: BlockDevice, ours: frozenset[str]) -> str | None:
    """Return a reason that force_devices does not override: the disk is in use, or is never scratch."""
    names = {device.name, *(partition.name for partition in device.partitions)}
    if names & facts.swaps:
        return "is used as swap"
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
    # A loop device does not show up as a holder of the device behind it.
    loops = [d.path for d in facts.devices.values() if d.backing_file in {f"/dev/{name}" for name in names}]
    if loops:
        return f"is held by {loops[0]}"
    if device.name in facts.busy and not mounts:
        return "is opened exclusively by a program"
    return None


def _held_by(facts: ScratchFacts, holder: str) -> str:
    device = facts.devices.get(holder)
    if device is None or device.array is None:
        return f"is held by {holder}{_mounted(facts, holder)}"
    return (
        f"is a member of {holder} ({device.array.level or 'md'}, {device.array.state}{_mounted(facts, holder)}), "
        f"which this module did not make: set adopt=true to use it as it is, or stop it and list the disk in "
        f"force_devices"
    )


def _mounted(facts: ScratchFacts, name: str) -> str:
    mounts = facts.mounts_of(name)
    return f", mounted on {mounts[0].mountpoint}" if mounts else ""


def is_ours(signature: Signature, options: ScratchOptions) -> bool:
    """Whether a signature belongs to an array or a file system that we made."""
    if signature.type == RAID_MEMBER:
        return is_our_array(signature.label, options.array_name)
    return is_our_filesystem(signature.uuid)


def _signature_words(signature: Signature) -> str:
    named = f" {signature.label!r}" if signature.label else ""
    if signature.type == RAID_MEMBER:
        return f"a superblock of the md array{named or ' ' + signature.uuid}"
    if signature.type in ("gpt", "dos", "PMBR"):
        return "a partition table"
    return f"a file system or other data of type {signature.type}{named}"


# Services of Azure's images that set up local disks, and how to stop them.

EPHEMERAL_SERVICE = "azure-ephemeral-disk-setup.service"
# azure-vm-utils, ephemeral-disk-setup: the name of its array, the label of its file system, the mark in fstab.
_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL = "azure-ephemeral-md", "AzureEphmDsk"
_EPHEMERAL_MARK = "comment=azure-ephemeral-disk-setup"
_CLOUD_INIT_MARK = "comment=cloudconfig"


def set_up_by(facts: ScratchFacts, name: str) -> str:
    """Return which service set up a disk, its holders or its mounts, and what to do; empty if no service is known.

    The text is appended to a reason.
    """
    names = [name]
    for found in names:
        device = facts.devices.get(found)
        partitions = device.partitions if device else ()
        holders = [
            *(device.holders if device else ()),
            *(holder for partition in partitions for holder in partition.holders),
        ]
        names += [holder for holder in holders if holder not in names]
    labels = {mark.label.rpartition(":")[2] for found in names for mark in facts.signatures.get(found) or ()}
    mounts = [mount.mountpoint for found in names for mount in facts.mounts_of(found)]
    return _named_service(facts, mounts, bool(labels & {_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL}))


def mounted_by(facts: ScratchFacts, mountpoint: str) -> str:
    """Return which service mounts something at the mountpoint at each boot, and what to do, as ``set_up_by`` does."""
    return _named_service(facts, [mountpoint], False)


def _named_service(facts: ScratchFacts, mountpoints: Iterable[str], ephemeral: bool) -> str:
    marks = {option for path in mountpoints for option in facts.fstab.get(path, ())}
    if ephemeral or _EPHEMERAL_MARK in marks:
        return (
            f"; {EPHEMERAL_SERVICE} did that: disable it (scratch_mask_azure_ephemeral=true), remove its line from "
            f"/etc/fstab, unmount and stop what it made, and list the disks in force_devices once"
        )
    if _CLOUD_INIT_MARK in marks:
        return (
            "; cloud-init mounts it through /etc/fstab: remove it from 'mounts' and 'fs_setup' of the cloud-config, "
            "remove that line and unmount it"
        )
    return ""
