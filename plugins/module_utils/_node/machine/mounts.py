# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""File systems: mounts, swap, processes that use a mount, space reserved for root, and whether one is writable."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from .disks import BlockDevice
from .root import Root

_OCTAL = re.compile(r"\\([0-7]{3})")
_DELETED = "//deleted"
"""The kernel appends this to a folder that was removed while it is mounted elsewhere. No real path contains it."""


@dataclass(frozen=True)
class Mount:
    """A line of /proc/self/mountinfo.

    :ivar number: ``major:minor`` of the file system; with btrfs and others, it is not the device's number.
    :ivar root: the mounted folder of the file system; ``/`` unless it is a bind mount.
    :ivar mountpoint: the folder on which it is mounted.
    :ivar filesystem: its type.
    :ivar source: what was mounted, mostly a path in /dev.
    :ivar options: of the mount and of the file system.
    """

    number: str
    root: str
    mountpoint: str
    filesystem: str
    source: str
    options: tuple[str, ...]


def read_mounts(root: Root) -> tuple[Mount, ...]:
    """Return all mounts that this process, or else the machine's first process, sees, in mount order."""
    return parse_mounts(root.text("/proc/self/mountinfo") or root.text("/proc/1/mountinfo") or "")


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts of a mountinfo file, in the order of the file."""
    # splitlines() would also split at characters that the kernel does not escape in names that users choose.
    return tuple(mount for mount in map(_parse, text.split("\n")) if mount)


def _parse(line: str) -> Mount | None:
    # 36 35 98:0 /root /mountpoint rw,noatime master:1 - ext3 /dev/root rw,errors=continue     (proc_pid_mountinfo(5))
    before, found, after = line.partition(" - ")
    first, last = before.split(" "), after.split(" ")
    if not found or len(first) < 6 or len(last) < 3:
        return None
    options = dict.fromkeys([*first[5].split(","), *last[2].split(",")])
    return Mount(
        first[2],
        _unescaped(first[3]).removesuffix(_DELETED),
        _unescaped(first[4]),
        last[0],
        _unescaped(last[1]),
        tuple(options),
    )


def is_users(mount: Mount) -> bool:
    """Whether a user mounted it: fusermount mounts FUSE file systems for users, on folders that they can write to."""
    return mount.filesystem.partition(".")[0] in ("fuse", "fuseblk") and "user_id=0" not in mount.options


def users_mounts(root: Root) -> set[str]:
    """Return the folders on which users mounted file systems.

    Do not access them as root: the kernel refuses that, or the user's server never answers.
    """
    return {mount.mountpoint for mount in read_mounts(root) if is_users(mount)}


def _unescaped(text: str) -> str:
    """Decode the octal numbers by which the kernel writes white space and backslashes."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def read_fstab(root: Root) -> dict[str, tuple[str, ...]]:
    """Return the mounts of /etc/fstab: options by mount point."""
    lines = [line.split() for line in (root.text("/etc/fstab") or "").splitlines()]
    return {
        _unescaped(words[1]).rstrip("/") or "/": tuple(words[3].split(","))
        for words in lines
        if len(words) >= 4 and not words[0].startswith("#") and words[1].startswith("/")
    }


def device_of(mount: Mount, devices: Mapping[str, BlockDevice]) -> str | None:
    """Return the kernel name of the mounted device or partition; None if it is not a block device."""
    return _by_number(mount.number, devices) or by_path(mount.source, devices)


def _by_number(number: str, devices: Mapping[str, BlockDevice]) -> str | None:
    for device in devices.values():
        if device.number == number:
            return device.name
        for partition in device.partitions:
            if partition.number == number:
                return partition.name
    return None


def by_path(path: str, devices: Mapping[str, BlockDevice]) -> str | None:
    """Return the kernel name of the device or partition at ``/dev/NAME`` or ``/dev/mapper/NAME``."""
    if not path.startswith("/dev/"):
        return None
    name = path[len("/dev/") :]
    for device in devices.values():
        if device.mapped_name and name == f"mapper/{device.mapped_name}":
            return device.name
        if name in (device.name, *(partition.name for partition in device.partitions)):
            return name
    return None


def read_swaps(root: Root, devices: Mapping[str, BlockDevice]) -> set[str]:
    """Return the kernel names of the devices and partitions that are used as swap."""
    lines = (root.text("/proc/swaps") or "").splitlines()[1:]
    found = {by_path(os.path.realpath(_unescaped(line.split()[0])), devices) for line in lines if line.strip()}
    return {name for name in found if name}


def processes_below(root: Root, mountpoint: str, most: int = 5) -> list[str]:
    """Return processes with an open file or a working directory below a folder, as ``name (pid)``; at most ``most``."""
    found: list[str] = []
    for pid, folder in root.numbered("/proc", ""):
        if len(found) >= most:
            break
        links = [f"{folder}/cwd", f"{folder}/root", f"{folder}/exe"]
        links += [f"{folder}/fd/{entry}" for entry in root.entries(f"{folder}/fd")]
        if any(_is_below(root, link, mountpoint) for link in links):
            found.append(f"{root.text(f'{folder}/comm') or '?'} ({pid})")
    return found


def _is_below(root: Root, link: str, folder: str) -> bool:
    try:
        target = os.readlink(root.at(link))
    except OSError:
        return False
    return target == folder or target.startswith(folder + "/")


def mount_error(filesystem: str, device: str, where: str) -> int:
    """Mount a device without options, and return the kernel's error number; 0 means that it is mounted now.

    :param filesystem: the type: the kernel does not detect it, so a device with another type gives an error.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p)
    done = libc.mount(os.fsencode(device), os.fsencode(where), os.fsencode(filesystem), 0, None)
    return ctypes.get_errno() if done != 0 else 0


_EXT = ("ext2", "ext3", "ext4")
_SUPERBLOCK_AT, _SUPERBLOCK_BYTES = 1024, 1024
# Fields of the superblock (the kernel's Documentation/filesystems/ext4/super.rst).
_RESERVED_LOW, _LOG_BLOCK_SIZE, _MAGIC, _INCOMPATIBLE, _RESERVED_HIGH = 0x8, 0x18, 0x38, 0x60, 0x154
_IS_EXT, _HAS_64_BITS = 0xEF53, 0x80


def reserved_bytes(mount: Mount, root: Root) -> int:
    """Return the bytes that are reserved for root; 0 if there are none, or they cannot be read."""
    if mount.filesystem not in _EXT:
        return 0
    try:
        with open(root.at(f"/dev/block/{mount.number}"), "rb") as device:
            device.seek(_SUPERBLOCK_AT)
            block = device.read(_SUPERBLOCK_BYTES)
    except OSError:
        return 0
    if len(block) < _SUPERBLOCK_BYTES or _superblock_field(block, "H", _MAGIC) != _IS_EXT:
        return 0
    blocks = _superblock_field(block, "I", _RESERVED_LOW)
    if _superblock_field(block, "I", _INCOMPATIBLE) & _HAS_64_BITS:
        blocks |= _superblock_field(block, "I", _RESERVED_HIGH) << 32
    return blocks * (1024 << _superblock_field(block, "I", _LOG_BLOCK_SIZE))


def _superblock_field(block: bytes, kind: str, offset: int) -> int:
    (value,) = struct.unpack_from(f"<{kind}", block, offset)
    return int(value)


def why_not_writable(folder: str) -> str:
    """Write a byte to a new file in a folder; return the error, or an empty text if it succeeds.

    A full file system is not an error here: users can fill it, and no user may cause a node to be drained.
    """
    try:
        # Users can write to this folder too, so the name must be random.
        handle, path = tempfile.mkstemp(prefix=".hpcai-", dir=folder)
        try:
            os.write(handle, b"x")
        finally:
            os.close(handle)
            os.unlink(path)
    except OSError as error:
        return "" if is_full(error) else str(error.strerror)
    return ""


def is_full(error: OSError) -> bool:
    """Whether the error means that no space, no inode or no quota is left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
