# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Freeing users' killed processes that do not end, without touching other users' connections and processes."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.unkillable import CONTROL, free
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result

KILLED, NOT_KILLED = "0000000000000100", "0000000000000000"
# As shown in the mount's user namespace, where the user is root.
MINE = "57 30 0:77 / /tmp/x rw - fuse mine rw,user_id=0,group_id=0\n"
ROOTS = "58 30 0:78 / /blob rw - fuse blobfuse2 rw,user_id=0,group_id=0,allow_other\n"
OTHERS = "59 30 0:79 / /tmp/y rw - fuse.sshfs bob rw,user_id=4002,group_id=4002\n"
FUSECTL = f"61 30 0:50 / {CONTROL} rw - fusectl fusectl rw\n"
DISK = "60 30 8:1 / / rw - ext4 /dev/sda1 rw\n"


class Node:
    """A node with the FUSE connections 77, 78 and 79."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root = folder, Root(str(folder))
        self.killed: list[tuple[int, int]] = []
        self.asked: list[tuple[str, ...]] = []
        self.ends: set[int] = set()
        for number in (77, 78, 79):
            self.write(f"{CONTROL}/{number}/abort", "")
        self.write("/proc/self/mountinfo", DISK)

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="ascii")

    def thread(
        self,
        pid: int,
        state: str,
        *,
        pending: str = KILLED,
        uid: int = 4001,
        tracer: int = 0,
        mounts: str = MINE,
        name: str = "x",
    ) -> None:
        """Create a process with one thread."""
        status = f"Name:\t{name}\nState:\t{state} (x)\nTracerPid:\t{tracer}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        status += f"SigPnd:\t{pending}\nShdPnd:\t{NOT_KILLED}\n"
        self.write(f"/proc/{pid}/status", status)
        self.write(f"/proc/{pid}/task/{pid}/status", status)
        self.write(f"/proc/{pid}/task/{pid}/mountinfo", DISK + mounts)

    def pause(self, seconds: float) -> None:
        """Wait; the processes in ``ends`` end meanwhile."""
        for pid in self.ends:
            self.thread(pid, "X", pending=NOT_KILLED)

    def run(self, words: Sequence[str]) -> Result:
        """Record a mount command, and show its mount."""
        self.asked.append(tuple(words))
        self.write("/proc/self/mountinfo", DISK + FUSECTL)
        return Result(tuple(words), 0, "", "")

    def free(self) -> list[str]:
        """Free the stuck processes."""
        return free(self.root, self.run, lambda pid, number: self.killed.append((pid, number)), self.pause, self.owner)

    def owner(self, path: str) -> int:
        """Return the uid of a connection's owner."""
        if not pathlib.Path(path).exists():
            raise FileNotFoundError(path)
        return {"77": 4001, "78": 0, "79": 4002}[pathlib.Path(path).parent.name]

    def aborted(self) -> list[int]:
        """The connections that were aborted."""
        return [n for n in (77, 78, 79) if (self.folder / f"{CONTROL}/{n}/abort".lstrip("/")).read_text() == "1"]


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node without stuck processes."""
    return Node(tmp_path)


def test_nothing_is_done_without_stuck_processes(node: Node) -> None:
    node.thread(100, "S", pending=NOT_KILLED)
    node.thread(101, "D", pending=NOT_KILLED)
    node.thread(102, "R")
    assert (node.free(), node.aborted(), node.killed, node.asked) == ([], [], [], [])


def test_only_the_killed_users_own_connection_is_aborted(node: Node) -> None:
    node.thread(100, "D", mounts=MINE + ROOTS + OTHERS)
    (done,) = node.free()
    assert done == "aborted FUSE connection 77 of user 4001: the killed process 100 waited for it"
    assert node.aborted() == [77]
    assert node.asked == [("mount", "-t", "fusectl", "fusectl", CONTROL)]


def test_a_users_thread_with_another_users_id_in_its_name_aborts_no_connection_of_that_user(node: Node) -> None:
    node.thread(100, "D", mounts=OTHERS, name="\rUid:4002")
    assert (node.free(), node.aborted()) == ([], [])


@pytest.mark.parametrize(
    ("uid_map", "aborted"),
    [
        ("         0       4001          1\n         1     100000      65536\n", [77]),
        ("         0     100000      65536\n", []),
        ("         0          0 4294967295\n", []),
    ],
    ids=["of the user", "of no user", "of the machine"],
)
def test_a_thread_with_a_further_id_of_the_user_is_freed(node: Node, uid_map: str, aborted: list[int]) -> None:
    """In a user namespace with newuidmap, the file system belongs to the user, and its processes may have other ids."""
    node.thread(100, "D", uid=100999, mounts=MINE + ROOTS + OTHERS)
    node.write("/proc/100/uid_map", uid_map)
    node.free()
    assert node.aborted() == aborted


def test_fusectl_is_not_mounted_twice(node: Node) -> None:
    node.write("/proc/self/mountinfo", DISK + FUSECTL)
    node.thread(100, "D")
    node.free()
    assert (node.asked, node.aborted()) == ([], [77])


def test_a_process_that_ends_during_the_wait_is_left_alone(node: Node) -> None:
    node.thread(100, "D")
    node.ends = {100}
    assert (node.free(), node.aborted()) == ([], [])


def test_a_process_of_root_is_left_alone(node: Node) -> None:
    node.thread(100, "D", uid=0, mounts=ROOTS)
    assert (node.free(), node.aborted()) == ([], [])


def test_a_missing_connection_is_ignored(node: Node) -> None:
    (node.folder / f"{CONTROL}/77/abort".lstrip("/")).unlink()
    node.thread(100, "D")
    assert node.free() == []


@pytest.mark.parametrize(("state", "pending"), [("t", KILLED), ("Z", NOT_KILLED)])
def test_the_tracer_of_a_killed_process_is_killed(node: Node, state: str, pending: str) -> None:
    node.thread(200, "S", pending=NOT_KILLED)
    node.thread(100, state, pending=pending, tracer=200, mounts="")
    assert node.free() == ["killed process 200 of user 4001: it traced process 100, which was already killed"]
    assert node.killed == [(200, signal.SIGKILL)]


@pytest.mark.parametrize("uid", [0, 4002])
def test_a_tracer_of_another_user_is_left_alone(node: Node, uid: int) -> None:
    node.thread(200, "S", pending=NOT_KILLED, uid=uid)
    node.thread(100, "t", tracer=200, mounts="")
    assert (node.free(), node.killed) == ([], [])


def test_a_traced_process_that_was_not_killed_is_left_alone(node: Node) -> None:
    node.thread(200, "S", pending=NOT_KILLED)
    node.thread(100, "t", pending=NOT_KILLED, tracer=200)
    assert (node.free(), node.killed) == ([], [])


def test_a_failed_mount_of_fusectl_is_an_error(node: Node) -> None:
    node.thread(100, "D")
    with pytest.raises(CommandFailed, match="not permitted"):
        free(node.root, lambda words: Result(tuple(words), 32, "", "not permitted"), lambda *_: None, lambda _: None)
