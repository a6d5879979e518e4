# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two calls of the kernel that Python's library has not: mount and umount2."""

from __future__ import annotations

import ctypes
import os

FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "sync": 16, "noatime": 1 << 10, "nodiratime": 1 << 11}
FORCE, DETACH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, path: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    """Mount a file system."""
    words = [os.fsencode(word) for word in (source, target, kind)]
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), target)


def unmount(target: str, flags: int) -> None:
    """Take it away, lazily or by force where the flags say so."""
    _checked(_libc.umount2(os.fsencode(target), flags), target)
