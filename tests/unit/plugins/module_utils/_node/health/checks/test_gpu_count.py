# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The number of GPUs: all, one missing on the bus, one lost, a driver that does not answer or is not loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    BOOT,
    PROLOG,
    CannotMeasure,
    Context,
    History,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_count import (
    GPU_COUNT,
    expected_gpus,
    is_amd,
    reason_without_gpus,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.judge import judge
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..gpu_playing import BUSIDS, LOST, PlayedGpus, gpu, look
from ..playing import context

ALL = [gpu(index) for index in range(8)]


def test_passes_with_all_gpus() -> None:
    result = look(GPU_COUNT, *ALL)
    assert (result.verdict, result.summary) == ("pass", "8 GPUs")
    assert [(one.name, one.value, one.limit) for one in result.answer.readings] == [("gpu_count", 8, 8)]
    assert result.answer.limit == "8 (Standard_ND96asr_v4)"


def test_fails_and_names_the_gpu_that_is_not_on_the_bus() -> None:
    seven = [one for one in ALL if one.busid != "0003:00:00.0"]
    result = look(GPU_COUNT, *seven)
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2009", "reboot")
    assert result.summary == "7 of 8 GPUs: 0003:00:00.0 not on the PCI bus"
    assert result.answer.findings[0].device == "0003:00:00.0"
    assert result.answer.readings[0].value == 7


def test_fails_if_the_driver_does_not_know_a_gpu_on_the_bus() -> None:
    result = look(GPU_COUNT, played=PlayedGpus(ALL[:7], on_bus=BUSIDS))
    assert (result.verdict, result.summary) == ("fail", "7 of 8 GPUs: the driver does not know 000e:00:00.0")
    assert result.answer.findings[0].device == "000e:00:00.0"
    result = look(GPU_COUNT, played=PlayedGpus(ALL[:6], on_bus=BUSIDS))
    assert result.summary == "6 of 8 GPUs: the driver does not know 000d:00:00.0, 000e:00:00.0"
    assert result.answer.findings[0].device == ""


def test_fails_if_a_gpu_is_lost() -> None:
    result = look(GPU_COUNT, *ALL[:3], gpu(3, **LOST), *ALL[4:])
    assert (result.verdict, result.fault) == ("fail", "NHC2009")
    assert result.summary == "7 of 8 GPUs: GPU 3 (0004:00:00.0) fell off the bus: lost"
    assert result.answer.readings[0].value == 7


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("no_answer", "GPU 3 (0004:00:00.0) did not answer twice in a row"),
        ("unknown", "GPU 3 (0004:00:00.0) cannot be read: out of its mind"),
    ],
)
def test_fails_if_a_gpu_cannot_be_read(kind: str, summary: str) -> None:
    result = look(GPU_COUNT, *ALL[:3], gpu(3, problem="out of its mind", problem_kind=kind), *ALL[4:])
    assert (result.verdict, result.summary, result.fault) == ("fail", summary, "NHC2015")


def test_cannot_measure_a_gpu_that_was_not_asked() -> None:
    result = look(GPU_COUNT, *ALL[:3], gpu(3, problem="TypeError: a defect", problem_kind="not_asked"), *ALL[4:])
    assert (result.verdict, result.fault) == ("unknown", "")
    assert result.summary == "GPU 3 (0004:00:00.0) could not be read: TypeError: a defect"


@pytest.mark.parametrize(
    ("kind", "words", "fault"),
    [
        ("no_answer", "NVIDIA's driver did not answer twice in a row, 10 s each time", "NHC2015"),
        ("driver_not_loaded", "NVIDIA's driver is not loaded (it says so)", ""),
        ("lib_rm_version_mismatch", "NVIDIA's library and the loaded driver have different versions", ""),
        ("died", "NVIDIA's driver failed: it says so", "NHC2015"),
    ],
)
def test_fails_if_the_driver_fails(kind: str, words: str, fault: str) -> None:
    """A failure that is no hardware fault has no fault code, so that it is not reported."""
    result = look(GPU_COUNT, played=PlayedGpus(GpuError(kind, "it says so"), on_bus=BUSIDS))
    assert (result.verdict, result.summary, result.fault) == ("fail", words, fault)
    assert result.answer.readings == ()


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("library_not_found", "the driver cannot be queried: it says so"),
        ("no_permission", "this user may not use the driver (it says so)"),
        ("not_asked", "the driver could not be queried: it says so"),
    ],
)
def test_cannot_measure_without_library_or_permission(kind: str, summary: str) -> None:
    result = look(GPU_COUNT, played=PlayedGpus(GpuError(kind, "it says so"), on_bus=BUSIDS))
    assert (result.verdict, result.summary) == ("unknown", summary)
    # GPUs that are missing on the bus are still reported.
    result = look(GPU_COUNT, played=PlayedGpus(GpuError(kind, "it says so"), on_bus=BUSIDS[:7]))
    assert (result.verdict, result.summary) == ("fail", "7 of 8 GPUs: 000e:00:00.0 not on the PCI bus")


def test_cannot_measure_on_an_unknown_size() -> None:
    with pytest.raises(CannotMeasure, match="the VM size of this machine is not known"):
        look(GPU_COUNT, *ALL, size=None)


def test_with_an_unknown_address_no_gpu_is_named_as_missing() -> None:
    result = look(GPU_COUNT, *ALL[:6], gpu(6, busid="0100:00:00.0"))
    assert result.summary == "7 of 8 GPUs: no more on the PCI bus (Standard_ND96asr_v4)"


def test_warns_of_more_gpus_than_expected() -> None:
    result = look(GPU_COUNT, *ALL, gpu(0, busid="000f:00:00.0"))
    assert (result.verdict, result.summary) == ("warn", "9 GPUs, but 8 are expected (Standard_ND96asr_v4)")


def test_the_settings_win_over_the_size(tmp_path: Path) -> None:
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    settings = tmp_path / "etc/hpcai/gpu.json"
    settings.write_text(json.dumps({"schema": 1, "gpu_count": 2}), encoding="ascii")
    assert look(GPU_COUNT, *ALL[:2], root=tmp_path, size=None).verdict == "pass"
    result = look(GPU_COUNT, ALL[0], root=tmp_path)
    assert result.summary == "1 of 2 GPUs: no more on the PCI bus (gpu_count of /etc/hpcai/gpu.json)"
    settings.write_text(json.dumps({"schema": 1, "gpu_count": 0}), encoding="ascii")
    assert look(GPU_COUNT, root=tmp_path).verdict == "skip"


def judged(root: Path, boot_id: str, history: History, *missing: int, **error: GpuError) -> Result:
    """Return the result of a run in this boot of the machine."""
    file = root / "proc/sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{boot_id}\n", encoding="ascii")
    remaining = [one for one in ALL if one.index not in missing]
    gpus = PlayedGpus(error.get("error", remaining), on_bus=[one.busid or "" for one in remaining])
    given: Context = context(root=root, gpus=gpus, history=history)
    return judge(GPU_COUNT, GPU_COUNT.measure(given), given.settings)


def test_a_failure_after_a_reboot_needs_another_machine(tmp_path: Path) -> None:
    history = History()
    assert judged(tmp_path, "first", history, 2).action == "reboot"
    assert judged(tmp_path, "first", history, 2).action == "reboot"
    assert history.changed["failed in boot"] == ("first", True)
    assert judged(tmp_path, "second", history, 2).action == "replace"
    # A pass resets the history.
    assert judged(tmp_path, "second", history).verdict == "pass"
    assert judged(tmp_path, "third", history, 2).action == "reboot"


def test_a_driver_that_is_not_loaded_never_needs_another_machine(tmp_path: Path) -> None:
    history = History()
    for boot_id in ("first", "second"):
        result = judged(tmp_path, boot_id, history, error=GpuError("driver_not_loaded", "no"))
        assert (result.verdict, result.action) == ("fail", "reboot")
    # Nor does it count as a failure that a restart did not repair.
    assert judged(tmp_path, "third", history, 2).action == "reboot"


def test_of_two_failures_only_that_of_the_hardware_needs_another_machine(tmp_path: Path) -> None:
    history = History()
    judged(tmp_path, "first", history, 2)
    result = judged(tmp_path, "second", history, 2, error=GpuError("driver_not_loaded", "no"))
    actions = {one.fault: one.action for one in result.answer.findings}
    assert actions == {None: "replace", "": None}


def amd(root: Path, driven: int, on_bus: int = 8) -> None:
    """Add AMD GPUs to the bus, this many of them with their driver."""
    for index in range(on_bus):
        device = root / f"sys/bus/pci/devices/{index + 1:04x}:00:00.0"
        device.mkdir(parents=True)
        for name, value in (("class", "0x120000"), ("vendor", "0x1002"), ("device", "0x74a1")):
            (device / name).write_text(f"{value}\n", encoding="ascii")
        # A bridge of AMD is no GPU.
        bridge = root / f"sys/bus/pci/devices/{index + 0x100:04x}:00:00.0"
        bridge.mkdir()
        for name, value in (("class", "0x060400"), ("vendor", "0x1002"), ("device", "0x14a5")):
            (bridge / name).write_text(f"{value}\n", encoding="ascii")
        if index < driven:
            (device / "driver").symlink_to("/sys/bus/pci/drivers/amdgpu")


@pytest.mark.parametrize(
    ("driven", "on_bus", "verdict", "summary"),
    [
        (8, 8, "pass", "8 GPUs"),
        (7, 8, "fail", "7 of 8 GPUs: 0008:00:00.0 without the driver amdgpu"),
        (7, 7, "fail", "7 of 8 GPUs: no more on the PCI bus (Standard_ND96isr_MI300X_v5)"),
    ],
)
def test_counts_amd_gpus_on_the_bus(tmp_path: Path, driven: int, on_bus: int, verdict: str, summary: str) -> None:
    amd(tmp_path, driven, on_bus)
    result = look(GPU_COUNT, root=tmp_path, size="Standard_ND96isr_MI300X_v5")
    assert (result.verdict, result.summary) == (verdict, summary)
    devices = {one.device for one in result.answer.findings}
    assert devices == ({"0008:00:00.0"} if "0008" in summary else {""} if verdict == "fail" else set())


def test_on_an_unknown_size_the_bus_shows_the_vendor(tmp_path: Path) -> None:
    amd(tmp_path, 7)
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/gpu.json").write_text('{"schema": 1, "gpu_count": 8}', encoding="ascii")
    result = look(GPU_COUNT, root=tmp_path, size=None)
    assert (result.verdict, result.summary) == ("fail", "7 of 8 GPUs: 0008:00:00.0 without the driver amdgpu")


def test_a_failure_blocks_job_and_boot() -> None:
    assert (GPU_COUNT.blocks_job, GPU_COUNT.blocks_boot) == (True, True)
    assert {PROLOG, BOOT} <= set(GPU_COUNT.tiers)


def test_without_size_and_settings_the_expected_number_is_unknown() -> None:
    size = find_size("Standard_ND96asr_v4")
    assert size is not None
    assert expected_gpus(None, None) is None
    assert expected_gpus(None, replace(size, gpu_count=None)) is None
    stated = expected_gpus(3, None)
    assert stated is not None
    assert stated.count == 3


def test_the_reason_without_gpus_names_its_source() -> None:
    size = find_size("Standard_ND96asr_v4")
    assert size is not None
    assert reason_without_gpus(None, None) == "it is not known how many GPUs this machine has"
    assert reason_without_gpus(None, size) == "it is not known how many GPUs Standard_ND96asr_v4 has"
    assert reason_without_gpus(expected_gpus(0, size), size) == "no GPU is expected (gpu_count of /etc/hpcai/gpu.json)"


def test_the_model_of_the_size_wins_over_the_bus(tmp_path: Path) -> None:
    size = find_size("Standard_ND96asr_v4")
    assert size is not None
    # The bus of this folder shows an AMD GPU.
    device = tmp_path / "sys/bus/pci/devices/0001:00:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x1002"), ("device", "0x74b5"), ("class", "0x120000")):
        (device / name).write_text(f"{text}\n", encoding="ascii")
    here = Root(str(tmp_path))
    assert not is_amd(here, size)
    assert is_amd(here, replace(size, gpu_model="MI300X"))
    assert is_amd(here, replace(size, gpu_model=None))
    assert is_amd(here, None)
