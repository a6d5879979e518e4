# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Mounts and unmounts with timeouts: waiting for a dead server may block for minutes or forever."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Sequence
from typing import Callable

from ...machine.mounts import Mount, is_users, read_mounts
from ...machine.root import Root
from ...machine.run import Result
from ...machine.user_folders import FolderProblem, walk
from .job import Bounded, NodeFailure, last_line
from .layout import FILES

MOUNT_S, UNMOUNT_S, LAZY_S, HAND_OVER_S = 30.0, 20.0, 10.0, 15.0
# The tests' stand-in is a FUSE file system, which the kernel lists as fuse.beegfs.
_TYPES = ("beegfs", "fuse.beegfs")
_CLIENTS, _RETRIES, _AGAIN_S = "/proc/fs/beegfs", "conn_retries_enabled", 1.0
_SAFE = ("nosuid", "nodev")
_MOST_FUSE = 1000
"""How many file systems fusermount lets users mount (mount_max of fuse.conf)."""


def mount_at(mount_point: str, root: Root) -> Mount | None:
    """Return the topmost mount at the mount point; None if there is none."""
    found = _mounts_at(mount_point, root)
    return found[-1] if found else None


def _layers(mount_point: str, root: Root) -> int:
    return len(_mounts_at(mount_point, root))


def mount_of_job(mount_point: str, root: Root) -> Mount | None:
    """Return the job's mount at the mount point, even if the job's user mounted something over it; None without one.

    It is a BeeGFS, or the folder of a one-node job: no other file system is unmounted. A BeeGFS there belongs to a job,
    because only the role uses this mount point.
    """
    found = [mount for mount in _mounts_at(mount_point, root) if not is_users(mount)]
    is_ours = found and (found[-1].filesystem in _TYPES or found[-1].root.endswith(f"/{FILES}"))
    return found[-1] if is_ours else None


def _mounts_at(mount_point: str, root: Root) -> list[Mount]:
    return [mount for mount in read_mounts(root) if mount.mountpoint == mount_point]


def prepare(mount_point: str, root: Root) -> None:
    """Create the mount point.

    :raises NodeFailure: something else is mounted there, or it is not empty.
    """
    mounted = mount_at(mount_point, root)
    if mounted:
        raise NodeFailure(f"{mounted.source} ({mounted.filesystem}) is already mounted on {mount_point}: unmount it")
    try:
        with walk(root, mount_point, make_mode=0o755) as folder:
            if os.listdir(folder.handle):
                raise NodeFailure(f"{mount_point} is not empty: move its content away, or use another mount point")
    except FolderProblem as error:
        raise NodeFailure(str(error)) from None
    except OSError as error:
        raise NodeFailure(f"cannot create {mount_point}: {error.strerror}") from None


def mount(command: Sequence[str], mount_point: str, root: Root, run: Bounded, limit_s: float = MOUNT_S) -> str:
    """Mount, and verify the mount. Return an error message, or an empty text if it is mounted.

    :raises NodeFailure: it is mounted without nosuid or nodev.
    """
    answer = run(command, limit_s)
    mounted = mount_at(mount_point, root)
    if answer.rc != 0 or mounted is None:
        return f"cannot mount {mount_point}: {_complaint(answer)}"
    lacking = [option for option in _SAFE if option not in mounted.options]
    if lacking:
        raise NodeFailure(f"{mount_point} is mounted without {' and '.join(lacking)}")
    return ""


def _complaint(answer: Result) -> str:
    """Return mount(8)'s error: since util-linux 2.38 the last line is only a hint to dmesg."""
    lines = [line for line in answer.stderr.strip().splitlines() if "dmesg(1)" not in line]
    return lines[-1].strip() if lines else last_line(answer)


def give_to_user(mount_point: str, uid: int, gid: int, run: Bounded) -> None:
    """Make the job's user the owner of the root folder, with mode 0700.

    All nodes do this, with the same result, so that none has to wait for another.

    :raises NodeFailure: it fails.
    """
    # Use commands, which can be killed: a system call of this process would hang with the file system.
    for command in (["chown", f"{uid}:{gid}", mount_point], ["chmod", "0700", mount_point]):
        answer = run(command, HAND_OVER_S)
        if answer.rc != 0:
            raise NodeFailure(f"cannot make user {uid} the owner of {mount_point}: {last_line(answer)}")


def _stop_retries(mount_point: str, root: Root) -> None:
    """Disable the client's retries, which would last ten minutes: the unwritten data will be removed anyway."""
    mounted = mount_at(mount_point, root)
    named = [option for option in mounted.options if option.startswith("cfgFile=")] if mounted else []
    for name in root.entries(_CLIENTS) if named else []:
        lines = (root.text(f"{_CLIENTS}/{name}/config") or "").splitlines()
        if f"cfgFile = {named[0].partition('=')[2]}" in lines:
            path = root.at(f"{_CLIENTS}/{name}/{_RETRIES}")
            with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
                file.write("0")


def _detach_users_mounts(mount_point: str, root: Root, run: Bounded) -> None:
    """Detach what the job's user mounted over the job's file system."""
    for _layer in range(_MOST_FUSE):
        found = _mounts_at(mount_point, root)
        if not found or not is_users(found[-1]):
            return
        run(["umount", "-c", "-l", mount_point], LAZY_S)
        if _layers(mount_point, root) >= len(found):
            return


def _has_mounts_inside(mount_point: str, root: Root) -> bool:
    return any(mount.mountpoint.startswith(f"{mount_point}/") for mount in read_mounts(root))


def unmount(mount_point: str, root: Root, run: Bounded, kill: Kill, clock: Clock, pause: Pause) -> list[str]:
    """Unmount all layers, and return error messages.

    Processes that use it are ended first. A mount that does not unmount within its timeout is detached, so that no
    other job sees it. That is reported as a failure, because the kernel still has the mount.
    """
    problems: list[str] = []
    # A job that was started twice leaves two mounts, one over the other.
    for _layer in range(4):
        if mount_at(mount_point, root) is None:
            return problems
        survivors = end_users(mount_point, root, kill, clock, pause)
        if survivors:
            problems.append(f"cannot kill {named(survivors, root)}, using {mount_point}")
        _detach_users_mounts(mount_point, root, run)
        layers = _layers(mount_point, root)
        _stop_retries(mount_point, root)
        # Only a lazy umount works while a user's FUSE file system is mounted inside, and it detaches that too.
        if _has_mounts_inside(mount_point, root):
            run(["umount", "-c", "-l", mount_point], UNMOUNT_S)
            if _layers(mount_point, root) < layers:
                continue
        # Option -c: do not canonicalize the path, because that would query servers that may be dead.
        deadline = clock() + UNMOUNT_S
        answer = run(["umount", "-c", mount_point], UNMOUNT_S)
        # The client's kernel thread may still try to write data of killed processes.
        while "busy" in answer.stderr and clock() < deadline:
            pause(_AGAIN_S)
            answer = run(["umount", "-c", mount_point], UNMOUNT_S)
        # An umount that waits for a dead management daemon has already left the table of mounts: no process sees it
        # any more, and the kernel finishes it after its own timeout.
        if answer.rc == 0 or _layers(mount_point, root) < layers:
            continue
        lazy = run(["umount", "-c", "-l", mount_point], LAZY_S)
        # It may have left the table of mounts in the meantime: then the lazy umount fails, with "not mounted".
        if lazy.rc != 0 and _layers(mount_point, root) < layers:
            continue
        if lazy.rc != 0:
            return [*problems, f"cannot unmount {mount_point}: {last_line(answer)}"]
        problems.append(f"{mount_point} did not unmount ({last_line(answer)}) and was only detached: reboot the node")
    return problems if mount_at(mount_point, root) is None else [*problems, f"{mount_point} is still mounted"]


TERM_S, KILL_S = 5.0, 3.0
"""How long processes may take to end after SIGTERM, and after SIGKILL, in seconds."""
_LOOK_S = 0.1
_MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ \d+\s+(/.*)$", re.MULTILINE)

Kill = Callable[[int, int], None]
Clock = Callable[[], float]
Pause = Callable[[float], None]


def users_of(mount_point: str, root: Root) -> list[int]:
    """Return the processes with a working directory, an open file or a mapped file there; never this process.

    It reads only /proc and never accesses the file system itself, because an access without its servers would hang.
    """
    return [
        pid for pid, folder in root.numbered("/proc", "") if pid != os.getpid() and _uses(folder, mount_point, root)
    ]


def end_users(mount_point: str, root: Root, kill: Kill, clock: Clock, pause: Pause) -> list[int]:
    """Send SIGTERM to all of them, then SIGKILL to the rest, and return those that still exist."""
    for number, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        users = users_of(mount_point, root)
        for pid in users:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, number)
        deadline = clock() + wait_s
        while users and clock() < deadline:
            pause(_LOOK_S)
            users = users_of(mount_point, root)
        if not users:
            return []
    return users


def named(pids: list[int], root: Root) -> str:
    """Return the processes' names and ids for a message."""
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
