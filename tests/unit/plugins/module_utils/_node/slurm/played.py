# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake machine: systemd with one daemon of Slurm, its files, and Slurm's commands."""

from __future__ import annotations

import datetime
import os
import pathlib
from collections.abc import Callable, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import run as runner
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

BEGIN = 1_700_000_000.0


class Machine:
    """The machine. Its time passes only in waits, and by a second before and after each start."""

    def __init__(self, folder: pathlib.Path, release: str = "22.05.8") -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.now = BEGIN
        self.pid = 0
        self.started_at = 0.0
        self.active = "inactive"
        self.enabled = False
        self.release = release
        self.jobs: list[str] = []
        self.dies_of_reconfigure = False
        self.on_start: Callable[[], None] = lambda: None
        self.done: list[str] = []

    def write(self, path: str, text: str) -> None:
        """Write a file, now."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        os.utime(target, (self.now, self.now))

    def start(self) -> None:
        """Restart the daemon."""
        self.now += 1
        self.pid += 1000
        self.started_at, self.active = self.now, "active"
        self.write(f"/proc/{self.pid}/stat", f"{self.pid} (slurm ctld) " + " ".join(["S", *["1"] * 18, str(self.now)]))
        self.now += 1
        self.on_start()

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for the runner."""
        words = " ".join(command)
        stdout, rc = "", 0
        if words.startswith("systemctl show"):
            started = datetime.datetime.fromtimestamp(self.started_at, datetime.UTC)
            stamp = started.strftime("%a %Y-%m-%d %H:%M:%S.%f UTC") if self.active == "active" else ""
            stdout = (
                f"LoadState=loaded\nActiveState={self.active}\nSubState=\nNeedDaemonReload=no\n"
                f"UnitFileState={'enabled' if self.enabled else 'disabled'}\nExecMainStartTimestamp={stamp}\n"
                f"MainPID={self.pid if self.active == 'active' else 0}\nFragmentPath=\nDropInPaths=\n"
            )
        elif command[0] == "systemctl" and command[1] in ("enable", "restart"):
            self.done.append(words)
            if command[1] == "enable":
                self.enabled = True
            else:
                self.start()
        elif words.startswith("systemctl is-active"):
            stdout = f"{self.active}\n"
        elif words == "scontrol --version":
            stdout = f"slurm-wlm {self.release}\n"
        elif words == "scontrol ping":
            rc = 0 if self.active == "active" else 1
        elif words == "scontrol reconfigure":
            self.done.append(words)
            if self.dies_of_reconfigure:
                self.active, rc = "failed", 1
        elif command[0] == "squeue":
            self.done.append(words)
            stdout = "".join(f"{job}\n" for job in self.jobs)
        elif words == "slurmd -C":
            stdout = "NodeName=compute-0 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 RealMemory=24043\n"
        elif command[0] == "journalctl":
            stdout = "fatal: hostnames inconsistency detected\n"
        else:
            rc = 127
        return Result(tuple(command), rc, stdout, "")


def keep_time(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits advance this machine's time, and take no real time."""

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return machine.now

        @staticmethod
        def sleep(seconds: float) -> None:
            machine.now += seconds

    monkeypatch.setattr(runner, "time", Clock)
