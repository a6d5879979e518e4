# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Ends users' processes that do not end after SIGKILL, before Slurm drains the node because of them.

Two cases can be resolved. A process may wait forever for its own FUSE server, even if the process itself holds that
server's last open file: aborting the FUSE connection ends it. A process may be held by a tracer: killing the tracer
ends it. Processes that hang in a driver or on a network file system are left alone: nothing ends them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..machine.mounts import parse_mounts, read_mounts
from ..machine.root import Root
from ..machine.run import Run, must

CONTROL = "/run/hpcai/fusectl"
"""Mount point of the kernel's list of FUSE connections. The usual mount point is not mounted on every machine."""
LATER_S = 5.0
"""A killed process may take a moment to end: only those that still exist after this time are handled."""
_STATE = re.compile(r"^State:\s*(\S)", re.MULTILINE)
_UID = re.compile(r"^Uid:\s*(\d+)", re.MULTILINE)
_TRACER = re.compile(r"^TracerPid:\s*(\d+)", re.MULTILINE)
_PENDING = re.compile(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", re.MULTILINE)
_IS_KILLED = 1 << (signal.SIGKILL - 1)

Kill = Callable[[int, int], None]
Owner = Callable[[str], int]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class UnkillableThread:
    """A thread of a user that got SIGKILL and has not ended.

    :ivar pid: its process.
    :ivar uid: its owner; never root.
    :ivar tracer: the process that traces it; 0 for none.
    """

    pid: int
    tid: int
    uid: int
    tracer: int


def stuck_threads(root: Root) -> set[UnkillableThread]:
    """Return users' threads that got SIGKILL and still wait, and ended ones that a tracer holds."""
    return {found for pid, folder in root.numbered("/proc", "") for found in _of_process(root, pid, folder)}


def owner_of(path: str) -> int:
    """Return the user id of a file's owner."""
    return os.stat(path).st_uid


def free(root: Root, run: Run, kill: Kill, pause: Pause, owner: Owner = owner_of) -> list[str]:
    """End the processes that were stuck before and after the pause, and return one line per action.

    :param owner: returns the owner of a connection. The mount option user_id is not suitable: it is an id in the user
        namespace of the mount.
    :raises CommandFailed: the list of FUSE connections cannot be mounted.
    """
    before = stuck_threads(root)
    if not before:
        return []
    pause(LATER_S)
    done: dict[str, None] = {}
    for one in sorted(before & stuck_threads(root), key=lambda found: found.tid):
        for words in (*_kill_tracer(one, root, kill), *_abort_connections(one, root, run, owner)):
            done[words] = None
    return list(done)


def _of_process(root: Root, pid: int, folder: str) -> Iterator[UnkillableThread]:
    for tid, task in root.numbered(f"{folder}/task", ""):
        text = root.text(f"{task}/status") or ""
        state, uid, tracer = (_group(pattern, text) for pattern in (_STATE, _UID, _TRACER))
        killed = any(int(mask, 16) & _IS_KILLED for mask in _PENDING.findall(text))
        traced = int(tracer or 0)
        if uid in ("", "0"):
            continue
        if (killed and state in ("D", "t", "T")) or (traced and state == "Z"):
            yield UnkillableThread(pid, tid, int(uid), traced)


def _group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _ids_of_user(one: UnkillableThread, root: Root) -> set[int]:
    """Return the thread's user id, and in a user namespace also that of its creator.

    A user may have further ids there (subuid(5)). The kernel maps the creator's own id alone, or newuidmap does, which
    lets a user map only the own id and the own further ids.
    """
    lines = [line.split() for line in (root.text(f"/proc/{one.pid}/uid_map") or "").splitlines()]
    mapped = [(int(first), int(count)) for _inside, first, count in lines]
    if not any(first <= one.uid < first + count for first, count in mapped):
        return {one.uid}
    return {one.uid} | {first for first, count in mapped if count == 1 and first != 0}


def _kill_tracer(one: UnkillableThread, root: Root, kill: Kill) -> Iterator[str]:
    tracers_uid = _group(_UID, root.text(f"/proc/{one.tracer}/status") or "") if one.tracer else ""
    if not tracers_uid or int(tracers_uid) not in _ids_of_user(one, root):
        return
    with contextlib.suppress(ProcessLookupError):
        kill(one.tracer, signal.SIGKILL)
        yield f"killed process {one.tracer} of user {one.uid}: it traced process {one.pid}, which was already killed"


def _abort_connections(one: UnkillableThread, root: Root, run: Run, owner: Owner) -> Iterator[str]:
    """Abort the FUSE connections that the user owns and the process sees; root's connections are not changed."""
    for mount in parse_mounts(root.text(f"/proc/{one.pid}/task/{one.tid}/mountinfo") or ""):
        major, _colon, minor = mount.number.partition(":")
        if mount.filesystem.partition(".")[0] not in ("fuse", "fuseblk") or major != "0":
            continue
        _show_connections(root, run)
        path = root.at(f"{CONTROL}/{minor}/abort")
        with contextlib.suppress(FileNotFoundError):
            if owner(path) not in _ids_of_user(one, root):
                continue
            _abort(path)
            yield f"aborted FUSE connection {minor} of user {one.uid}: the killed process {one.pid} waited for it"


def _show_connections(root: Root, run: Run) -> None:
    if any(mount.mountpoint == CONTROL for mount in read_mounts(root)):
        return
    os.makedirs(root.at(CONTROL), mode=0o700, exist_ok=True)
    must(run(["mount", "-t", "fusectl", "fusectl", CONTROL]))


def _abort(path: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, b"1")
    finally:
        os.close(handle)
