# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How much of an ext4 file system is reserved for root: no user can fill that part."""

from __future__ import annotations

import struct

from .mounts import Mount
from .root import Root

_KINDS = ("ext2", "ext3", "ext4")
_OFFSET, _SIZE = 1024, 1024
# Fields of the superblock (the kernel's Documentation/filesystems/ext4/super.rst).
_RESERVED_LOW, _LOG_BLOCK_SIZE, _MAGIC, _INCOMPATIBLE, _RESERVED_HIGH = 0x8, 0x18, 0x38, 0x60, 0x154
_IS_EXT, _HAS_64_BITS = 0xEF53, 0x80


def reserved_bytes(mount: Mount, root: Root) -> int:
    """Return the bytes that only root may use; 0 where there are none, or they cannot be read."""
    if mount.filesystem not in _KINDS:
        return 0
    try:
        with open(root.at(f"/dev/block/{mount.number}"), "rb") as device:
            device.seek(_OFFSET)
            block = device.read(_SIZE)
    except OSError:
        return 0
    if len(block) < _SIZE or _field(block, "H", _MAGIC) != _IS_EXT:
        return 0
    blocks = _field(block, "I", _RESERVED_LOW)
    if _field(block, "I", _INCOMPATIBLE) & _HAS_64_BITS:
        blocks |= _field(block, "I", _RESERVED_HIGH) << 32
    return blocks * (1024 << _field(block, "I", _LOG_BLOCK_SIZE))


def _field(block: bytes, kind: str, offset: int) -> int:
    (value,) = struct.unpack_from(f"<{kind}", block, offset)
    return int(value)
