# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Without nvidia-ml-py, as on an image that lacks it, the boot's look at the GPUs goes through nvidia-smi."""

from __future__ import annotations

import pathlib
import time

import pytest
from stand_ins.gpu_machine import DRIVER_NOT_LOADED, MISMATCH, GpuMachine


@pytest.fixture
def machine(tmp_path: pathlib.Path, library: pathlib.Path) -> GpuMachine:
    """Eight GPUs on a machine with nvidia-smi and without nvidia-ml-py."""
    played = GpuMachine(tmp_path, library=None)
    played.path = f"{library}:{played.path}"
    played.play(**{f"gpu__{index}__persistence": 1 for index in range(8)})
    played.settings("node", vm_size="Mine", vm_sizes={"Mine": {"gpu_count": 8}})
    return played


def test_eight_gpus_that_answer_pass(machine: GpuMachine) -> None:
    machine.settings("gpu", min_driver="550")
    outcome = machine.step()
    assert (outcome["verdict"], outcome["details"]["via"]) == ("pass", "nvidia-smi")
    assert outcome["summary"] == "8 GPUs (NVIDIA A100-SXM4-40GB), driver 550.90.12"


def test_a_gpu_that_only_the_bus_shows_is_named(machine: GpuMachine) -> None:
    machine.play(gpus=7)
    outcome = machine.step()
    assert outcome["verdict"] == "fail"
    assert outcome["summary"] == "GPU 7 (0008:00:00.0) cannot be read: nvidia-smi does not show it"


def test_a_lost_gpu_is_named_although_it_silences_the_version(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    (machine.root / "sys/module/nvidia/version").write_text("550.90.12\n", encoding="ascii")
    machine.settings("gpu", min_driver="550")
    outcome = machine.step()
    assert (outcome["verdict"], outcome["summary"]) == ("fail", "GPU 3 (0004:00:00.0) fell off the bus: lost")
    assert outcome["details"]["driver"] == "550.90.12"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (DRIVER_NOT_LOADED, "NVIDIA's driver is not loaded (nvidia-smi: NVIDIA-SMI has failed"),
        (MISMATCH, "NVIDIA's library and the loaded driver are of different versions"),
    ],
)
def test_a_driver_that_cannot_be_used_is_told(machine: GpuMachine, code: int, words: str) -> None:
    machine.play(fail__nvmlInit_v2=code)
    outcome = machine.step()
    assert outcome["verdict"] == "fail"
    assert outcome["summary"].startswith(words)


def test_a_driver_that_does_not_answer_fails_after_the_second_time(machine: GpuMachine) -> None:
    machine.play(hang__nvmlInit_v2=60)
    machine.settings("gpu", timeout=2)
    began = time.monotonic()
    outcome = machine.step()
    assert time.monotonic() - began < 30
    assert outcome["summary"] == "NVIDIA's driver did not answer twice running, 2 s each time"
    assert len(machine.calls("nvmlInit_v2")) == 2
