# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode clocks over the stand-in for NVML."""

from __future__ import annotations

import json

import pytest
from stand_ins.gpu_machine import DRIVER_NOT_LOADED, GpuMachine

GOOD, BAD, UNKNOWN = 0, 1, 2


def wish(machine: GpuMachine, **options: object) -> None:
    """Write the settings file as Ansible does."""
    file = machine.root / "etc/hpcai/clocks.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": 1, **options}), encoding="utf-8")


def test_shows_clocks_without_a_wish(machine: GpuMachine) -> None:
    status, text, data = machine.command()
    assert status == GOOD
    assert (
        text.splitlines()[0]
        == "GPU 0 0001:00:00.0: current 1215/1095 MHz, application 1215/1095 MHz, highest 1215/1410 MHz"
    )
    assert text.splitlines()[-1] == "there is no /etc/hpcai/clocks.json: no clocks are set"
    assert (data["as_wanted"], data["wanted"], len(data["gpus"])) == (None, None, 8)
    assert machine.state == {}


def test_apply_brings_what_the_file_wants_at_boot_and_status_agrees(machine: GpuMachine) -> None:
    wish(machine, state="max", persistence=True)
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


def test_apply_without_a_file_has_nothing_to_do(machine: GpuMachine) -> None:
    assert machine.command("apply")[:2] == (GOOD, "there is no /etc/hpcai/clocks.json: nothing to do")
    assert machine.calls() == []


def test_reset_undoes_both_kinds(machine: GpuMachine) -> None:
    machine.module()
    machine.module(method="locked")
    assert machine.command("reset")[0] == GOOD
    assert not [key for key in machine.state if ".set." in key]


def test_a_lost_gpu_is_bad(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    status, text, _data = machine.command()
    assert status == BAD
    assert "GPU 3 0004:00:00.0: nvmlDeviceGetHandleByIndex: GPU is lost" in text
    wish(machine)
    assert machine.command("apply")[0] == BAD


def test_a_driver_that_is_not_there_or_does_not_answer_is_unknown(machine: GpuMachine) -> None:
    wish(machine, timeout=3)
    machine.play(fail__nvmlInitWithFlags=DRIVER_NOT_LOADED)
    assert machine.command()[:2] == (UNKNOWN, "nvmlInit: Driver Not Loaded")
    machine.play(fail__nvmlInitWithFlags=0, hang__nvmlInitWithFlags=60)
    assert machine.command()[:2] == (UNKNOWN, "the driver did not answer within 3 s")


@pytest.mark.parametrize("action", [[], ["apply"]])
def test_a_gpu_that_cannot_is_told_as_the_file_wants(machine: GpuMachine, action: list[str]) -> None:
    machine.play(application_clocks=3, model="k80")
    wish(machine, on_unsupported="warn", method="application")
    status, text, data = machine.command(*action)
    assert status == GOOD
    assert "warning: GPU 0 (0001:00:00.0): not supported: application clocks: " in text
    assert data["gpus"][0]["supported"] is False
    wish(machine, on_unsupported="fail", method="application")
    assert machine.command(*action)[0] == BAD
