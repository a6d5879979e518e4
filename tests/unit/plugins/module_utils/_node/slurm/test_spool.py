# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmd's spool gets its own file system, but never while jobs run."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.spool import IMAGE, SIZE_BYTES, NotNow, protect

SPOOL = "/var/lib/slurm/slurmd"
MOUNTED = f"61 30 7:0 / {SPOOL} rw - ext4 /dev/loop0 rw\n"


class Node:
    """A node with fake commands."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root = folder, Root(str(folder))
        self.asked: list[list[str]] = []
        self.rc = 0
        self.write("/proc/self/mountinfo", "60 30 8:1 / / rw - ext4 /dev/sda1 rw\n")

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="ascii")

    def run(self, words: Sequence[str]) -> Result:
        """Answer a command."""
        self.asked.append(list(words))
        return Result(tuple(words), self.rc, "", "no loop device")

    def protect(self) -> bool:
        """Protect the spool, as slurmd's unit does."""
        return protect(SPOOL, self.root, self.run)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node after its start."""
    return Node(tmp_path)


def test_half_of_the_file_system_is_reserved_for_root(node: Node) -> None:
    spool = node.folder / SPOOL.lstrip("/")
    spool.mkdir(parents=True)
    spool.chmod(0o750)
    assert node.protect()
    made, mounted = node.asked
    assert made[0] == "mkfs.ext4"
    assert made[made.index("-m") + 1] == "50"
    assert mounted == ["mount", "-o", "loop,nosuid,nodev", IMAGE, SPOOL]
    image = (node.folder / IMAGE.lstrip("/")).stat()
    assert (image.st_size, image.st_blocks, image.st_mode & 0o777) == (SIZE_BYTES, 0, 0o600)
    assert spool.stat().st_mode & 0o777 == 0o750


def test_a_mounted_spool_is_left_alone(node: Node) -> None:
    node.write("/proc/self/mountinfo", MOUNTED)
    assert not node.protect()
    assert node.asked == []


def test_nothing_is_mounted_over_the_sockets_of_jobs(node: Node) -> None:
    node.write("/proc/77/stat", "77 (slurmstepd) S 1 " + " ".join(["0"] * 48))
    node.write("/proc/77/status", "Name:\tslurmstepd\nUid:\t0\t0\t0\t0\n")
    node.write("/proc/77/cmdline", "slurmstepd: [17.batch]\0")
    with pytest.raises(NotNow, match="while 1 jobs run"):
        node.protect()
    assert node.asked == []


def test_a_machine_without_loop_devices_is_an_error(node: Node) -> None:
    node.rc = 32
    with pytest.raises(CommandFailed, match="no loop device"):
        node.protect()
