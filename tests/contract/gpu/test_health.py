# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs' health data through the stand-in for NVML: the values, the number of calls, and errors."""

from __future__ import annotations

import time
from typing import Any

import pytest
from stand_ins.gpu_machine import NOT_SUPPORTED, RESET_REQUIRED, UNKNOWN_ERROR, GpuMachine

# Calls of the library for each GPU, and for the machine: init, number of GPUs, and both versions twice.
MAX_CALLS, MAX_CALLS_OLD_LIBRARY, LINK_CALLS, MACHINE_CALLS = 35, 45, 2, 6
CORRUPTED_INFOROM, FUNCTION_NOT_FOUND = 14, 13


def gpus(machine: GpuMachine) -> list[dict[str, Any]]:
    """The health data of all GPUs."""
    found: list[dict[str, Any]] = machine.health("all")["all"]
    return found


def links(machine: GpuMachine) -> list[dict[str, Any]]:
    """The NVLinks of all GPUs."""
    found: list[dict[str, Any]] = machine.health("links")["links"]
    return found


def test_healthy_gpus_have_all_values(machine: GpuMachine) -> None:
    answers = machine.health()
    found = answers["all"]
    assert answers["versions"] == ["550.90.12", "12.550.90.12"]
    assert [one["busid"] for one in found] == [f"{index + 1:04x}:00:00.0" for index in range(8)]
    assert all(
        (one["problem"], one["errors"], one["persistence"], one["mig"]) == (None, {}, True, False) for one in found
    )
    first = found[0]
    assert (first["temperature"], first["slowdown_at"], first["most"]) == (31, 89, 85)
    assert (first["power"], first["power_limit"], first["power_default"]) == (55.0, 400.0, 400.0)
    assert set(first["ecc"].values()) == {True, 0}
    assert first["rows"] == {"corrected": 0, "uncorrected": 0, "pending": False, "failure": False}
    assert (first["pages"], first["fabric"], first["processes"]) == (None, None, [])
    assert set(first["pcie"].items()) == {
        ("width", 16),
        ("generation", 4),
        ("highest_width", 16),
        ("highest_generation", 4),
        ("own_generation", 4),
    }
    assert all(one["active"] == [True] * 12 for one in answers["links"])
    assert answers["inforoms"] == {str(index): True for index in range(8)}


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("model", "settings", "maximum", "number"),
    [
        ("a100-40", {}, MAX_CALLS, 12),
        ("h100", {"thresholds": "none"}, MAX_CALLS, 18),
        ("v100", {}, MAX_CALLS, 6),
        # A library without functions that return several values.
        (
            "a100-40",
            {
                f"fail__{name}": FUNCTION_NOT_FOUND
                for name in (
                    "nvmlDeviceGetSramEccErrorStatus",
                    "nvmlDeviceGetCurrentClocksEventReasons",
                    "nvmlDeviceGetGpuFabricInfoV",
                    "nvmlDeviceGetFieldValues",
                    "nvmlDeviceGetTemperature",
                    "nvmlDeviceGetTemperatureThreshold",
                )
            },
            MAX_CALLS_OLD_LIBRARY,
            12,
        ),
    ],
)
def test_the_number_of_calls_is_bounded(
    machine: GpuMachine, model: str, settings: dict[str, Any], maximum: int, number: int
) -> None:
    machine.play(model=model, gpu__3__processes="100,200", **settings)
    machine.calls()
    machine.health("versions", "all")
    calls = machine.calls()
    for index in range(8):
        own = [call for call in calls if call.endswith(f" {index}")]
        assert 25 < len(own) <= maximum, sorted(own)
    assert len(calls) <= 8 * maximum + MACHINE_CALLS
    # Only the check of the links reads them: one call per link, two for handle and sums, and one that finds the end.
    before = len(calls)
    machine.health("versions", "all", "links")
    assert before < len(machine.calls()) <= before + 8 * (number + LINK_CALLS + 1)


def test_repeated_queries_call_the_driver_once(machine: GpuMachine) -> None:
    machine.health("all", "all", "readable", "all")
    assert len(machine.calls("nvmlDeviceGetTemperature ")) == 8


VALUES: dict[str, tuple[str, Any]] = {
    "temperature=91": ("temperature", 91),
    "power=412000": ("power", 412.0),
    "power_limit=300000": ("power_limit", 300.0),
    "power_default=350000": ("power_default", 350.0),
    "reasons=72": ("reasons", 72),
    "vbios=92.00.36.00.01": ("vbios", "92.00.36.00.01"),
    "ecc.sram.uncorrected.volatile=3": ("ecc.sram_uncorrected_volatile", 3),
    "ecc.sram.uncorrected.aggregate=4": ("ecc.sram_uncorrected_aggregate", 4),
    "ecc.sram.corrected.volatile=5": ("ecc.sram_corrected_volatile", 5),
    "ecc.sram.corrected.aggregate=6": ("ecc.sram_corrected_aggregate", 6),
    "ecc.dram.uncorrected.volatile=7": ("ecc.dram_uncorrected_volatile", 7),
    "ecc.dram.uncorrected.aggregate=8": ("ecc.dram_uncorrected_aggregate", 8),
    "ecc.dram.corrected.volatile=9": ("ecc.dram_corrected_volatile", 9),
    "ecc.dram.corrected.aggregate=10": ("ecc.dram_corrected_aggregate", 10),
    "rows.corrected=2": ("rows.corrected", 2),
    "rows.uncorrected=513": ("rows.uncorrected", 513),
    "rows.pending=1": ("rows.pending", True),
    "pcie.width=8": ("pcie.width", 8),
    "pcie.generation=1": ("pcie.generation", 1),
    "pcie.highest_width=12": ("pcie.highest_width", 12),
    "pcie.highest_generation=3": ("pcie.highest_generation", 3),
    "pcie.own_generation=6": ("pcie.own_generation", 6),
    "memory_used=2000": ("memory_used", 2000.0),
    "processes=100,200": ("processes", [100, 200]),
    "persistence=0": ("persistence", False),
    "mig=1": ("mig", True),
}
"""Settings of a GPU in the stand-in, and where the product has the value."""


def value_at(gpu: dict[str, Any], path: str) -> Any:
    """A value of a GPU, or of a group of values."""
    part, dot, field = path.partition(".")
    return gpu[part][field] if dot else gpu[part]


def test_each_value_belongs_to_its_gpu(machine: GpuMachine) -> None:
    """Each value differs from all others, so that a value from a wrong column fails the test."""
    machine.play(**{f"gpu__5__{key.replace('.', '__')}": text for key, text in (entry.split("=") for entry in VALUES)})
    found = gpus(machine)
    for path, value in VALUES.values():
        assert value_at(found[5], path) == value, path
        assert value not in [value_at(gpu, path) for gpu in found if gpu["index"] != 5], path
    machine.play(gpu__4__rows__failure=1, gpu__4__ecc__mode=0)
    found = gpus(machine)
    assert [gpu["rows"]["failure"] for gpu in found] == [index == 4 for index in range(8)]
    assert [gpu["rows"]["pending"] for gpu in found] == [index == 5 for index in range(8)]
    assert [gpu["ecc"]["enabled"] for gpu in found] == [index != 4 for index in range(8)]


def test_a_gpu_above_its_sram_threshold_is_reported(machine: GpuMachine) -> None:
    machine.play(gpu__5__ecc__sram__threshold=1)
    assert [one["ecc"]["sram_threshold"] for one in gpus(machine)] == [index == 5 for index in range(8)]


def test_older_gpus_report_pages_instead_of_rows(machine: GpuMachine) -> None:
    machine.play(model="v100", gpu__1__pages__single=3, gpu__1__pages__double=2, gpu__1__pages__pending=1)
    found = gpus(machine)
    assert found[0]["pages"] == {"single": 0, "double": 0, "pending": False}
    assert found[1]["pages"] == {"single": 3, "double": 2, "pending": True}
    assert found[1]["rows"] is None


def test_without_thresholds_temperature_limits_come_from_margins(machine: GpuMachine) -> None:
    machine.play(thresholds="none", gpu__2__temperature=60)
    for one in gpus(machine):
        assert (one["most"], one["slowdown_at"]) == (87, 89)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("settings", "fabric"),
    [
        ({}, {"state": "completed", "status": 0, "degraded": False, "unhealthy": False}),
        ({"fabric__state": 2}, {"state": "in progress", "status": 0, "degraded": False, "unhealthy": False}),
        ({"fabric__status": 999}, {"state": "completed", "status": 999, "degraded": False, "unhealthy": False}),
        ({"fabric__health": 0x21}, {"state": "completed", "status": 0, "degraded": True, "unhealthy": False}),
        ({"fabric__health": 0x12}, {"state": "completed", "status": 0, "degraded": False, "unhealthy": True}),
        ({"fabric__health": 0}, {"state": "completed", "status": 0, "degraded": None, "unhealthy": None}),
    ],
)
def test_the_fabric_state_is_reported(machine: GpuMachine, settings: dict[str, int], fabric: dict[str, Any]) -> None:
    machine.play(model="h100", **settings)
    assert gpus(machine)[0]["fabric"] == fabric
    # Drivers before 545 lack the health mask.
    machine.play(fail__nvmlDeviceGetGpuFabricInfoV=FUNCTION_NOT_FOUND)
    assert gpus(machine)[0]["fabric"] == {**fabric, "degraded": None, "unhealthy": None}


def test_inactive_links_and_link_errors_are_reported(machine: GpuMachine) -> None:
    machine.play(gpu__3__link__11=0, gpu__3__link_errors__replay=4, gpu__3__link_errors__recovery=2)
    found = links(machine)
    assert [sum(gpu["active"]) for gpu in found] == [12, 12, 12, 11, 12, 12, 12, 12]
    assert found[3]["active"][11] is False
    assert (found[3]["errors"]["replay"], found[3]["errors"]["recovery"]) == (4, 2)
    assert set(found[2]["errors"].values()) == {0}


def test_links_are_counted_if_the_library_does_not_report_their_number(machine: GpuMachine) -> None:
    machine.play(fail__nvmlDeviceGetFieldValues=FUNCTION_NOT_FOUND)
    assert [(len(one["active"]), one["errors"]) for one in links(machine)] == [(12, {})] * 8


def test_a_corrupted_unsupported_or_failing_inforom_is_reported(machine: GpuMachine) -> None:
    function = "fail__nvmlDeviceValidateInforom"
    machine.play(
        **{f"{function}__1": CORRUPTED_INFOROM, f"{function}__2": NOT_SUPPORTED, f"{function}__3": UNKNOWN_ERROR}
    )
    found = machine.health("inforoms")["inforoms"]
    assert (found["0"], found["1"], found["2"]) == (True, False, None)
    assert "nvmlDeviceValidateInforom" in found["3"]


def test_an_unreadable_value_does_not_affect_the_others(machine: GpuMachine) -> None:
    machine.play(fail__nvmlDeviceGetPowerUsage__4=UNKNOWN_ERROR, fail__nvmlDeviceGetSerial__4=NOT_SUPPORTED)
    found = gpus(machine)[4]
    assert (found["power"], found["serial"], found["problem"]) == (None, None, None)
    # A value that the GPU does not support is no error.
    assert list(found["errors"]) == ["power"]
    assert found["temperature"] == 31


def test_a_lost_gpu_keeps_its_index_and_address(machine: GpuMachine) -> None:
    machine.play(gpu__2__lost=1)
    found = gpus(machine)
    assert [gpu["problem_kind"] for gpu in found] == [None, None, "gpu_is_lost", *[None] * 5]
    assert found[2]["busid"] == "0003:00:00.0"
    assert found[3]["temperature"] == 31


def test_a_gpu_that_needs_a_reset_is_not_queried_further(machine: GpuMachine) -> None:
    machine.play(fail__nvmlDeviceGetTemperature__2=RESET_REQUIRED)
    assert gpus(machine)[2]["problem_kind"] == "reset_required"
    assert not machine.calls("nvmlDeviceGetComputeRunningProcesses_v3 2")


def test_a_hanging_gpu_is_queried_twice_and_then_skipped(machine: GpuMachine) -> None:
    machine.play(hang__nvmlDeviceGetTemperature__6=30)
    start = time.monotonic()
    answers = machine.health("all", "links", limit_s=3)
    assert time.monotonic() - start < 25
    assert [one["problem_kind"] for one in answers["all"]] == [*[None] * 6, "no_answer", None]
    assert answers["all"][6]["busid"] == "0007:00:00.0"
    assert len(machine.calls("nvmlDeviceGetTemperature 6")) == 2
    assert [one["index"] for one in answers["links"]] == [0, 1, 2, 3, 4, 5, 7]


def test_a_hanging_driver_is_queried_twice_and_then_skipped(machine: GpuMachine) -> None:
    machine.play(hang__nvmlInitWithFlags=30)
    start = time.monotonic()
    answers = machine.health("all", "links", "versions", limit_s=3)
    assert time.monotonic() - start < 25
    assert {answer["error"][0] for answer in answers.values()} == {"no_answer"}
    assert len(machine.calls("nvmlInitWithFlags")) == 2


def test_an_unloaded_driver_is_reported(machine: GpuMachine) -> None:
    machine.play(driver__loaded=0)
    assert machine.health("all")["all"]["error"][0] == "driver_not_loaded"
