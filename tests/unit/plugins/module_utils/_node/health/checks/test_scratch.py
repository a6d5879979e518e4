# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scratch: complete, not mounted, another file system, read-only, with a missing disk, not writable."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.scratch import SCRATCH, problem_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from ...setup.scratch.node import Node
from ..playing import context

BOOT_ID = "0f1e2d3c"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with its array mounted, and with the record of the mount."""
    made = Node(tmp_path)
    made.ours()
    put(made, "run/hpcai/scratch.json", {"number": made.number("md127"), "mount_options": [], "adopted": None})
    return made


def put(node: Node, path: str, content: Any) -> None:
    """Write a JSON file."""
    file = node.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="ascii")


def record_of_boot(node: Node, **details: Any) -> None:
    """Write the record of the step directories in this boot."""
    file = node.folder / "proc/sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{BOOT_ID}\n", encoding="ascii")
    put(node, "run/hpcai/boot/directories.json", {"boot_id": BOOT_ID, "details": details})


def measure(node: Node, size: str | None = "Standard_ND96asr_v4") -> Answer:
    """Check the scratch."""
    return SCRATCH.measure(context(root=node.root, size=size))


@pytest.mark.parametrize("state", ["clean", "active", "active-idle", "write-pending", "read-auto"])
def test_passes_with_a_complete_array_and_leaves_no_file(node: Node, state: str) -> None:
    node.arrays["md127"].state = state
    node.write()
    answer = measure(node)
    assert (answer.findings, answer.good) == ((), "/scratch is mounted, complete, and can be written")
    assert {one.name: one.value for one in answer.readings} == {
        "scratch_mounted": "yes",
        "scratch_array_members": 8,
        "scratch_array_state": state,
    }
    assert os.listdir(node.folder / "scratch") == []


def test_fails_and_blocks_jobs_if_it_is_not_mounted(node: Node) -> None:
    node.mounts.pop()
    node.write()
    (found,) = measure(node).findings
    assert (found.verdict, found.summary) == ("fail", "the scratch /scratch is not mounted")
    assert (SCRATCH.blocks_job, SCRATCH.blocks_boot, SCRATCH.fault) == (True, True, "NHC2023")


def test_without_a_known_number_of_disks_a_scratch_that_was_mounted_counts(node: Node) -> None:
    size = "Standard_ND96isrf_H200_v5"
    assert measure(node, size).good == "/scratch is mounted, complete, and can be written"
    node.mounts.pop()
    node.write()
    assert [found.summary for found in measure(node, size).findings] == ["the scratch /scratch is not mounted"]
    (node.folder / "run/hpcai/scratch.json").unlink()
    assert measure(node, size).skipped == "no scratch is expected on this node"


def test_fails_if_another_file_system_is_mounted(node: Node) -> None:
    node.mounts.append(["sda1", "/scratch", "ext4", "rw"])
    node.write()
    (found,) = measure(node).findings
    assert found.verdict == "fail"
    assert found.summary == "a wrong file system is mounted at /scratch: /dev/sda1 (ext4)"


def test_fails_if_it_is_read_only(node: Node) -> None:
    node.mounts[-1][3] = "ro,noatime"
    node.write()
    assert [found.summary for found in measure(node).findings] == ["the scratch /scratch is mounted read-only"]


@pytest.mark.parametrize("state", ["broken", "inactive", "readonly", "suspended"])
def test_fails_with_an_array_in_a_bad_state(node: Node, state: str) -> None:
    node.arrays["md127"].state = state
    node.write()
    (found,) = measure(node).findings
    assert (found.verdict, found.summary, found.device) == ("fail", f"the scratch's array md127 is {state}", "md127")


def test_fails_with_a_missing_member(node: Node) -> None:
    node.arrays["md127"].members.remove("nvme5n1")
    node.write()
    (found,) = measure(node).findings
    assert found.summary == "the scratch's array md127 has lost a disk: 7 of 8 members, degraded 0"


def test_fails_degraded_and_with_a_faulty_member(node: Node) -> None:
    md = node.folder / "sys/block/md127/md"
    (md / "dev-nvme5n1/state").write_text("faulty\n", encoding="ascii")
    (found,) = measure(node).findings
    assert found.summary == "the scratch's array md127 has failed members: nvme5n1 failed"
    (md / "degraded").write_text("1\n", encoding="ascii")
    (found,) = measure(node).findings
    assert found.summary.endswith("has lost a disk: 8 of 8 members, degraded 1: nvme5n1 failed")


@pytest.mark.parametrize("state", ["in_sync", "in_sync,write_mostly", "spare"])
def test_a_member_in_a_good_state_does_not_fail(node: Node, state: str) -> None:
    (node.folder / "sys/block/md127/md/dev-nvme5n1/state").write_text(f"{state}\n", encoding="ascii")
    assert measure(node).findings == ()


def test_fails_if_it_cannot_be_written(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter((errno.EIO, errno.ENOSPC, errno.EDQUOT))

    def refuse(**_options: object) -> None:
        code = next(codes)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    (found,) = measure(node).findings
    assert (found.verdict, found.action) == ("fail", "reboot")
    assert found.summary == "the scratch /scratch cannot be written: Input/output error"
    # A full scratch is no fault of the node.
    assert measure(node).findings == ()
    assert measure(node).findings == ()


def test_a_temporary_disk_as_scratch_must_be_mounted_too(tmp_path: Path) -> None:
    node = Node(tmp_path, disks=0)
    node.mounts.append(["sda1", "/work", "ext4", "rw"])
    node.write()
    record_of_boot(node, kind="temporary_disk", mountpoint="/work")
    assert measure(node, "Standard_ND40rs_v2").findings == ()
    node.mounts.pop()
    node.write()
    record_of_boot(node, kind="temporary_disk", mountpoint="/work")
    (found,) = measure(node, "Standard_ND40rs_v2").findings
    assert found.summary == "the scratch /work is not mounted"


def test_is_skipped_if_none_is_expected(tmp_path: Path) -> None:
    node = Node(tmp_path, disks=0)
    assert measure(node, "Standard_ND40rs_v2").skipped == "no scratch is expected on this node"


def test_a_plain_directory_must_exist_and_be_writable(tmp_path: Path) -> None:
    """The prolog 10-scratch relies on this check."""
    node = Node(tmp_path, disks=0)
    record_of_boot(node, kind="directory", mountpoint="/work")
    (tmp_path / "work").mkdir()
    answer = measure(node, None)
    assert (answer.findings, answer.good) == ((), "/work, a plain directory, can be written")
    assert [(one.name, one.value) for one in answer.readings] == [("scratch_written", "yes")]
    (tmp_path / "work").rmdir()
    (found,) = measure(node, None).findings
    assert (found.verdict, found.summary) == ("fail", "the scratch /work cannot be written: No such file or directory")


def test_the_settings_win_over_the_size(node: Node) -> None:
    put(node, "etc/hpcai/scratch.json", {"schema": 1, "expected_count": 8, "mountpoint": "/fast"})
    (found,) = measure(node, "Standard_ND40rs_v2").findings
    assert found.summary == "the scratch /fast is not mounted"


def test_cannot_measure_with_invalid_settings(node: Node) -> None:
    """A check that raises an exception is unknown."""
    put(node, "etc/hpcai/scratch.json", {"schema": 1, "chunk": "many"})
    with pytest.raises(ValueError, match="chunk"):
        measure(node)


# The prolog of a node without health checks only checks that the scratch is as after the boot.

MOUNT = "36 35 9:127 / /scratch rw,noatime - xfs /dev/md127 rw\n"


class BootedMachine:
    """A booted machine."""

    def __init__(self, folder: Path) -> None:
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
        """Set what is mounted."""
        self.write("proc/self/mountinfo", text)

    def record_boot(self, kind: str = "mount", boot_id: str = "one") -> None:
        """Write the record of the step directories."""
        details = {"kind": kind, "mountpoint": "/scratch"}
        self.write("run/hpcai/boot/directories.json", json.dumps({"boot_id": boot_id, "details": details}))


@pytest.fixture
def machine(tmp_path: Path) -> BootedMachine:
    """A machine with a mounted scratch."""
    made = BootedMachine(tmp_path)
    made.record_boot()
    return made


def test_a_mounted_scratch_that_can_be_written_is_good_and_stays_empty(machine: BootedMachine) -> None:
    assert problem_of(machine.root) == ""
    assert list((machine.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("kind", ["mount", "temporary_disk"])
def test_a_missing_mount_is_reported(machine: BootedMachine, kind: str) -> None:
    machine.record_boot(kind)
    machine.mounts("")
    assert problem_of(machine.root) == "the scratch /scratch is not mounted"


def test_a_plain_directory_need_not_be_mounted(machine: BootedMachine) -> None:
    machine.record_boot("directory")
    machine.mounts("")
    assert problem_of(machine.root) == ""
    os.rmdir(machine.folder / "scratch")
    assert problem_of(machine.root) == "the scratch /scratch cannot be written: No such file or directory"


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.ENOSPC, ""),
        (errno.EDQUOT, ""),
        (errno.EIO, "the scratch /scratch cannot be written: Input/output error"),
        (errno.EROFS, "the scratch /scratch cannot be written: Read-only file system"),
    ],
)
def test_a_full_scratch_fails_no_prolog(
    machine: BootedMachine, monkeypatch: pytest.MonkeyPatch, number: int, problem: str
) -> None:
    def write(*_given: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", write)
    assert problem_of(machine.root) == problem
    assert list((machine.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"boot_id": "one"}', '{"boot_id": "one", "details": {}}'])
def test_a_node_that_expects_no_scratch_is_good(machine: BootedMachine, text: str) -> None:
    machine.write("run/hpcai/boot/directories.json", text)
    machine.mounts("")
    assert problem_of(machine.root) == ""


def test_a_record_of_an_earlier_boot_is_ignored(machine: BootedMachine) -> None:
    machine.record_boot(boot_id="two")
    machine.mounts("")
    assert problem_of(machine.root) == ""
