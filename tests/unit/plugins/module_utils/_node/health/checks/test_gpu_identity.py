# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models, firmware, drivers and InfoROMs: as expected, different, too old, corrupted, not reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import BOOT, DEEP, PERIODIC
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_identity import GPU_IDENTITY, vbios_of

from ..gpu_playing import PlayedGpus, assert_unread_gpus_are_unknown, gpu, look


def test_passes_with_the_expected_model() -> None:
    result = look(GPU_IDENTITY, gpu(0), gpu(1))
    assert (result.verdict, result.summary) == ("pass", "2 GPUs (NVIDIA A100-SXM4-40GB), driver 550.90.12")
    assert result.answer.limit == "A100-SXM4-40GB (Standard_ND96asr_v4)"
    assert {one.name for one in result.answer.readings} == {"gpu_model", "gpu_serial", "gpu_vbios", "gpu_driver"}


@pytest.mark.parametrize(
    ("size", "names"),
    [
        ("Standard_ND96asr_v4", ["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"]),
        ("Standard_ND96amsr_A100_v4", ["NVIDIA A100-SXM4-80GB"]),
        ("Standard_NC24ads_A100_v4", ["NVIDIA A100 80GB PCIe"]),
        ("Standard_ND96isr_H100_v5", ["NVIDIA H100 80GB HBM3"]),
        ("Standard_ND96isr_H200_v5", ["NVIDIA H200"]),
        ("Standard_NC40ads_H100_v5", ["NVIDIA H100 NVL"]),
        ("Standard_ND40rs_v2", ["Tesla V100-SXM2-32GB"]),
        ("Standard_ND128isr_NDR_GB200_v6", ["NVIDIA GB200"]),
    ],
)
def test_passes_with_each_spelling_of_the_model(size: str, names: list[str]) -> None:
    for name in names:
        assert look(GPU_IDENTITY, gpu(0, name=name), size=size).verdict == "pass"


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA A10"])
def test_fails_with_another_model_or_other_memory(name: str) -> None:
    result = look(GPU_IDENTITY, gpu(0), gpu(1, name=name))
    assert (result.verdict, result.fault) == ("fail", "NHC2010")
    assert result.summary == f"GPU 1 (0002:00:00.0) is a {name}, but Standard_ND96asr_v4 has A100-SXM4-40GB"
    assert look(GPU_IDENTITY, gpu(0, name=name), size=None).verdict == "pass"


def test_warns_of_a_gpu_with_other_firmware() -> None:
    result = look(GPU_IDENTITY, gpu(0), gpu(1, vbios="92.00.36.00.01"), gpu(2))
    assert (result.verdict, result.summary) == (
        "warn",
        "GPU 1 (0002:00:00.0) has firmware 92.00.36.00.01, but other GPUs of this machine have 92.00.45.00.03",
    )


@pytest.mark.parametrize(
    ("least", "verdict"),
    [
        ("92.00.45.00.03", "pass"),
        ("92.00.45.00.04", "fail"),
        ("92.00.45.00.02", "pass"),
        # As texts, "100" would be less than "92", and "5" more than "45".
        ("100.00.00.00.00", "fail"),
        ("92.00.5.00.00", "pass"),
    ],
)
def test_fails_with_older_firmware_compared_as_numbers(least: str, verdict: str) -> None:
    assert look(GPU_IDENTITY, gpu(0), options={"gpu_identity": {"min_vbios": least}}).verdict == verdict


@pytest.mark.parametrize(
    ("vbios", "least", "words"),
    [
        ("92.00.45.00.03", "v92", "options.gpu_identity.min_vbios is 'v92', but must be a version such as"),
        ("unreleased", "92.00.45.00.03", "GPU 0 (0001:00:00.0) reports no valid version of its firmware (unreleased)"),
    ],
)
def test_cannot_compare_firmware_without_valid_versions(vbios: str, least: str, words: str) -> None:
    result = look(GPU_IDENTITY, gpu(0, vbios=vbios), options={"gpu_identity": {"min_vbios": least}})
    assert result.verdict == "unknown"
    assert result.summary.startswith(words)


def test_versions_of_firmware_are_hexadecimal() -> None:
    assert vbios_of("96.00.A5.00.1F") > vbios_of("96.00.9F.00.A0")
    assert vbios_of("N/A") == vbios_of("96") == ()


@pytest.mark.parametrize(
    ("driver", "verdict"), [("550.54.15", "pass"), ("550.54.14", "fail"), ("550.100", "pass"), ("99.1", "fail")]
)
def test_fails_with_an_older_driver_compared_as_numbers(tmp_path: Path, driver: str, verdict: str) -> None:
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    settings = {"schema": 1, "min_driver": "550.54.15"}
    (tmp_path / "etc/hpcai/gpu.json").write_text(json.dumps(settings), encoding="ascii")
    result = look(GPU_IDENTITY, played=PlayedGpus([gpu(0)], driver=driver), root=tmp_path)
    assert (result.verdict, result.fault) == (verdict, "")


@pytest.mark.parametrize("tier", [BOOT, DEEP])
def test_fails_if_an_inforom_is_corrupted(tier: str) -> None:
    played = PlayedGpus([gpu(0), gpu(1)], inforoms={0: True, 1: False})
    result = look(GPU_IDENTITY, played=played, tier=tier)
    assert (result.verdict, result.fault, result.action) == ("fail", "NHC2008", "replace")
    assert result.summary == "GPU 1 (0002:00:00.0) has a corrupted InfoROM"
    # Reading the flash takes long, so the tier periodic does not do it.
    assert look(GPU_IDENTITY, played=played, tier=PERIODIC).verdict == "pass"


def test_an_inforom_in_an_unknown_state_is_left_out() -> None:
    result = look(GPU_IDENTITY, played=PlayedGpus([gpu(0)], inforoms={0: None}), tier=BOOT)
    assert (result.verdict, "gpu_inforom" in {one.name for one in result.answer.readings}) == ("pass", False)


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (PlayedGpus([gpu(0, name=None)]), "GPU 0 (0001:00:00.0) does not report its model"),
        (PlayedGpus([gpu(0, vbios=None)]), "GPU 0 (0001:00:00.0) does not report the version of its firmware"),
        (PlayedGpus([gpu(0)], driver=""), "the driver reports no valid version (nothing)"),
        (
            PlayedGpus([gpu(0)], inforoms={0: "Unknown Error"}),
            "GPU 0 (0001:00:00.0) does not report the state of its InfoROM: Unknown Error",
        ),
    ],
)
def test_cannot_measure_what_is_not_reported(played: PlayedGpus, words: str) -> None:
    result = look(GPU_IDENTITY, played=played, tier=BOOT)
    assert (result.verdict, result.summary) == ("unknown", words)


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(GPU_IDENTITY)
