# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of locked clocks, which cannot be read from the driver: when the module trusts it, and when not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from stand_ins.gpu_machine import DEPRECATED, PLAYED, GpuMachine


@pytest.fixture
def locked(machine: GpuMachine) -> GpuMachine:
    """A machine whose GPUs the module has locked at their highest clocks."""
    machine.play(application_clocks=DEPRECATED)
    assert machine.module()["changed"] is True
    machine.calls()
    return machine


def test_a_record_of_this_driver_load_is_trusted_and_reported(locked: GpuMachine) -> None:
    answer = locked.module()
    assert answer["changed"] is False
    assert [gpu["recorded"] for gpu in answer["gpus"]] == [True] * 8
    assert answer["gpus"][0]["clocks"]["locked"] == {"memory_mhz": None, "graphics_mhz": 1410}


def test_a_record_of_another_boot_is_ignored(locked: GpuMachine) -> None:
    (locked.root / "proc/sys/kernel/random/boot_id").write_text("another\n", encoding="ascii")
    answer = locked.module()
    assert answer["changed"] is True
    assert answer["gpus"][0]["reasons"] == ["our record has no lock"]


def test_a_record_of_another_driver_load_is_ignored(locked: GpuMachine) -> None:
    locked.reload_driver()
    locked.play(**{f"gpu__{index}__persistence": 1 for index in range(8)})
    assert locked.module()["changed"] is True
    assert locked.state["gpu.0.set.locked_graphics_most"] == 1410
    assert locked.module()["changed"] is False


@pytest.mark.daily(1)
@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 9}', '{"schema": 1, "load": null, "gpus": {}}'])
def test_an_invalid_record_is_ignored(locked: GpuMachine, text: str) -> None:
    (locked.root / "run/hpcai/clocks.json").write_text(text, encoding="ascii")
    assert locked.module()["changed"] is True
    assert locked.module()["changed"] is False


def test_a_clock_above_the_lock_disproves_the_record(locked: GpuMachine) -> None:
    locked.module(state="explicit", graphics_mhz=1005)
    assert locked.module(state="explicit", graphics_mhz=1005)["changed"] is False
    locked.play(gpu__2__running_graphics=1410)
    answer = locked.module(state="explicit", graphics_mhz=1005)
    assert [gpu["index"] for gpu in answer["gpus"] if gpu["changed"]] == [2]
    assert "above the recorded lock at 1005 MHz" in answer["gpus"][2]["reasons"][-1]


def test_a_clock_below_the_lock_without_a_reason_is_a_warning(locked: GpuMachine) -> None:
    locked.play(gpu__2__running_graphics=210)
    answer = locked.module()
    assert answer["changed"] is False
    assert any("GPU 2 (0003:00:00.0) runs at 210 MHz, below the recorded lock" in str(w) for w in answer["warnings"])
    # 4: the power cap limits the clock, which gives no information about the lock.
    locked.play(gpu__2__reasons=4)
    assert locked.module().get("warnings", []) == []


def test_without_persistence_mode_the_record_is_ignored(locked: GpuMachine) -> None:
    (locked.gpus / "config").write_text(
        (locked.gpus / "config").read_text(encoding="ascii").replace("gpu.1.persistence=1", "gpu.1.persistence=0"),
        encoding="ascii",
    )
    answer = locked.module()
    assert [gpu["index"] for gpu in answer["gpus"] if gpu["changed"]] == [1]
    assert "persistence mode is off" in answer["gpus"][1]["reasons"][-1]
    assert any("persistence mode is off on GPU 1" in str(warning) for warning in answer["warnings"])


def test_a_failed_change_leaves_no_record(locked: GpuMachine) -> None:
    locked.play(fail__nvmlDeviceSetGpuLockedClocks__4=15)
    assert locked.module(state="explicit", graphics_mhz=1005)["failed"] is True
    record = json.loads((locked.root / "run/hpcai/clocks.json").read_text(encoding="utf-8"))
    assert len(record["gpus"]) == 7
    assert not [uuid for uuid in record["gpus"] if uuid.startswith("GPU-00000004")]


@pytest.mark.thorough
def test_other_gpus_keep_their_record(locked: GpuMachine) -> None:
    locked.module(state="explicit", graphics_mhz=1005, gpus=[3])
    assert locked.module(gpus=[0, 1, 2, 4, 5, 6, 7])["changed"] is False


@pytest.mark.thorough
def test_without_the_drivers_folder_no_record_is_written(machine: GpuMachine) -> None:
    machine.play(application_clocks=DEPRECATED)
    (machine.root / "sys/module/nvidia").rmdir()
    assert machine.module()["changed"] is True
    answer = machine.module()
    assert answer["changed"] is True
    assert any("locked clocks cannot be recorded" in str(warning) for warning in answer["warnings"])


def test_two_runs_at_once_keep_each_others_records(machine: GpuMachine) -> None:
    # The first run waits 3 s between reading and writing the record.
    machine.play(application_clocks=DEPRECATED, hang__nvmlDeviceSetGpuLockedClocks__1=3)
    runs = [
        subprocess.Popen(
            [sys.executable, PLAYED, machine.root, "module", json.dumps({"gpus": gpus})],
            env=machine.environment,
            stdout=subprocess.PIPE,
        )
        for gpus in ([0, 1, 2, 3], [4, 5, 6, 7])
    ]
    assert [run.wait(60) for run in runs] == [0, 0]
    for run in runs:
        run.communicate()
    assert machine.module()["changed"] is False
