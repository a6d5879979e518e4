# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The facts of the machine that decisions about the scratch need."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...machine.disks import (
    RAID_MEMBER,
    BlockDevice,
    Signature,
    Superblock,
    disk_of,
    disks_below,
    read_block_devices,
    read_signatures,
    read_superblocks,
    resolve,
)
from ...machine.mounts import Mount, device_of, read_fstab, read_mounts, read_swaps
from ...machine.root import Root
from ...machine.run import Run
from .options import REMOTE_MODELS, ScratchOptions

RECORD = "/run/hpcai/scratch.json"
"""What this package mounted, and with which options. On a tmpfs, because the mount does not survive a reboot either."""
_OS_MOUNTPOINTS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var")
# Devices of these kinds are used only if an option names them.
_NEVER_BY_ITSELF = re.compile(r"(loop|ram|zram|sr|fd|nbd)\d+$")
_XFS_MAGIC, _XFS_IN_PROGRESS = b"XFSB", 126  # xfs_dsb: sb_inprogress, 1 from mkfs.xfs's first write to its last


@dataclass(frozen=True)
class FolderFacts:
    """The folder that the scratch is mounted on.

    :ivar kind: ``missing``, ``empty``, ``filled`` or ``other`` (a file, a symbolic link).
    """

    kind: str
    uid: int = 0
    gid: int = 0
    mode: int = 0


@dataclass(frozen=True)
class ScratchFacts:
    """The state of the machine.

    :ivar devices: block devices by kernel name.
    :ivar signatures: signatures on disks and arrays, by kernel name; None if they could not be read.
    :ivar superblocks: md superblocks of our array members that are in no running array.
    :ivar unfinished: devices whose mkfs did not finish.
    :ivar mounts: all mounts.
    :ivar mounted: kernel name of the device or partition of each mount that has one, by index in ``mounts``.
    :ivar fstab: options of the mounts in /etc/fstab, by mountpoint.
    :ivar swaps: devices and partitions used as swap.
    :ivar os_disks: disks of the operating system.
    :ivar busy: disks that are opened exclusively by something that sysfs does not show.
    :ivar selected: the disks that the options select, by ``devices`` or by model.
    :ivar absent: paths of ``devices`` that do not exist.
    :ivar forced: kernel names of ``force_devices``.
    :ivar labelled: kernel name of the device that has the label from the options; None if there is none.
    :ivar folder: the mountpoint.
    :ivar record: what this package mounted earlier; empty if nothing.
    """

    devices: Mapping[str, BlockDevice]
    signatures: Mapping[str, tuple[Signature, ...] | None]
    superblocks: Mapping[str, Superblock] = field(default_factory=dict)
    unfinished: frozenset[str] = frozenset()
    mounts: tuple[Mount, ...] = ()
    mounted: Mapping[int, str] = field(default_factory=dict)
    fstab: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    swaps: frozenset[str] = frozenset()
    os_disks: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    selected: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    forced: frozenset[str] = frozenset()
    labelled: str | None = None
    folder: FolderFacts = FolderFacts("missing")
    record: Mapping[str, Any] = field(default_factory=dict)

    def mounts_of(self, name: str) -> tuple[Mount, ...]:
        """Return the mounts of a device and its partitions."""
        return tuple(self.mounts[index] for index, device in self.mounted.items() if self._is_on(device, name))

    def with_serial(self, name: str) -> str:
        """Return a disk's kernel name and serial number, for a message; Azure's support identifies disks by serial."""
        device = self.devices.get(name)
        return f"{name} {device.serial}" if device and device.serial else name

    def _is_on(self, device: str, name: str) -> bool:
        return device == name or disk_of(self.devices, device) == name

    def mount_at(self, mountpoint: str) -> tuple[Mount | None, str | None]:
        """Return what is visible at a mountpoint, and its device."""
        found = [index for index, mount in enumerate(self.mounts) if mount.mountpoint == mountpoint]
        return (self.mounts[found[-1]], self.mounted.get(found[-1])) if found else (None, None)


def read_facts(options: ScratchOptions, root: Root, run: Run) -> ScratchFacts:
    """Read the machine. Runs one command if everything is as it should be, two if our array members are loose."""
    devices = read_block_devices(root)
    mounts = read_mounts(root)
    mounted = {index: device for index, mount in enumerate(mounts) if (device := device_of(mount, devices))}
    swaps = read_swaps(root, devices)
    selected, absent = select(options, devices, root)
    at_mountpoint = {device for index, device in mounted.items() if mounts[index].mountpoint == options.mountpoint}
    looked_at = [
        name
        for name, device in devices.items()
        if (device.size_bytes and device.array)
        or name in selected
        or name in at_mountpoint
        or (device.is_disk and not _NEVER_BY_ITSELF.match(name))
    ]
    signatures = read_signatures(root, looked_at, run)
    forced = frozenset(name for name in (resolve(root, path) for path in options.force_devices) if name)
    loose = [name for name in looked_at if _is_loose_member(devices, name, signatures[name], options)]
    return ScratchFacts(
        devices=devices,
        signatures=signatures,
        superblocks=read_superblocks(root, loose, run),
        unfinished=frozenset(name for name in looked_at if _is_unfinished(root, name, signatures[name])),
        mounts=mounts,
        mounted=mounted,
        fstab=read_fstab(root),
        swaps=frozenset(swaps),
        os_disks=_os_disks(devices, mounts, mounted, swaps),
        # Without the members of an array: udev could not assemble them if another program had one open exclusively.
        busy=frozenset(
            name
            for name in selected
            if name in devices and (name in forced or not signatures[name]) and _is_busy(root, devices[name])
        ),
        selected=selected,
        absent=absent,
        forced=forced,
        labelled=resolve(root, f"/dev/disk/by-label/{options.label}"),
        folder=read_folder(root, options.mountpoint),
        record=_read_record(root),
    )


def select(
    options: ScratchOptions, devices: Mapping[str, BlockDevice], root: Root
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the kernel names of the disks that the options select, and the paths in ``devices`` that do not exist."""
    if not options.devices:
        found = [name for name, device in devices.items() if device.is_disk and device.model in options.models]
        return tuple(name for name in found if not devices[name].model.startswith(REMOTE_MODELS)), ()
    named = {path: resolve(root, path) for path in options.devices}
    present = dict.fromkeys(name for name in named.values() if name)
    return tuple(present), tuple(path for path, name in named.items() if not name)


def count_selected(options: ScratchOptions, root: Root) -> int:
    """Return how many of the selected disks exist, without reading their content."""
    return len(select(options, read_block_devices(root), root)[0])


def _os_disks(
    devices: Mapping[str, BlockDevice], mounts: tuple[Mount, ...], mounted: Mapping[int, str], swaps: set[str]
) -> frozenset[str]:
    used = {device for index, device in mounted.items() if mounts[index].mountpoint in _OS_MOUNTPOINTS} | swaps
    return frozenset(disk for name in used for disk in (*disks_below(devices, name), disk_of(devices, name)))


def _is_loose_member(
    devices: Mapping[str, BlockDevice], name: str, signatures: tuple[Signature, ...] | None, options: ScratchOptions
) -> bool:
    ours = any(s.type == RAID_MEMBER and is_our_array(s.label, options.array_name) for s in signatures or ())
    holders = [array for holder in devices[name].holders if holder in devices and (array := devices[holder].array)]
    return ours and all(array.state == "inactive" for array in holders)


def _is_unfinished(root: Root, name: str, signatures: tuple[Signature, ...] | None) -> bool:
    if not any(s.type == "xfs" and is_our_filesystem(s.uuid) for s in signatures or ()):
        return False
    try:
        with open(root.at(f"/dev/{name}"), "rb") as device:
            start = device.read(512)
    except OSError:
        return False
    return start.startswith(_XFS_MAGIC) and start[_XFS_IN_PROGRESS] != 0


def _is_busy(root: Root, device: BlockDevice) -> bool:
    """Whether the disk is opened exclusively, by a mount or by a program."""
    if not root.is_this_machine or device.holders or not device.is_disk:
        return False
    try:
        os.close(os.open(root.at(device.path), os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def read_folder(root: Root, path: str) -> FolderFacts:
    """Return what is at a path. Symbolic links are not followed."""
    try:
        found = os.lstat(root.at(path))
    except OSError:
        return FolderFacts("missing")
    kind = ("filled" if root.entries(path) else "empty") if stat.S_ISDIR(found.st_mode) else "other"
    return FolderFacts(kind, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def _read_record(root: Root) -> Mapping[str, Any]:
    try:
        record = json.loads(root.text(RECORD) or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


# How to recognize that something on a disk was made by this package.

# "hpcai" in ASCII, followed by the 8 of UUID version 8 ("custom", RFC 9562): no other program makes such a UUID.
_MARK = "68706361-69"


def filesystem_uuid(of: str) -> str:
    """Return the UUID of the file system on an array (``of``: the array's UUID) or a disk (``of``: its serial number).

    The UUID shows, from the disk alone, that this package made the file system, and that it made it on this array. No
    record is needed that a reboot or a new image could delete. A file system that an earlier array left on the same
    disks can show through a new array until mkfs is done, but it has a different UUID.
    """
    digest = hashlib.sha256(f"hpcai scratch on {of}".encode()).hexdigest()
    return f"{_MARK}{digest[:2]}-8{digest[2:5]}-8{digest[5:8]}-{digest[8:20]}"


def is_our_filesystem(uuid: str) -> bool:
    """Whether this package made a file system with this UUID, perhaps on another array or disk."""
    return uuid.lower().startswith(_MARK) and uuid[14:15] == "8"


def is_our_array(name: str, array_name: str) -> bool:
    """Whether an array of this name is ours. mdadm may have put the host name at creation time in front."""
    return name.rsplit(":", 1)[-1] == array_name
