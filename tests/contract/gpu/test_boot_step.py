# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot step that checks the GPUs, with the stand-in for NVML: good GPUs, and each kind of fault."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Any

import pytest
from stand_ins.gpu_machine import (
    DRIVER_NOT_LOADED,
    MISMATCH,
    NO_PERMISSION,
    RESET_REQUIRED,
    SHOW_PERSISTENCED,
    UNKNOWN_ERROR,
    GpuMachine,
)

FATAL = "modprobe: FATAL: Module {} not found in directory /lib/modules/6.1.0-26-cloud-amd64"
STOPPED = (0, "LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\n")
EXPECTED_BY = "gpu_count of /etc/hpcai/gpu.json"


@pytest.fixture
def node(machine: GpuMachine) -> GpuMachine:
    """An ND96asr_v4 whose GPUs have the PCI addresses of this size."""
    for domain in (5, 6, 7, 8):
        device = machine.root / f"sys/bus/pci/devices/{domain:04x}:00:00.0"
        device.rename(device.with_name(f"{domain + 6:04x}:00:00.0"))
    machine.play(**{f"gpu__{index}__busid": f"0000000{domain}:00:00.0" for index, domain in enumerate("1234bcde")})
    machine.settings("node", vm_size="Standard_ND96asr_v4")
    return machine


def verdict(outcome: dict[str, Any]) -> tuple[str, str]:
    """The verdict and the summary of an outcome."""
    return outcome["verdict"], outcome["summary"]


def test_eight_gpus_that_answer_pass(node: GpuMachine) -> None:
    outcome = node.step()
    assert verdict(outcome) == ("pass", "8 GPUs (NVIDIA A100-SXM4-40GB), driver 550.90.12")
    assert outcome["changes"] == ["modprobe nvidia_uvm", "modprobe nvidia_peermem"]
    assert outcome["ran"] == ["modprobe nvidia_uvm", "modprobe nvidia_peermem", SHOW_PERSISTENCED]
    assert [gpu["busid"][:4] for gpu in outcome["details"]["gpus"]] == [f"000{domain}" for domain in "1234bcde"]
    assert node.state == {}
    again = node.step()
    assert (again["verdict"], again["changes"], again["ran"]) == ("pass", [], [SHOW_PERSISTENCED])


def test_check_mode_loads_nothing(node: GpuMachine) -> None:
    outcome = node.step(check=True)
    assert (outcome["verdict"], outcome["ran"]) == ("pass", [SHOW_PERSISTENCED])
    assert outcome["changes"] == ["modprobe nvidia_uvm", "modprobe nvidia_peermem"]
    shutil.rmtree(node.root / "sys/module/nvidia")
    outcome = node.step(check=True)
    assert (outcome["verdict"], outcome["changes"], outcome["ran"]) == ("warn", ["modprobe nvidia_uvm"], [])


def test_a_machine_without_expected_gpus_is_skipped(node: GpuMachine) -> None:
    node.settings("node", vm_size="Mine_1", vm_sizes={"Mine_1": {"vcpus": 4, "gpu_count": 0}, "Mine_2": {"vcpus": 4}})
    assert verdict(node.step()) == ("skip", "no GPU is expected (Standard_Mine_1)")
    node.settings("node", vm_size="Mine_2", vm_sizes={"Mine_2": {"vcpus": 4}})
    assert verdict(node.step()) == ("skip", "it is not known how many GPUs Standard_Mine_2 has")
    node.settings("node", vm_size="Standard_ND96asr_v4")
    node.settings("gpu", gpu_count=0)
    outcome = node.step()
    assert verdict(outcome) == ("skip", f"no GPU is expected ({EXPECTED_BY})")
    assert (outcome["ran"], node.calls()) == ([], [])


def test_a_controller_with_an_unknown_size_is_skipped(node: GpuMachine) -> None:
    node.settings("node", vm_size="Standard_D4s_v5")
    node.settings("cluster", cluster="a", functions=["controller"], controllers=["10.0.0.4"])
    assert node.step()["verdict"] == "skip"


def test_gpu_count_of_the_settings_is_used_for_an_unknown_size(node: GpuMachine) -> None:
    node.settings("node", vm_size="Standard_D4s_v5")
    node.settings("gpu", gpu_count=8)
    outcome = node.step()
    assert outcome["verdict"] == "pass"
    assert "modprobe nvidia_peermem" not in outcome["ran"]


@pytest.mark.parametrize("loaded", [False, True])
def test_a_driver_that_does_not_load_fails_with_modprobes_message(node: GpuMachine, loaded: bool) -> None:
    if not loaded:
        shutil.rmtree(node.root / "sys/module/nvidia")
    words = FATAL.format("nvidia_uvm")
    outcome = node.step({"modprobe nvidia_uvm": (1, words)})
    problem = "cannot load nvidia_uvm, which every GPU program needs" if loaded else "NVIDIA's driver is not loaded"
    assert verdict(outcome) == ("fail", f"{problem}: {words}")
    assert "dkms status" in outcome["action"]
    assert node.calls() == []


@pytest.mark.parametrize(("value", "advice"), [(1, "Turn Secure Boot off"), (0, "dkms status")])
def test_a_driver_that_the_kernel_refuses_may_be_unsigned(node: GpuMachine, value: int, advice: str) -> None:
    shutil.rmtree(node.root / "sys/module/nvidia")
    variables = node.root / "sys/firmware/efi/efivars"
    variables.mkdir(parents=True)
    name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    (variables / name).write_bytes(bytes([6, 0, 0, 0, value]))
    words = "modprobe: ERROR: could not insert 'nvidia_uvm': Key was rejected by service"
    outcome = node.step({"modprobe nvidia_uvm": (1, words)})
    assert verdict(outcome) == ("fail", f"NVIDIA's driver is not loaded: {words}")
    assert advice in outcome["action"]
    # A module that does not exist was not refused.
    assert "dkms status" in node.step({"modprobe nvidia_uvm": (1, FATAL.format("nvidia_uvm"))})["action"]


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (DRIVER_NOT_LOADED, "fail", "NVIDIA's driver is not loaded (nvmlInit: Driver Not Loaded)"),
        (MISMATCH, "fail", "NVIDIA's library and the loaded driver (driver 550.54.15) have different versions"),
        (NO_PERMISSION, "unknown", "this user may not use the driver (nvmlInit: Insufficient Permissions)"),
        (UNKNOWN_ERROR, "fail", "NVIDIA's driver failed: nvmlInit: Unknown Error"),
    ],
)
def test_a_driver_that_cannot_be_queried_is_reported_with_its_reason(
    node: GpuMachine, code: int, expected: str, words: str
) -> None:
    (node.root / "sys/module/nvidia/version").write_text("550.54.15\n", encoding="ascii")
    node.play(fail__nvmlInitWithFlags=code)
    outcome = node.step()
    assert verdict(outcome) == (expected, words)
    assert outcome["action"]
    assert len(node.calls("nvmlInitWithFlags")) == 1


def test_a_missing_library_is_unknown(node: GpuMachine) -> None:
    node.library, node.path = None, "/nonexistent"
    outcome = node.step()
    assert outcome["verdict"] == "unknown"
    assert outcome["summary"].startswith("the driver cannot be queried: libnvidia-ml.so.1: cannot open")


def test_a_driver_that_hangs_twice_fails(node: GpuMachine) -> None:
    node.play(hang__nvmlInitWithFlags=120)
    node.settings("gpu", timeout=2)
    began = time.monotonic()
    outcome = node.step()
    assert 4 <= time.monotonic() - began < 20
    assert verdict(outcome) == ("fail", "NVIDIA's driver did not answer twice in a row, 2 s each time")
    assert len(node.calls("nvmlInitWithFlags")) == 2


def test_a_driver_that_hangs_once_passes(node: GpuMachine) -> None:
    """Without persistence mode, the first query initializes the GPUs, which takes seconds."""
    node.play(hang__nvmlInitWithFlags=3)
    node.settings("gpu", timeout=2)
    config = node.gpus / "config"
    slow = config.read_text(encoding="ascii")

    # The stand-in cannot hang only once. So this removes the fault while the first call hangs; the second call passes.
    def remove_fault() -> None:
        while not node.gpus.joinpath("calls").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        config.write_text(slow.replace("hang.nvmlInitWithFlags=3\n", ""), encoding="ascii")

    thread = threading.Thread(target=remove_fault)
    thread.start()
    outcome = node.step()
    thread.join()
    assert outcome["verdict"] == "pass"
    assert len(node.calls("nvmlInitWithFlags")) == 2


def test_a_gpu_that_hangs_twice_fails_and_is_named(node: GpuMachine) -> None:
    node.play(hang__nvmlDeviceGetUUID__6=120)
    node.settings("gpu", timeout=2)
    outcome = node.step()
    assert verdict(outcome) == ("fail", "GPU 6 (000d:00:00.0) did not answer twice in a row")
    assert node.calls("nvmlDeviceGetUUID 6") == ["nvmlDeviceGetUUID 6"] * 2


@pytest.mark.thorough
def test_eight_hanging_gpus_do_not_take_eight_timeouts(node: GpuMachine) -> None:
    node.play(hang__nvmlDeviceGetUUID=120)
    node.settings("gpu", timeout=2)
    began = time.monotonic()
    outcome = node.step()
    assert time.monotonic() - began < 20
    assert outcome["verdict"] == "fail"
    assert outcome["summary"] == "GPU 0 (0001:00:00.0) did not answer twice in a row (and 7 more)"


def test_missing_gpus_are_reported_by_address(node: GpuMachine) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices/000e:00:00.0")
    node.play(gpus=6)
    outcome = node.step(seconds=6)
    assert verdict(outcome) == (
        "fail",
        "7 of 8 GPUs: 000e:00:00.0 not on the PCI bus (and 1 more)",
    )
    assert outcome["details"]["findings"][1]["summary"] == "6 of 8 GPUs: the driver does not know 000d:00:00.0"
    assert "redeploy" in outcome["action"]


def test_missing_gpus_are_found_if_addresses_differ_from_the_size(node: GpuMachine) -> None:
    node.settings("node", vm_size="Standard_ND96isr_H100_v5")
    node.play(gpus=7)
    assert verdict(node.step())[1] == "7 of 8 GPUs: the driver does not know 000e:00:00.0"


def test_without_any_gpu_the_step_fails_and_does_not_call_the_driver(node: GpuMachine) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    outcome = node.step(seconds=6)
    assert outcome["verdict"] == "fail"
    assert outcome["summary"].startswith("0 of 8 GPUs: 0001:00:00.0, ")
    assert outcome["summary"].endswith(", 000e:00:00.0 not on the PCI bus")
    assert (outcome["ran"], node.calls()) == ([], [])


def test_more_gpus_than_expected_are_a_warning(node: GpuMachine) -> None:
    node.settings("gpu", gpu_count=7)
    outcome = node.step()
    assert verdict(outcome) == ("warn", f"8 GPUs, but 7 are expected ({EXPECTED_BY})")


def test_a_lost_gpu_fails_and_is_named(node: GpuMachine) -> None:
    node.play(gpu__3__lost=1, gpu__5__lost=1)
    outcome = node.step()
    assert verdict(outcome) == ("fail", "6 of 8 GPUs: GPU 3 (0004:00:00.0) fell off the bus: lost (and 1 more)")
    assert outcome["details"]["gpus"][3]["problem"].endswith("GPU is lost")


def test_other_gpu_errors_are_reported_with_the_drivers_message(node: GpuMachine) -> None:
    node.play(fail__nvmlDeviceGetUUID__1=RESET_REQUIRED, gpu__2__lost=1)
    outcome = node.step()
    assert [found["summary"] for found in outcome["details"]["findings"]] == [
        "GPU 1 (0002:00:00.0) cannot be read: nvmlDeviceGetUUID: GPU requires restart",
        "7 of 8 GPUs: GPU 2 (0003:00:00.0) fell off the bus: lost",
    ]


def test_mig_instances_do_not_count_as_gpus(node: GpuMachine) -> None:
    node.play(gpu__0__mig=1, gpu__0__instances=7, gpu__7__mig=1, gpu__7__instances=3)
    outcome = node.step()
    assert (outcome["verdict"], len(outcome["details"]["gpus"])) == ("pass", 8)
    assert [gpu["mig"] for gpu in outcome["details"]["gpus"]] == [True, *[False] * 6, True]


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [("550.90.12", "pass"), ("535", "pass"), ("550.90", "pass"), ("550.90.13", "fail"), ("570", "fail")],
)
def test_a_driver_older_than_min_driver_fails(node: GpuMachine, minimum: str, expected: str) -> None:
    node.settings("gpu", min_driver=minimum)
    outcome = node.step()
    assert outcome["verdict"] == expected
    if expected == "fail":
        assert outcome["summary"] == f"driver 550.90.12 is older than {minimum}, which gpu_min_driver requires"
        assert "gpu_min_driver" in outcome["action"]


def test_an_invalid_driver_version_is_unknown(node: GpuMachine) -> None:
    node.play(driver__version="unreleased")
    assert node.step()["verdict"] == "pass"
    node.settings("gpu", min_driver="535")
    assert verdict(node.step()) == ("unknown", "the driver reports no valid version (unreleased)")


def test_a_driver_without_persistence_is_a_warning(node: GpuMachine) -> None:
    # With persistence mode, the driver stays initialized, too.
    assert node.step({SHOW_PERSISTENCED: STOPPED})["verdict"] == "pass"
    node.play(gpu__2__persistence=0)
    outcome = node.step({SHOW_PERSISTENCED: STOPPED})
    assert outcome["verdict"] == "warn"
    assert outcome["summary"].startswith("persistence mode of GPU 2 (0003:00:00.0) is off")
    assert node.step()["verdict"] == "pass"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument", "warn"),
        # Older drivers lack this module, and newer ones do not need it.
        (FATAL.format("nvidia_peermem"), "pass"),
    ],
)
def test_a_failing_peermem_is_only_a_warning(node: GpuMachine, words: str, expected: str) -> None:
    outcome = node.step({"modprobe nvidia_peermem": (1, words)})
    assert (outcome["verdict"], outcome["changes"]) == (expected, ["modprobe nvidia_uvm"])
    if expected == "warn":
        assert outcome["summary"].endswith(words)


def test_peermem_is_loaded_only_for_sizes_with_infiniband(node: GpuMachine) -> None:
    node.settings("node", vm_size="Mine", vm_sizes={"Mine": {"gpu_count": 8}})
    outcome = node.step()
    assert (outcome["verdict"], outcome["changes"]) == ("pass", ["modprobe nvidia_uvm"])
