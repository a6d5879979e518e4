# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free space in file systems, and shared file systems that are mounted and answer."""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.file_systems import FREE_SPACE, MOUNTS
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from ..playing import context

GIB = 2**30
# Free space in percent of 100 GiB (blocks for root not included), inodes, and free inodes.
PLENTY = (50, 100_000, 50_000)


class FreeSpaceNode:
    """A node with file systems whose free space a test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.space: dict[str, tuple[float, int, int] | int] = {}
        self.options: dict[str, str] = {}
        for path in ("/", "/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"):
            (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for path in ("/", "/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"):
            self.space[path] = PLENTY
        monkeypatch.setattr(os, "statvfs", self.statvfs)

    def statvfs(self, path: str) -> os.statvfs_result:
        """Answer as the kernel does."""
        relative = Path(path).relative_to(self.folder)
        place = "/" if relative == Path() else f"/{relative}"
        space = self.space.get(place, self.space["/"])
        if isinstance(space, int):
            raise OSError(space, os.strerror(space))
        percent, inodes, free_inodes = space
        reserved, blocks = 5, 105
        free = percent + reserved
        scale = GIB // 4096
        counts = (int(blocks * scale), int(free * scale), int(percent * scale))
        return os.statvfs_result((4096, 4096, *counts, inodes, free_inodes, free_inodes, 0, 255))

    def device(self, number: str, content: bytes) -> None:
        """Put content on a file system's device."""
        path = self.folder / "dev/block" / number
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def measure(self, options: Mapping[str, object] | None = None) -> Answer:
        """Check their free space."""
        lines = [
            f"{n} 1 0:{n} / {path} {self.options.get(path, 'rw,relatime')} - ext4 /dev/sd{n} rw"
            for n, path in enumerate(self.space, 30)
        ]
        (self.folder / "proc/self").mkdir(parents=True, exist_ok=True)
        (self.folder / "proc/self/mountinfo").write_text("\n".join(lines) + "\n", encoding="ascii")
        return FREE_SPACE.measure(context(root=self.folder, options={"free_space": options or {}}))


def superblock(reserved: int) -> bytes:
    """Return a device with the superblock of an ext4: blocks of 4 KiB, this many of them reserved for root."""
    made = bytearray(2048)
    for kind, offset, value in (
        ("<I", 0x8, reserved & 0xFFFFFFFF),
        ("<I", 0x18, 2),
        ("<H", 0x38, 0xEF53),
        ("<I", 0x60, 0x80),
        ("<I", 0x154, reserved >> 32),
    ):
        struct.pack_into(kind, made, 1024 + offset, value)
    return bytes(made)


@pytest.fixture
def node_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FreeSpaceNode:
    """A node with enough space; /var is on the root file system, each path of users on its own one."""
    return FreeSpaceNode(tmp_path, monkeypatch)


@pytest.mark.parametrize("space", [(10, 100_000, 10_000), (10, 10_000, 1_000), (10, 0, 0)])
def test_free_space_passes_with_enough_space(node_free_space: FreeSpaceNode, space: tuple[float, int, int]) -> None:
    node_free_space.space["/"] = space
    answer = node_free_space.measure()
    assert (answer.findings, answer.good) == ((), "6 file systems have enough free space and inodes")


@pytest.mark.parametrize(
    ("space", "verdict", "words"),
    [
        ((9.99, 100_000, 50_000), "warn", "10.0 % of the space in / is free (10.0 GiB)"),
        ((5, 100_000, 50_000), "warn", "5.0 % of the space in / is free (5.0 GiB)"),
        ((4.9, 100_000, 50_000), "fail", "4.9 % of the space in / is free (4.9 GiB)"),
        ((0, 100_000, 50_000), "fail", "0.0 % of the space in / is free (0.0 GiB)"),
        ((50, 100_000, 9_999), "warn", "9999 inodes in / are free (10.0 %)"),
        ((50, 9_000, 999), "fail", "999 inodes in / are free (11.1 %)"),
    ],
)
def test_free_space_fails_if_the_system_has_little_left(
    node_free_space: FreeSpaceNode, space: tuple[float, int, int], verdict: str, words: str
) -> None:
    node_free_space.space["/"] = space
    (found,) = node_free_space.measure().findings
    assert (found.verdict, found.summary, found.cause) == (verdict, words, "node")


@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"])
def test_free_space_only_warns_of_what_users_fill(node_free_space: FreeSpaceNode, path: str) -> None:
    node_free_space.space[path] = (0, 100_000, 50_000)
    (found,) = node_free_space.measure().findings
    assert (found.verdict, found.cause, found.device) == ("warn", "user", path)


@pytest.mark.parametrize("space", [(0, 100_000, 50_000), (50, 100_000, 0)], ids=["space", "inodes"])
@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/home", "/scratch"])
def test_free_space_a_system_file_system_that_users_can_fill_only_warns(
    node_free_space: FreeSpaceNode, path: str, space: tuple[float, int, int]
) -> None:
    node_free_space.space.pop(path)
    node_free_space.space["/"] = space
    (found,) = node_free_space.measure().findings
    assert (found.verdict, found.cause, found.device) == ("warn", "user", "/")


@pytest.mark.parametrize(
    ("reserved", "summary"),
    [
        # Users have filled everything that they can: the 5 GiB for root are free.
        (5 * GIB // 4096, ""),
        # Of 10 GiB for root 5 are free, which is enough.
        (10 * GIB // 4096, ""),
        # Of 20 GiB for root only 5 are free: only root can have used the rest.
        (20 * GIB // 4096, "5120 MiB of the 20480 MiB in / that are reserved for root are free"),
    ],
)
def test_free_space_fails_if_the_space_reserved_for_root_is_used(
    node_free_space: FreeSpaceNode, reserved: int, summary: str
) -> None:
    node_free_space.space.pop("/tmp")
    node_free_space.space["/"] = (0, 100_000, 50_000)
    node_free_space.device("0:30", superblock(reserved))
    failed = [found for found in node_free_space.measure().findings if found.verdict == "fail"]
    assert [(found.summary, found.cause) for found in failed] == ([(summary, "node")] if summary else [])


def test_free_space_a_reserve_counts_only_where_users_can_write(node_free_space: FreeSpaceNode) -> None:
    node_free_space.device("0:30", superblock(20 * GIB // 4096))
    answer = node_free_space.measure()
    assert answer.findings == ()
    assert not [reading for reading in answer.readings if reading.name == "free_for_root"]


@pytest.mark.parametrize("content", [b"", bytes(2048)], ids=["empty", "no ext4"])
def test_free_space_a_reserve_that_cannot_be_read_is_ignored(node_free_space: FreeSpaceNode, content: bytes) -> None:
    node_free_space.space.pop("/tmp")
    node_free_space.space["/"] = (0, 100_000, 50_000)
    node_free_space.device("0:30", content)
    assert [found.verdict for found in node_free_space.measure().findings] == ["warn"]


def test_free_space_fails_on_a_read_only_file_system(node_free_space: FreeSpaceNode) -> None:
    node_free_space.options["/"] = "ro,relatime"
    (found,) = node_free_space.measure().findings
    assert (found.verdict, found.summary, found.action) == ("fail", "/ is mounted read-only", "reboot")


def test_free_space_judges_a_separate_file_system_on_its_own(node_free_space: FreeSpaceNode) -> None:
    node_free_space.space["/var"] = (3, 100_000, 50_000)
    assert [(found.verdict, found.device) for found in node_free_space.measure().findings] == [("fail", "/var")]


def test_free_space_limits_and_paths_of_the_site_win(node_free_space: FreeSpaceNode) -> None:
    node_free_space.space["/"] = (15, 100_000, 500)
    options = {"fail_percent": 20, "warn_percent": 30.5, "fail_inodes": 400}
    assert [found.verdict for found in node_free_space.measure(options).findings] == ["fail", "warn"]
    node_free_space.space["/scratch"] = (15, 100_000, 50_000)
    found = node_free_space.measure({**options, "system": ["/scratch"], "users": []}).findings
    assert [(one.verdict, one.device) for one in found] == [("fail", "/scratch")]


def test_free_space_cannot_measure_what_cannot_be_read(node_free_space: FreeSpaceNode) -> None:
    node_free_space.space["/scratch"] = errno.EIO
    (found,) = node_free_space.measure().findings
    assert (found.verdict, found.summary) == ("unknown", "cannot read the free space of /scratch: Input/output error")
    (found,) = node_free_space.measure({"system": ["/nowhere"], "users": []}).findings
    assert found.verdict == "unknown"


TIMEOUT_S = 1.0
"""Long enough for a busy machine, which may pause for a part of a second."""


class MountsNode:
    """A node with shared file systems, whose servers may not answer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.history = folder, History()
        self.lines = {"/home": "nfs4 server:/home", "/data": "lustre 10.0.0.9@tcp:/data"}
        self.away: dict[str, threading.Event] = {}
        self.broken: dict[str, int] = {}
        mounts = [{"path": path, "source": line.split()[1], "type": "nfs4"} for path, line in self.lines.items()]
        self.put("etc/hpcai/shared_fs.json", json.dumps({"schema": 1, "mounts": mounts}))
        self._statvfs = os.statvfs
        monkeypatch.setattr(os, "statvfs", self.statvfs)

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="ascii")

    def statvfs(self, path: str) -> os.statvfs_result:
        """Answer as the file system does, or wait for its server."""
        name = "/" + str(Path(path).relative_to(self.folder))
        if name in self.away:
            self.away[name].wait(60)
        if name in self.broken:
            raise OSError(self.broken[name], os.strerror(self.broken[name]))
        return self._statvfs(self.folder)

    def measure(self, **options: object) -> Answer:
        """Check the mounts; the history is kept for the next run."""
        lines = [f"{n} 1 0:{n} / {path} rw - {line} rw" for n, (path, line) in enumerate(self.lines.items(), 30)]
        self.put("proc/self/mountinfo", "\n".join(lines) + "\n")
        given = {"seconds": TIMEOUT_S, **options}
        return MOUNTS.measure(context(root=self.folder, history=self.history, seconds=5, options={"mounts": given}))


@pytest.fixture
def node_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MountsNode]:
    """A node with two file systems; at the end all waiting threads are released."""
    made = MountsNode(tmp_path, monkeypatch)
    yield made
    for event in made.away.values():
        event.set()


def test_mounts_passes_if_all_are_mounted_and_answer(node_mounts: MountsNode) -> None:
    answer = node_mounts.measure()
    assert (answer.findings, answer.good) == ((), "2 shared file systems are mounted and answer")
    assert [one.device for one in answer.readings] == ["/home", "/data"]


@pytest.mark.parametrize("line", ["", "autofs systemd-1"])
def test_mounts_fails_if_one_is_not_mounted(node_mounts: MountsNode, line: str) -> None:
    del node_mounts.lines["/home"]
    if line:
        node_mounts.lines["/home"] = line
    (found,) = node_mounts.measure().findings
    assert (found.verdict, found.summary) == ("fail", "/home is not mounted from server:/home")


def test_mounts_fails_if_one_is_broken(node_mounts: MountsNode) -> None:
    node_mounts.broken["/home"] = errno.ESTALE
    (found,) = node_mounts.measure().findings
    assert (found.verdict, found.device) == ("fail", "/home")
    assert found.summary.startswith("/home does not work: Stale file handle")


def test_mounts_fails_if_a_server_does_not_answer_twice_in_a_row(node_mounts: MountsNode) -> None:
    node_mounts.away["/home"] = threading.Event()
    begun = time.monotonic()
    first = node_mounts.measure()
    assert time.monotonic() - begun < 10 * TIMEOUT_S
    assert [(found.verdict, found.summary) for found in first.findings] == [
        ("unknown", "/home (server:/home) does not answer within 1 s")
    ]
    assert [one.device for one in first.readings] == ["/data"], "the other one is still checked"
    (found,) = node_mounts.measure().findings
    assert (found.verdict, found.summary) == (
        "fail",
        "/home (server:/home) does not answer within 1 s, twice in a row",
    )


def test_mounts_passes_with_a_slow_server(node_mounts: MountsNode) -> None:
    node_mounts.away["/home"] = threading.Event()
    threading.Timer(0.05, node_mounts.away["/home"].set).start()
    assert node_mounts.measure(seconds=20).findings == ()


def test_mounts_an_answer_in_between_resets_the_count(node_mounts: MountsNode) -> None:
    node_mounts.away["/home"] = threading.Event()
    node_mounts.measure()
    node_mounts.away["/home"].set()
    assert node_mounts.measure().findings == ()
    node_mounts.away["/home"] = threading.Event()
    assert [found.verdict for found in node_mounts.measure().findings] == ["unknown"]


def test_mounts_warns_of_another_source(node_mounts: MountsNode) -> None:
    node_mounts.lines["/home"] = "nfs4 other:/home"
    (found,) = node_mounts.measure().findings
    assert (found.verdict, found.summary) == ("warn", "/home is mounted from other:/home instead of server:/home")


def test_mounts_checks_paths_of_the_site_too(node_mounts: MountsNode) -> None:
    (found,) = node_mounts.measure(paths=["/projects/"]).findings
    assert (found.verdict, found.summary) == ("fail", "/projects is not mounted")
    node_mounts.lines["/projects"] = "nfs server:/p"
    assert node_mounts.measure(paths=["/projects/"]).findings == ()


def test_mounts_is_skipped_if_none_are_configured(tmp_path: Path) -> None:
    assert MOUNTS.measure(context(root=tmp_path)).skipped.startswith("no shared file systems are configured")


def test_mounts_cannot_measure_with_an_invalid_option(node_mounts: MountsNode) -> None:
    with pytest.raises(ConfigError, match=r"options\.mounts\.paths"):
        node_mounts.measure(paths="/home")
