# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth between host and GPU, by nvbandwidth and by the driver."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    UNKNOWN,
    WARN,
    CannotTell,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import gpu_host_bandwidth
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_host_bandwidth import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Tool, is_idle, machine, recorded
from ..played_cuda import PlayedCuda
from ..playing import ND_A100, context

PROGRAM = "opt/nvbandwidth/nvbandwidth"
WELL = recorded("nvbandwidth.txt")
BUSIDS = [gpu.busid for gpu in find_size(ND_A100).gpus or ()]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def test_passes_by_nvbandwidth(tmp_path: pathlib.Path) -> None:
    tool = Tool(WELL)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert answer.findings == ()
    assert len(answer.readings) == 16
    assert {one.name for one in answer.readings} == {"host_to_gpu_bandwidth", "gpu_to_host_bandwidth"}
    assert [one.device for one in answer.readings[:8]] == BUSIDS
    assert {one.limit for one in answer.readings} == {21}
    assert answer.good == "8 GPUs, the slowest with 24.09 GB/s, by nvbandwidth"
    assert answer.limit.startswith("at least 21 GB/s (")
    assert tool.commands == [[f"/{PROGRAM}", "-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]]
    assert tool.environments == [{"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}]


def test_fails_for_the_one_gpu_and_the_one_way_that_is_slow_and_warns_near_the_limit(tmp_path: pathlib.Path) -> None:
    tool = Tool(WELL.replace("24.62     24.61     24.60", "12.31     24.61     24.60").replace("24.09", "22.04"))
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, BUSIDS[2]), (WARN, BUSIDS[7])]
    assert answer.findings[0].summary == (
        "the bandwidth from host to GPU of 0003:00:00.0 is 12.31 GB/s, and should be at least 21"
    )


@pytest.mark.parametrize("said", ["", WELL.split("Running")[0], (0, "", "CUDA_ERROR_NO_DEVICE")])
def test_cannot_measure_without_a_figure(tmp_path: pathlib.Path, said: str) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(said)))
    assert [one.verdict for one in answer.findings] == [UNKNOWN, UNKNOWN]
    assert answer.readings == ()


def test_cannot_measure_a_gpu_that_is_left_out(tmp_path: pathlib.Path) -> None:
    lines = [line[:-10] if line.startswith(("  ", "0 ")) else line for line in WELL.splitlines()]
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool("\n".join(lines))))
    assert [one.verdict for one in answer.findings] == [UNKNOWN, UNKNOWN]
    assert "was not measured of 000e:00:00.0" in answer.findings[0].summary


def test_fails_where_nvbandwidth_crashes(tmp_path: pathlib.Path) -> None:
    tool = Tool((1, WELL, "[CUDA_ERROR_ECC_UNCORRECTABLE] uncorrectable ECC error encountered in memcpy.cpp\n"))
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert [one.verdict for one in answer.findings] == [FAIL]
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in answer.findings[0].summary
    assert answer.readings == ()


def test_passes_by_the_driver_where_there_is_no_nvbandwidth(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("to_gpu=24.5", "to_host=24.1")
    answer = CHECK.measure(context(machine(tmp_path, ND_A100)))
    assert answer.findings == ()
    assert {(one.name, one.value) for one in answer.readings} == {
        ("host_to_gpu_bandwidth", 24.5),
        ("gpu_to_host_bandwidth", 24.1),
    }
    assert len(answer.readings) == 16
    assert answer.good.endswith("by copies of the driver")
    near = ["24-47", "24-47", "0-23", "0-23", "72-95", "72-95", "48-71", "48-71"]
    assert cuda.moved_to == near, "each from the CPUs of the GPU's NUMA node"


def test_fails_by_the_driver_too(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("to_gpu=24.5", "to_host=24.1", "0004:00:00.0.to_host=20.9")
    (finding,) = CHECK.measure(context(machine(tmp_path, ND_A100))).findings
    assert (finding.verdict, finding.device) == (FAIL, "0004:00:00.0")
    assert "from GPU to host" in finding.summary


def test_fails_with_an_error_of_the_hardware_cannot_measure_with_another(
    tmp_path: pathlib.Path, cuda: PlayedCuda
) -> None:
    cuda.gpus(BUSIDS[:7])
    cuda.play("to_gpu=24.5", "to_host=24.1")
    given = context(machine(tmp_path, ND_A100))
    (lost,) = CHECK.measure(given).findings
    assert (lost.verdict, lost.device) == (UNKNOWN, BUSIDS[7])
    cuda.play("fail.cuMemcpyDtoHAsync_v2=214")
    found = CHECK.measure(given).findings
    assert [one.verdict for one in found] == [FAIL] * 7 + [UNKNOWN]
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in found[0].summary


def test_a_driver_that_hangs_is_unknown_and_a_failure_the_second_time(
    tmp_path: pathlib.Path, cuda: PlayedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_host_bandwidth, "_OWN_S", 0.5)
    tree = machine(tmp_path, "Standard_NC24ads_A100_v4")
    tree.device("0001:00:00.0", 0x030200, 0x10DE, 0)
    given = context(tree, size="Standard_NC24ads_A100_v4")
    cuda.gpus(BUSIDS[:1])
    cuda.play("hang.cuInit=1")
    assert [one.verdict for one in CHECK.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in CHECK.measure(given).findings] == [FAIL]


def test_cannot_measure_without_gpus_or_while_a_job_runs(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotTell, match="no NVIDIA GPU"):
        CHECK.measure(context(tmp_path))
    tree = machine(tmp_path, ND_A100, PROGRAM)
    tree.write("proc/77/stat", "77 (slurmstepd) S 1 " + " ".join(["0"] * 48))
    tree.write("proc/77/status", "Uid:\t0\t0\n")
    tree.write("proc/77/cmdline", "slurmstepd: [42.batch]\0")
    with pytest.raises(CannotTell, match=r"it would disturb job 42\.batch"):
        CHECK.measure(context(tree, Tool(WELL)))
    tree.write("proc/77/cmdline", "/usr/sbin/slurmstepd\0infinity\0")
    assert CHECK.measure(context(tree, Tool(WELL))).findings == ()
