# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth between GPUs, by nvbandwidth and by the driver."""

from __future__ import annotations

import itertools
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_peer_bandwidth import (
    CHECK,
    slow_pairs,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Tool, is_idle, machine, recorded
from ..played_cuda import PlayedCuda
from ..playing import ND_A100, context

PROGRAM = "usr/local/bin/nvbandwidth"
WELL = recorded("nvbandwidth_peers.txt")
BUSIDS = [gpu.busid for gpu in find_size(ND_A100).gpus or ()]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def test_passes_by_nvbandwidth_with_the_worst_of_each_gpu(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(WELL)))
    assert answer.findings == ()
    assert [(one.device, one.limit) for one in answer.readings] == [(busid, 235) for busid in BUSIDS]
    assert answer.readings[6].value == 274.89
    assert answer.good == "56 pairs of GPUs, the slowest with 274.9 GB/s"
    assert answer.limit.startswith("at least 235 GB/s (")


def test_fails_for_the_pair_that_is_slow(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(WELL.replace("274.89", "134.89"))))
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (FAIL, "000d:00:00.0 reads from 0001:00:00.0 with 134.9 GB/s, and should with 235")
    ]


def test_fails_where_gpus_of_one_nvswitch_have_no_access(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(WELL.replace("274.89", "   N/A"))))
    assert [one.verdict for one in answer.findings] == [FAIL]
    assert answer.findings[0].summary.startswith("1 of 56 pairs")


@pytest.mark.parametrize("said", ["", WELL.split("Running")[0]])
def test_cannot_measure_without_a_matrix(tmp_path: pathlib.Path, said: str) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(said)))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]


@pytest.mark.parametrize(
    ("size", "gpus", "skipped"),
    [
        ("Standard_NC24ads_A100_v4", 1, True),
        (None, 1, True),
        (None, 2, False),
        (ND_A100, 1, False),
        ("Standard_NC24ads_A100_v4", 2, False),
    ],
)
def test_one_gpu_has_nobody_to_read_from_unless_the_size_has_more(
    tmp_path: pathlib.Path, size: str | None, gpus: int, skipped: bool
) -> None:
    tree = machine(tmp_path, ND_A100, PROGRAM)
    tree.without_devices()
    for busid in BUSIDS[:gpus]:
        tree.device(busid, 0x030200, 0x10DE, 0)
    answer = CHECK.measure(context(tree, Tool(""), size=size))
    assert (answer.skipped, len(answer.findings)) == (("there is one GPU only", 0) if skipped else ("", 1))


def test_passes_and_fails_by_the_driver(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("peer=276")
    given = context(machine(tmp_path, ND_A100))
    answer = CHECK.measure(given)
    assert answer.findings == ()
    assert [one.value for one in answer.readings] == [276] * 8
    cuda.play("000b:00:00.0.peer=100")
    assert {one.verdict for one in CHECK.measure(given).findings} == {FAIL}


def test_fails_by_the_driver_where_the_fabric_is_not_up(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    cuda.gpus(BUSIDS)
    cuda.play("fail.cuInit=802")
    (finding,) = CHECK.measure(context(machine(tmp_path, ND_A100))).findings
    assert (finding.verdict, "CUDA_ERROR_SYSTEM_NOT_READY" in finding.summary) == (FAIL, True)


def test_cannot_measure_where_no_gpu_has_access_and_none_should(tmp_path: pathlib.Path, cuda: PlayedCuda) -> None:
    size = "Standard_NC96ads_A100_v4"
    tree = machine(tmp_path, size)
    if not find_size(size).gpus:
        for domain in range(1, 5):
            tree.device(f"{domain:04x}:00:00.0", 0x030200, 0x10DE, 0)
    cuda.gpus([f"{domain:04x}:00:00.0" for domain in range(1, 5)])
    cuda.play("no_access=1")
    answer = CHECK.measure(context(tree, size=size))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]
    assert answer.readings == ()


def test_a_gpu_whose_pairs_are_all_slow_is_named_once() -> None:
    pairs = {pair: 100.0 if "b" in pair else 276.0 for pair in itertools.permutations("abcd", 2)}
    (finding,) = slow_pairs(pairs, 235)
    assert finding.device == "b"
    assert finding.summary.startswith("the bandwidth between GPUs is 100 GB/s at best between b and the others")
    of_two = slow_pairs({("a", "b"): 100.0, ("b", "a"): 100.0}, 235)
    assert [one.summary.split(" with ")[0] for one in of_two] == ["a reads from b", "b reads from a"]
    assert slow_pairs({("a", "b"): 235.0, ("b", "a"): 235.0}, 235) == []
