# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCIe links: whole, narrow, slow under load, slow while idle, of sizes that state nothing, not told."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_pcie import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Pcie

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look

IDLE, BUSY = 1, 0
H100, V100, NC = "Standard_ND96isr_H100_v5", "Standard_ND40rs_v2", "Standard_NC24ads_A100_v4"


def test_passes_with_the_promised_lanes_and_speed() -> None:
    result = look(CHECK, gpu(0))
    assert (result.verdict, result.answer.limit) == ("pass", "16 lanes, generation 4 (Standard_ND96asr_v4)")
    assert [(one.name, one.value, one.limit) for one in result.answer.readings] == [
        ("gpu_pcie_width", 16, 16),
        ("gpu_pcie_generation", 4, 4),
    ]
    assert look(CHECK, gpu(0, pcie=Pcie(16, 5, 16, 5, 5)), size=H100).verdict == "pass"


def test_fails_where_lanes_are_missing() -> None:
    """Also where the link, once trained so, calls that its highest."""
    for highest in (16, 8):
        result = look(CHECK, gpu(0), gpu(1, pcie=Pcie(8, 4, highest, 4, 4)))
        assert (result.verdict, result.fault) == ("fail", "NHC2010")
        assert result.summary == "the PCIe link of GPU 1 (0002:00:00.0) has 8 of 16 lanes"
    assert look(CHECK, gpu(0, pcie=Pcie(15, 4, 16, 4, 4))).verdict == "fail"


def test_fails_where_the_slot_does_not_reach_the_promised_speed() -> None:
    result = look(CHECK, gpu(0, pcie=Pcie(16, 4, 16, 4, 5)), size=H100)
    assert (result.verdict, result.summary) == (
        "fail",
        "the PCIe link of GPU 0 (0001:00:00.0) reaches generation 4 of 5",
    )


def test_fails_where_the_link_is_slow_under_load_and_passes_while_idle() -> None:
    slow = Pcie(16, 3, 16, 4, 4)
    result = look(CHECK, gpu(0, pcie=slow, reasons=BUSY))
    assert (result.verdict, result.summary) == (
        "fail",
        "the PCIe link of GPU 0 (0001:00:00.0) runs at generation 3 of 4 under load",
    )
    assert look(CHECK, gpu(0, pcie=slow, reasons=IDLE)).verdict == "pass"
    assert look(CHECK, gpu(0, reasons=BUSY)).verdict == "pass"


def test_a_gpu_that_is_made_for_less_than_the_topology_file_says_is_no_failure() -> None:
    """The file of ND v2 has 16 GT/s, and a V100 makes 8."""
    assert look(CHECK, gpu(0, pcie=Pcie(16, 3, 16, 3, 3)), size=V100).verdict == "pass"
    assert look(CHECK, gpu(0, pcie=Pcie(16, 2, 16, 2, 3)), size=V100).verdict == "fail"


@pytest.mark.parametrize(
    ("link", "verdict"),
    [
        (Pcie(16, 4, 16, 4, 4), "pass"),
        (Pcie(8, 4, 16, 4, 4), "fail"),
        (Pcie(16, 3, 16, 3, 4), "fail"),
        (Pcie(8, 4, 8, 4, None), "pass"),
    ],
)
def test_a_size_that_states_nothing_is_judged_by_what_the_gpu_is_capable_of(link: Pcie, verdict: str) -> None:
    result = look(CHECK, gpu(0, pcie=link), size=NC)
    assert (result.verdict, result.answer.limit) == (verdict, "what each GPU is capable of")
    assert look(CHECK, gpu(0, pcie=link), size=None).verdict == verdict


@pytest.mark.parametrize("link", [Pcie(None, 4, 16, 4, 4), Pcie(16, None, 16, 4, 4), Pcie(16, 4, 16, None, 4), Pcie()])
def test_cannot_measure_where_a_gpu_does_not_tell(link: Pcie) -> None:
    result = look(CHECK, gpu(0, pcie=link))
    assert result.verdict == "unknown"
    assert "does not tell how " in result.summary


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
