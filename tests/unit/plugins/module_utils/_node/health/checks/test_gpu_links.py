# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs' links: PCIe and NVLink."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotMeasure, History, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_links import GPU_NVLINK, GPU_PCIE
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, GpuHealth, NvLinks
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Pcie

from ..gpu_playing import LOST, PlayedGpus, assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

IDLE, BUSY = 1, 0
H100, V100, NC = "Standard_ND96isr_H100_v5", "Standard_ND40rs_v2", "Standard_NC24ads_A100_v4"


def test_gpu_pcie_passes_with_the_expected_lanes_and_speed() -> None:
    result = look(GPU_PCIE, gpu(0))
    assert (result.verdict, result.answer.limit) == ("pass", "16 lanes, generation 4 (Standard_ND96asr_v4)")
    assert [(one.name, one.value, one.limit) for one in result.answer.readings] == [
        ("gpu_pcie_width", 16, 16),
        ("gpu_pcie_generation", 4, 4),
    ]
    assert look(GPU_PCIE, gpu(0, pcie=Pcie(16, 5, 16, 5, 5)), size=H100).verdict == "pass"


def test_gpu_pcie_fails_if_lanes_are_missing() -> None:
    """Also if the link reports the lower width as its maximum."""
    for highest in (16, 8):
        result = look(GPU_PCIE, gpu(0), gpu(1, pcie=Pcie(8, 4, highest, 4, 4)))
        assert (result.verdict, result.fault) == ("fail", "NHC2010")
        assert result.summary == "the PCIe link of GPU 1 (0002:00:00.0) has 8 of 16 lanes"
    assert look(GPU_PCIE, gpu(0, pcie=Pcie(15, 4, 16, 4, 4))).verdict == "fail"


def test_gpu_pcie_fails_if_the_slot_does_not_reach_the_expected_speed() -> None:
    result = look(GPU_PCIE, gpu(0, pcie=Pcie(16, 4, 16, 4, 5)), size=H100)
    assert (result.verdict, result.summary) == (
        "fail",
        "the PCIe link of GPU 0 (0001:00:00.0) reaches generation 4 of 5",
    )


def test_gpu_pcie_fails_if_the_link_is_slow_under_load_only() -> None:
    slow = Pcie(16, 3, 16, 4, 4)
    result = look(GPU_PCIE, gpu(0, pcie=slow, reasons=BUSY))
    assert (result.verdict, result.summary) == (
        "fail",
        "the PCIe link of GPU 0 (0001:00:00.0) runs at generation 3 of 4 under load",
    )
    assert look(GPU_PCIE, gpu(0, pcie=slow, reasons=IDLE)).verdict == "pass"
    unknown = look(GPU_PCIE, gpu(0, pcie=slow, reasons=None))
    assert (unknown.verdict, "does not report whether it is idle" in unknown.summary) == ("unknown", True)
    assert look(GPU_PCIE, gpu(0, reasons=BUSY)).verdict == "pass"


def test_gpu_pcie_a_gpu_slower_than_the_topology_file_is_no_failure() -> None:
    """The topology file of ND v2 has 16 GT/s, and a V100 reaches 8 GT/s."""
    assert look(GPU_PCIE, gpu(0, pcie=Pcie(16, 3, 16, 3, 3)), size=V100).verdict == "pass"
    assert look(GPU_PCIE, gpu(0, pcie=Pcie(16, 2, 16, 2, 3)), size=V100).verdict == "fail"


@pytest.mark.parametrize(
    ("link", "verdict"),
    [
        (Pcie(16, 4, 16, 4, 4), "pass"),
        (Pcie(8, 4, 16, 4, 4), "fail"),
        (Pcie(16, 3, 16, 3, 4), "fail"),
        (Pcie(8, 4, 8, 4, None), "pass"),
    ],
)
def test_gpu_pcie_on_sizes_without_values_the_gpus_maximum_counts(link: Pcie, verdict: str) -> None:
    result = look(GPU_PCIE, gpu(0, pcie=link), size=NC)
    assert (result.verdict, result.answer.limit) == (verdict, "the maximum of each GPU")
    assert look(GPU_PCIE, gpu(0, pcie=link), size=None).verdict == verdict


@pytest.mark.parametrize("link", [Pcie(None, 4, 16, 4, 4), Pcie(16, None, 16, 4, 4), Pcie(16, 4, 16, None, 4), Pcie()])
def test_gpu_pcie_cannot_measure_without_width_or_generation(link: Pcie) -> None:
    result = look(GPU_PCIE, gpu(0, pcie=link))
    assert result.verdict == "unknown"
    assert "does not report the " in result.summary


def test_gpu_pcie_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_PCIE)


H100_NVL, NC_A100 = "Standard_NC80adis_H100_v5", "Standard_NC48ads_A100_v4"
CLEAN = {"crc_flit": 0, "crc_data": 0, "replay": 0, "recovery": 0}


def links(index: int, up: int, of: int = 12, **errors: int) -> NvLinks:
    """Return the links of a GPU, of which this many are up."""
    return NvLinks(index, tuple(link < up for link in range(of)), {**CLEAN, **errors})


def check_links(*found: NvLinks, gpus: tuple[GpuHealth, ...] = (), **machine: Any) -> Result:
    """Check the links of GPUs."""
    return look(GPU_NVLINK, played=PlayedGpus(gpus or [gpu(one.index) for one in found], links=found), **machine)


def test_gpu_nvlink_passes_with_all_links_up() -> None:
    result = check_links(links(0, 12), links(1, 12))
    assert (result.verdict, result.summary) == ("pass", "the NVLinks of 2 GPUs are up")
    up = [one for one in result.answer.readings if one.name == "gpu_nvlinks_up"]
    assert [(one.value, one.limit) for one in up] == [(12, 12), (12, 12)]
    assert result.answer.limit == "every link of a GPU (azurehpc-health-checks, check_nvlink_status)"


def test_gpu_nvlink_fails_if_a_link_is_down() -> None:
    result = check_links(links(0, 12), links(1, 11))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2016", "reboot")
    assert result.summary == "11 of 12 NVLinks of GPU 1 (0002:00:00.0) are up; down: 11"


@pytest.mark.parametrize(("up", "verdict"), [(12, "pass"), (11, "fail"), (18, "pass")])
def test_gpu_nvlink_fails_below_the_number_of_the_size(up: int, verdict: str) -> None:
    """12 of the 18 links of an H100 NVL lead to its peer: a limit of 18 would fail on each machine."""
    result = check_links(links(0, up, of=18), size=H100_NVL)
    assert (result.verdict, result.answer.limit) == (verdict, "at least 12 links at each GPU (issue threads)")


def test_gpu_nvlink_fails_if_a_gpu_on_nvswitches_shows_no_link() -> None:
    result = check_links(links(0, 0, of=0))
    assert (result.verdict, result.summary) == ("fail", "GPU 0 (0001:00:00.0) shows no NVLinks")


def test_gpu_nvlink_is_skipped_without_links_and_nvswitches() -> None:
    assert check_links(links(0, 0, of=0), size=NC_A100).verdict == "skip"
    assert check_links(links(0, 12), links(1, 0, of=0), size=NC_A100).verdict == "fail"


@pytest.mark.parametrize("kind", sorted(CLEAN))
def test_gpu_nvlink_warns_of_errors_since_the_last_run(kind: str) -> None:
    history = History()
    # Errors from before the first run are not new.
    assert check_links(links(0, 12, **{kind: 5}), history=history).verdict == "pass"
    assert check_links(links(0, 12, **{kind: 5}), history=history).verdict == "pass"
    result = check_links(links(0, 12, **{kind: 6}), history=history)
    assert result.verdict == "warn"
    assert result.summary.startswith("NVLinks of GPU 0 (0001:00:00.0) had errors since the last run: 1 ")
    assert check_links(links(0, 12, **{kind: 6}), history=history).verdict == "pass"
    # The driver was loaded again, which resets its counters.
    assert check_links(links(0, 12, **{kind: 0}), history=history).verdict == "pass"
    assert check_links(links(0, 12, **{kind: 1}), history=history).verdict == "warn"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            (NvLinks(0, problem="Unknown Error"),),
            "GPU 0 (0001:00:00.0) does not report the state of its NVLinks: Unknown Error",
        ),
        ((), "GPU 0 (0001:00:00.0) does not report the state of its NVLinks"),
    ],
)
def test_gpu_nvlink_cannot_measure_without_the_state_of_the_links(found: tuple[NvLinks, ...], words: str) -> None:
    result = check_links(*found, gpus=(gpu(0),))
    assert (result.verdict, result.summary) == ("unknown", words)


def test_gpu_nvlink_cannot_measure_a_lost_gpu_or_without_a_driver() -> None:
    result = check_links(links(0, 12), gpus=(gpu(0), gpu(1, **LOST)))
    assert (result.verdict, result.summary) == ("unknown", "GPU 1 (0002:00:00.0) could not be read: GPU is lost")
    with pytest.raises(CannotMeasure, match="the GPUs' driver cannot be queried: not loaded"):
        look(GPU_NVLINK, played=PlayedGpus(GpuError("driver_not_loaded", "not loaded")))


@pytest.mark.parametrize(
    ("size", "applies"), [("Standard_ND96asr_v4", True), (H100_NVL, True), ("Standard_NC24ads_A100_v4", False)]
)
def test_gpu_nvlink_applies_if_a_gpu_has_a_peer(size: str, applies: bool) -> None:
    assert (GPU_NVLINK.applies(context(size=size).size) == "") is applies
