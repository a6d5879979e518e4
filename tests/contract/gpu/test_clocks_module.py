# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module gpu_clocks with the stand-in for NVML: it sets the requested clocks once; a second run changes nothing."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from stand_ins.gpu_machine import DEPRECATED, NOT_SUPPORTED, GpuMachine

CHANGES = ("Set", "Reset")


def each(answer: dict[str, Any], key: str) -> list[Any]:
    """The value of a key in the result of each GPU."""
    return [gpu[key] for gpu in answer["gpus"]]


def test_application_clocks_of_eight_gpus_are_set_once(machine: GpuMachine) -> None:
    first = machine.module()
    assert (first["failed"], first["changed"], first["via"]) == (False, True, "nvml")
    assert each(first, "method") == ["application"] * 8
    assert each(first, "supported") == [True] * 8
    assert first["gpus"][7]["busid"] == "0008:00:00.0"
    assert first["gpus"][0]["clocks"]["application"] == {"memory_mhz": 1215, "graphics_mhz": 1410}
    assert first["gpus"][0]["clocks"]["default_application"] == {"memory_mhz": 1215, "graphics_mhz": 1095}
    assert {machine.state[f"gpu.{index}.set.application_graphics"] for index in range(8)} == {1410}
    machine.calls()
    second = machine.module()
    assert (second["failed"], second["changed"], second["diff"]) == (False, False, [])
    assert machine.calls(*CHANGES) == []


def test_check_mode_predicts_the_change_and_makes_none(machine: GpuMachine) -> None:
    predicted = machine.module(check_mode=True, persistent=True)
    assert predicted["changed"] is True
    assert "application clocks: memory 1215 MHz, graphics 1410 MHz" in predicted["diff"][0]["after"]
    assert predicted["gpus"][0]["actions"] == ["set_application 1215 1410", "unlock_graphics", "unlock_memory"]
    assert machine.calls(*CHANGES) == []
    assert machine.state == {}
    assert not (machine.root / "run/hpcai").exists()
    assert not (machine.root / "etc/hpcai").exists()
    made = machine.module(persistent=True)
    assert made["diff"] == predicted["diff"]
    assert machine.module(check_mode=True, persistent=True)["changed"] is False


@pytest.mark.daily(1)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, DEPRECATED])
def test_clocks_are_locked_if_the_driver_lacks_application_clocks(machine: GpuMachine, code: int) -> None:
    machine.play(application_clocks=code, model="a10")
    first = machine.module()
    assert (first["failed"], first["changed"]) == (False, True)
    assert each(first, "method") == ["locked"] * 8
    assert each(first, "memory_lock") == ["locked"] * 8
    assert "nvmlDeviceGetApplicationsClock: " in first["gpus"][0]["reason"]
    assert machine.state["gpu.7.set.locked_graphics_least"] == machine.state["gpu.7.set.locked_graphics_most"] == 1695
    assert machine.state["gpu.7.set.locked_memory_most"] == 6251
    machine.calls()
    second = machine.module()
    assert second["changed"] is False
    assert each(second, "recorded") == [True] * 8
    assert machine.calls(*CHANGES) == []


def test_clocks_are_locked_if_the_library_lacks_the_functions(
    tmp_path: pathlib.Path, newest_library: pathlib.Path
) -> None:
    machine = GpuMachine(tmp_path, newest_library)
    answer = machine.module(persistence=True)
    assert (answer["failed"], each(answer, "method")) == (False, ["locked"] * 8)
    assert "the driver's library does not have it" in answer["gpus"][0]["reason"]
    assert machine.module(persistence=True)["changed"] is False


def test_a_refused_memory_lock_of_hbm_is_no_failure(machine: GpuMachine) -> None:
    machine.play(application_clocks=DEPRECATED)
    answer = machine.module()
    assert (answer["failed"], each(answer, "supported")) == (False, [True] * 8)
    assert each(answer, "memory_lock") == ["nvmlDeviceSetMemoryLockedClocks: Not Supported"] * 8
    assert answer["gpus"][0]["clocks"]["locked"] == {"memory_mhz": None, "graphics_mhz": 1410}
    assert machine.module()["changed"] is False


def test_clocks_are_locked_if_application_clocks_are_refused(machine: GpuMachine) -> None:
    machine.play(fail__nvmlDeviceSetApplicationsClocks=DEPRECATED)
    first = machine.module()
    assert (first["failed"], each(first, "method")) == (False, ["locked"] * 8)
    assert machine.state["gpu.0.set.locked_graphics_most"] == 1410
    machine.calls()
    second = machine.module()
    assert (second["failed"], second["changed"], each(second, "method")) == (False, False, ["locked"] * 8)
    assert "nvmlDeviceSetApplicationsClocks" in second["gpus"][0]["reason"]
    assert machine.calls(*CHANGES) == []


def test_a_gpu_without_both_kinds_of_clocks_is_not_supported(machine: GpuMachine) -> None:
    machine.play(application_clocks=NOT_SUPPORTED, gpu__5__model="k80")
    answer = machine.module()
    assert answer["failed"] is True
    assert each(answer, "supported") == [True] * 5 + [False] + [True] * 2
    assert "lock_graphics: nvmlDeviceSetGpuLockedClocks: Not Supported" in answer["gpus"][5]["reason"]
    assert answer["msg"].startswith("GPU 5 (0006:00:00.0): not supported: ")
    assert answer["gpus"][5]["changed"] is False
    warned = machine.module(on_unsupported="warn")
    assert (warned["failed"], warned["changed"]) == (False, False)
    assert warned["gpus"][5]["supported"] is False
    assert any("GPU 5" in str(warning) for warning in warned["warnings"])


def test_default_removes_application_clocks_and_locks(machine: GpuMachine) -> None:
    machine.module(method="application")
    machine.module(method="locked", gpus=[0, 1])
    assert "gpu.0.set.locked_graphics_most" in machine.state
    undone = machine.module(state="default")
    assert (undone["failed"], undone["changed"]) == (False, True)
    assert not [key for key in machine.state if ".set." in key]
    assert each(undone, "method") == [None] * 8
    assert machine.module(state="default")["changed"] is False


@pytest.mark.thorough
def test_default_removes_a_lock_that_is_not_recorded(machine: GpuMachine) -> None:
    with (machine.gpus / "state").open("w", encoding="ascii") as file:
        file.write("gpu.4.set.locked_graphics_least=300\ngpu.4.set.locked_graphics_most=300\n")
    assert machine.module(state="default")["changed"] is True
    assert machine.state == {}


@pytest.mark.thorough
def test_application_clocks_remove_a_lock_that_would_override_them(machine: GpuMachine) -> None:
    machine.module(state="explicit", graphics_mhz=300, method="locked")
    answer = machine.module(method="application")
    assert "unlock_graphics" in answer["gpus"][0]["actions"]
    assert not [key for key in machine.state if "locked" in key]
    assert answer["gpus"][0]["clocks"]["current"]["graphics_mhz"] == 1410


def test_explicit_clocks_are_set_only_on_the_given_gpus(machine: GpuMachine) -> None:
    named = [0, "0003:00:00.0", "GPU-00000005-1111-2222-3333-444444444444"]
    answer = machine.module(state="explicit", graphics_mhz=1200, gpus=named)
    assert [gpu["index"] for gpu in answer["gpus"]] == [0, 2, 5]
    changed = {key for key in machine.state if key.endswith("application_graphics")}
    assert changed == {f"gpu.{index}.set.application_graphics" for index in (0, 2, 5)}
    assert machine.state["gpu.0.set.application_graphics"] == 1200
    assert machine.module(state="explicit", graphics_mhz=1200, gpus=named)["changed"] is False


def test_unsupported_clocks_are_refused_and_the_nearest_named(machine: GpuMachine) -> None:
    answer = machine.module(state="explicit", graphics_mhz=1400, gpus=[0])
    assert answer["failed"] is True
    assert answer["msg"] == (
        "GPU 0 (0001:00:00.0): 1400 MHz is not a graphics clock of GPU 0 (0001:00:00.0) at memory 1215 MHz: "
        "the nearest are 1395 and 1410"
    )
    assert machine.calls(*CHANGES) == []


@pytest.mark.thorough
def test_a_mig_instance_selects_its_gpu(machine: GpuMachine) -> None:
    machine.play(gpu__3__mig=1)
    answer = machine.module(gpus=["MIG-00000003-1111-2222-3333-000000000001"])
    assert [(gpu["index"], gpu["mig"], len(gpu["mig_instances"])) for gpu in answer["gpus"]] == [(3, True, 2)]
    assert machine.state["gpu.3.set.application_graphics"] == 1410


def test_a_refusal_because_of_mig_is_reported(machine: GpuMachine) -> None:
    machine.play(gpu__3__mig=1, fail__nvmlDeviceSetApplicationsClocks__3=NOT_SUPPORTED)
    machine.play(fail__nvmlDeviceSetGpuLockedClocks__3=NOT_SUPPORTED)
    answer = machine.module()
    assert each(answer, "supported") == [True] * 3 + [False] + [True] * 4
    reason = answer["gpus"][3]["reason"]
    assert "nvmlDeviceSetApplicationsClocks: Not Supported" in reason
    assert "nvmlDeviceSetGpuLockedClocks: Not Supported" in reason


def test_persistence_mode_is_switched_only_on_request(machine: GpuMachine) -> None:
    machine.play(gpu__0__persistence=0)
    left = machine.module()
    assert left["gpus"][0]["persistence"] is False
    assert ["persistence mode is off on GPU 0 (0001:00:00.0): " in str(warning) for warning in left["warnings"]] == [
        True
    ]
    switched = machine.module(persistence=True)
    assert switched["gpus"][0]["actions"][0] == "set_persistence 1"
    assert switched["gpus"][0]["persistence"] is True
    assert switched.get("warnings", []) == []
    assert machine.module(persistence=True)["changed"] is False


def test_settings_are_saved_for_the_next_boot_only_on_request(machine: GpuMachine) -> None:
    file = machine.root / "etc/hpcai/clocks.json"
    machine.module(persistence=True)
    assert not file.exists()
    assert machine.module(persistence=True, persistent=True)["changed"] is True
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "schema": 1,
        "state": "max",
        "gpus": ["all"],
        "method": "auto",
        "persistence": True,
        "on_unsupported": "fail",
        "timeout": 30.0,
    }
    assert file.stat().st_mode & 0o777 == 0o644
    assert machine.module(persistence=True, persistent=True)["changed"] is False
    assert machine.module(state="default", persistent=True)["changed"] is True
    assert not file.exists()
