# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leftovers: none, processes of users without a job, or that Slurm could not kill, files, memory, containers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, NODE, Answer, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.leftovers import LEFTOVERS
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import layout

from ..playing import context

ANNA, BERT, CARA = 1001, 1002, 1003
SCOPE = "0::/system.slice/slurmstepd.scope"
OTHERS_FILE = 1 << 20


class Node:
    """A node with a slurmd, on which Anna's job 17 runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.history = folder, History()
        self.tree = MachineTree(folder)
        self.process(1, 0, "systemd", 0, "0::/init.scope")
        self.process(2, 0, "kthreadd", 0, "0::/", flags=0x200000)
        self.process(90, 0, "slurmd", 1, "0::/system.slice/slurmd.service")
        self.process(91, 998, "munged", 1, "0::/system.slice/munge.service")
        self.step(100, 17)
        self.process(101, ANNA, "python3", 100, f"{SCOPE}/job_17/step_0/user/task_0")

    def process(
        self, pid: int, uid: int, name: str, parent: int, cgroup: str, state: str = "S", flags: int = 0x400000
    ) -> None:
        """Add a process."""
        self.tree.process(pid, "0-95", name, parent, uid=uid, cgroup=cgroup, state=state, flags=flags)

    def step(self, pid: int, job: int, step: str = "0") -> None:
        """Add the slurmstepd of a step."""
        title = f"slurmstepd: [{job}.{step}]"
        self.tree.process(pid, "0-95", "slurmstepd", 1, command=title, cgroup=f"{SCOPE}/job_{job}/step_{step}/slurm")

    def started(self, pid: int, ticks: int) -> None:
        """Set the start time of a process, as if another process had its ID now."""
        file = self.folder / f"proc/{pid}/stat"
        before, closing, after = file.read_text(encoding="ascii").rpartition(")")
        fields = after.split()
        fields[19] = str(ticks)
        file.write_text(f"{before}{closing} {' '.join(fields)}\n", encoding="ascii")

    def measure(self, **options: object) -> Answer:
        """Look for leftovers; the history is kept for the next run."""
        given = {"leftovers": {"folders": [], **options}}
        return LEFTOVERS.measure(context(root=self.tree, tier="epilog", history=self.history, options=given))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node without leftovers."""
    return Node(tmp_path)


def findings_of(answer: Answer) -> list[tuple[str, str, str]]:
    """Return verdict, cause and summary of each finding."""
    return [(found.verdict, found.cause, found.summary) for found in answer.findings]


def test_passes_if_only_jobs_and_services_run(node: Node) -> None:
    # Processes of Anna, who has a job, of services that run as users, and of users who are logged in.
    node.process(110, ANNA, "tmux", 1, "0::/user.slice/user-1001.slice/session-4.scope")
    node.process(111, BERT, "exporter", 1, "0::/system.slice/node_exporter.service")
    node.process(112, CARA, "sshd", 1, "0::/user.slice/user-1003.slice/session-5.scope")
    node.process(113, CARA, "bash", 112, "0::/user.slice/user-1003.slice/session-5.scope")
    node.process(114, 60001, "dnsmasq", 1, "0::/somewhere")
    node.process(115, BERT, "systemd", 1, "0::/user.slice/user-1002.slice/user@1002.service/init.scope")
    node.process(116, BERT, "ended", 1, "0::/x", state="Z")
    answer = node.measure()
    assert (answer.findings, answer.good) == ((), "finished jobs left nothing behind")
    assert answer.readings[0].value == 0


def test_warns_of_processes_of_a_user_without_a_job(node: Node) -> None:
    node.process(120, BERT, "python3", 1, "0::/system.slice/slurmd.service")
    node.process(121, BERT, "python3", 120, "0::/user.slice/user-1002.slice/session-9.scope")
    assert findings_of(node.measure()) == [
        ("warn", "user", "2 processes of user 1002, who has no job here: python3 (120), python3 (121)")
    ]
    node.step(130, 18)
    node.process(131, BERT, "python3", 130, "0::/system.slice/slurmd.service")
    assert node.measure().findings == (), "without control groups a job's processes are those below its step"


@pytest.mark.parametrize(("count", "end"), [(5, "p (204)"), (6, "p (204) and 1 more")])
def test_at_most_five_processes_are_named(node: Node, count: int, end: str) -> None:
    for pid in range(200, 200 + count):
        node.process(pid, BERT, "p", 1, "0::/x")
    (found,) = node.measure().findings
    assert found.summary.endswith(end)


def test_fails_if_slurm_could_not_kill_a_process_of_a_job(node: Node) -> None:
    node.process(140, BERT, "python3", 1, f"{SCOPE}/job_16/step_0/user/task_0", state="D")
    (first,) = findings_of(node.measure())
    assert first == ("warn", "user", "process 140 (python3, state D) of job 16 still exists, but the job has finished")
    (found,) = node.measure().findings
    assert (found.verdict, found.cause, found.action) == ("fail", "node", "reboot")
    assert found.summary == "process 140 (python3, state D) of job 16 still exists: Slurm could not kill it"


def test_a_users_own_control_group_with_the_name_of_a_job_does_not_fail(node: Node) -> None:
    node.process(140, ANNA, "sleep", 1, "0::/user.slice/user-1001.slice/user@1001.service/app.slice/job_16")
    for _run in range(2):
        assert node.measure().findings == ()


def test_a_later_process_with_the_same_id_is_another_one(node: Node) -> None:
    node.process(140, BERT, "python3", 1, f"{SCOPE}/job_16/step_0/user/task_0")
    node.measure()
    node.started(140, 4711)
    assert [found.verdict for found in node.measure().findings] == ["warn"]


def test_files_of_users_without_a_job_are_counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real, owners = os.lstat, {"a": BERT, "b": BERT, "c": ANNA, "d": 0, "folder": CARA}
    (node.folder / "dev/shm/folder").mkdir(parents=True)
    for name in ("a", "b", "c", "d"):
        (node.folder / f"dev/shm/{name}").write_bytes(b"x" * OTHERS_FILE)

    def lstat(path: str) -> os.stat_result:
        found = list(real(path))
        found[4] = owners.get(os.path.basename(path), found[4])
        return os.stat_result(found, {"st_blocks": real(path).st_blocks})

    monkeypatch.setattr(os, "lstat", lstat)
    answer = node.measure(folders=["/dev/shm"])
    assert findings_of(answer) == [
        ("warn", "user", "3 files of users without a job (0.0 GiB): /dev/shm/a, /dev/shm/b, /dev/shm/folder")
    ]
    values = {one.name: one.value for one in answer.readings}
    assert values["leftover_files"] == 3
    assert 2 * OTHERS_FILE <= int(values["leftover_bytes"]) <= 2 * OTHERS_FILE + 65536
    assert node.measure(folders=["/nowhere"]).findings == ()


@pytest.mark.parametrize("uid", [1000, 60000])
def test_the_first_and_the_last_uid_of_users_count_as_users(node: Node, uid: int) -> None:
    node.process(150, uid, "old", 1, "0::/x")
    assert len(node.measure().findings) == 1


def test_the_site_can_set_the_first_uid_of_users(node: Node) -> None:
    node.process(150, 500, "old", 1, "0::/x")
    assert node.measure().findings == ()
    assert len(node.measure(first_uid=500).findings) == 1


def test_warns_of_shared_memory_that_no_process_uses(node: Node) -> None:
    names = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap"
    rows = [
        "0 3 600 524288 9 9 0 1002 100 1002 100 0 0 0 4096 0",
        "0 4 600 524288 9 9 1 1002 100 1002 100 0 0 0 4096 0",
        "0 5 600 524288 9 9 0 1001 100 1001 100 0 0 0 4096 0",
    ]
    node.tree.write("/proc/sysvipc/shm", "\n".join([names, *rows]) + "\n")
    assert findings_of(node.measure()) == [
        ("warn", "user", "1 shared memory segments of users without a job: 3 (user 1002)")
    ]


def test_warns_of_huge_pages_if_no_job_runs(node: Node) -> None:
    node.tree.write(
        "/proc/meminfo", "HugePages_Total:      16\nHugePages_Free:       12\nHugepagesize:       2048 kB\n"
    )
    assert node.measure().findings == ()
    (node.folder / "proc/100/cmdline").write_text("slurmstepd: old\0", encoding="ascii")
    (node.folder / "proc/100/cgroup").unlink()
    (node.folder / "proc/101/cgroup").unlink()
    assert ("warn", "user", "8 MiB of huge pages are in use, but no job runs") in findings_of(node.measure())


def test_warns_of_containers_of_finished_jobs(node: Node) -> None:
    me = os.getuid()
    data = node.folder / f"scratch/enroot/data/user-{me}"
    for job in (16, 17):
        (data / f"pyxis_{job}_mine").mkdir(parents=True)
    settings = {"ENROOT_DATA_PATH": "/scratch/enroot/data/user-$(id -u)"}
    node.tree.write("/etc/hpcai/containers.json", json.dumps({"schema": 1, "settings": settings}))
    (found,) = node.measure().findings
    assert (found.verdict, found.cause) == ("warn", "user")
    assert found.summary.startswith("1 containers and images of finished jobs: ")
    assert found.summary.endswith("pyxis_16_mine")


def test_fails_if_the_beegfs_of_a_finished_job_is_still_mounted(node: Node) -> None:
    """It prevents the next job that needs one from starting on this node."""
    leftover = node.folder / layout.LEFTOVERS.lstrip("/")
    leftover.parent.mkdir(parents=True)
    assert not [finding for finding in node.measure().findings if "BeeGFS" in finding.summary]
    leftover.write_text("job 17: /beeond is still mounted\n", encoding="utf-8")
    [finding] = [finding for finding in node.measure().findings if "BeeGFS" in finding.summary]
    assert (finding.verdict, finding.cause) == (FAIL, NODE)
    assert "job 17: /beeond is still mounted" in finding.summary


def test_cannot_measure_without_proc(tmp_path: Path) -> None:
    (found,) = LEFTOVERS.measure(context(root=tmp_path)).findings
    assert (found.verdict, found.summary) == ("unknown", "/proc shows no process: run it as root")
