# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs that are measured, and asking for a figure of one in a process of its own."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, CannotTell
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import gpus

from ..playing import context


def test_the_gpus_are_nvidias_and_have_cpus_near_them(tmp_path: pathlib.Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    tree.device("0001:00:00.0", 0x0302, 0x10DE, 1)
    tree.device("0002:00:00.0", 0x0302, 0x1002, 1)
    tree.device("0003:00:00.0", 0x0680, 0x10DE, 1)
    tree.device("0004:00:00.0", 0x0302, 0x10DE, -1)
    near, nowhere = gpus.present(context(tree))
    assert (near.busid, nowhere.busid) == ("0001:00:00.0", "0004:00:00.0")
    assert set(gpus.cpus_near(context(tree), near)) == {4, 5, 6, 7}
    assert not gpus.cpus_near(context(tree), nowhere)


def test_without_a_gpu_nothing_can_be_measured(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotTell, match="PCI has no NVIDIA GPU"):
        gpus.present(context(MachineTree(tmp_path)))


def test_what_was_measured_comes_back() -> None:
    assert gpus.ask(context(), "the rate", 20, lambda: {"rate": 7}) == ({"rate": 7}, None)


@pytest.mark.parametrize(
    ("error", "verdict", "has_hint"),
    [("CUDA_ERROR_ECC_UNCORRECTABLE", FAIL, True), ("CUDA_ERROR_OUT_OF_MEMORY", UNKNOWN, False)],
)
@pytest.mark.parametrize(("device", "where"), [("", ""), ("gpu0", " on gpu0")])
def test_an_error_of_the_hardware_fails(error: str, verdict: str, has_hint: bool, device: str, where: str) -> None:
    answer, finding = gpus.ask(context(), "the rate", 20, lambda: {"error": error, "words": "so"}, device)
    assert answer == {}
    assert finding
    assert (finding.verdict, bool(finding.hint)) == (verdict, has_hint)
    assert finding.summary == f"the rate could not be measured{where}: so"


def test_who_dies_or_is_silent_says_nothing_of_the_gpu() -> None:
    def dies() -> Mapping[str, Any]:
        os._exit(3)

    def hangs() -> Mapping[str, Any]:
        os.read(os.pipe()[0], 1)
        return {}

    given = context()
    assert [one and one.verdict for one in (gpus.ask(given, "the rate", 20, dies)[1],)] == [UNKNOWN]
    assert [one and one.verdict for _answer, one in (gpus.ask(given, "x", 0.1, hangs) for _n in "12")] == [
        UNKNOWN,
        FAIL,
    ]
    gpus.ask(given, "x", 20, dict)
    assert [one and one.verdict for one in (gpus.ask(given, "x", 0.1, hangs)[1],)] == [UNKNOWN]
