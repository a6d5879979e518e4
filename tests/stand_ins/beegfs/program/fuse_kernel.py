# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Structures and numbers of the kernel's FUSE protocol 7.31, as include/uapi/linux/fuse.h defines them."""

from __future__ import annotations

import struct

MAJOR, MINOR = 7, 31
WRITE_AT_MOST = 1 << 20
PAGES_AT_MOST = WRITE_AT_MOST // 4096
READ_AHEAD = 1 << 20

REQUEST = struct.Struct("=IIQQIIII")
REPLY = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
ENTRY = struct.Struct("=QQQQII")
ATTRIBUTES_VALID = struct.Struct("=QII")
OPENED = struct.Struct("=QII")
SET_ATTRIBUTES = struct.Struct("=IIQQQQQQIIIIIIII")
TRANSFER = struct.Struct("=QQIIQII")
WRITTEN = struct.Struct("=II")
INIT = struct.Struct("=IIII")
INIT_REPLY = struct.Struct("=IIIIHHIIHHI28x")
MAKE_NODE = struct.Struct("=IIII")
MAKE_DIRECTORY = struct.Struct("=II")
CREATE = struct.Struct("=IIII")
HANDLE = struct.Struct("=Q")
RENAME = struct.Struct("=Q")
RENAME2 = struct.Struct("=QII")
STATFS = struct.Struct("=QQQQQIIII24x")
ENTRY_OF_DIRECTORY = struct.Struct("=QQII")

LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK = 1, 2, 3, 4, 5, 6
MKNOD, MKDIR, UNLINK, RMDIR, RENAME_OLD, LINK = 8, 9, 10, 11, 12, 13
OPEN, READ, WRITE, STATFS_OF, RELEASE, FSYNC = 14, 15, 16, 17, 18, 20
START, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR = 26, 27, 28, 29, 30
CREATE_FILE, INTERRUPT, DESTROY, BATCH_FORGET, RENAME_NEW = 35, 36, 38, 42, 45

# Flags for INIT: ASYNC_READ, BIG_WRITES, AUTO_INVAL_DATA, ASYNC_DIO, PARALLEL_DIROPS, MAX_PAGES.
ABILITIES = 1 << 0 | 1 << 5 | 1 << 12 | 1 << 15 | 1 << 18 | 1 << 22

SET_MODE, SET_UID, SET_GID, SET_SIZE, SET_ATIME, SET_MTIME = 1, 2, 4, 8, 16, 32
SET_ATIME_NOW, SET_MTIME_NOW, SET_CTIME = 128, 256, 1024
NO_REPLACE = 1


def name(content: memoryview | bytes) -> bytes:
    """Return the zero-terminated name at the start of ``content``."""
    return bytes(content).split(b"\0", 1)[0]
