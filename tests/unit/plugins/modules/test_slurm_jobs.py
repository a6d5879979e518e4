# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_jobs against a slurmctld that is played here."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_jobs

RunModule = Callable[..., dict[str, Any]]


class Slurmctld:
    """Two running jobs, and a reservation if somebody made it."""

    def __init__(self) -> None:
        self.queue = "4711|alice|RUNNING|n-1\n4712|bob|COMPLETING|\n"
        self.asked: list[tuple[str, ...]] = []
        self.answers, self.refuses_reservations = True, False

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for the runner."""
        self.asked.append(tuple(command))
        if not self.answers or (self.refuses_reservations and command[1] == "create"):
            return Result(tuple(command), 1, "", "refused")
        if command[0] == "squeue":
            return Result(tuple(command), 0, self.queue, "")
        return Result(tuple(command), 1 if command[1] == "--oneliner" else 0, "", "")

    def changes(self) -> list[tuple[str, ...]]:
        """The commands that change something."""
        return [command for command in self.asked if command[0] == "scancel" or command[1] in ("create", "update")]


@pytest.fixture
def slurmctld(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Slurmctld:
    """A controller."""
    played = Slurmctld()
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "etc/slurm/slurm.conf").write_text("ClusterName=x\n", encoding="utf-8")
    monkeypatch.setattr(slurm_jobs, "Root", lambda _path: Root(str(tmp_path)))
    monkeypatch.setattr(slurm_jobs, "run", played.run)
    return played


def test_lists_all_jobs_and_changes_nothing(slurmctld: Slurmctld, run_module: RunModule) -> None:
    done = run_module(slurm_jobs.main)
    assert (done["changed"], done["answers"]) == (False, True)
    assert done["jobs"] == ["4711 (alice, running)", "4712 (bob, completing)"]
    assert not [word for word in slurmctld.asked[-1] if word.startswith("--nodelist")]
    assert slurmctld.changes() == []


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_lists_pending_jobs_and_cancels_none_of_them(slurmctld: Slurmctld, run_module: RunModule, state: str) -> None:
    slurmctld.queue += f"4713|alice|{state}|\n"
    done = run_module(slurm_jobs.main, cancel=True)
    assert done["jobs"] == ["4711 (alice, running)", "4712 (bob, completing)"]
    assert done["pending"] == [f"4713 (alice, {state.lower()})"]
    (asked,) = [command for command in slurmctld.asked if command[0] == "squeue"]
    assert [word for word in asked if word.startswith("--states=") and word.endswith(",PENDING")]
    assert slurmctld.changes() == [("scancel", "--quiet", "4711", "4712")]


def test_holds_new_jobs_before_it_lists_and_cancels_the_running_ones(
    slurmctld: Slurmctld, run_module: RunModule
) -> None:
    done = run_module(slurm_jobs.main, hold=True, cancel=True)
    assert done["changed"] is True
    created, cancelled = slurmctld.changes()
    assert created[:3] == ("scontrol", "create", "reservation")
    assert cancelled == ("scancel", "--quiet", "4711", "4712")
    order = [command[0] for command in slurmctld.asked if command == created or command[0] in ("squeue", "scancel")]
    assert order == ["scontrol", "squeue", "scancel"]


def test_check_mode_holds_and_cancels_nothing(slurmctld: Slurmctld, run_module: RunModule) -> None:
    done = run_module(slurm_jobs.main, check_mode=True, hold=True, cancel=True)
    assert (done["changed"], len(done["jobs"])) == (True, 2)
    assert slurmctld.changes() == []


def test_without_jobs_nothing_is_cancelled(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.queue = ""
    assert run_module(slurm_jobs.main, cancel=True)["changed"] is False
    assert slurmctld.changes() == []


def test_says_that_slurmctld_does_not_answer(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.answers = False
    done = run_module(slurm_jobs.main, hold=True, cancel=True)
    assert (done["changed"], done["answers"], done["jobs"]) == (False, False, [])
    assert slurmctld.changes() == []


def test_warns_if_new_jobs_cannot_be_held(
    slurmctld: Slurmctld, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(slurm_jobs.AnsibleModule, "warn", lambda _module, text: warned.append(text))
    slurmctld.refuses_reservations, slurmctld.queue = True, ""
    assert run_module(slurm_jobs.main, hold=True)["changed"] is False
    assert "New jobs may start" in warned[0]


def test_a_machine_without_slurm_conf_has_no_jobs(
    slurmctld: Slurmctld, run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "etc/slurm/slurm.conf").unlink()
    done = run_module(slurm_jobs.main, hold=True, cancel=True)
    assert (done["changed"], done["answers"], done["jobs"]) == (False, True, [])
    assert slurmctld.asked == []
