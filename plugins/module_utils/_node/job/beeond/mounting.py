# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Mounting and unmounting, each within its limit: who waits for a server that is gone waits for minutes, or ever."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Sequence
from typing import Callable

from ...machine.mounts import Mount, read_mounts
from ...machine.root import Root
from ...machine.run import Result
from ...machine.user_folders import FolderProblem, walk
from .job import Bounded, NodeFailure, last_line
from .layout import FILES

MOUNT_S, UNMOUNT_S, LAZY_S, HAND_OVER_S = 30.0, 20.0, 10.0, 15.0
# A stand-in in user space is fuse.beegfs to the kernel.
_TYPES = ("beegfs", "fuse.beegfs")
_CLIENTS, _RETRIES, _AGAIN_S = "/proc/fs/beegfs", "conn_retries_enabled", 1.0
_SAFE = ("nosuid", "nodev")


def mount_at(mount_point: str, root: Root) -> Mount | None:
    """Return what is mounted there, the topmost one; None if nothing is."""
    found = [mount for mount in read_mounts(root) if mount.mountpoint == mount_point]
    return found[-1] if found else None


def _layers(mount_point: str, root: Root) -> int:
    return sum(mount.mountpoint == mount_point for mount in read_mounts(root))


def is_ours(mounted: Mount) -> bool:
    """Whether it is a BeeGFS, or the folder of a job of one node: no other file system is unmounted.

    The mount point is the role's own, so that a BeeGFS there is no other installation's.
    """
    return mounted.filesystem in _TYPES or mounted.root.endswith(f"/{FILES}")


def prepare(mount_point: str, root: Root) -> None:
    """Make the folder to mount on.

    :raises NodeFailure: something else is mounted there, or lies in it.
    """
    mounted = mount_at(mount_point, root)
    if mounted:
        raise NodeFailure(f"{mounted.source} ({mounted.filesystem}) is mounted on {mount_point}: unmount it")
    try:
        with walk(root, mount_point, make_mode=0o755) as folder:
            if os.listdir(folder.handle):
                raise NodeFailure(f"{mount_point} is not empty: move its content away, or choose another mount point")
    except FolderProblem as error:
        raise NodeFailure(str(error)) from None
    except OSError as error:
        raise NodeFailure(f"{mount_point} cannot be made: {error.strerror}") from None


def mount(command: Sequence[str], mount_point: str, root: Root, run: Bounded, limit_s: float = MOUNT_S) -> str:
    """Mount, and look whether it is so. Return what is wrong, in words; nothing where it is mounted.

    :raises NodeFailure: it is mounted with privileges for what lies in it.
    """
    answer = run(command, limit_s)
    mounted = mount_at(mount_point, root)
    if answer.rc != 0 or mounted is None:
        return f"{mount_point} cannot be mounted: {_complaint(answer)}"
    lacking = [option for option in _SAFE if option not in mounted.options]
    if lacking:
        raise NodeFailure(f"{mount_point} is mounted without {' and '.join(lacking)}")
    return ""


def _complaint(answer: Result) -> str:
    """Return what mount(8) complains of: since util-linux 2.38 it says last that dmesg may tell more."""
    lines = [line for line in answer.stderr.strip().splitlines() if "dmesg(1)" not in line]
    return lines[-1].strip() if lines else last_line(answer)


def give_to_user(mount_point: str, uid: int, gid: int, run: Bounded) -> None:
    """Give the root folder to the job's user alone. All nodes do it: none need wait for another, it is the same.

    :raises NodeFailure: it cannot be done.
    """
    # By commands, which can be ended: a call of our own would hang with the file system.
    for command in (["chown", f"{uid}:{gid}", mount_point], ["chmod", "0700", mount_point]):
        answer = run(command, HAND_OVER_S)
        if answer.rc != 0:
            raise NodeFailure(f"{mount_point} cannot be given to user {uid}: {last_line(answer)}")


def _stop_retries(mount_point: str, root: Root) -> None:
    """Have the client try once what it would try for ten minutes: what it has not written is removed anyway."""
    mounted = mount_at(mount_point, root)
    named = [option for option in mounted.options if option.startswith("cfgFile=")] if mounted else []
    for name in root.entries(_CLIENTS) if named else []:
        lines = (root.text(f"{_CLIENTS}/{name}/config") or "").splitlines()
        if f"cfgFile = {named[0].partition('=')[2]}" in lines:
            path = root.at(f"{_CLIENTS}/{name}/{_RETRIES}")
            with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
                file.write("0")


def unmount(mount_point: str, root: Root, run: Bounded, kill: Kill, clock: Clock, pause: Pause) -> list[str]:
    """Unmount what is there, and return what is wrong, in words.

    Those who use it leave first. What then does not go within its limit is taken out of sight, so that no other job
    sees it, and that is told as a failure: the kernel still has it.
    """
    problems: list[str] = []
    # One over the other is what a job leaves that was started twice.
    for _layer in range(4):
        if mount_at(mount_point, root) is None:
            return problems
        survivors = end_users(mount_point, root, kill, clock, pause)
        if survivors:
            problems.append(f"{named(survivors, root)} on {mount_point} cannot be killed")
        layers = _layers(mount_point, root)
        _stop_retries(mount_point, root)
        # Not canonicalized: to look at the mount point is to ask servers that may be gone.
        deadline = clock() + UNMOUNT_S
        answer = run(["umount", "-c", mount_point], UNMOUNT_S)
        # The client's own thread still tries to write for those who were killed.
        while "busy" in answer.stderr and clock() < deadline:
            pause(_AGAIN_S)
            answer = run(["umount", "-c", mount_point], UNMOUNT_S)
        # One that waits for a management daemon that is gone has left the table of mounts already: nobody sees it any
        # more, and the kernel is done with it when its own patience is over.
        if answer.rc == 0 or _layers(mount_point, root) < layers:
            continue
        lazy = run(["umount", "-c", "-l", mount_point], LAZY_S)
        # It may have left the table meanwhile: then it is not mounted to whoever would detach it.
        if lazy.rc != 0 and _layers(mount_point, root) < layers:
            continue
        if lazy.rc != 0:
            return [*problems, f"{mount_point} cannot be unmounted: {last_line(answer)}"]
        problems.append(
            f"{mount_point} did not unmount ({last_line(answer)}): it was only detached, restart the machine"
        )
    return problems if mount_at(mount_point, root) is None else [*problems, f"{mount_point} is still mounted"]


TERM_S, KILL_S = 5.0, 3.0
"""Seconds that they may take to leave when they are asked to, and when they are killed."""
_LOOK_S = 0.1
_MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ \d+\s+(/.*)$", re.MULTILINE)

Kill = Callable[[int, int], None]
Clock = Callable[[], float]
Pause = Callable[[float], None]


def users_of(mount_point: str, root: Root) -> list[int]:
    """Return the processes that stand in it, have a file of it open, or have one mapped; never this one.

    That is read off /proc, where looking at a link asks no file system: one whose servers are gone would not answer.
    """
    return [
        pid for pid, folder in root.numbered("/proc", "") if pid != os.getpid() and _uses(folder, mount_point, root)
    ]


def end_users(mount_point: str, root: Root, kill: Kill, clock: Clock, pause: Pause) -> list[int]:
    """Ask all of them to end, kill those that do not, and return those that are still there."""
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
