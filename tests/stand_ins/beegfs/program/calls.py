# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls that Python's library lacks: mount, umount2, and changing the process's own command line."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

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
    """Unmount, lazily or by force according to ``flags``."""
    _checked(_libc.umount2(os.fsencode(target), flags), target)


def show_as(words: list[str]) -> None:
    """Show the real program's command line in the process list, not that of an interpreter with a script."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    shown = b"".join(os.fsencode(word) + b"\0" for word in words)
    if start and len(shown) <= end - start:
        ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)
