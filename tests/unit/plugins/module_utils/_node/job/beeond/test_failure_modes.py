# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The known failure modes of BeeGFS' own beeond script and its integrations, each in a test with its number.

The numbers are those of the table in the guide to BeeOND.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import job_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import REQUIRED
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .conftest import JOB, SETTINGS, Node


def test_mode_01_a_dead_node_does_not_keep_others_from_stopping(node: Node) -> None:
    assert node.start().started
    node.management_answers = False
    assert node.stop() == []
    assert node.leftovers() == []


def test_mode_02_processes_that_cannot_be_stopped_are_reported(node: Node) -> None:
    assert node.start().started
    unit = "hpcai-beeond-storage@17.service"
    [storage] = [pid for pid in node.pids if unit in (node.root.text(f"/proc/{pid}/cgroup") or "")]
    node.immortal.add(storage)
    assert any(f"process {storage} " in words and unit in words for words in node.stop())


def test_mode_02_a_users_own_control_group_with_the_name_of_a_unit_does_not_count(node: Node) -> None:
    assert node.start().started
    theirs = "/user.slice/user-4001.slice/user@4001.service/app.slice/hpcai-beeond-storage@17.service"
    node.process(800, "sleep", groups=f"0::{theirs}\n")
    node.immortal.add(800)
    assert node.stop() == []


def test_mode_03_the_state_file_is_kept_while_daemons_run(node: Node) -> None:
    assert node.start().started
    node.immortal.update(node.pids)
    assert node.stop()
    assert node.path("/run/hpcai/beeond/17/state.json").exists()
    node.immortal.clear()
    assert node.stop() == []
    assert node.leftovers() == []


def test_mode_04_data_is_kept_while_a_daemon_uses_it(node: Node) -> None:
    assert node.start().started
    node.immortal.update(node.pids)
    assert any("/scratch/beeond/17 is not removed, because it is in use" in words for words in node.stop())
    assert node.path("/scratch/beeond/17/storage").is_dir()
    assert node.calls("systemctl", "kill", "--signal=SIGKILL")
    assert not node.calls("rm")


def test_mode_05_waiting_for_other_nodes_times_out(node: Node) -> None:
    node.online.remove("gpu-3")
    done = node.start()
    assert (done.good, done.started) == (True, False)
    assert 128 <= node.time < 150
    assert "3 of 4 storage" in done.words


def test_mode_06_a_failed_start_leaves_nothing_and_the_next_one_succeeds(node: Node) -> None:
    node.fails["mount -t"] = Result((), 32, "", "Mount sanity check failed. Canceling mount")
    done = node.start()
    assert (done.good, done.started) == (False, False)
    assert "Mount sanity check failed" in done.words
    assert node.leftovers() == []
    node.fails.clear()
    assert node.start().started


def test_mode_07_a_reboot_does_not_block_the_next_job(node: Node) -> None:
    assert node.start().started
    # What a reboot does: /run is empty, nothing is mounted, nothing runs.
    node.run(["rm", "-rf", "--", str(node.path("/run/hpcai/beeond"))])
    node.run(["umount", "/beeond"])
    for pid in list(node.pids):
        node.end(pid)
    node.units.clear()
    node.file("/proc/sys/kernel/random/boot_id", "boot-2")
    again = replace(JOB, number="18", leader="18")
    assert node.start(again).started
    assert not node.path("/scratch/beeond/17").exists()


def test_mode_08_stop_uses_the_settings_of_the_start(node: Node) -> None:
    assert node.start().started
    # The settings have changed since the start.
    assert node.stop(replace(SETTINGS, port_shift=2000, metadata_nodes=3)) == []
    assert node.leftovers() == []


def test_mode_09_a_node_named_twice_counts_once(node: Node) -> None:
    given = {
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_UID": "4001",
        "SLURM_JOB_GID": "4001",
        "SLURM_JOB_NODELIST": "gpu-2,gpu-[0-2],gpu-0",
        "SLURMD_NODENAME": "gpu-1",
    }
    assert job_of(given).nodes == ("gpu-0", "gpu-1", "gpu-2")


def test_mode_10_root_writes_only_where_users_cannot(node: Node) -> None:
    assert node.start().started
    folder = node.path("/run/hpcai/beeond/17")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in folder.iterdir()} == {0o600, 0o400}
    assert not node.path("/tmp").exists()
    assert not any("/tmp" in word.replace(str(node.folder), "") for command in node.asked for word in command)


def test_mode_11_only_processes_that_use_this_mount_are_killed(node: Node) -> None:
    assert node.start().started
    node.process(700, cwd="/beeond/data")
    node.process(701, cwd="/beeond-of-another")
    node.process(702, cwd="/home/alice")
    assert node.stop() == []
    assert set(node.pids) & {700, 701, 702} == {701, 702}
    assert not node.calls("rmmod")
    assert not node.calls("umount", "-l")


def test_mode_12_no_node_logs_in_to_another(node: Node) -> None:
    assert node.start().started
    node.stop()
    assert not {os.path.basename(word) for command in node.asked for word in command} & {"ssh", "pdsh", "scp"}


def test_mode_13_a_missing_kernel_module_is_reported(node: Node) -> None:
    node.fails["modprobe"] = Result((), 1, "", "modprobe: FATAL: Module beegfs not found")
    done = node.start()
    assert not done.good
    assert "Module beegfs not found" in done.words
    assert node.leftovers() == []


def test_mode_14_each_daemon_and_the_client_require_the_jobs_secret(node: Node) -> None:
    assert node.start().started
    folder = node.path("/run/hpcai/beeond/17")
    files = sorted(folder.glob("*.conf"))
    assert [file.stem for file in files] == ["client", "helperd", "meta", "mgmtd", "storage"]
    for file in files:
        assert "connAuthFile = /run/hpcai/beeond/17/auth\n" in file.read_text(encoding="utf-8")
        assert "connDisableAuthentication" not in file.read_text(encoding="utf-8")
    secret = (folder / "auth").read_text(encoding="utf-8")
    assert stat.S_IMODE((folder / "auth").stat().st_mode) == 0o400
    assert len(secret.strip()) == 64
    assert not any(secret.strip() in word for command in node.asked for word in command)


def test_mode_15_the_mount_belongs_to_the_user_and_gives_no_privileges(node: Node) -> None:
    assert node.start().started
    [mount] = node.calls("mount", "beegfs_nodev")
    assert {"nosuid", "nodev"} <= set(mount[-1].split(","))
    assert ("chown", "4001:4001", "/beeond") in node.asked
    assert ("chmod", "0700", "/beeond") in node.asked


def test_mode_15_a_mount_without_nosuid_is_refused(node: Node) -> None:
    def forget(command: tuple[str, ...]) -> None:
        if command[0] == "mount":
            node.during = lambda _command: None
            node.fails["mount -t"] = Result(command, 0, "", "")
            node.mounted.append("/beeond")
            node._write_mounts("beegfs", "nodev")

    node.during = forget
    done = node.start()
    assert not done.good
    assert "mounted without nosuid" in done.words


def test_mode_16_rdma_that_fell_back_to_tcp_is_a_failure(node: Node) -> None:
    node.file("/sys/class/infiniband/mlx5_ib0/ports/1/link_layer", "InfiniBand")
    node.file("/sys/class/infiniband/mlx5_ib0/ports/1/state", "4: ACTIVE")
    settings = replace(SETTINGS, rdma=REQUIRED)
    assert node.start(settings=settings).started
    client = node.path("/run/hpcai/beeond/17/client.conf").read_text(encoding="utf-8")
    assert "connTCPFallbackEnabled = false" in client
    node.stop()
    node.net = "   Connections: TCP: 2 (10.0.0.5:9003 [fallback route]);\n"
    done = node.start(settings=settings)
    assert not done.good
    assert "does not use RDMA (Connections: TCP: 2" in done.words
    assert node.leftovers() == []


def test_mode_17_a_hanging_unmount_is_detached_and_reported(node: Node) -> None:
    assert node.start().started

    def detach(command: tuple[str, ...]) -> None:
        if command[0] == "umount" and "-l" in command:
            node._umount(command)

    node.fails["umount -l"] = Result((), 0, "", "")
    node.fails["umount"] = Result((), 124, "", "no answer within 20 s")
    node.during = detach
    [problem] = node.stop()
    assert problem == "/beeond did not unmount (no answer within 20 s) and was only detached: reboot the node"
    assert node.time < 60
    assert node.leftovers() == []


def test_mode_17_an_unmount_that_ends_late_is_no_failure(node: Node) -> None:
    """The mount disappears when the timeout expires, so that the lazy unmount finds nothing."""
    assert node.start().started

    def leave_late(command: tuple[str, ...]) -> None:
        if command[0] == "umount" and "-l" in command:
            node._umount(command)

    node.fails["umount -l"] = Result((), 32, "", "umount: /beeond: not mounted.")
    node.fails["umount"] = Result((), 124, "", "no answer within 20 s")
    node.during = leave_late
    assert node.stop() == []
    assert node.leftovers() == []


def test_mode_17_an_unmount_that_never_returns_is_no_failure(node: Node) -> None:
    assert node.start().started
    assert "connUnmountRetries = false" in node.path("/run/hpcai/beeond/17/client.conf").read_text(encoding="utf-8")

    def leave_the_table(command: tuple[str, ...]) -> None:
        if command[0] == "umount":
            node._umount(command)

    # The mount disappears at once, but umount does not return.
    node.fails["umount"] = Result((), 124, "", "no answer within 20 s")
    node.during = leave_the_table
    assert node.stop() == []
    assert not node.calls("umount", "-l")
    assert node.leftovers() == []
