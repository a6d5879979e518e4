# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clocks of a job that asks for them: who gets them, and that they never stay."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job import clocks as job_clocks
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import JOBS_FOLDER, ClockOptions

ASKS = {"SLURM_JOB_ID": "42", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_CONSTRAINTS": "maxclocks"}


class Machine:
    """Four GPUs, whose clocks are recorded instead of set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = Root(str(folder))
        self.set: dict[str, str] = {}
        self.opened, self.closed = 0, 0
        self.problem = ""
        monkeypatch.setattr(job_clocks.clocks, "ensure", self.ensure)

    def open(self, _root: Root) -> Any:
        """A driver."""
        self.opened += 1
        gpus = [
            SimpleNamespace(index=number, busid=None, uuid=f"GPU-{number}", mig_instances=()) for number in range(4)
        ]

        def close() -> None:
            self.closed += 1

        return SimpleNamespace(read=lambda: gpus, close=close)

    def ensure(self, _root: Root, _driver: Any, options: ClockOptions) -> Any:
        """Record the state of each GPU."""
        assert options.on_unsupported == "warn"
        self.set.update(dict.fromkeys(options.gpus, options.state))
        return SimpleNamespace(problems=(self.problem,) if self.problem else ())

    def settings(self, **options: Any) -> None:
        """The node's own clocks."""
        path = Path(self.root.at("/etc/hpcai/clocks.json"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schema": 1, **options}), encoding="utf-8")

    def start(self, **environment: str) -> job_clocks.ClockChanges:
        """A prolog."""
        return job_clocks.start({**ASKS, **environment}, self.root, self.open)

    def end(self, **environment: str) -> job_clocks.ClockChanges:
        """An epilog."""
        return job_clocks.end({**ASKS, **environment}, self.root, self.open)

    @property
    def recorded(self) -> list[str]:
        """The jobs whose clocks are to be undone."""
        return [name.removesuffix(".json") for name in self.root.entries(JOBS_FOLDER)]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The node."""
    return Machine(tmp_path, monkeypatch)


def test_a_job_that_asks_gets_the_highest_clocks_and_leaves_the_nodes_own(machine: Machine) -> None:
    machine.settings(state="explicit", graphics_mhz=1095)
    assert machine.start().changed == (0, 1)
    assert machine.set == {"0": "max", "1": "max"}
    assert machine.recorded == ["42"]
    assert machine.end().changed == (0, 1)
    assert machine.set == {"0": "explicit", "1": "explicit"}
    assert machine.recorded == []
    assert machine.opened == machine.closed == 2


def test_without_settings_the_defaults_return(machine: Machine) -> None:
    machine.start()
    machine.end()
    assert machine.set == {"0": "default", "1": "default"}


def test_gpus_that_the_settings_leave_out_get_the_defaults(machine: Machine) -> None:
    machine.settings(state="max", gpus=["1"])
    machine.start()
    machine.end()
    assert machine.set == {"0": "default", "1": "max"}


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_JOB_CONSTRAINTS": ""},
        # A name that only contains the feature's is another feature.
        {"SLURM_JOB_CONSTRAINTS": "nomaxclocks"},
        {"SLURM_JOB_CONSTRAINTS": "maxclocks2|x"},
        {"SLURM_JOB_GPUS": ""},
        {"SLURM_JOB_GPUS": "all"},
        {"SLURM_JOB_ID": "../../etc/x"},
    ],
)
def test_no_other_job_changes_clocks(machine: Machine, environment: dict[str, str]) -> None:
    assert machine.start(**environment).changed == ()
    assert (machine.set, machine.opened, machine.recorded) == ({}, 0, [])


def test_the_feature_counts_at_any_position(machine: Machine) -> None:
    assert machine.start(SLURM_JOB_CONSTRAINTS="[beeond&maxclocks*2]").changed == (0, 1)


def test_a_job_only_changes_its_own_gpus(machine: Machine) -> None:
    machine.start()
    machine.start(SLURM_JOB_ID="43", SLURM_JOB_GPUS="2-3")
    # The second job does not take the clocks of the first one.
    assert machine.set == dict.fromkeys("0123", "max")
    machine.end()
    assert machine.set == {"0": "default", "1": "default", "2": "max", "3": "max"}
    assert machine.recorded == ["43"]


def test_what_a_lost_epilog_left_is_undone_before_the_next_job(machine: Machine) -> None:
    machine.start()
    done = machine.start(SLURM_JOB_ID="44", SLURM_JOB_GPUS="1", SLURM_JOB_CONSTRAINTS="")
    assert done.words == "the clocks of 1 ended jobs were reset"
    assert machine.set == {"0": "default", "1": "default"}
    assert machine.recorded == []


def test_a_failure_is_reported_and_tried_again_later(machine: Machine) -> None:
    machine.start()
    machine.problem = "GPU 0: the driver refused"
    assert machine.end().problems == ("GPU 0: the driver refused",)
    assert machine.recorded == ["42"]
    machine.problem = ""
    machine.end()
    assert machine.recorded == []


def test_the_epilog_of_a_job_that_did_not_ask_does_nothing(machine: Machine) -> None:
    assert machine.end().words == "the job changed no clocks"
    assert machine.opened == 0


def test_the_record_comes_before_the_change(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job_clocks.clocks, "ensure", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.start()
    assert machine.recorded == ["42"]
    assert machine.closed == 1


@pytest.mark.parametrize(
    ("text", "gpus"), [("0,2-3", (0, 2, 3)), ("7", (7,)), ("", ()), ("x,1", (1,)), ("3,3", (3,)), ("9999999", ())]
)
def test_gpus_are_indices(text: str, gpus: tuple[int, ...]) -> None:
    assert job_clocks.gpus_of({"SLURM_JOB_GPUS": text}) == gpus
