# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Without nvidia-ml-py, gpu_clocks goes through nvidia-smi and comes to the same."""

from __future__ import annotations

import pathlib
import time

import pytest
from stand_ins.gpu_machine import DEPRECATED, DRIVER_NOT_LOADED, GpuMachine


@pytest.fixture
def machine(tmp_path: pathlib.Path, library: pathlib.Path) -> GpuMachine:
    """Eight A100 on a machine with nvidia-smi and without nvidia-ml-py."""
    played = GpuMachine(tmp_path, library=None)
    played.path = f"{library}:{played.path}"
    played.play(**{f"gpu__{index}__persistence": 1 for index in range(8)})
    return played


def test_sets_application_clocks_once(machine: GpuMachine) -> None:
    first = machine.module()
    assert (first["failed"], first["changed"], first["via"]) == (False, True, "nvidia-smi")
    assert {machine.state[f"gpu.{index}.set.application_graphics"] for index in range(8)} == {1410}
    assert (machine.module()["changed"], machine.module(state="default")["changed"]) == (False, True)
    assert machine.state == {}


def test_a_refused_memory_lock_with_exit_status_0_is_seen(machine: GpuMachine) -> None:
    machine.play(application_clocks=DEPRECATED)
    answer = machine.module()
    assert (answer["failed"], [gpu["method"] for gpu in answer["gpus"]]) == (False, ["locked"] * 8)
    assert answer["gpus"][0]["reason"] == (
        "application clocks: nvidia-smi: [Requested functionality has been deprecated]"
    )
    assert answer["gpus"][0]["memory_lock"].startswith("nvidia-smi: Setting locked Memory clocks is not supported")
    assert machine.module()["changed"] is False


def test_says_not_supported_where_nvidia_smi_treats_it_as_a_warning(machine: GpuMachine) -> None:
    machine.play(application_clocks=DEPRECATED, gpu__2__model="k80")
    answer = machine.module()
    assert answer["failed"] is True
    assert [gpu["supported"] for gpu in answer["gpus"]] == [True, True, False, *[True] * 5]
    assert "Setting locked GPU clocks is not supported" in answer["gpus"][2]["reason"]


def test_a_lost_gpu_does_not_hide_the_others(machine: GpuMachine) -> None:
    machine.play(gpu__3__lost=1)
    answer = machine.module()
    assert [gpu["index"] for gpu in answer["gpus"] if gpu["failed"]] == [3]
    assert "GPU is lost" in answer["gpus"][3]["msg"]
    assert answer["gpus"][3]["busid"] == "0004:00:00.0"
    changed = {key for key in machine.state if key.endswith("application_graphics")}
    assert changed == {f"gpu.{index}.set.application_graphics" for index in (0, 1, 2, 4, 5, 6, 7)}


def test_no_answer_is_told_within_the_limit(machine: GpuMachine) -> None:
    machine.play(hang__nvmlInit_v2=120)
    began = time.monotonic()
    answer = machine.module(timeout=3)
    assert time.monotonic() - began < 40
    assert (answer["failed"], answer["msg"]) == (True, "nvidia-smi: no answer within 3 s")


def test_a_driver_that_is_not_loaded_is_told(machine: GpuMachine) -> None:
    machine.play(driver__loaded=0)
    assert "couldn't communicate with the NVIDIA driver" in machine.module()["msg"]


def test_whoever_is_not_root_is_told_so(machine: GpuMachine) -> None:
    machine.play(root=0)
    answer = machine.module()
    assert (answer["failed"], answer["changed"]) == (True, False)
    assert "does not have permission to change clocks" in answer["gpus"][0]["msg"]


def test_processes_are_told(machine: GpuMachine) -> None:
    machine.play(gpu__0__processes="100", gpu__1__processes="100,7")
    assert machine.processes() == {100: ["0001:00:00.0", "0002:00:00.0"], 7: ["0002:00:00.0"]}


def test_neither_of_both_is_told_with_what_to_do(tmp_path: pathlib.Path) -> None:
    bare = GpuMachine(tmp_path, library=None)
    answer = bare.module()
    assert answer["failed"] is True
    assert "nvidia-ml-py is neither in /usr/lib/hpcai/site nor elsewhere" in answer["msg"]
    assert "there is no nvidia-smi: install NVIDIA's driver" in answer["msg"]
    assert bare.command()[0] == 2


def test_a_library_whose_driver_is_not_loaded_is_not_asked_again_through_nvidia_smi(
    tmp_path: pathlib.Path, library: pathlib.Path
) -> None:
    machine = GpuMachine(tmp_path, library)
    machine.play(fail__nvmlInitWithFlags=DRIVER_NOT_LOADED)
    machine.path = f"{library}:{machine.path}"
    assert machine.module()["msg"] == "nvmlInit: Driver Not Loaded"
    assert machine.calls("nvmlInit_v2") == []
