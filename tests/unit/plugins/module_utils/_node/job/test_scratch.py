# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the scratch is as the boot left it."""

from __future__ import annotations

import errno
import json
import os
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.scratch import problem_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

MOUNT = "36 35 9:127 / /scratch rw,noatime - xfs /dev/md127 rw\n"


class Machine:
    """A machine that was booted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.write("proc/sys/kernel/random/boot_id", "one\n")
        self.mounts(MOUNT)
        (folder / "scratch").mkdir()

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def mounts(self, text: str) -> None:
        """What is mounted."""
        self.write("proc/self/mountinfo", text)

    def left(self, kind: str = "mount", boot_id: str = "one") -> None:
        """What step directories has left."""
        details = {"kind": kind, "mountpoint": "/scratch"}
        self.write("run/hpcai/boot/directories.json", json.dumps({"boot_id": boot_id, "details": details}))


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A machine with a mounted scratch."""
    made = Machine(tmp_path)
    made.left()
    return made


def test_a_mounted_scratch_that_can_be_written_is_good_and_stays_empty(machine: Machine) -> None:
    assert problem_of(machine.root) == ""
    assert list((machine.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("kind", ["mount", "temporary_disk"])
def test_a_mount_that_is_gone_is_named(machine: Machine, kind: str) -> None:
    machine.left(kind)
    machine.mounts("")
    assert problem_of(machine.root) == "/scratch is not mounted any more"


def test_a_plain_folder_need_not_be_mounted(machine: Machine) -> None:
    machine.left("directory")
    machine.mounts("")
    assert problem_of(machine.root) == ""
    os.rmdir(machine.folder / "scratch")
    assert problem_of(machine.root) == "/scratch cannot be written: No such file or directory"


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.ENOSPC, ""),
        (errno.EDQUOT, ""),
        (errno.EIO, "/scratch cannot be written: Input/output error"),
        (errno.EROFS, "/scratch cannot be written: Read-only file system"),
    ],
)
def test_a_scratch_that_users_filled_fails_no_prolog(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
) -> None:
    def write(*_given: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", write)
    assert problem_of(machine.root) == problem
    assert list((machine.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"boot_id": "one"}', '{"boot_id": "one", "details": {}}'])
def test_a_node_that_was_promised_no_scratch_is_good(machine: Machine, text: str) -> None:
    machine.write("run/hpcai/boot/directories.json", text)
    machine.mounts("")
    assert problem_of(machine.root) == ""


def test_a_record_of_an_earlier_boot_says_nothing(machine: Machine) -> None:
    machine.left(boot_id="two")
    machine.mounts("")
    assert problem_of(machine.root) == ""
