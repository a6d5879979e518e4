# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who uses a mount, and how he is made to leave: only processes that have something of this one open.

What they have open is read off /proc, where looking at a link asks no file system: one whose servers are gone would not
answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from typing import Callable

from ...machine.root import Root

TERM_S, KILL_S = 5.0, 3.0
"""Seconds that they may take to leave when they are asked to, and when they are killed."""
_LOOK_S = 0.1
_MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ \d+\s+(/.*)$", re.MULTILINE)

Kill = Callable[[int, int], None]
Clock = Callable[[], float]
Pause = Callable[[float], None]


def users_of(mount_point: str, root: Root) -> list[int]:
    """Return the processes that stand in it, have a file of it open, or have one mapped; never this one."""
    return [
        pid for pid, folder in root.numbered("/proc", "") if pid != os.getpid() and _uses(folder, mount_point, root)
    ]


def make_leave(mount_point: str, root: Root, kill: Kill, clock: Clock, pause: Pause) -> list[int]:
    """Ask all of them to end, kill those that do not, and return those that are still there."""
    for number, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        left = users_of(mount_point, root)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, number)
        deadline = clock() + wait_s
        while left and clock() < deadline:
            pause(_LOOK_S)
            left = users_of(mount_point, root)
        if not left:
            return []
    return left


def named(pids: list[int], root: Root) -> str:
    """Return how people are told of processes."""
    shown = ", ".join(f"{root.text(f'/proc/{pid}/comm') or '?'} ({pid})" for pid in pids[:5])
    return shown + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")


def _uses(folder: str, mount_point: str, root: Root) -> bool:
    links = [f"{folder}/{name}" for name in ("cwd", "root", "exe")]
    links += [f"{folder}/fd/{name}" for name in root.entries(f"{folder}/fd")]
    for link in links:
        try:
            if _below(os.readlink(root.at(link)), mount_point):
                return True
        except OSError:
            continue
    mapped = _MAPPED.findall(root.text(f"{folder}/maps") or "")
    return any(_below(path, mount_point) for path in mapped)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
