# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs' state: temperature, power, clocks, persistence mode, MIG mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotMeasure, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_state import (
    GPU_CLOCKS,
    GPU_MIG,
    GPU_PERSISTENCE,
    GPU_POWER,
    GPU_TEMPERATURE,
    GPU_THROTTLE,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import Clocks, GpuError, GpuFacts, read_load
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import Lock, write_record

from ..gpu_playing import PlayedGpus, assert_unread_gpus_are_unknown, facts, gpu, look

# The values of nvml.h, deliberately not imported from the product.
IDLE, SETTING, POWER_CAP, HARDWARE, SYNC_BOOST, THERMAL, HARDWARE_THERMAL, POWER_BRAKE, DISPLAY = (
    1,
    2,
    4,
    8,
    0x10,
    0x20,
    0x40,
    0x80,
    0x100,
)


@pytest.mark.parametrize("reasons", [0, IDLE, SETTING, POWER_CAP, SYNC_BOOST, DISPLAY, IDLE | SETTING | DISPLAY])
def test_gpu_throttle_passes_with_harmless_reasons(reasons: int) -> None:
    result = look(GPU_THROTTLE, gpu(0, reasons=reasons))
    assert (result.verdict, result.answer.readings[0].value) == ("pass", reasons)


@pytest.mark.parametrize(
    ("reasons", "why", "fault"),
    [
        (HARDWARE_THERMAL, "it is too hot (HW thermal slowdown)", "NHC2017"),
        (POWER_BRAKE, "its power supply requests it (HW power brake)", "NHC2010"),
        (HARDWARE, "of temperature or power (HW slowdown)", "NHC2010"),
        # Several bits can be set, so a comparison of the number with one bit finds nothing.
        (HARDWARE_THERMAL | HARDWARE, "it is too hot (HW thermal slowdown)", "NHC2017"),
        (POWER_BRAKE | HARDWARE | POWER_CAP, "its power supply requests it (HW power brake)", "NHC2010"),
        (HARDWARE | IDLE | SETTING | THERMAL, "of temperature or power (HW slowdown)", "NHC2010"),
    ],
)
def test_gpu_throttle_fails_if_the_hardware_slows_down(reasons: int, why: str, fault: str) -> None:
    result = look(GPU_THROTTLE, gpu(0), gpu(1, reasons=reasons))
    assert (result.verdict, result.fault) == ("fail", fault)
    assert result.summary == f"the hardware slows GPU 1 (0002:00:00.0) down because {why}"


def test_gpu_throttle_warns_if_the_driver_slows_a_hot_gpu_down() -> None:
    result = look(GPU_THROTTLE, gpu(0, reasons=THERMAL | SETTING))
    assert (result.verdict, result.summary) == (
        "warn",
        "the driver slows GPU 0 (0001:00:00.0) down because it is too hot (SW thermal slowdown)",
    )


@pytest.mark.parametrize(("limit", "verdict"), [(399.0, "warn"), (400.0, "pass"), (None, "pass")])
def test_gpu_throttle_warns_of_a_power_cap_if_the_limit_was_lowered(limit: float | None, verdict: str) -> None:
    assert look(GPU_THROTTLE, gpu(0, reasons=POWER_CAP, power_limit=limit)).verdict == verdict
    assert look(GPU_THROTTLE, gpu(0, reasons=IDLE, power_limit=limit)).verdict == "pass"


def test_gpu_throttle_cannot_measure_without_the_reasons() -> None:
    result = look(GPU_THROTTLE, gpu(0, reasons=None))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not report the reasons for its clocks",
    )


def test_gpu_throttle_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_THROTTLE)


@pytest.mark.parametrize("degrees", [20, 85])
def test_gpu_temperature_passes_up_to_the_operating_maximum(degrees: int) -> None:
    result = look(GPU_TEMPERATURE, gpu(0, temperature=degrees))
    (reading,) = result.answer.readings
    assert (result.verdict, reading.value, reading.limit, reading.at_most) == ("pass", degrees, 89, True)


@pytest.mark.parametrize("degrees", [86, 88])
def test_gpu_temperature_warns_above_the_operating_maximum(degrees: int) -> None:
    result = look(GPU_TEMPERATURE, gpu(0, temperature=degrees))
    assert (result.verdict, result.summary) == (
        "warn",
        f"GPU 0 (0001:00:00.0) is at {degrees} C, above its maximum operating temperature of 85 C",
    )


@pytest.mark.parametrize("degrees", [89, 95])
def test_gpu_temperature_fails_from_the_slowdown_temperature(degrees: int) -> None:
    result = look(GPU_TEMPERATURE, gpu(0), gpu(1, temperature=degrees))
    assert (result.verdict, result.fault) == ("fail", "NHC2017")
    assert result.summary == (f"GPU 1 (0002:00:00.0) is at {degrees} C: the hardware slows it down at 89 C")


def test_gpu_temperature_each_gpu_has_its_own_limits() -> None:
    assert look(GPU_TEMPERATURE, gpu(0, temperature=80, slowdown_at=79)).verdict == "fail"
    assert look(GPU_TEMPERATURE, gpu(0, temperature=88, most=None)).verdict == "pass"


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("temperature", "does not report its temperature"),
        ("slowdown_at", "does not report its slowdown temperature"),
    ],
)
def test_gpu_temperature_cannot_measure_without_temperatures(missing: str, words: str) -> None:
    result = look(GPU_TEMPERATURE, gpu(0, **{missing: None}))
    assert result.verdict == "unknown"
    assert words in result.summary


def test_gpu_temperature_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_TEMPERATURE)


@pytest.mark.parametrize("watts", [400.0, 450.0])
def test_gpu_power_passes_at_the_default_limit_and_above(watts: float) -> None:
    result = look(GPU_POWER, gpu(0, power_limit=watts, power=312.5))
    assert result.verdict == "pass"
    assert [(one.name, one.value, one.limit) for one in result.answer.readings] == [
        ("gpu_power", 312.5, None),
        ("gpu_power_limit", watts, 400.0),
    ]


def test_gpu_power_fails_to_pass_below_the_default_limit() -> None:
    result = look(GPU_POWER, gpu(0), gpu(1, power_limit=399.0))
    assert (result.verdict, result.summary) == (
        "warn",
        "GPU 1 (0002:00:00.0) has a power limit of 399 W, but its default is 400 W",
    )
    assert result.hint.startswith("If that is not intended: 'nvidia-smi -i 1 -pl 400'")


@pytest.mark.parametrize("missing", ["power_limit", "power_default"])
def test_gpu_power_cannot_measure_without_the_limits(missing: str) -> None:
    result = look(GPU_POWER, gpu(0, errors={missing: "Unknown Error"}, **{missing: None}))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not report its power limit: Unknown Error",
    )


def test_gpu_power_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_POWER)


LOW = Clocks(1215, 1095)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine configured for the highest clocks, and without locked clocks since the driver was loaded."""
    write_settings(tmp_path)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    boot_id = tmp_path / "proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("here-and-now\n", encoding="ascii")
    load = read_load(Root(str(tmp_path)))
    assert load is not None
    write_record(Root(str(tmp_path)), load, {f"GPU-{index}": Lock() for index in range(2)})
    return tmp_path


def write_settings(root: Path, **options: Any) -> None:
    """Write the settings of the clocks."""
    (root / "etc/hpcai").mkdir(parents=True, exist_ok=True)
    (root / "etc/hpcai/clocks.json").write_text(json.dumps({"schema": 1, **options}), encoding="ascii")


def check_clocks(root: Path, *gpus: GpuFacts) -> Result:
    """Check the clocks."""
    return look(GPU_CLOCKS, played=PlayedGpus([], clocks=gpus), root=root)


def test_gpu_clocks_passes_with_the_configured_clocks(root: Path) -> None:
    result = check_clocks(root, facts(0), facts(1))
    assert (result.verdict, result.summary) == ("pass", "the clocks of 2 GPUs are as wanted (max)")
    assert [(one.name, one.value) for one in result.answer.readings][:2] == [
        ("gpu_graphics_clock", 1410),
        ("gpu_memory_clock", 1215),
    ]


def test_gpu_clocks_fails_to_pass_with_other_clocks(root: Path) -> None:
    result = check_clocks(root, facts(0), facts(1, application=LOW))
    assert (result.verdict, result.hint) == ("warn", "Run 'hpcnode clocks apply'")
    assert result.summary.startswith(
        "GPU 1 (0002:00:00.0) does not have the configured clocks: application clocks are memory 1215 MHz, "
        "graphics 1095 MHz"
    )


def test_gpu_clocks_ignores_gpus_whose_job_asked_for_its_own_clocks(root: Path) -> None:
    folder = root / "run/hpcai/job_clocks"
    folder.mkdir(parents=True)
    (folder / "42.json").write_text('{"gpus": [1]}', encoding="ascii")
    (folder / "x.json").write_text("broken", encoding="ascii")
    assert check_clocks(root, facts(0), facts(1, application=LOW)).summary.startswith("the clocks of 1 GPUs are")
    assert check_clocks(root, facts(0, application=LOW), facts(1)).verdict == "warn"
    (folder / "43.json").write_text('{"gpus": [0]}', encoding="ascii")
    assert check_clocks(root, facts(0, application=LOW), facts(1)).verdict == "skip"


def test_gpu_clocks_fails_to_pass_without_a_record_of_locks(root: Path) -> None:
    (root / "run/hpcai/clocks.json").unlink()
    result = check_clocks(root, facts(0))
    assert result.verdict == "warn"
    assert result.summary.endswith("whether clocks are locked cannot be read")


def test_gpu_clocks_passes_if_only_a_gpu_that_is_not_listed_differs(root: Path) -> None:
    write_settings(root, gpus=["0"])
    assert check_clocks(root, facts(0), facts(1, application=LOW)).verdict == "pass"
    assert check_clocks(root, facts(0, application=LOW), facts(1)).verdict == "warn"


def test_gpu_clocks_warns_of_unsupported_clocks_unless_allowed(root: Path) -> None:
    none = {"application": None, "application_reason": "not supported"}
    write_settings(root, method="application")
    assert check_clocks(root, facts(0, **none)).verdict == "warn"
    write_settings(root, method="application", on_unsupported="warn")
    assert check_clocks(root, facts(0, **none)).verdict == "pass"


def test_gpu_clocks_is_skipped_without_settings(tmp_path: Path) -> None:
    assert check_clocks(tmp_path, facts(0)).verdict == "skip"


def test_gpu_clocks_cannot_measure_without_the_clocks_of_a_gpu(root: Path) -> None:
    result = check_clocks(
        root, facts(0), GpuFacts(1, busid="0002:00:00.0", problem="GPU is lost", problem_kind="gpu_is_lost")
    )
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 1 (0002:00:00.0) does not report its clocks: GPU is lost",
    )
    result = check_clocks(root, facts(0, current=Clocks(None, None)))
    assert (result.verdict, result.answer.findings[0].device) == ("unknown", "0001:00:00.0")


@pytest.mark.parametrize("current", [Clocks(None, 1410), Clocks(1215, None)])
def test_gpu_clocks_passes_if_a_gpu_reports_one_of_its_clocks(root: Path, current: Clocks) -> None:
    result = check_clocks(root, facts(0, current=current))
    assert (result.verdict, len(result.answer.readings)) == ("pass", 1)


def test_gpu_clocks_cannot_measure_without_a_driver_or_the_listed_gpus(root: Path) -> None:
    with pytest.raises(CannotMeasure, match="the GPUs' driver cannot be queried: not loaded"):
        look(GPU_CLOCKS, played=PlayedGpus([], clocks=GpuError("driver_not_loaded", "not loaded")), root=root)
    with pytest.raises(GpuError):
        look(GPU_CLOCKS, played=PlayedGpus([], clocks=GpuError("no_answer", "silence")), root=root)
    with pytest.raises(CannotMeasure, match="the driver shows no GPU"):
        check_clocks(root)
    write_settings(root, gpus=["7"])
    with pytest.raises(CannotMeasure, match="7 is not a GPU of this machine"):
        check_clocks(root, facts(0))


def test_gpu_persistence_passes_if_it_is_on() -> None:
    result = look(GPU_PERSISTENCE, gpu(0), gpu(1))
    assert (result.verdict, [one.value for one in result.answer.readings]) == ("pass", [1, 1])


def test_gpu_persistence_fails_to_pass_if_it_is_off() -> None:
    result = look(GPU_PERSISTENCE, gpu(0), gpu(1, persistence=False))
    assert result.verdict == "warn"
    assert result.summary.startswith("persistence mode of GPU 1 (0002:00:00.0) is off")


def test_gpu_persistence_cannot_measure_without_its_state() -> None:
    result = look(GPU_PERSISTENCE, gpu(0, persistence=None))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not report whether persistence mode is on",
    )


def test_gpu_persistence_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_PERSISTENCE)


MIG_ENABLED = {"gpu_mig": {"enabled": True}}


@pytest.mark.parametrize(("mig", "reading"), [(False, "off"), (None, "none")])
def test_gpu_mig_passes_if_it_is_off_or_not_supported(mig: bool | None, reading: str) -> None:
    result = look(GPU_MIG, gpu(0, mig=mig))
    assert (result.verdict, result.answer.readings[0].value) == ("pass", reading)
    assert (result.summary, result.answer.limit) == ("MIG mode is off, as configured", "off")


def test_gpu_mig_passes_if_it_is_on_as_configured() -> None:
    result = look(GPU_MIG, gpu(0, mig=True), options=MIG_ENABLED)
    assert (result.verdict, result.answer.readings[0].value) == ("pass", "on")
    assert (result.summary, result.answer.limit) == ("MIG mode is on, as configured", "on")


def test_gpu_mig_fails_to_pass_if_it_is_on() -> None:
    result = look(GPU_MIG, gpu(0), gpu(1, mig=True))
    assert result.verdict == "warn"
    assert result.summary.startswith("MIG mode of GPU 1 (0002:00:00.0) is on")
    assert result.hint.startswith("Drain the node, run 'nvidia-smi -i 1 -mig 0'")


@pytest.mark.parametrize("mig", [False, None])
def test_gpu_mig_fails_to_pass_if_it_is_off_but_configured(mig: bool | None) -> None:
    result = look(GPU_MIG, gpu(0, mig=mig), options=MIG_ENABLED)
    assert (result.verdict, result.summary) == ("warn", "MIG mode of GPU 0 (0001:00:00.0) is off, but should be on")


def test_gpu_mig_cannot_measure_without_its_state() -> None:
    result = look(GPU_MIG, gpu(0, mig=None, errors={"mig": "Unknown Error"}))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not report whether MIG mode is on: Unknown Error",
    )


def test_gpu_mig_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_MIG)
