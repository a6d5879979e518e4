# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who owns processes and files, and which belong to jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.owners import (
    live_jobs,
    of_live_jobs,
    read_files,
    read_owned,
    uid_of,
    users_of_live_jobs,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """A machine with a job of two steps."""
    made = MachineTree(tmp_path)
    made.process(1, "0", "systemd", parent=0)
    made.process(10, "0", "slurmstepd", command="slurmstepd: [17.batch]")
    made.process(11, "0", "slurmstepd", command="slurmstepd: [17.0]")
    return made


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0", 17),
        ("0::/system.slice/gpu-3_slurmstepd.scope/job_42", 42),
        ("9:freezer:/slurm/uid_1001/job_17/step_0\n8:memory:/", 17),
        ("0::/system.slice/job_x/y", None),
        ("0::/system.slice/other.service/job_17", None),
        ("0::/user.slice/user-1001.slice/user@1001.service/slurmstepd.scope/job_17", None),
        ("0::/user.slice/user-1001.slice/user@1001.service/x\f0::/system.slice/slurmstepd.scope/job_17", None),
        ("0::/user.slice", None),
        ("0::/machine.slice/libpod-1.scope/system.slice/slurmstepd.scope/job_17/step_0", 17),
        # Groups that users have made.
        ("0::/user.slice/user-1001.slice/user@1001.service/app.slice/job_17", None),
        ("0::/user.slice/user-1001.slice/user@1001.service/system.slice/slurmstepd.scope/job_17/step_0", None),
        ("1:name=systemd:/user.slice/user-1001.slice/user@1001.service/job_16\n0::/", None),
        ("1:name=systemd:/user.slice/user-1001.slice/job_16\n9:freezer:/slurm/uid_1001/job_17/step_0", 17),
    ],
)
def test_the_job_of_a_process_is_that_of_its_control_group(tree: MachineTree, cgroup: str, job: int | None) -> None:
    tree.process(20, "0", "a) b (c", cgroup=cgroup, uid=1001)
    found = read_owned(Root(str(tree.path)))[20]
    assert (found.job, found.uid, found.name, found.parent) == (job, 1001, "a) b (c", 1)


def test_the_owner_of_a_process_is_not_read_from_its_name(tree: MachineTree) -> None:
    tree.process(20, "0", "x\rUid:0", uid=1001)
    assert read_owned(Root(str(tree.path)))[20].uid == 1001


def test_the_kernel_does_not_escape_a_carriage_return_in_the_name_of_a_process() -> None:
    """If it did, the test above would show nothing."""
    rename = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'x\\rUid:7', 0, 0, 0); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        assert b"\rUid:7\n" in Path(f"/proc/{process.pid}/status").read_bytes()
        assert uid_of(Root(), process.pid) == os.getuid()
        process.stdin.close()


def test_jobs_are_live_while_they_have_a_step(tree: MachineTree) -> None:
    tree.process(20, "0", "below", parent=11, uid=1001)
    tree.process(21, "0", "deeper", parent=20, uid=1001)
    tree.process(22, "0", "apart", cgroup="0::/system.slice/slurmstepd.scope/job_17/step_0", uid=1001)
    tree.process(23, "0", "over", cgroup="0::/system.slice/slurmstepd.scope/job_16/step_0", uid=1001)
    tree.process(24, "0", "slurmstepd infinity", command="slurmstepd infinity")
    processes = read_owned(Root(str(tree.path)))
    assert live_jobs(processes) == {17}
    assert of_live_jobs(processes) == {10, 11, 20, 21, 22}


def test_a_live_job_has_the_users_of_its_processes_and_none_if_all_are_roots(tree: MachineTree) -> None:
    tree.process(20, "0", "below", parent=11, uid=1001)
    tree.process(21, "0", "apart", cgroup="0::/system.slice/slurmstepd.scope/job_17/step_0", uid=1002)
    tree.process(22, "0", "over", cgroup="0::/system.slice/slurmstepd.scope/job_16/step_0", uid=1003)
    tree.process(30, "0", "slurmstepd", command="slurmstepd: [18.extern]")
    tree.process(31, "0", "sleep", parent=30, cgroup="0::/system.slice/slurmstepd.scope/job_18/step_extern")
    assert users_of_live_jobs(read_owned(Root(str(tree.path)))) == {17: {1001, 1002}, 18: set()}


@pytest.mark.parametrize(("uid", "program"), [(1001, "slurmstepd"), (1001, None), (0, "sudo")])
def test_a_users_process_named_slurmstepd_does_not_count(tree: MachineTree, uid: int, program: str | None) -> None:
    """sudo runs as root, with the name of the link that a user called it by."""
    tree.process(50, "0", "slurmstepd", command="slurmstepd: [99.0]", uid=uid)
    if program:
        (tree.path / "proc/50/exe").symlink_to(f"/usr/bin/{program}")
    tree.process(51, "0", "below", parent=50, uid=1001)
    processes = read_owned(Root(str(tree.path)))
    assert live_jobs(processes) == {17}
    assert {50, 51} & of_live_jobs(processes) == set()


@pytest.mark.parametrize("program", ["/usr/sbin/slurmstepd", "/usr/sbin/slurmstepd (deleted)", "/x/slurmstepd-wlm"])
def test_slurms_own_slurmstepd_is_recognised_by_each_of_its_paths(tree: MachineTree, program: str) -> None:
    (tree.path / "proc/10/exe").symlink_to(program)
    (tree.path / "proc/11/exe").symlink_to(program)
    assert live_jobs(read_owned(Root(str(tree.path)))) == {17}


def test_kernel_threads_and_ended_processes_are_left_out(tree: MachineTree) -> None:
    tree.process(30, "0", "kworker", flags=0x200000)
    tree.process(31, "0", "gone", state="Z")
    (tree.path / "proc/32").mkdir()
    assert set(read_owned(Root(str(tree.path)))) == {1, 10, 11}


def test_a_cycle_of_parents_does_not_loop_forever(tree: MachineTree) -> None:
    tree.process(40, "0", parent=41)
    tree.process(41, "0", parent=40)
    assert 40 not in of_live_jobs(read_owned(Root(str(tree.path))))


def test_the_size_of_a_file_is_that_of_its_blocks(tmp_path: Path) -> None:
    (tmp_path / "tmp/folder").mkdir(parents=True)
    (tmp_path / "tmp/folder/inside").write_bytes(b"x" * 100_000)
    with (tmp_path / "tmp/holes").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "tmp/link").symlink_to("/etc")
    found = {file.path: file.size_bytes for file in read_files(Root(str(tmp_path)), ["/tmp/", "/nowhere"])}
    assert found == {"/tmp/folder": 0, "/tmp/holes": 0, "/tmp/link": 0}
