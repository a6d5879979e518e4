# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free space and inodes: enough, little, too little; the machine's and the users'; read-only; not to be told."""

from __future__ import annotations

import errno
import os
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
        for path in ("/", "/tmp", "/dev/shm", "/scratch", "/var"):
            (folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for path in ("/", "/dev/shm", "/scratch"):
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

    def measure(self, options: Mapping[str, object] | None = None) -> Answer:
        """Look at them."""
        lines = [
            f"{n} 1 0:{n} / {path} {self.options.get(path, 'rw,relatime')} - ext4 /dev/sd{n} rw"
            for n, path in enumerate(self.left, 30)
        ]
        (self.folder / "proc/self").mkdir(parents=True, exist_ok=True)
        (self.folder / "proc/self/mountinfo").write_text("\n".join(lines) + "\n", encoding="ascii")
        return CHECK.measure(context(root=self.folder, options={"free_space": options or {}}))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with room; /var and /tmp lie on the root file system."""
    return Node(tmp_path, monkeypatch)


@pytest.mark.parametrize("left", [(10, 100_000, 10_000), (10, 10_000, 1_000), (10, 0, 0)])
def test_passes_with_room(node: Node, left: tuple[float, int, int]) -> None:
    node.left["/"] = left
    answer = node.measure()
    assert (answer.findings, answer.good) == ((), "3 file systems have space and inodes left")


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


@pytest.mark.parametrize("path", ["/dev/shm", "/scratch"])
def test_what_users_fill_is_their_business(node: Node, path: str) -> None:
    node.left[path] = (0, 100_000, 50_000)
    (found,) = node.measure().findings
    assert (found.verdict, found.cause, found.device) == ("warn", "user", path)


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
