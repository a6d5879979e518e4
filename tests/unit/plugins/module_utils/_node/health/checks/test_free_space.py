# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free space and inodes: enough, little, too little; the machine's and the users'; read-only; not to be told."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.free_space import CHECK

from ..playing import context

GIB = 2**30
# Space and inodes in all, and left, of each file system: 100 GiB, of which blocks for root are no one's.
PLENTY = (50, 100_000, 50_000)


class Node:
    """A node with file systems that fill."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.left: dict[str, tuple[float, int, int] | int] = {}
        self.options: dict[str, str] = {}
        for path in ("/", "/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"):
            (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for path in ("/", "/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"):
            self.left[path] = PLENTY
        monkeypatch.setattr(os, "statvfs", self.statvfs)

    def statvfs(self, path: str) -> os.statvfs_result:
        """Answer as the kernel does."""
        relative = Path(path).relative_to(self.folder)
        place = "/" if relative == Path() else f"/{relative}"
        left = self.left.get(place, self.left["/"])
        if isinstance(left, int):
            raise OSError(left, os.strerror(left))
        percent, inodes, inodes_left = left
        reserved, blocks = 5, 105
        free = percent + reserved
        scale = GIB // 4096
        counts = (int(blocks * scale), int(free * scale), int(percent * scale))
        return os.statvfs_result((4096, 4096, *counts, inodes, inodes_left, inodes_left, 0, 255))

    def device(self, number: str, content: bytes) -> None:
        """Put content on a file system's device."""
        path = self.folder / "dev/block" / number
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def measure(self, options: Mapping[str, object] | None = None) -> Answer:
        """Look at them."""
        lines = [
            f"{n} 1 0:{n} / {path} {self.options.get(path, 'rw,relatime')} - ext4 /dev/sd{n} rw"
            for n, path in enumerate(self.left, 30)
        ]
        (self.folder / "proc/self").mkdir(parents=True, exist_ok=True)
        (self.folder / "proc/self/mountinfo").write_text("\n".join(lines) + "\n", encoding="ascii")
        return CHECK.measure(context(root=self.folder, options={"free_space": options or {}}))


def superblock(reserved: int) -> bytes:
    """A device with the superblock of an ext4 with blocks of 4 KiB, so many of them reserved for root."""
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
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with room; /var lies on the root file system, and each place of users on one of its own."""
    return Node(tmp_path, monkeypatch)


@pytest.mark.parametrize("left", [(10, 100_000, 10_000), (10, 10_000, 1_000), (10, 0, 0)])
def test_passes_with_room(node: Node, left: tuple[float, int, int]) -> None:
    node.left["/"] = left
    answer = node.measure()
    assert (answer.findings, answer.good) == ((), "6 file systems have space and inodes left")


@pytest.mark.parametrize(
    ("left", "verdict", "words"),
    [
        ((9.99, 100_000, 50_000), "warn", "10.0 % of the space in / is left (10.0 GiB)"),
        ((5, 100_000, 50_000), "warn", "5.0 % of the space in / is left (5.0 GiB)"),
        ((4.9, 100_000, 50_000), "fail", "4.9 % of the space in / is left (4.9 GiB)"),
        ((0, 100_000, 50_000), "fail", "0.0 % of the space in / is left (0.0 GiB)"),
        ((50, 100_000, 9_999), "warn", "9999 inodes in / are left (10.0 %)"),
        ((50, 9_000, 999), "fail", "999 inodes in / are left (11.1 %)"),
    ],
)
def test_fails_where_the_machine_has_little_left(
    node: Node, left: tuple[float, int, int], verdict: str, words: str
) -> None:
    node.left["/"] = left
    (found,) = node.measure().findings
    assert (found.verdict, found.summary, found.cause) == (verdict, words, "node")


@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/dev/shm", "/scratch", "/home"])
def test_what_users_fill_is_their_business(node: Node, path: str) -> None:
    node.left[path] = (0, 100_000, 50_000)
    (found,) = node.measure().findings
    assert (found.verdict, found.cause, found.device) == ("warn", "user", path)


@pytest.mark.parametrize("left", [(0, 100_000, 50_000), (50, 100_000, 0)], ids=["space", "inodes"])
@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/home", "/scratch"])
def test_a_system_file_system_that_users_can_fill_only_warns(
    node: Node, path: str, left: tuple[float, int, int]
) -> None:
    node.left.pop(path)
    node.left["/"] = left
    (found,) = node.measure().findings
    assert (found.verdict, found.cause, found.device) == ("warn", "user", "/")


@pytest.mark.parametrize(
    ("reserved", "summary"),
    [
        # The user has taken all that a user can: root's 5 GiB are free.
        (5 * GIB // 4096, ""),
        # Of 10 GiB for root half is left, which is enough.
        (10 * GIB // 4096, ""),
        # Of 20 GiB for root only 5 are left: that was root.
        (20 * GIB // 4096, "5120 MiB of the 20480 MiB in / that are reserved for root are left"),
    ],
)
def test_what_is_reserved_for_root_is_not_users_to_fill(node: Node, reserved: int, summary: str) -> None:
    node.left.pop("/tmp")
    node.left["/"] = (0, 100_000, 50_000)
    node.device("0:30", superblock(reserved))
    failed = [found for found in node.measure().findings if found.verdict == "fail"]
    assert [(found.summary, found.cause) for found in failed] == ([(summary, "node")] if summary else [])


def test_a_reserve_counts_only_where_users_fill_the_rest(node: Node) -> None:
    node.device("0:30", superblock(20 * GIB // 4096))
    answer = node.measure()
    assert answer.findings == ()
    assert not [reading for reading in answer.readings if reading.name == "free_for_root"]


@pytest.mark.parametrize("content", [b"", bytes(2048)], ids=["empty", "no ext4"])
def test_a_reserve_that_cannot_be_read_is_none(node: Node, content: bytes) -> None:
    node.left.pop("/tmp")
    node.left["/"] = (0, 100_000, 50_000)
    node.device("0:30", content)
    assert [found.verdict for found in node.measure().findings] == ["warn"]


def test_fails_where_it_became_read_only(node: Node) -> None:
    node.options["/"] = "ro,relatime"
    (found,) = node.measure().findings
    assert (found.verdict, found.summary, found.action) == ("fail", "/ is mounted read-only", "reboot")


def test_a_place_of_its_own_is_judged_apart(node: Node) -> None:
    node.left["/var"] = (3, 100_000, 50_000)
    assert [(found.verdict, found.device) for found in node.measure().findings] == [("fail", "/var")]


def test_the_sites_limits_and_places_go_first(node: Node) -> None:
    node.left["/"] = (15, 100_000, 500)
    options = {"fail_percent": 20, "warn_percent": 30.5, "fail_inodes": 400}
    assert [found.verdict for found in node.measure(options).findings] == ["fail", "warn"]
    node.left["/scratch"] = (15, 100_000, 50_000)
    found = node.measure({**options, "system": ["/scratch"], "users": []}).findings
    assert [(one.verdict, one.device) for one in found] == [("fail", "/scratch")]


def test_cannot_measure_what_does_not_tell(node: Node) -> None:
    node.left["/scratch"] = errno.EIO
    (found,) = node.measure().findings
    assert (found.verdict, found.summary) == ("unknown", "/scratch does not tell how much is left: Input/output error")
    (found,) = node.measure({"system": ["/nowhere"], "users": []}).findings
    assert found.verdict == "unknown"
