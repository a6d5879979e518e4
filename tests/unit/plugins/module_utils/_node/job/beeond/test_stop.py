# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the epilog stops and removes, what it never touches, and its time limits."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .conftest import Node


def test_a_stop_leaves_nothing(node: Node) -> None:
    assert node.start().started
    assert len(node.leftovers()) == 7
    assert node.stop() == []
    assert node.leftovers() == []
    assert [name for name in node.pids.values() if name.startswith("hpcai")] == []


def test_a_second_stop_finds_nothing(node: Node) -> None:
    assert node.start().started
    node.stop()
    node.asked.clear()
    assert node.stop() == []
    assert not node.calls("umount")


def test_daemons_stop_after_other_nodes_have_unmounted(node: Node) -> None:
    assert node.start().started
    node.other_clients = 2

    def leave(command: tuple[str, ...]) -> None:
        if node.time > 7:
            node.other_clients = 0

    node.during = leave
    began = node.time
    node.stop()
    assert 7 < node.time - began < 12
    order = [" ".join(command) for command in node.asked]
    assert order.index("umount -c /beeond") < next(
        n for n, words in enumerate(order) if words.startswith("systemctl stop")
    )


def test_the_wait_for_other_nodes_times_out(node: Node) -> None:
    assert node.start().started
    node.other_clients = 2
    began = node.time
    assert node.stop() == []
    assert 20 <= node.time - began < 25


def test_a_process_that_ignores_sigterm_is_killed(node: Node) -> None:
    assert node.start().started
    node.process(700, cwd="/beeond/x")
    asked = []

    def stubborn(pid: int, number: int) -> None:
        asked.append(number)
        if number == 9:
            node.end(pid)

    node.kill = stubborn  # type: ignore[method-assign]
    assert node.stop() == []
    assert asked == [15, 9]


def test_a_process_that_cannot_be_killed_is_reported(node: Node) -> None:
    assert node.start().started
    node.process(700, cwd="/beeond/x")
    node.immortal.add(700)
    assert "cannot kill python3 (700), using /beeond" in node.stop()


def test_a_control_group_that_a_user_named_like_a_daemons_unit_does_not_count(node: Node) -> None:
    assert node.start().started
    own = "/user.slice/user-4002.slice/user@4002.service/hpcai-beeond-storage@17.service"
    node.process(700, groups=f"0::{own}\n", uid=4002)
    node.immortal.add(700)
    assert node.stop() == []


@pytest.mark.parametrize("marker", [None, "{}", '{"job": "18"}', "no json", "[]"])
def test_a_folder_without_the_jobs_marker_is_not_removed(node: Node, marker: str | None) -> None:
    assert node.start().started
    path = node.path("/scratch/beeond/17/.hpcai-beeond")
    path.unlink()
    if marker is not None:
        path.write_text(marker, encoding="utf-8")
    assert node.stop() == ["/scratch/beeond/17 has no marker of job 17, so it is not removed"]
    assert node.path("/scratch/beeond/17/storage").is_dir()


def test_a_link_in_the_folders_place_is_not_followed(node: Node, tmp_path: pathlib.Path) -> None:
    assert node.start().started
    precious = tmp_path / "precious"
    os.rename(node.path("/scratch/beeond/17"), precious)
    node.path("/scratch/beeond/17").symlink_to(precious)
    [problem] = node.stop()
    assert "is not a folder" in problem
    assert (precious / "storage").is_dir()


def test_a_state_file_that_names_another_folder_removes_nothing(node: Node) -> None:
    assert node.start().started
    path = node.path("/run/hpcai/beeond/17/state.json")
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "data": "/scratch"}), encoding="utf-8")
    [problem] = node.stop()
    assert problem == "/scratch is not in /scratch/beeond, so it is not removed"
    assert node.path("/scratch/beeond/17").is_dir()


def test_data_that_cannot_be_removed_is_reported(node: Node) -> None:
    assert node.start().started
    node.fails["rm"] = Result((), 1, "", "rm: cannot remove 'x': Input/output error")
    assert node.stop() == ["cannot remove /scratch/beeond/17: rm: cannot remove 'x': Input/output error"]


def test_data_that_takes_too_long_to_remove_is_left_to_the_sweep(node: Node) -> None:
    """Users can create that many files, and a failed epilog would drain the node."""
    assert node.start().started
    node.fails["rm"] = Result((), 124, "", "no answer within 90 s")
    assert node.stop() == []
    assert not node.path("/scratch/beeond/17").exists()
    [aside] = node.path("/scratch/beeond").iterdir()
    assert aside.name.startswith(".removed-17-")
    # Meanwhile another job can start, even one with the same id.
    assert node.start().started
    assert node.stop() == []
    node.fails.clear()
    assert layout.remove_leftovers("/scratch/beeond", node.root, lambda command: node.run(command, 20)) == ""
    assert list(node.path("/scratch/beeond").iterdir()) == []
    assert node.leftovers() == []


def test_another_file_system_on_the_mount_point_is_left_alone(node: Node) -> None:
    assert node.start().started
    node.mounted.clear()
    node.file("/proc/self/mountinfo", "40 1 0:50 / /beeond rw - nfs4 server:/export rw\n")
    assert node.stop() == []
    assert not node.calls("umount")


@pytest.mark.parametrize("kind", ["fuse.sshfs", "fuse.beegfs"])
@pytest.mark.parametrize("points", [["/beeond"], ["/beeond/x"], ["/beeond/x/y", "/beeond", *["/beeond"] * 9]])
def test_what_the_user_mounted_in_or_over_it_does_not_fail_the_epilog(node: Node, points: list[str], kind: str) -> None:
    """Users own the folder of their job, so fusermount mounts there for them."""
    assert node.start().started
    for point in points:
        node.mount_as_user(point, kind=kind)
    assert node.stop() == []
    assert (node.leftovers(), node.users_mounts) == ([], [])
    assert node.start().started


def test_an_unmount_that_cannot_be_detached_keeps_the_data(node: Node) -> None:
    assert node.start().started
    node.fails["umount"] = Result((), 124, "", "no answer within 20 s")
    problems = node.stop()
    assert problems[0] == "cannot unmount /beeond: no answer within 20 s"
    assert problems[-1] == "/scratch/beeond/17 is not removed, because it is in use"
    assert not node.calls("rm")


def test_a_client_with_data_for_a_dead_server_gives_up_and_is_unmounted(node: Node) -> None:
    assert node.start().started
    clients = {"A-1-gpu-0": "/run/hpcai/beeond/17/client.conf", "B-2-gpu-0": "/etc/beegfs/beegfs-client.conf"}
    for name, path in clients.items():
        node.file(f"/proc/fs/beegfs/{name}/config", f"cfgFile = {path}\nconnUnmountRetries = 0\n")
        node.file(f"/proc/fs/beegfs/{name}/conn_retries_enabled", "1")
    node.fails["umount -c"] = Result((), 32, "", "umount: /beeond: target is busy.")
    began = node.time

    def give_up(command: tuple[str, ...]) -> None:
        retries = [node.path(f"/proc/fs/beegfs/{name}/conn_retries_enabled").read_text() for name in clients]
        # The client of another file system is left alone.
        if retries == ["0", "1"] and node.time > began + 4:
            node.fails.clear()

    node.during = give_up
    assert node.stop() == []
    assert node.leftovers() == []
    assert not node.calls("-l")
