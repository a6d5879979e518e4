# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and drivers with each error that NVML documents: it is reported, and the other GPUs get their clocks."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import pytest
from stand_ins.gpu_machine import (
    DRIVER_NOT_LOADED,
    IRQ_ISSUE,
    MISMATCH,
    NO_PERMISSION,
    RESET_REQUIRED,
    UNKNOWN_ERROR,
    GpuMachine,
)


def at_maximum(machine: GpuMachine) -> set[int]:
    """The GPUs that run at their highest clock."""
    return {index for index in range(8) if machine.state.get(f"gpu.{index}.set.application_graphics") == 1410}


def failed(answer: dict[str, Any]) -> list[int]:
    """The GPUs that the result reports as failed."""
    return [gpu["index"] for gpu in answer["gpus"] if gpu["failed"]]


def test_a_lost_gpu_does_not_hide_the_others(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    answer = machine.module()
    assert (answer["failed"], answer["changed"], failed(answer)) == (True, True, [3])
    assert answer["msg"] == "GPU 3 (0004:00:00.0): nvmlDeviceGetHandleByIndex: GPU is lost"
    assert answer["gpus"][3]["supported"] is None
    assert at_maximum(machine) == {0, 1, 2, 4, 5, 6, 7}
    again = machine.module()
    assert (again["failed"], again["changed"]) == (True, False)


@pytest.mark.thorough
def test_a_gpu_that_is_lost_during_the_change_is_reported(machine: GpuMachine) -> None:
    machine.play(fail__nvmlDeviceSetApplicationsClocks__3=15)
    answer = machine.module()
    assert (answer["failed"], failed(answer)) == (True, [3])
    assert answer["gpus"][3]["msg"] == "set_application: nvmlDeviceSetApplicationsClocks: GPU is lost"
    assert at_maximum(machine) == {0, 1, 2, 4, 5, 6, 7}


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetSupportedMemoryClocks", "nvmlDeviceSetApplicationsClocks"],
)
def test_a_hanging_gpu_is_reported_within_the_timeout(machine: GpuMachine, function: str) -> None:
    machine.play(**{f"hang__{function}__6": 120})
    began = time.monotonic()
    answer = machine.module(timeout=3)
    assert time.monotonic() - began < 40
    assert (answer["failed"], failed(answer)) == (True, [6])
    assert "the driver did not answer within 3 s" in answer["gpus"][6]["msg"]
    assert at_maximum(machine) == {0, 1, 2, 3, 4, 5, 7}


def test_a_hanging_driver_is_reported_within_the_timeout(machine: GpuMachine) -> None:
    machine.play(hang__nvmlInitWithFlags=120)
    began = time.monotonic()
    answer = machine.module(timeout=3)
    assert time.monotonic() - began < 30
    assert (answer["failed"], answer["msg"]) == (True, "the driver did not answer within 3 s")


def test_a_crash_of_the_library_affects_only_one_gpu(machine: GpuMachine) -> None:
    machine.play(crash__nvmlDeviceGetName__2=1)
    answer = machine.module()
    assert (answer["failed"], failed(answer)) == (True, [2])
    assert "ended the process that called it (signal 6)" in answer["gpus"][2]["msg"]
    assert at_maximum(machine) == {0, 1, 3, 4, 5, 6, 7}


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (DRIVER_NOT_LOADED, "Driver Not Loaded"),
        (MISMATCH, "RM has detected an NVML/RM version mismatch."),
        (NO_PERMISSION, "Insufficient Permissions"),
        (UNKNOWN_ERROR, "Unknown Error"),
    ],
)
def test_a_driver_that_cannot_be_used_is_reported(machine: GpuMachine, code: int, words: str) -> None:
    machine.play(fail__nvmlInitWithFlags=code)
    answer = machine.module()
    assert (answer["failed"], answer["msg"]) == (True, f"nvmlInit: {words}")


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (IRQ_ISSUE, "Interrupt Request Issue"),
        (RESET_REQUIRED, "GPU requires restart"),
        (UNKNOWN_ERROR, "Unknown Error"),
        # A code without a message in the stand-in.
        (29, "Stand-in's error 29"),
    ],
)
def test_an_unreadable_gpu_is_reported_with_the_drivers_message(machine: GpuMachine, code: int, words: str) -> None:
    machine.play(fail__nvmlDeviceGetUUID__1=code)
    answer = machine.module()
    assert (answer["failed"], failed(answer)) == (True, [1])
    assert answer["gpus"][1]["msg"] == f"nvmlDeviceGetUUID: {words}"
    assert at_maximum(machine) == {0, 2, 3, 4, 5, 6, 7}


def test_without_root_each_gpu_fails_with_insufficient_permissions(machine: GpuMachine) -> None:
    machine.play(root=0)
    answer = machine.module()
    assert (answer["failed"], answer["changed"], failed(answer)) == (True, False, list(range(8)))
    assert answer["gpus"][0]["msg"] == "set_application: nvmlDeviceSetApplicationsClocks: Insufficient Permissions"
    assert machine.module(check_mode=True)["failed"] is False


def test_no_gpu_at_all_is_a_failure(machine: GpuMachine) -> None:
    machine.play(gpus=0)
    answer = machine.module()
    assert answer["failed"] is True
    assert "the driver reports no GPU" in answer["msg"]


def test_a_gpu_that_the_driver_does_not_report_is_a_warning(machine: GpuMachine) -> None:
    machine.play(gpus=7)
    answer = machine.module()
    assert answer["failed"] is False
    assert any("there are 8 NVIDIA GPUs on the PCI bus, but the driver reports 7" in str(w) for w in answer["warnings"])


def test_an_unknown_gpu_is_refused_with_a_list_of_gpus(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    answer = machine.module(gpus=["0009:00:00.0"])
    assert answer["failed"] is True
    assert answer["msg"].startswith(
        "0009:00:00.0 is not a GPU of this machine. GPUs found: 0 = 0001:00:00.0 = GPU-00000000"
    )
    assert "3 = 0004:00:00.0 = nvmlDeviceGetHandleByIndex: GPU is lost" in answer["msg"]


def test_a_change_without_effect_is_a_failure(machine: GpuMachine) -> None:
    machine.play(stuck__0=1)
    answer = machine.module()
    assert failed(answer) == [0]
    assert answer["gpus"][0]["msg"] == (
        "the driver accepted memory 1215 MHz, graphics 1410 MHz, but shows memory 1215 MHz, graphics 1095 MHz"
    )


def test_processes_are_listed_by_pci_address(machine: GpuMachine) -> None:
    machine.play(gpu__0__processes="100,101", gpu__1__processes="100", gpu__2__mig=1, gpu__2__processes="200,201@1")
    machine.play(gpu__3__lost=1)
    assert machine.processes() == {
        100: ["0001:00:00.0", "0002:00:00.0"],
        101: ["0001:00:00.0"],
        200: ["0003:00:00.0"],
        201: ["0003:00:00.0"],
    }


@pytest.mark.thorough
def test_processes_on_mig_instances_are_listed_without_root(machine: GpuMachine) -> None:
    machine.play(root=0, gpu__2__mig=1, gpu__2__processes="201@1,202@0")
    assert machine.processes() == {201: ["0003:00:00.0"], 202: ["0003:00:00.0"]}


@pytest.mark.daily(1)
@pytest.mark.parametrize("trouble", ["hang__nvmlInitWithFlags", "fail__nvmlInitWithFlags"])
def test_processes_are_unknown_without_a_driver(machine: GpuMachine, trouble: str) -> None:
    machine.play(**{trouble: 30 if "hang" in trouble else DRIVER_NOT_LOADED})
    assert machine.processes() is None


def test_a_machine_without_nvidias_driver_fails_with_advice(tmp_path: pathlib.Path) -> None:
    bare = GpuMachine(tmp_path, library=None)
    answer = bare.module()
    assert answer["failed"] is True
    assert answer["msg"].startswith("libnvidia-ml.so.1: ")
    assert "install NVIDIA's driver" in answer["msg"]
    assert bare.command()[0] == 2
