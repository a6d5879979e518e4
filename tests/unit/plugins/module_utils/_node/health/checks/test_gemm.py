# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Matrix products: their rate against the other GPUs', and their results."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gemm import GEMM
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import machine, set_compute_processes
from ..played_cuda import PlayedCuda
from ..playing import context

H100 = "Standard_ND96isr_H100_v5"
BUSIDS = [gpu.busid for gpu in find_size(H100).gpus or ()]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch, cuda: PlayedCuda) -> None:
    set_compute_processes(monkeypatch)
    cuda.gpus(BUSIDS)


def test_passes_with_correct_results_at_the_rate_of_the_size(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.play("tflops=750")
    answer = GEMM.measure(context(machine(tmp_path, H100), size=H100))
    assert answer.findings == ()
    assert [(one.device, one.value, one.limit) for one in answer.readings] == [(busid, 750, 715) for busid in BUSIDS]
    assert answer.limit.startswith("at least 715 TFLOP/s")


def test_fails_with_one_wrong_element(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.play("tflops=750", "0003:00:00.0.wrong=1")
    (finding,) = GEMM.measure(context(machine(tmp_path, H100), size=H100)).findings
    assert (finding.verdict, finding.device) == (FAIL, "0003:00:00.0")
    assert finding.summary == "a matrix product on 0003:00:00.0 has 1 wrong elements"


def test_fails_below_the_sites_limit_and_warns_below_the_sizes(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.play("tflops=700")
    tree = machine(tmp_path, H100)
    assert {one.verdict for one in GEMM.measure(context(tree, size=H100)).findings} == {WARN}
    found = GEMM.measure(context(tree, size=H100, limits={"gemm": 701})).findings
    assert [one.verdict for one in found] == [FAIL] * 8


def test_warns_of_a_gpu_that_is_slower_than_the_others(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.play("tflops=780", "0008:00:00.0.tflops=741")
    given = context(machine(tmp_path, H100), size=H100, limits={"gemm": 700})
    assert GEMM.measure(given).findings == (), "5 % slower is allowed"
    cuda.play("0008:00:00.0.tflops=739")
    (finding,) = GEMM.measure(given).findings
    assert (finding.verdict, finding.device) == (WARN, "0008:00:00.0")
    assert finding.summary.endswith("is 739 TFLOP/s, but this node's median is 780")


def test_cannot_measure_without_cublas_or_memory(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.play("fail.cuMemAlloc_v2=2")
    answer = GEMM.measure(context(machine(tmp_path, H100), size=H100))
    assert [one.verdict for one in answer.findings] == [UNKNOWN] * 8
    assert "CUDA_ERROR_OUT_OF_MEMORY" in answer.findings[0].summary
    assert answer.readings == ()
