# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node below a temporary folder with fake systemd, BeeGFS, mounts and slurmctld, which a test can make fail."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import start as starting
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import Job
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import OFF, BeeondSettings
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.stop import Machine, stop
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.requeue import Controller
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

NODES = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
SETTINGS = BeeondSettings(rdma=OFF, least_free_mib=0)
JOB = Job("17", 4001, 4001, NODES, "gpu-0", 0, "17")
CFG = "cfgFile=/run/hpcai/beeond/17/client.conf"
SQUEUE_LINE = "17|{state}|{restarts}|{batch}|{requeue}|{array}|{task}|\n"
"""As squeue 22.05.8 prints it. Outside an array, ArrayJobID is the job's own id, and ArrayTaskID is N/A."""


class Node:
    """A fake node. Its clock advances only in ``pause`` and in commands that time out."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root = folder, Root(str(folder))
        self.asked: list[tuple[str, ...]] = []
        self.time = 0.0
        self.online = list(NODES)
        self.hostname = "gpu-0"
        self.fails: dict[str, Result] = {}
        self.units: dict[str, str] = {}
        self.pids: dict[int, str] = {}
        self.immortal: set[int] = set()
        self.other_clients = 0
        self.management_answers = True
        self.mounted: list[str] = []
        self.users_mounts: list[str] = []
        self.ports_in_use: set[int] = set()
        self.unreachable: set[str] = set()
        self.state, self.restarts, self.batch, self.requeue = "CONFIGURING", 0, 1, 1
        self.array, self.task = "17", "N/A"
        self.controller_answers = True
        self.net = "storage_nodes\nRDMA: 1\n"
        self.during: Callable[[tuple[str, ...]], None] = lambda command: None
        for path in ("/scratch", "/proc/self", "/run/hpcai", "/proc/sys/kernel/random"):
            self.path(path).mkdir(parents=True)
        self.file("/proc/sys/kernel/random/boot_id", "boot-1")
        self.file("/etc/munge/munge.key", "the cluster's key")
        self.path("/scratch").chmod(0o1777)
        self._write_mounts()

    def path(self, path: str) -> pathlib.Path:
        """Return where a path of the node is below the temporary folder."""
        return self.folder / path.lstrip("/")

    def file(self, path: str, text: str) -> None:
        """Write a file."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text, encoding="utf-8")

    def process(self, pid: int, name: str = "python3", cwd: str = "/", groups: str = "0::/\n", uid: int = 4001) -> None:
        """Create a running process."""
        self.pids[pid] = name
        self.file(f"/proc/{pid}/comm", name)
        self.file(f"/proc/{pid}/stat", f"{pid} ({name}) S 1 " + " ".join(["0"] * 48))
        self.file(f"/proc/{pid}/status", f"Name:\t{name}\nUid:\t{uid}\t{uid}\n")
        self.file(f"/proc/{pid}/cgroup", groups)
        self.file(f"/proc/{pid}/cmdline", name)
        self.path(f"/proc/{pid}/cwd").symlink_to(cwd)

    def stepd(self, job: str) -> None:
        """Create a job's slurmstepd, so that the job counts as running."""
        self.process(9000 + int(job), "slurmstepd", uid=0)
        self.file(f"/proc/{9000 + int(job)}/cmdline", f"slurmstepd: [{job}.extern]\0")

    def kill(self, pid: int, number: int) -> None:
        """Send a signal to a process; the ``immortal`` ones ignore SIGTERM and SIGKILL."""
        if pid not in self.immortal or number not in (signal.SIGTERM, signal.SIGKILL):
            self.end(pid)

    def end(self, pid: int) -> None:
        """Remove a process."""
        self.pids.pop(pid, None)
        shutil.rmtree(self.path(f"/proc/{pid}"), ignore_errors=True)

    def pause(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += seconds

    @property
    def machine(self) -> Machine:
        """The machine that start and stop use."""
        return Machine(self.root, self.run, self.kill, lambda: self.time, self.pause)

    @property
    def controller(self) -> Controller:
        """Access to the fake slurmctld."""
        return Controller(("10.0.0.4",), self.run)

    def start(self, job: Job = JOB, settings: BeeondSettings = SETTINGS) -> starting.Outcome:
        """Start this node's part of the job, as the prolog does."""
        context = starting.StartContext(
            {}, lambda node: f"address-of-{node}", self.controller, self._refuse, self._connects
        )
        return starting.start(job, settings, self.machine, context)

    def stop(self, settings: BeeondSettings = SETTINGS, job: str = "17") -> list[str]:
        """Stop this node's part of the job, as the epilog does."""
        from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import sweep

        held = [one.held for one in sweep.find_leftovers(settings, self.root, self.run) if one.held.job == job]
        return [words for one in held for words in stop(one, self.machine)]

    def leftovers(self) -> list[str]:
        """The mounts, units and folders of jobs."""
        found = [f"mount {path}" for path in self.mounted]
        found += [f"unit {name}" for name, state in self.units.items() if state == "active"]
        for folder in ("/scratch/beeond", "/run/hpcai/beeond"):
            found += [f"{folder}/{name}" for name in self.root.entries(folder)]
        return found

    def calls(self, *words: str) -> list[tuple[str, ...]]:
        """The commands that contain all these words."""
        return [command for command in self.asked if all(word in command for word in words)]

    def run(self, command: Sequence[str], timeout_s: float = 0) -> Result:
        """Answer a command."""
        words = tuple(command)
        self.asked.append(words)
        self.during(words)
        for key, result in self.fails.items():
            if all(piece in words for piece in key.split()):
                self.time += timeout_s if result.rc == 124 else 0
                return result
        return Result(words, *self._answer(words))

    def _answer(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        name = os.path.basename(words[0])
        if name == "timeout":
            return self._slurm(words)
        play = {"systemctl": self._systemctl, "beegfs-ctl": self._ctl, "mount": self._mount, "umount": self._umount}
        if name in play:
            return play[name](words)
        if name == "rm":
            for path in words[words.index("--") + 1 :]:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        return 0, self.net if name == "beegfs-net" else "", ""

    def _systemctl(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        names = [word for word in words if word.endswith(".service") and "*" not in word]
        if words[1] == "start":
            for name in names:
                self.units[name] = "active"
                if name.endswith("@17.service"):
                    daemon = name.partition("@")[0]
                    self.process(500 + len(self.units), daemon[-15:], groups=f"1:name=systemd:/s.slice/{name}\n", uid=0)
        if words[1] in ("stop", "kill"):
            for pid in list(self.pids):
                groups = self.root.text(f"/proc/{pid}/cgroup") or ""
                if any(name in groups for name in names) and pid not in self.immortal:
                    self.end(pid)
            for name in names:
                self.units.pop(name, None)
        if words[1] == "is-active":
            return 0, "".join(f"{self.units.get(name, 'inactive')}\n" for name in names), ""
        if words[1] == "list-units":
            return 0, "".join(f"{name} loaded {state} running x\n" for name, state in self.units.items()), ""
        return 0, "", ""

    def _ctl(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if not self.management_answers:
            return 1, "", "Communication with management node failed"
        if "--nodetype=client" in words:
            return (
                0,
                "".join(
                    f"client-{number} [ID: {number}]\n" for number in range(self.other_clients + len(self.mounted))
                ),
                "",
            )
        names = self.online if "--nodetype=storage" in words else self.online[:1]
        if "--listnodes" in words:
            return 0, "".join(f"{name} [ID: {number}]\n" for number, name in enumerate(names, 1)), ""
        head = "TargetID     Reachability  Consistency   NodeID\n========     ============  ===========   ======\n"
        return (
            0,
            head + "".join(f"{n:8}           Online         Good        {n}\n" for n in range(1, len(names) + 1)),
            "",
        )

    def _mount(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        self.mounted.append("/beeond")
        self._write_mounts("beegfs" if "-t" in words else "xfs", ",".join(words))
        return 0, "", ""

    def mount_as_user(self, point: str, options: str = "user_id=4001", kind: str = "fuse.sshfs") -> None:
        """Mount a FUSE file system, as fusermount does for a user."""
        self.users_mounts.append(f"50 40 0:77 / {point} rw,nosuid,nodev - {kind} x rw,{options}\n")
        self.file("/proc/self/mountinfo", (self.root.text("/proc/self/mountinfo") or "") + f"\n{self.users_mounts[-1]}")

    def _umount(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if not self.mounted:
            return 32, "", "not mounted"
        over = [line for line in self.users_mounts if f" {words[-1]} " in line]
        if over:
            self.users_mounts.remove(over[-1])
            lines = (self.root.text("/proc/self/mountinfo") or "").splitlines()
            lines.remove(over[-1].strip())
            self.file("/proc/self/mountinfo", "\n".join(lines) + "\n")
            return 0, "", ""
        if self.users_mounts and "-l" not in words:
            return 32, "", f"umount: {words[-1]}: target is busy."
        self.users_mounts.clear()
        self.mounted.pop()
        self._write_mounts()
        return 0, "", ""

    def _write_mounts(self, kind: str = "beegfs", options: str = "") -> None:
        in_force = ",".join(option for option in ("rw", "nosuid", "nodev") if option == "rw" or option in options)
        path = "/beeond/17/files" if kind == "xfs" else "/"
        lines = ["20 1 8:1 / /scratch rw - xfs /dev/md0 rw"]
        lines += [f"40 1 0:50 {path} {point} {in_force} - {kind} beegfs_nodev rw,{CFG}" for point in self.mounted]
        self.file("/proc/self/mountinfo", "\n".join(lines) + "\n")

    def _slurm(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        if not self.controller_answers:
            return 124, "", ""
        if "squeue" in words:
            if not self.state:
                return 1, "", "slurm_load_jobs error: Invalid job id specified"
            given = {"state": self.state, "restarts": self.restarts, "batch": self.batch, "requeue": self.requeue}
            return 0, SQUEUE_LINE.format(**given, array=self.array, task=self.task), ""
        if "requeue" in words:
            if self.state == "PENDING":
                return 1, "", "Job is pending execution"
            if not self.batch:
                return 1, "", "Only batch jobs are accepted or processed"
            if not self.requeue:
                return 1, "", "Requested operation is presently disabled"
            self.state, self.restarts = "PENDING", self.restarts + 1
        if "scancel" in words:
            self.state = "CANCELLED"
        for word in words:
            if word.startswith("Requeue="):
                self.requeue = int(word[-1])
        return 0, "", ""

    def fail_storage_daemon(self, log: str) -> None:
        """Let job 17's storage daemon end after its start, with this log. Another node's daemon never registers."""
        self.online.remove("gpu-3")

        def die(command: tuple[str, ...]) -> None:
            if "is-active" in command:
                self.units["hpcai-beeond-storage@17.service"] = "failed"
                self.file("/run/hpcai/beeond/17/storage.log", log)

        self.during = die

    def _connects(self, address: str, port: int) -> bool:
        return port == 9003 and address.partition("address-of-")[2] not in self.unreachable

    def _refuse(self, ports: tuple[tuple[str, int], ...]) -> None:
        from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import NodeFailure

        for protocol, number in ports:
            if number in self.ports_in_use:
                raise NodeFailure(f"port {number}/{protocol} is taken")


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The first node of job 17."""
    made = Node(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: made.hostname)
    return made


def on(name: str, **changes: object) -> Job:
    """Return the job as another node sees it."""
    return replace(JOB, node=name, **changes)  # type: ignore[arg-type]
