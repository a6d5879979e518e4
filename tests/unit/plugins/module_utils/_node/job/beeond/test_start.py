# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting BeeOND: the steps, their order, and whether a failure is the node's fault."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import ALLOWED, AUTO
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .conftest import JOB, SETTINGS, Node, on


def test_the_first_node_runs_all_daemons_and_mounts_last(node: Node) -> None:
    done = node.start()
    assert (done.good, done.started, done.words) == (True, True, "job 17 has /beeond on 4 nodes")
    started = [command[-1] for command in node.calls("systemctl", "start")]
    assert started == [f"hpcai-beeond-{name}@17.service" for name in ("mgmtd", "storage", "meta", "helperd")]
    order = [command[0] for command in node.asked]
    assert order.index("mount") > max(number for number, name in enumerate(order) if name == "beegfs-ctl")
    storage = node.path("/run/hpcai/beeond/17/storage.conf").read_text(encoding="utf-8")
    assert "sysMgmtdHost = address-of-gpu-0\n" in storage
    assert "storeStorageDirectory = /scratch/beeond/17/storage\n" in storage
    assert "connPortShift = 1000\n" in storage


def test_other_nodes_run_only_storage_and_helper_daemons(node: Node) -> None:
    node.hostname = "gpu-2"
    assert node.start(on("gpu-2")).started
    started = [command[-1] for command in node.calls("systemctl", "start")]
    assert started == ["hpcai-beeond-storage@17.service", "hpcai-beeond-helperd@17.service"]


def test_metadata_nodes_sets_the_number_of_metadata_daemons(node: Node) -> None:
    node.hostname = "gpu-1"
    node.online = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    done = node.start(on("gpu-1"), replace(SETTINGS, metadata_nodes=2))
    assert "hpcai-beeond-meta@17.service" in [command[-1] for command in node.calls("systemctl", "start")]
    # The fake management daemon knows only one metadata node, and this is not it.
    assert not done.good
    assert "this node's metadata daemon of job 17 has not registered" in done.words


def test_a_one_node_job_gets_a_bind_mount_from_the_scratch(node: Node) -> None:
    assert node.start(replace(JOB, nodes=("gpu-0",))).words == "job 17 has /beeond on this node"
    [mount] = node.calls("mount")
    assert (*mount[:4], mount[5]) == ("mount", "-c", "-o", "bind,nosuid,nodev", "/beeond")
    assert mount[4].startswith(f"/proc/{os.getpid()}/fd/")
    assert ("chown", "4001:4001", "/beeond") in node.asked
    assert not node.calls("systemctl", "start")
    assert node.stop() == []
    assert node.leftovers() == []


def test_after_a_missing_peer_the_node_cleans_up_then_requeues(node: Node) -> None:
    node.online.remove("gpu-3")
    done = node.start()
    assert (done.good, done.started) == (True, False)
    assert "job 17 was requeued" in done.words
    assert (node.state, node.restarts) == ("PENDING", 1)
    assert node.leftovers() == []
    order = [" ".join(command) for command in node.asked]
    cleaned = next(number for number, words in enumerate(order) if words.startswith("systemctl stop"))
    assert cleaned < next(number for number, words in enumerate(order) if "requeue" in words)


def test_a_missing_peer_and_a_silent_controller_fail_the_prolog(node: Node) -> None:
    node.online.remove("gpu-3")
    node.controller_answers = False
    done = node.start()
    assert not done.good
    assert "job 17 cannot be requeued: slurmctld did not answer" in done.words
    assert node.leftovers() == []


def test_a_missing_peer_and_a_failed_clean_up_fail_the_prolog(node: Node) -> None:
    node.online.remove("gpu-3")

    def never_die(command: tuple[str, ...]) -> None:
        node.immortal.update(node.pids)

    node.during = never_die
    done = node.start()
    assert not done.good
    assert "cannot kill" in done.words
    assert node.state == "PENDING"


def test_a_silent_management_daemon_is_the_first_nodes_fault(node: Node) -> None:
    node.management_answers = False
    done = node.start()
    assert not done.good
    assert "the management daemon of job 17 on this node did not answer" in done.words
    assert not node.calls("requeue")


def test_a_silent_management_daemon_is_a_missing_peer_for_other_nodes(node: Node) -> None:
    node.management_answers, node.hostname = False, "gpu-1"
    done = node.start(on("gpu-1"))
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "the management daemon on gpu-0 did not answer" in done.words


@pytest.mark.parametrize("deadline_s", [0, 120])
def test_a_node_that_did_not_register_fails(node: Node, deadline_s: int) -> None:
    node.hostname = "gpu-3"
    node.online.remove("gpu-3")
    done = node.start(on("gpu-3"), replace(SETTINGS, deadline_s=deadline_s))
    assert not done.good
    assert "this node's storage daemon of job 17 has not registered" in done.words
    assert not node.calls("requeue")


def test_a_late_management_daemon_excuses_a_late_registration(node: Node) -> None:
    node.hostname, node.management_answers = "gpu-3", False
    node.online.remove("gpu-3")

    def come(command: tuple[str, ...]) -> None:
        # The job's nodes wait 128 s; a daemon tries again after up to ten seconds.
        node.management_answers = node.time > 120

    node.during = come
    done = node.start(on("gpu-3"))
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "has not registered: the management daemon on gpu-0 has answered for only" in done.words
    assert node.leftovers() == []


def test_a_pause_of_the_management_daemon_restarts_the_grace_period(node: Node) -> None:
    node.hostname = "gpu-3"
    node.online.remove("gpu-3")

    def pause(command: tuple[str, ...]) -> None:
        node.management_answers = not 100 < node.time < 120

    node.during = pause
    assert node.start(on("gpu-3")).good
    assert node.state == "PENDING"


def test_a_management_daemon_that_ends_during_queries_is_a_missing_peer(node: Node) -> None:
    # The first node has just given up: it stops its daemons, and then requeues the job.
    node.hostname = "gpu-1"
    node.online.remove("gpu-3")

    def end(command: tuple[str, ...]) -> None:
        # Only the first of the four queries is still answered.
        first = {"--listnodes", "--nodetype=meta"} <= {*command}
        node.management_answers = node.time < 125 or first

    node.during = end
    done = node.start(on("gpu-1"))
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "the management daemon on gpu-0 did not answer" in done.words
    assert node.leftovers() == []


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("(2) 1:02 Main [App] >> starting\n(0) 1:02 Main [App] >> Disk on fire\n", "Disk on fire"),
        (
            "starting\n(2) waiting\n",
            "its last log line is '(2) waiting': see 'journalctl -u hpcai-beeond-storage@17.service'",
        ),
    ],
)
def test_a_daemon_that_dies_fails_the_start_at_once_with_its_log(node: Node, log: str, words: str) -> None:
    node.fail_storage_daemon(log)
    done = node.start()
    assert not done.good
    assert done.words == f"a daemon of job 17 has ended: storage: {words}"
    assert node.time < 5


def test_a_unit_that_does_not_start_fails_the_prolog(node: Node) -> None:
    node.fails["start hpcai-beeond-meta@17.service"] = Result((), 1, "", "Job for hpcai-beeond-meta@17.service failed")
    done = node.start()
    assert not done.good
    assert "cannot start hpcai-beeond-meta@17.service" in done.words
    assert node.leftovers() == []


def test_a_hanging_mount_times_out(node: Node) -> None:
    node.fails["mount -t"] = Result((), 124, "", "no answer within 30 s")
    done = node.start()
    assert not done.good
    assert "cannot mount /beeond: no answer within 30 s" in done.words
    assert 125 <= node.time < 160
    assert node.leftovers() == []


# As mount of util-linux 2.38 prints it.
MOUNT_CANCELED = Result(
    (),
    32,
    "",
    "mount: /beeond: mount(2) system call failed: Operation canceled.\n"
    "       dmesg(1) may have more information after failed mount system call.\n",
)


def test_a_failed_mount_after_a_peers_failure_is_not_this_nodes_fault(node: Node) -> None:
    node.fails["mount -t"] = MOUNT_CANCELED

    def put_back(command: tuple[str, ...]) -> None:
        # That node's prolog has failed, and slurmctld has requeued the job.
        if node.time > 4:
            node.state, node.restarts = "PENDING", 1

    node.during = put_back
    done = node.start()
    assert (done.good, done.started) == (True, False)
    assert "job 17 is already PENDING" in done.words
    assert node.time < 10
    assert node.leftovers() == []


def test_a_failed_mount_with_an_unreachable_peer_is_a_missing_peer(node: Node) -> None:
    node.fails["mount -t"] = MOUNT_CANCELED
    node.unreachable = {"gpu-2"}
    done = node.start()
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "the storage server on gpu-2 cannot be reached; job 17 was requeued" in done.words
    assert node.leftovers() == []


def test_a_failed_mount_with_reachable_peers_is_this_nodes_fault(node: Node) -> None:
    node.fails["mount -t"] = MOUNT_CANCELED
    done = node.start()
    assert not done.good
    assert "Operation canceled" in done.words
    assert len(node.calls("mount", "beegfs_nodev")) > 3


def test_a_failed_mount_is_retried(node: Node) -> None:
    node.fails["mount -t"] = MOUNT_CANCELED

    def mend(command: tuple[str, ...]) -> None:
        if node.time > 2:
            node.fails.clear()

    node.during = mend
    assert node.start().started


def test_a_failed_mount_with_a_dead_own_daemon_is_this_nodes_fault(node: Node) -> None:
    node.fails["mount -t"] = MOUNT_CANCELED

    def die(command: tuple[str, ...]) -> None:
        if "beegfs_nodev" in command:
            node.units["hpcai-beeond-meta@17.service"] = "failed"

    node.during = die
    done = node.start()
    assert not done.good
    journal = "it wrote no log: see 'journalctl -u hpcai-beeond-meta@17.service'"
    assert f"a daemon of the job has ended: meta: {journal}; cannot mount /beeond" in done.words


def test_a_cancelled_job_ends_the_wait(node: Node) -> None:
    node.online.remove("gpu-3")
    node.state = "CANCELLED"
    done = node.start()
    assert (done.good, done.started) == (True, False)
    assert "job 17 is already CANCELLED" in done.words
    assert node.time < 25
    assert node.leftovers() == []


def test_a_port_in_use_fails_the_start(node: Node) -> None:
    node.ports_in_use = {9003}
    done = node.start()
    assert (done.good, done.words) == (False, "port 9003/tcp is taken")
    assert node.leftovers() == []


def test_a_missing_scratch_is_not_created(node: Node) -> None:
    node.path("/scratch").rmdir()
    done = node.start()
    assert not done.good
    assert "/scratch, needed for the job's data, is not available" in done.words
    assert not node.path("/scratch").exists()


@pytest.mark.parametrize("kind", ["file", "link", "folder", "fifo in a folder"])
def test_a_users_entry_in_the_folders_place_is_replaced_with_a_warning(node: Node, kind: str) -> None:
    path, precious = node.path("/scratch/beeond"), node.path("/precious")
    precious.mkdir(mode=0o755)
    if kind == "link":
        path.symlink_to(precious)
    elif kind == "file":
        path.write_text("x", encoding="utf-8")
    else:
        (path / "17").mkdir(parents=True)
        if "fifo" in kind:
            # Opening it for reading would wait for a writer.
            os.mkfifo(path / "17/.hpcai-beeond")
    if os.geteuid() != 0 and path.is_dir() and not path.is_symlink():
        pytest.skip("the user who runs the test owns the folder, as root would")
    os.chown(path, 4001, 4001, follow_symlinks=False)
    done = node.start()
    assert (done.good, done.started) == (True, True)
    what = {"link": "a symbolic link", "file": "a file"}.get(kind, "a folder")
    assert f"; warning: /scratch/beeond was {what} of user 4001: it was" in done.words
    assert (path.stat().st_uid, path.stat().st_mode & 0o7777) == (os.geteuid(), 0o700)
    assert list(precious.iterdir()) == []
    assert node.stop() == []


def test_only_root_can_enter_the_jobs_folders_on_the_scratch(node: Node) -> None:
    node.path("/scratch/beeond").mkdir(mode=0o711)
    assert node.start().started
    modes = [node.path(f"/scratch/beeond{path}").stat().st_mode & 0o7777 for path in ("", "/17", "/17/storage")]
    assert modes == [0o700, 0o700, 0o700]


def test_a_scratch_whose_entries_users_can_replace_fails_the_start(node: Node) -> None:
    node.path("/scratch").chmod(0o777)
    done = node.start()
    assert not done.good
    assert "users can replace /scratch/beeond: run 'chown root' and 'chmod +t'" in done.words
    assert not node.path("/scratch/beeond/17").exists()


def test_infiniband_that_is_down_fails_the_start(node: Node) -> None:
    node.file("/sys/class/infiniband/mlx5_ib0/ports/1/link_layer", "InfiniBand")
    node.file("/sys/class/infiniband/mlx5_ib0/ports/1/state", "1: DOWN")
    done = node.start(settings=replace(SETTINGS, rdma=AUTO))
    assert not done.good
    assert "no InfiniBand port carries data (mlx5_ib0: DOWN)" in done.words
    assert node.start(settings=replace(SETTINGS, rdma=ALLOWED)).started


def test_a_missing_munge_key_fails_the_start(node: Node) -> None:
    node.path("/etc/munge/munge.key").unlink()
    done = node.start()
    assert not done.good
    assert "cannot read /etc/munge/munge.key" in done.words
    assert node.leftovers() == []


@pytest.mark.parametrize("obstacle", ["mount", "file"])
def test_files_and_mounts_on_the_mount_point_are_not_touched(node: Node, obstacle: str) -> None:
    if obstacle == "file":
        node.file("/beeond/precious", "yes")
    else:
        node.file("/proc/self/mountinfo", "40 1 0:50 / /beeond rw - nfs4 server:/export rw\n")
    done = node.start()
    assert not done.good
    assert "/beeond" in done.words
    assert not node.calls("umount")
    assert node.leftovers() == []


def test_a_start_first_removes_leftovers_of_dead_jobs_only(node: Node) -> None:
    assert node.start().started
    later = replace(JOB, number="18", leader="18")
    node.stepd("17")
    done = node.start(later)
    # A user can have caused that, so the job is requeued, and the node is not drained.
    assert (done.good, done.started) == (True, False)
    assert "job 17 has a file system on this node too: submit with --exclusive" in done.words
    assert node.path("/scratch/beeond/17").is_dir()
    assert node.mounted == ["/beeond"]
    node.end(9017)
    assert node.start(later).started
    assert not node.path("/scratch/beeond/17").exists()


def test_the_deadline_leaves_time_to_roll_back() -> None:
    assert SETTINGS.wait_s(4) == 128
    assert SETTINGS.wait_s(1000) == 210
    assert replace(SETTINGS, start_limit_s=60).wait_s(4) == 36
