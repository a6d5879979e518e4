# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_leave with a fake slurmctld."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_leave

RunModule = Callable[..., dict[str, Any]]


class Slurmctld:
    """Two nodes, one of them with a job."""

    def __init__(self) -> None:
        self.lines = {"n-1": "MIXED", "n-2": "IDLE"}
        self.queue = "4711|alice|RUNNING|n-1\n"
        self.updates: list[tuple[str, ...]] = []
        self.answers = True

    def run(self, command: Sequence[str]) -> Result:
        """Replace the command runner."""
        if not self.answers:
            return Result(tuple(command), 1, "", "Unable to contact slurm controller")
        if command[0] == "squeue":
            return Result(tuple(command), 0, self.queue, "")
        if command[1] == "update":
            self.updates.append(tuple(command[2:]))
            names = {"n-[1-2]": ("n-1", "n-2")}.get(command[2].split("=", 1)[1], (command[2].split("=", 1)[1],))
            for name in names:
                self.lines[name] = f"{self.lines[name]}+DRAIN"
            return Result(tuple(command), 0, "", "")
        shown = "".join(f"NodeName={name} CPUTot=1 State={state} Weight=1\n" for name, state in self.lines.items())
        return Result(tuple(command), 0, shown, "")


@pytest.fixture
def slurmctld(monkeypatch: pytest.MonkeyPatch) -> Slurmctld:
    """The fake cluster."""
    played = Slurmctld()
    monkeypatch.setattr(slurm_leave, "run", played.run)
    return played


def test_drains_with_the_hpcai_reason_and_lists_the_jobs(slurmctld: Slurmctld, run_module: RunModule) -> None:
    done = run_module(slurm_leave.main, nodes=["n-1", "n-2"], reason="retire: old", timeout=60)
    assert slurmctld.updates == [("NodeName=n-[1-2]", "State=DRAIN", "Reason=hpcai: retire: old")]
    assert (done["changed"], done["drained"]) == (True, ["n-1", "n-2"])
    assert done["busy"] == {"n-1": ["4711 (alice, running)"]}
    assert done["time_is_over"] is False
    assert "n-2: DRAIN hpcai: retire: old" in done["diff"]["after"]


def test_a_second_run_changes_nothing_and_keeps_the_deadline(slurmctld: Slurmctld, run_module: RunModule) -> None:
    first = run_module(slurm_leave.main, nodes=["n-1", "n-2"], timeout=60)
    slurmctld.queue, slurmctld.lines["n-1"] = "", "IDLE+DRAIN"
    again = run_module(slurm_leave.main, nodes=["n-1", "n-2"], deadline=first["deadline"])
    assert (again["changed"], again["busy"], again["deadline"]) == (False, {}, first["deadline"])


def test_lists_the_jobs_that_still_run_after_the_deadline(slurmctld: Slurmctld, run_module: RunModule) -> None:
    done = run_module(slurm_leave.main, nodes=["n-1"], deadline=1.0)
    assert (done["time_is_over"], list(done["busy"])) == (True, ["n-1"])


def test_check_mode_drains_nothing_and_returns_the_same_keys(slurmctld: Slurmctld, run_module: RunModule) -> None:
    done = run_module(slurm_leave.main, check_mode=True, nodes=["n-1", "gone-3"])
    assert slurmctld.updates == []
    assert (done["changed"], done["drained"], done["unknown"]) == (True, ["n-1"], ["gone-3"])


def test_fails_if_slurmctld_does_not_answer(slurmctld: Slurmctld, run_module: RunModule) -> None:
    slurmctld.answers = False
    assert "Unable to contact" in run_module(slurm_leave.main, nodes=["n-1"])["msg"]
