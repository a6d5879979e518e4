# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVSwitches: joined, manager failed or missing, GPU not joined, broken or slow routes, no systemd."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotMeasure, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_fabric import GPU_FABRIC
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuHealth
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Fabric

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look
from ..playing import context

ASK = "systemctl show nvidia-fabricmanager"
RUNNING = {ASK: "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"}


def state(load: str, active: str, result: str = "success") -> dict[str, str]:
    """Return what systemd reports about the manager."""
    return {ASK: f"LoadState={load}\nActiveState={active}\nSubState=dead\nResult={result}\n"}


def check_fabric(*gpus: GpuHealth, run: Any = None, **machine: Any) -> Result:
    """Check the fabric; by default the manager runs."""
    return look(GPU_FABRIC, *gpus, run=run or RUNNING, **machine)


def test_passes_if_the_manager_runs_and_the_gpus_joined() -> None:
    result = check_fabric(gpu(0, fabric=Fabric("completed", 0, False, False)))
    assert (result.verdict, [one.value for one in result.answer.readings]) == ("pass", ["active", "completed"])


def test_passes_if_the_manager_runs_and_gpus_report_no_state() -> None:
    assert check_fabric(gpu(0), gpu(1)).verdict == "pass"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (state("loaded", "failed", "exit-code"), "failed (exit-code)"),
        (state("loaded", "inactive"), "inactive"),
        (state("not-found", "inactive"), "not installed"),
        (state("masked", "inactive"), "masked"),
    ],
)
def test_fails_if_the_manager_does_not_run(answers: dict[str, str], words: str) -> None:
    result = check_fabric(gpu(0), run=answers)
    assert (result.verdict, result.fault) == ("fail", "")
    assert result.summary == f"nvidia-fabricmanager is {words}, but the NVSwitches need it"


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (Fabric("not started"), "GPU 1 (0002:00:00.0) has not joined the NVSwitches (not started)"),
        (Fabric("in progress"), "GPU 1 (0002:00:00.0) has not joined the NVSwitches (in progress)"),
        (Fabric("completed", 999), "GPU 1 (0002:00:00.0) could not join the NVSwitches (NVML's error 999)"),
        (Fabric("completed", unhealthy=True), "a route of GPU 1 (0002:00:00.0) through the NVSwitches is broken"),
    ],
)
def test_fails_if_a_gpu_has_not_joined_or_has_a_broken_route(fabric: Fabric, words: str) -> None:
    result = check_fabric(gpu(0, fabric=Fabric("completed")), gpu(1, fabric=fabric))
    assert (result.verdict, result.summary, result.fault) == ("fail", f"fabric down: {words}", "NHC2016")


def test_warns_of_degraded_bandwidth() -> None:
    assert check_fabric(gpu(0, fabric=Fabric("completed", degraded=True))).verdict == "warn"
    assert check_fabric(gpu(0, fabric=Fabric("completed", degraded=False))).verdict == "pass"


def test_cannot_measure_without_systemd() -> None:
    result = check_fabric(gpu(0), run={"nothing": ""})
    assert (result.verdict, result.summary) == ("unknown", "cannot get the state of nvidia-fabricmanager from systemd")


def test_cannot_measure_without_the_state_of_a_gpu() -> None:
    result = check_fabric(gpu(0, errors={"fabric": "Unknown Error"}))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not report whether it joined: Unknown Error",
    )


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_FABRIC, run=RUNNING)


@pytest.mark.parametrize(
    ("size", "applies"),
    [("Standard_ND96asr_v4", True), ("Standard_ND96is_H200_v5", True), ("Standard_NC96ads_A100_v4", False)],
)
def test_applies_if_there_are_nvswitches(size: str, applies: bool) -> None:
    assert (GPU_FABRIC.applies(context(size=size).size) == "") is applies


def test_cannot_measure_on_an_unknown_size() -> None:
    with pytest.raises(CannotMeasure, match="VM size"):
        check_fabric(gpu(0), size=None)


def test_a_failure_blocks_job_and_boot() -> None:
    assert (GPU_FABRIC.blocks_job, GPU_FABRIC.blocks_boot) == (True, True)
