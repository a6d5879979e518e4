# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurmctld: its result, and what it refuses."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.daemon import ServiceFacts
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import slurmctld as core
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.conf_changes import Snapshot
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.loaded_config import Process
from ansible_collections.hpcai.azure.plugins.modules import slurmctld

RunModule = Callable[..., dict[str, Any]]
SERVICE = ServiceFacts("slurmctld", True, "loaded", "active", True, 1.0, None, False)
HELD = {"slurm.conf SchedulerParameters": "a", "slurm.conf PartitionName=p": "b"}


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The verbs of the commands that were applied."""
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(core, "apply", lambda made, *_rest: done.append(made.verbs))
    return done


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """A running slurmctld that has loaded HELD. Call the fixture to put other settings on disk."""

    def put(entries: dict[str, str]) -> None:
        facts = core.Facts(SERVICE, Process(7, "8", 1.0), Snapshot(HELD), Snapshot(entries), (22, 5))
        monkeypatch.setattr(core, "read_facts", lambda *_arguments: facts)

    def run(command: Sequence[str]) -> Result:
        assert command[0] == "squeue"
        return Result(tuple(command), 0, "".join(f"{job}\n" for job in range(1, 13)), "")

    monkeypatch.setattr(slurmctld, "run", run)
    put(HELD)
    return put


def test_returns_its_commands_and_the_reasons(
    run_module: RunModule, on_disk: Callable[[dict[str, str]], None], applied: list[tuple[str, ...]]
) -> None:
    on_disk({**HELD, "slurm.conf PartitionName=p": "c"})
    answer = run_module(slurmctld.main, conf_dir="/nowhere")
    assert (answer["_exit"], answer["changed"], answer["commands"]) == (0, True, ["reconfigure"])
    assert answer["reasons"][0].startswith("slurm.conf PartitionName=p changed (slurm.conf(5)")
    assert "because slurm.conf PartitionName=p changed" in answer["diff"]["after"]
    assert answer["for_slurmd"] == {
        "release": [22, 5],
        "files": {},
        "handed_out": False,
        "part": {"entries": {"slurm.conf SchedulerParameters": "a"}, "hardware": {}},
    }
    assert applied == [("reconfigure",)]


def test_check_mode_returns_the_same_commands_and_runs_none(
    run_module: RunModule, on_disk: Callable[[dict[str, str]], None], applied: list[tuple[str, ...]]
) -> None:
    on_disk({**HELD, "slurm.conf PartitionName=p": "c"})
    answer = run_module(slurmctld.main, check_mode=True)
    assert (answer["changed"], answer["commands"], applied) == (True, ["reconfigure"], [])


def test_check_mode_takes_the_pending_files_instead_of_those_on_disk(
    run_module: RunModule,
    on_disk: Callable[[dict[str, str]], None],
    applied: list[tuple[str, ...]],
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=c\n", encoding="utf-8")
    (tmp_path / "gres.conf").write_text("Name=gpu\n", encoding="utf-8")
    pending = {"slurm.conf": "ClusterName=c\nTaskPlugin=task/none\n", "topology.conf": "", "gres.conf": ""}
    options: dict[str, Any] = {"conf_dir": str(tmp_path), "pending": pending, "lose_jobs": True}
    answer = run_module(slurmctld.main, check_mode=True, **options)
    assert (answer["changed"], answer["commands"], applied) == (True, ["restart"], [])
    assert any(reason.startswith("slurm.conf ClusterName") for reason in answer["reasons"]), answer["reasons"]
    for_slurmd = answer["for_slurmd"]
    assert list(for_slurmd["files"]) == ["slurm.conf"]
    assert "slurm.conf TaskPlugin" in for_slurmd["part"]["entries"]
    assert (tmp_path / "slurm.conf").read_text(encoding="utf-8") == "ClusterName=c\n"
    assert run_module(slurmctld.main, **options)["commands"] == [], "a real run reads the files on disk"


def test_check_mode_predicts_a_restart_for_a_pending_drop_in(
    run_module: RunModule, on_disk: Callable[[dict[str, str]], None], applied: list[tuple[str, ...]]
) -> None:
    assert run_module(slurmctld.main, check_mode=True, unit_pending=True)["commands"] == ["restart"]
    assert run_module(slurmctld.main, unit_pending=True)["changed"] is False


def test_refuses_to_lose_jobs_without_the_option(
    run_module: RunModule, on_disk: Callable[[dict[str, str]], None], applied: list[tuple[str, ...]]
) -> None:
    on_disk({"slurm.conf SchedulerParameters": "a"})
    answer = run_module(slurmctld.main)
    assert answer["failed"] is True
    assert "PartitionName=p was removed: slurmctld would lose 12 jobs (1, 2, 3," in answer["msg"]
    assert ", 10, ...). slurmctld was not changed, but the controller already has the new file." in answer["msg"]
    assert applied == []
    assert run_module(slurmctld.main, lose_jobs=True)["commands"] == ["reconfigure"]
