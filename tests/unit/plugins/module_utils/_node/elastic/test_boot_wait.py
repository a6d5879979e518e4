# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that lets slurmctld start a job as soon as its nodes have booted."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import boot_wait, spool
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

CONFIG = "PrologEpilogTimeout     = 140 sec\nPrologTimeout          = 65534 sec\nResumeTimeout = 3000 sec\n"


class Controller:
    """slurmctld, whose answers of sinfo change with each look."""

    def __init__(self, folder: Path, *states: str, waits: bool = True, config: str = CONFIG) -> None:
        self.root, self.states, self.waits, self.config = Root(str(folder)), list(states), waits, config
        self.now = 0.0
        (folder / spool.SPOOL.lstrip("/")).mkdir(parents=True)

    def run(self, command: Sequence[str]) -> Result:
        """Run a command."""
        if command[0] == "sinfo":
            assert "--nodes=gpu-[0-1]" in command
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return Result(tuple(command), 0 if state else 1, state, "")
        return Result(tuple(command), 0, self.config if command[0] == "scontrol" else "7\n" * self.waits, "")

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def wait(self) -> str:
        """Wait for the job's nodes."""
        return boot_wait.wait(self.root, "7", "gpu-[0-1]", self.run, lambda: self.now, self.sleep)


@pytest.mark.parametrize(
    ("states", "seconds"),
    [
        (["allocated"], 0),
        (["allocated~", "allocated#", "allocated\nmixed#", "allocated\nmixed"], 2),
        # It has registered, but does not answer yet.
        (["allocated#", "allocated*", "allocated"], 1),
        (["allocated#", "allocated#", "down#\nallocated#"], 1),
        # slurmctld does not answer: then it does not need this program either.
        (["allocated#", "allocated#", ""], 1),
    ],
)
def test_it_waits_while_a_node_boots(tmp_path: Path, states: list[str], seconds: float) -> None:
    controller = Controller(tmp_path, *states)
    controller.wait()
    assert controller.now == seconds


def test_it_ends_before_slurmctld_would_kill_it(tmp_path: Path) -> None:
    controller = Controller(tmp_path, "allocated#")
    assert controller.wait() == "they need more than 125 s"
    assert 124 <= controller.now <= 126


def test_without_a_limit_it_waits_an_hour(tmp_path: Path) -> None:
    controller = Controller(tmp_path, "allocated#", config="PrologEpilogTimeout = 65534\n")
    controller.wait()
    assert controller.now == 3600


def test_a_job_that_was_requeued_is_not_kept_from_starting(tmp_path: Path) -> None:
    controller = Controller(tmp_path, "allocated#", waits=False)
    assert controller.wait() == "the job does not wait any more"
    assert controller.now == 0


def test_only_some_jobs_wait_at_a_time(tmp_path: Path) -> None:
    controller = Controller(tmp_path, "allocated#")
    files = [open(controller.root.at(f"{spool.SPOOL}/.wait-{one}"), "w") for one in range(boot_wait.MOST)]  # noqa: SIM115
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert controller.wait() == f"{boot_wait.MOST} others wait"
    files[3].close()
    assert controller.wait() == "they need more than 125 s"
    for file in files:
        file.close()
    # The daemon does not take the files for requests.
    assert spool.take(controller.root, spool.SPOOL, spool.PROGRAMS) == []
