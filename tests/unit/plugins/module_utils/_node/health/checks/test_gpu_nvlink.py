# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVLinks: all up, one down, fewer than the size is known to have, errors that grow, none at all, not told."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotTell, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_nvlink import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, GpuHealth, NvLinks

from ..gpu_playing import LOST, PlayedGpus, gpu, look
from ..playing import context

H100_NVL, NC_A100 = "Standard_NC80adis_H100_v5", "Standard_NC48ads_A100_v4"
CLEAN = {"crc_flit": 0, "crc_data": 0, "replay": 0, "recovery": 0}


def links(index: int, up: int, of: int = 12, **errors: int) -> NvLinks:
    """So many of a GPU's links are up."""
    return NvLinks(index, tuple(link < up for link in range(of)), {**CLEAN, **errors})


def linked(*found: NvLinks, gpus: tuple[GpuHealth, ...] = (), **machine: Any) -> Result:
    """Look at links, each of a GPU."""
    return look(CHECK, played=PlayedGpus(gpus or [gpu(one.index) for one in found], links=found), **machine)


def test_passes_with_all_links_up() -> None:
    result = linked(links(0, 12), links(1, 12))
    assert (result.verdict, result.summary) == ("pass", "the NVLinks of 2 GPUs are up")
    up = [one for one in result.answer.readings if one.name == "gpu_nvlinks_up"]
    assert [(one.value, one.limit) for one in up] == [(12, 12), (12, 12)]
    assert result.answer.limit == "every link of a GPU (azurehpc-health-checks, check_nvlink_status)"


def test_fails_where_a_link_is_down() -> None:
    result = linked(links(0, 12), links(1, 11))
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2016", "reboot")
    assert result.summary == "11 of 12 NVLinks of GPU 1 (0002:00:00.0) are up: down 11"


@pytest.mark.parametrize(("up", "verdict"), [(12, "pass"), (11, "fail"), (18, "pass")])
def test_fails_below_what_the_size_is_known_to_have(up: int, verdict: str) -> None:
    """Of the 18 links of an H100 NVL 12 lead to its peer: demanding all would fail each machine."""
    result = linked(links(0, up, of=18), size=H100_NVL)
    assert (result.verdict, result.answer.limit) == (verdict, "at least 12 links at each GPU (issue threads)")


def test_fails_where_switches_are_and_a_gpu_shows_no_link() -> None:
    result = linked(links(0, 0, of=0))
    assert (result.verdict, result.summary) == ("fail", "GPU 0 (0001:00:00.0) shows none of its NVLinks")


def test_gpus_without_any_link_are_skipped_where_no_switches_are() -> None:
    assert linked(links(0, 0, of=0), size=NC_A100).verdict == "skip"
    assert linked(links(0, 12), links(1, 0, of=0), size=NC_A100).verdict == "fail"


@pytest.mark.parametrize("kind", sorted(CLEAN))
def test_errors_since_the_last_run_are_a_warning(kind: str) -> None:
    history = History()
    # What was there before the first look is nobody's news.
    assert linked(links(0, 12, **{kind: 5}), history=history).verdict == "pass"
    assert linked(links(0, 12, **{kind: 5}), history=history).verdict == "pass"
    result = linked(links(0, 12, **{kind: 6}), history=history)
    assert result.verdict == "warn"
    assert result.summary.startswith("NVLinks of GPU 0 (0001:00:00.0) had errors since the last run: 1 ")
    assert linked(links(0, 12, **{kind: 6}), history=history).verdict == "pass"
    # The driver was loaded anew, and counts from nothing.
    assert linked(links(0, 12, **{kind: 0}), history=history).verdict == "pass"
    assert linked(links(0, 12, **{kind: 1}), history=history).verdict == "warn"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            (NvLinks(0, problem="Unknown Error"),),
            "GPU 0 (0001:00:00.0) does not tell how its NVLinks are: Unknown Error",
        ),
        ((), "GPU 0 (0001:00:00.0) does not tell how its NVLinks are"),
    ],
)
def test_cannot_measure_where_a_gpu_does_not_tell(found: tuple[NvLinks, ...], words: str) -> None:
    result = linked(*found, gpus=(gpu(0),))
    assert (result.verdict, result.summary) == ("unknown", words)


def test_cannot_measure_a_gpu_that_is_lost_or_a_driver_that_is_not_there() -> None:
    result = linked(links(0, 12), gpus=(gpu(0), gpu(1, **LOST)))
    assert (result.verdict, result.summary) == ("unknown", "GPU 1 (0002:00:00.0) could not be read: GPU is lost")
    with pytest.raises(CannotTell, match="the GPUs' driver cannot be asked: not loaded"):
        look(CHECK, played=PlayedGpus(GpuError("driver_not_loaded", "not loaded")))


@pytest.mark.parametrize(
    ("size", "applies"), [("Standard_ND96asr_v4", True), (H100_NVL, True), ("Standard_NC24ads_A100_v4", False)]
)
def test_applies_where_a_gpu_has_a_peer(size: str, applies: bool) -> None:
    assert (CHECK.applies(context(size=size).size) == "") is applies
