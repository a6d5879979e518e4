# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What of the scratch is there already, whole or in pieces."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.disks import Array
from ...machine.mounts import Mount
from ...machine.signatures import RAID_MEMBER, Signature
from .facts import ScratchFacts, filesystem_uuid, is_our_array, is_our_filesystem
from .options import ScratchOptions

# Of the states of Documentation/admin-guide/md.rst those in which an array without redundancy can be used.
_USABLE = ("clean", "active", "active-idle", "write-pending", "readonly", "read-auto")


@dataclass(frozen=True)
class Existing:
    """An array, or a file system on a single disk.

    :ivar device: kernel name of what is or can be mounted; empty for an array that does not run.
    :ivar members: the disks it lies on, as far as they are there.
    :ivar uuid: the array's UUID, or the disk's serial number: what its file system's UUID is made of.
    :ivar complete: it can be used as it is, or after its members were assembled.
    :ivar running: it is assembled and can be used.
    :ivar raid_disks: how many disks it was made of; 0 where it is not known.
    :ivar chunk_bytes: stripe unit; 0 for a single disk, or where it is not known.
    :ivar filesystem: what lies on it; None for nothing, or what never saw the end of mkfs, or an earlier array's rest.
    :ivar foreign: type of something on it that we did not make, empty where there is none.
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
        """Whether it is an md array, or a file system straight on a disk."""
        return (self.device,) != self.members


def find_ours(facts: ScratchFacts, wanted: ScratchOptions) -> tuple[Existing, ...]:
    """Return all that is ours, what is complete first."""
    held = [found for name in facts.devices if (found := _running_array(facts, wanted, name))]
    taken = {member for found in held for member in found.members}
    loose = _loose_arrays(facts, wanted, taken)
    single = [found for name in facts.devices if (found := _single_disk(facts, name))]
    return tuple(sorted([*held, *loose, *single], key=lambda found: (not found.complete, not found.mounts)))


def _running_array(facts: ScratchFacts, wanted: ScratchOptions, name: str) -> Existing | None:
    array = facts.devices[name].array
    if array is None:
        return None
    marks = {member: mark for member in array.members if (mark := _member_mark(facts, member, wanted))}
    uuids = {mark.uuid for mark in marks.values()}
    if len(uuids) != 1 or (array.level not in ("raid0", "") and array.state != "inactive"):
        return None
    uuid = uuids.pop()
    running = array.state in _USABLE and len(array.members) == array.raid_disks and len(marks) == array.raid_disks
    known = next((s for m in marks if (s := facts.superblocks.get(m))), None)
    # One that udev began to assemble and never started, for the last member came late or was started by nobody.
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


def _member_mark(facts: ScratchFacts, name: str, wanted: ScratchOptions) -> Signature | None:
    signatures = facts.signatures.get(name) or ()
    return next((s for s in signatures if s.type == RAID_MEMBER and is_our_array(s.label, wanted.array_name)), None)


def _loose_arrays(facts: ScratchFacts, wanted: ScratchOptions, taken: set[str]) -> list[Existing]:
    members: dict[str, list[str]] = {}
    for name in facts.signatures:
        mark = _member_mark(facts, name, wanted)
        if mark and name not in taken:
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
    # A copy of another disk's, or one that never saw the end of mkfs, is ours and no use.
    whole = filesystem is not None and not foreign
    return Existing(name, (name,), serial, whole, whole, 1, 0, filesystem, foreign, facts.mounts_of(name))


def _content(facts: ScratchFacts, name: str, uuid: str) -> tuple[Signature | None, str]:
    signatures = facts.signatures.get(name)
    if signatures is None:
        return None, "something that cannot be read"
    foreign = next((s.type for s in signatures if not is_our_filesystem(s.uuid)), "")
    usable = [s for s in signatures if s.uuid == filesystem_uuid(uuid) and name not in facts.unfinished]
    return (usable[0] if usable else None), foreign


def find_adoptable(facts: ScratchFacts, wanted: ScratchOptions) -> tuple[Existing, ...]:
    """Return the healthy arrays that are not ours and lie on nothing but chosen disks."""
    found = []
    for name, device in facts.devices.items():
        array = device.array
        if array is None or not _is_healthy(array) or not set(array.members) <= set(facts.selected):
            continue
        if any(_member_mark(facts, member, wanted) for member in array.members):
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
