# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidths of the GPUs, and what nvbandwidth prints."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping

import pytest
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, WARN, CannotMeasure
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import gpu_bandwidth
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_bandwidth import (
    GPU_HOST_BANDWIDTH,
    GPU_PEER_BANDWIDTH,
    devices_of,
    matrices_of,
    run_nvbandwidth,
    slow_pairs,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Output, Tool, machine, recorded, set_compute_processes
from ..played_cuda import PlayedCuda
from ..playing import ND_A100, context


def test_output_of_two_host_tests() -> None:
    found = matrices_of(recorded("nvbandwidth.txt"))
    assert list(found) == ["host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]
    assert found["host_to_device_memcpy_ce"][0, 7] == 24.59
    assert found["device_to_host_memcpy_ce"] == {
        (0, number): value for number, value in enumerate((24.10, 24.11, 24.12, 24.11, 24.10, 24.13, 24.11, 24.09))
    }
    assert devices_of(recorded("nvbandwidth.txt")) == {}


def one_matrix(text: str) -> Mapping[tuple[int, int], float]:
    """Return the only matrix of an output."""
    found = list(matrices_of(text).values())
    assert len(found) == 1
    return found[0]


def test_the_matrix_of_peers_has_no_gpu_with_itself() -> None:
    text = recorded("nvbandwidth_peers.txt")
    matrix = one_matrix(text)
    assert len(matrix) == 56
    assert (matrix[6, 0], matrix[0, 6]) == (274.89, 276.55)
    assert matrices_of(text.replace("N/A", "0.00")) == {"device_to_device_memcpy_read_ce": matrix}, (
        "the format of older releases"
    )
    assert devices_of(text)[4] == "000b:00:00.0"


def test_a_matrix_leaves_out_values_that_are_no_numbers() -> None:
    text = recorded("nvbandwidth_peers.txt").replace("274.89", "   N/A").replace("276.03", "   nan")
    matrix = one_matrix(text)
    assert len(matrix) == 54
    assert (6, 0) not in matrix
    assert (4, 0) not in matrix


def test_a_test_without_a_matrix_is_left_out() -> None:
    assert matrices_of("") == {}
    waived = "Running device_to_device_memcpy_read_ce.\nWaived: \n\n          0         1\n0     24.61     24.60\n"
    head = recorded("nvbandwidth.txt").split("          0  ")[0]
    assert matrices_of(head) == {}
    assert matrices_of(waived.split("\n\n", maxsplit=1)[0]) == {}


def test_incomplete_rows_of_a_matrix_are_ignored() -> None:
    text = "Running a.\n           0         1\n 0       N/A    276.07\n 1    275.61\nSUM a 551.68\n"
    assert matrices_of(text) == {"a": {(0, 1): 276.07}}


MATRIX = "Running peers.\nsome words\n           0         1\n 0       N/A    276.07\n 1    275.61       N/A\n\n"


def measured(output: str | Output, *busids: str) -> tuple[object, list[tuple[str, str]]]:
    """Return the pairs that were measured, and the findings."""
    values, findings = run_nvbandwidth(context(run=Tool(output)), "/nvbandwidth", ("peers",), busids, 60)
    return {test: list(of_test) for test, of_test in values.items()}, [(one.verdict, one.summary) for one in findings]


def test_nvbandwidth_devices_get_their_printed_or_expected_address() -> None:
    printed = "Device 0: NVIDIA A100 (00000001:00:00)\n"
    assert measured(MATRIX, "a", "b") == ({"peers": [("a", "b"), ("b", "a")]}, [])
    expected = [("0001:00:00.0", "b"), ("b", "0001:00:00.0")]
    assert measured(printed + MATRIX, "a", "b") == ({"peers": expected}, [])
    assert measured(MATRIX, "a") == ({"peers": [("a", "GPU 1"), ("GPU 1", "a")]}, [])


def test_nvbandwidth_a_missing_matrix_and_a_failed_run_are_reported() -> None:
    words = "nvbandwidth printed no bandwidth for peers: nothing was printed"
    assert measured("") == ({}, [(UNKNOWN, words)])
    assert measured((1, MATRIX, "bad\n")) == ({}, [(FAIL, "nvbandwidth failed (exit status 1): bad")])


GPU_HOST_BANDWIDTH_PROGRAM = "opt/nvbandwidth/nvbandwidth"
GPU_HOST_BANDWIDTH_OUTPUT = recorded("nvbandwidth.txt")
BUSIDS = [gpu.busid for gpu in find_size(ND_A100).gpus or ()]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch)


def test_gpu_host_bandwidth_passes_by_nvbandwidth(tmp_path: pathlib.Path) -> None:
    tool = Tool(GPU_HOST_BANDWIDTH_OUTPUT)
    answer = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM), tool))
    assert answer.findings == ()
    assert len(answer.readings) == 16
    assert {one.name for one in answer.readings} == {"host_to_gpu_bandwidth", "gpu_to_host_bandwidth"}
    assert [one.device for one in answer.readings[:8]] == BUSIDS
    assert {one.limit for one in answer.readings} == {21}
    assert answer.good == "8 GPUs, the slowest with 24.09 GB/s, by nvbandwidth"
    assert answer.limit.startswith("at least 21 GB/s (")
    assert tool.commands == [
        [f"/{GPU_HOST_BANDWIDTH_PROGRAM}", "-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]
    ]
    assert tool.environments == [{"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}]


def test_gpu_host_bandwidth_fails_for_a_slow_gpu_and_warns_near_the_limit(
    tmp_path: pathlib.Path,
) -> None:
    tool = Tool(
        GPU_HOST_BANDWIDTH_OUTPUT.replace("24.62     24.61     24.60", "12.31     24.61     24.60").replace(
            "24.09", "22.04"
        )
    )
    answer = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM), tool))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, BUSIDS[2]), (WARN, BUSIDS[7])]
    assert answer.findings[0].summary == (
        "the bandwidth from host to GPU of 0003:00:00.0 is 12.31 GB/s, but should be at least 21"
    )


@pytest.mark.parametrize("output", ["", GPU_HOST_BANDWIDTH_OUTPUT.split("Running")[0], (0, "", "CUDA_ERROR_NO_DEVICE")])
def test_gpu_host_bandwidth_cannot_measure_without_a_value(tmp_path: pathlib.Path, output: str) -> None:
    answer = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM), Tool(output)))
    assert [one.verdict for one in answer.findings] == [UNKNOWN, UNKNOWN]
    assert answer.readings == ()


def test_gpu_host_bandwidth_cannot_measure_a_gpu_without_values(tmp_path: pathlib.Path) -> None:
    lines = [line[:-10] if line.startswith(("  ", "0 ")) else line for line in GPU_HOST_BANDWIDTH_OUTPUT.splitlines()]
    answer = GPU_HOST_BANDWIDTH.measure(
        context(machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM), Tool("\n".join(lines)))
    )
    assert [one.verdict for one in answer.findings] == [UNKNOWN, UNKNOWN]
    assert "was not measured for 000e:00:00.0" in answer.findings[0].summary


def test_gpu_host_bandwidth_fails_if_nvbandwidth_crashes(tmp_path: pathlib.Path) -> None:
    tool = Tool(
        (
            1,
            GPU_HOST_BANDWIDTH_OUTPUT,
            "[CUDA_ERROR_ECC_UNCORRECTABLE] uncorrectable ECC error encountered in memcpy.cpp\n",
        )
    )
    answer = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM), tool))
    assert [one.verdict for one in answer.findings] == [FAIL]
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in answer.findings[0].summary
    assert answer.readings == ()


def test_gpu_host_bandwidth_passes_by_the_driver_without_nvbandwidth(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("to_gpu=24.5", "to_host=24.1")
    answer = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100)))
    assert answer.findings == ()
    assert {(one.name, one.value) for one in answer.readings} == {
        ("host_to_gpu_bandwidth", 24.5),
        ("gpu_to_host_bandwidth", 24.1),
    }
    assert len(answer.readings) == 16
    assert answer.good.endswith("by copies of the driver")
    near = ["24-47", "24-47", "0-23", "0-23", "72-95", "72-95", "48-71", "48-71"]
    assert cuda.moved_to == near, "each from the CPUs of the GPU's NUMA node"


def test_gpu_host_bandwidth_fails_by_the_driver_too(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("to_gpu=24.5", "to_host=24.1", "0004:00:00.0.to_host=20.9")
    (finding,) = GPU_HOST_BANDWIDTH.measure(context(machine(tmp_path, ND_A100))).findings
    assert (finding.verdict, finding.device) == (FAIL, "0004:00:00.0")
    assert "from GPU to host" in finding.summary


def test_gpu_host_bandwidth_fails_only_with_errors_of_the_hardware(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS[:7])
    cuda.play("to_gpu=24.5", "to_host=24.1")
    given = context(machine(tmp_path, ND_A100))
    (lost,) = GPU_HOST_BANDWIDTH.measure(given).findings
    assert (lost.verdict, lost.device) == (UNKNOWN, BUSIDS[7])
    cuda.play("fail.cuMemcpyDtoHAsync_v2=214")
    found = GPU_HOST_BANDWIDTH.measure(given).findings
    assert [one.verdict for one in found] == [FAIL] * 7 + [UNKNOWN]
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in found[0].summary


def test_gpu_host_bandwidth_fails_if_the_driver_hangs_twice(
    tmp_path: pathlib.Path, cuda: PlayedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_bandwidth, "_COPIES_S", 0.5)
    tree = machine(tmp_path, "Standard_NC24ads_A100_v4")
    tree.device("0001:00:00.0", 0x030200, 0x10DE, 0)
    given = context(tree, size="Standard_NC24ads_A100_v4")
    cuda.gpus(BUSIDS[:1])
    cuda.play("hang.cuInit=1")
    assert [one.verdict for one in GPU_HOST_BANDWIDTH.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in GPU_HOST_BANDWIDTH.measure(given).findings] == [FAIL]


def test_gpu_host_bandwidth_cannot_measure_without_gpus_or_during_a_job(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotMeasure, match="no NVIDIA GPU"):
        GPU_HOST_BANDWIDTH.measure(context(tmp_path))
    tree = machine(tmp_path, ND_A100, GPU_HOST_BANDWIDTH_PROGRAM)
    tree.write("proc/77/stat", "77 (slurmstepd) S 1 " + " ".join(["0"] * 48))
    tree.write("proc/77/status", "Uid:\t0\t0\n")
    tree.write("proc/77/cmdline", "slurmstepd: [42.batch]\0")
    with pytest.raises(CannotMeasure, match=r"it would disturb job 42\.batch"):
        GPU_HOST_BANDWIDTH.measure(context(tree, Tool(GPU_HOST_BANDWIDTH_OUTPUT)))
    tree.write("proc/77/cmdline", "/usr/sbin/slurmstepd\0infinity\0")
    assert GPU_HOST_BANDWIDTH.measure(context(tree, Tool(GPU_HOST_BANDWIDTH_OUTPUT))).findings == ()


GPU_PEER_BANDWIDTH_PROGRAM = "usr/local/bin/nvbandwidth"
GPU_PEER_BANDWIDTH_OUTPUT = recorded("nvbandwidth_peers.txt")


def test_gpu_peer_bandwidth_passes_with_the_worst_value_of_each_gpu(tmp_path: pathlib.Path) -> None:
    answer = GPU_PEER_BANDWIDTH.measure(
        context(machine(tmp_path, ND_A100, GPU_PEER_BANDWIDTH_PROGRAM), Tool(GPU_PEER_BANDWIDTH_OUTPUT))
    )
    assert answer.findings == ()
    assert [(one.device, one.limit) for one in answer.readings] == [(busid, 235) for busid in BUSIDS]
    assert answer.readings[6].value == 274.89
    assert answer.good == "56 pairs of GPUs, the slowest with 274.9 GB/s"
    assert answer.limit.startswith("at least 235 GB/s (")


def test_gpu_peer_bandwidth_fails_for_a_slow_pair(tmp_path: pathlib.Path) -> None:
    answer = GPU_PEER_BANDWIDTH.measure(
        context(
            machine(tmp_path, ND_A100, GPU_PEER_BANDWIDTH_PROGRAM),
            Tool(GPU_PEER_BANDWIDTH_OUTPUT.replace("274.89", "134.89")),
        )
    )
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (FAIL, "000d:00:00.0 reads from 0001:00:00.0 with 134.9 GB/s, but should with at least 235")
    ]


def test_gpu_peer_bandwidth_fails_if_gpus_on_nvswitches_have_no_access(tmp_path: pathlib.Path) -> None:
    answer = GPU_PEER_BANDWIDTH.measure(
        context(
            machine(tmp_path, ND_A100, GPU_PEER_BANDWIDTH_PROGRAM),
            Tool(GPU_PEER_BANDWIDTH_OUTPUT.replace("274.89", "   N/A")),
        )
    )
    assert [one.verdict for one in answer.findings] == [FAIL]
    assert answer.findings[0].summary.startswith("1 of 56 pairs")


@pytest.mark.parametrize("output", ["", GPU_PEER_BANDWIDTH_OUTPUT.split("Running")[0]])
def test_gpu_peer_bandwidth_cannot_measure_without_a_matrix(tmp_path: pathlib.Path, output: str) -> None:
    answer = GPU_PEER_BANDWIDTH.measure(context(machine(tmp_path, ND_A100, GPU_PEER_BANDWIDTH_PROGRAM), Tool(output)))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]


def with_gpus(folder: pathlib.Path, gpus: int) -> SizedMachine:
    """Return a machine with nvbandwidth and this many GPUs."""
    tree = machine(folder, ND_A100, GPU_PEER_BANDWIDTH_PROGRAM)
    tree.without_devices()
    for busid in BUSIDS[:gpus]:
        tree.device(busid, 0x030200, 0x10DE, 0)
    return tree


@pytest.mark.parametrize(
    ("size", "gpus", "skipped"),
    [
        ("Standard_NC24ads_A100_v4", 1, True),
        (None, 1, True),
        (None, 2, False),
        ("Standard_NC24ads_A100_v4", 2, False),
    ],
)
def test_gpu_peer_bandwidth_is_skipped_if_only_one_gpu_is_expected(
    tmp_path: pathlib.Path, size: str | None, gpus: int, skipped: bool
) -> None:
    tree = with_gpus(tmp_path, gpus)
    answer = GPU_PEER_BANDWIDTH.measure(context(tree, Tool(""), size=size))
    assert (answer.skipped, len(answer.findings)) == (("there is only one GPU", 0) if skipped else ("", 1))


def test_gpu_peer_bandwidth_cannot_measure_a_single_remaining_gpu(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotMeasure, match=r"only 1 of 8 GPUs is there, .*see check gpu_count"):
        GPU_PEER_BANDWIDTH.measure(context(with_gpus(tmp_path, 1), Tool("")))


def test_gpu_peer_bandwidth_passes_and_fails_by_the_driver(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("peer=276")
    given = context(machine(tmp_path, ND_A100))
    answer = GPU_PEER_BANDWIDTH.measure(given)
    assert answer.findings == ()
    assert [one.value for one in answer.readings] == [276] * 8
    cuda.play("000b:00:00.0.peer=100")
    assert {one.verdict for one in GPU_PEER_BANDWIDTH.measure(given).findings} == {FAIL}


def test_gpu_peer_bandwidth_fails_by_the_driver_if_the_fabric_is_not_up(
    tmp_path: pathlib.Path, cuda: PlayedCuda
) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("fail.cuInit=802")
    (finding,) = GPU_PEER_BANDWIDTH.measure(context(machine(tmp_path, ND_A100))).findings
    assert (finding.verdict, "CUDA_ERROR_SYSTEM_NOT_READY" in finding.summary) == (FAIL, True)


def test_gpu_peer_bandwidth_cannot_measure_without_expected_access(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    size = "Standard_NC96ads_A100_v4"
    tree = machine(tmp_path, size)
    if not find_size(size).gpus:
        for domain in range(1, 5):
            tree.device(f"{domain:04x}:00:00.0", 0x030200, 0x10DE, 0)
    cuda.gpus([f"{domain:04x}:00:00.0" for domain in range(1, 5)])
    cuda.play("no_access=1")
    answer = GPU_PEER_BANDWIDTH.measure(context(tree, size=size))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]
    assert answer.readings == ()


def test_gpu_peer_bandwidth_a_gpu_whose_pairs_are_all_slow_is_named_once() -> None:
    pairs = {pair: 100.0 if "b" in pair else 276.0 for pair in itertools.permutations("abcd", 2)}
    (finding,) = slow_pairs(pairs, 235)
    assert finding.device == "b"
    assert finding.summary.startswith("the bandwidth between GPUs is at most 100 GB/s between b and the others")
    of_two = slow_pairs({("a", "b"): 100.0, ("b", "a"): 100.0}, 235)
    assert [one.summary.split(" with ")[0] for one in of_two] == ["a reads from b", "b reads from a"]
    assert slow_pairs({("a", "b"): 235.0, ("b", "a"): 235.0}, 235) == []
