# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Freeing users' processes that were killed and do not end, before Slurm drains the node for them.

A process waits without end for a FUSE server of its own that does not answer, also where it holds that server's last
file itself; and for a tracer that does not let it go. The kernel ends both when the connection is aborted or the tracer
is killed. What hangs in a driver or on a network file system is left alone: nothing frees it.
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
"""Where the kernel shows the connections of FUSE. Its usual place is not mounted on each machine."""
LATER_S = 5.0
"""A process that was killed may take a moment to end: only what is still there so much later is freed."""
_STATE = re.compile(r"^State:\s*(\S)", re.MULTILINE)
_UID = re.compile(r"^Uid:\s*(\d+)", re.MULTILINE)
_TRACER = re.compile(r"^TracerPid:\s*(\d+)", re.MULTILINE)
_PENDING = re.compile(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", re.MULTILINE)
_IS_KILLED = 1 << (signal.SIGKILL - 1)

Kill = Callable[[int, int], None]
Owner = Callable[[str], int]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Stuck:
    """A thread of a user that was killed and has not ended.

    :ivar pid: its process.
    :ivar uid: its owner; never root.
    :ivar tracer: the process that traces it; 0 for none.
    """

    pid: int
    tid: int
    uid: int
    tracer: int


def stuck_threads(root: Root) -> set[Stuck]:
    """Return users' threads that SIGKILL has reached and that wait, and those that ended and are held by a tracer."""
    return {found for pid, folder in root.numbered("/proc", "") for found in _of_process(root, pid, folder)}


def owner_of(path: str) -> int:
    """Return whose a file is."""
    return os.stat(path).st_uid


def free(root: Root, run: Run, kill: Kill, pause: Pause, owner: Owner = owner_of) -> list[str]:
    """Free what is stuck now and was stuck a moment before, and return what was done, a line each.

    :param owner: tells whose a connection is. The mount's option user_id does not: it is a number of the user namespace
        in which it was mounted.
    :raises CommandFailed: the connections of FUSE cannot be shown.
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


def _of_process(root: Root, pid: int, folder: str) -> Iterator[Stuck]:
    for tid, task in root.numbered(f"{folder}/task", ""):
        text = root.text(f"{task}/status") or ""
        state, uid, tracer = (_group(pattern, text) for pattern in (_STATE, _UID, _TRACER))
        killed = any(int(mask, 16) & _IS_KILLED for mask in _PENDING.findall(text))
        traced = int(tracer or 0)
        if uid in ("", "0"):
            continue
        if (killed and state in ("D", "t", "T")) or (traced and state == "Z"):
            yield Stuck(pid, tid, int(uid), traced)


def _group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _kill_tracer(one: Stuck, root: Root, kill: Kill) -> Iterator[str]:
    if not one.tracer or _group(_UID, root.text(f"/proc/{one.tracer}/status") or "") != str(one.uid):
        return
    with contextlib.suppress(ProcessLookupError):
        kill(one.tracer, signal.SIGKILL)
        yield f"killed process {one.tracer} of user {one.uid}, the tracer of process {one.pid}, killed before"


def _abort_connections(one: Stuck, root: Root, run: Run, owner: Owner) -> Iterator[str]:
    """Abort the connections that the user mounted and the process sees; those of root are not touched."""
    for mount in parse_mounts(root.text(f"/proc/{one.pid}/task/{one.tid}/mountinfo") or ""):
        major, _colon, minor = mount.number.partition(":")
        if mount.filesystem.partition(".")[0] not in ("fuse", "fuseblk") or major != "0":
            continue
        _show_connections(root, run)
        path = root.at(f"{CONTROL}/{minor}/abort")
        with contextlib.suppress(FileNotFoundError):
            if owner(path) != one.uid:
                continue
            _abort(path)
            yield f"aborted FUSE connection {minor} of user {one.uid}, on which process {one.pid}, killed before, hung"


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
