# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode clocks with the stand-in for NVML."""

from __future__ import annotations

import json

import pytest
from stand_ins.gpu_machine import DRIVER_NOT_LOADED, GpuMachine

GOOD, BAD, UNKNOWN = 0, 1, 2


def write_settings(machine: GpuMachine, **options: object) -> None:
    """Write the settings file as Ansible does."""
    file = machine.root / "etc/hpcai/clocks.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": 1, **options}), encoding="utf-8")


def test_status_shows_clocks_without_a_settings_file(machine: GpuMachine) -> None:
    status, text, data = machine.command()
    assert status == GOOD
    assert (
        text.splitlines()[0]
        == "GPU 0 0001:00:00.0: current 1215/1095 MHz, application 1215/1095 MHz, highest 1215/1410 MHz"
    )
    assert text.splitlines()[-1] == "there is no /etc/hpcai/clocks.json: no clocks are set"
    assert (data["as_wanted"], data["wanted"], len(data["gpus"])) == (None, None, 8)
    assert machine.state == {}


def test_apply_sets_the_clocks_of_the_file_and_status_confirms_them(machine: GpuMachine) -> None:
    write_settings(machine, state="max", persistence=True)
    assert machine.command()[0] == BAD
    assert "NOT as wanted" in machine.command()[1]
    status, text, data = machine.command("apply")
    assert (status, data["changed"]) == (GOOD, True)
    assert "GPU 7 0008:00:00.0: current 1215/1410 MHz" in text
    assert machine.command()[0] == GOOD
    machine.boot()
    assert machine.command()[0] == BAD
    assert machine.command("apply")[0] == GOOD
    assert machine.command("apply")[2]["changed"] is False


def test_apply_without_a_settings_file_does_nothing(machine: GpuMachine) -> None:
    assert machine.command("apply")[:2] == (GOOD, "there is no /etc/hpcai/clocks.json: nothing to do")
    assert machine.calls() == []


def test_reset_removes_application_clocks_and_locks(machine: GpuMachine) -> None:
    machine.module()
    machine.module(method="locked")
    assert machine.command("reset")[0] == GOOD
    assert not [key for key in machine.state if ".set." in key]


def test_a_lost_gpu_exits_with_bad(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    status, text, _data = machine.command()
    assert status == BAD
    assert "GPU 3 0004:00:00.0: nvmlDeviceGetHandleByIndex: GPU is lost" in text
    write_settings(machine)
    assert machine.command("apply")[0] == BAD


def test_a_missing_or_hanging_driver_exits_with_unknown(machine: GpuMachine) -> None:
    write_settings(machine, timeout=3)
    machine.play(fail__nvmlInitWithFlags=DRIVER_NOT_LOADED)
    assert machine.command()[:2] == (UNKNOWN, "nvmlInit: Driver Not Loaded")
    machine.play(fail__nvmlInitWithFlags=0, hang__nvmlInitWithFlags=60)
    assert machine.command()[:2] == (UNKNOWN, "the driver did not answer within 3 s")


@pytest.mark.parametrize("action", [[], ["apply"]])
def test_an_unsupported_gpu_is_a_warning_or_a_failure_as_configured(machine: GpuMachine, action: list[str]) -> None:
    machine.play(application_clocks=3, model="k80")
    write_settings(machine, on_unsupported="warn", method="application")
    status, text, data = machine.command(*action)
    assert status == GOOD
    assert "warning: GPU 0 (0001:00:00.0): not supported: application clocks: " in text
    assert data["gpus"][0]["supported"] is False
    write_settings(machine, on_unsupported="fail", method="application")
    assert machine.command(*action)[0] == BAD
