# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clocks: as wanted, changed by somebody, locked by record, not wanted at all, not told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotTell, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_clocks import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import Clocks, GpuError, GpuFacts, read_load
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import Lock, write_record

from ..gpu_playing import PlayedGpus, facts, look

LOW = Clocks(1215, 1095)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine whose clocks are to be the highest, and on which no lock was set since the driver was loaded."""
    want(tmp_path)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    boot_id = tmp_path / "proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("here-and-now\n", encoding="ascii")
    load = read_load(Root(str(tmp_path)))
    assert load is not None
    write_record(Root(str(tmp_path)), load, {f"GPU-{index}": Lock() for index in range(2)})
    return tmp_path


def want(root: Path, **options: Any) -> None:
    """Write what is wanted."""
    (root / "etc/hpcai").mkdir(parents=True, exist_ok=True)
    (root / "etc/hpcai/clocks.json").write_text(json.dumps({"schema": 1, **options}), encoding="ascii")


def clocked(root: Path, *gpus: GpuFacts) -> Result:
    """Look at the clocks."""
    return look(CHECK, played=PlayedGpus([], clocks=gpus), root=root)


def test_passes_where_they_are_as_wanted(root: Path) -> None:
    result = clocked(root, facts(0), facts(1))
    assert (result.verdict, result.summary) == ("pass", "the clocks of 2 GPUs are as wanted (max)")
    assert [(one.name, one.value) for one in result.answer.readings][:2] == [
        ("gpu_graphics_clock", 1410),
        ("gpu_memory_clock", 1215),
    ]


def test_fails_to_be_as_it_should_where_somebody_changed_them(root: Path) -> None:
    result = clocked(root, facts(0), facts(1, application=LOW))
    assert (result.verdict, result.hint) == ("warn", "Run 'hpcnode clocks apply'")
    assert result.summary.startswith(
        "GPU 1 (0002:00:00.0) has other clocks than wanted: application clocks are memory 1215 MHz, graphics 1095 MHz"
    )


def test_fails_to_be_as_it_should_where_nobody_knows_what_was_locked(root: Path) -> None:
    (root / "run/hpcai/clocks.json").unlink()
    result = clocked(root, facts(0))
    assert result.verdict == "warn"
    assert result.summary.endswith("whether clocks are locked cannot be read")


def test_passes_where_the_gpu_that_differs_is_none_of_those_meant(root: Path) -> None:
    want(root, gpus=["0"])
    assert clocked(root, facts(0), facts(1, application=LOW)).verdict == "pass"
    assert clocked(root, facts(0, application=LOW), facts(1)).verdict == "warn"


def test_warns_where_the_gpu_cannot_have_what_is_wanted_and_that_matters(root: Path) -> None:
    none = {"application": None, "application_reason": "not supported"}
    want(root, method="application")
    assert clocked(root, facts(0, **none)).verdict == "warn"
    want(root, method="application", on_unsupported="warn")
    assert clocked(root, facts(0, **none)).verdict == "pass"


def test_skips_where_no_clocks_are_wanted(tmp_path: Path) -> None:
    assert clocked(tmp_path, facts(0)).verdict == "skip"


def test_cannot_measure_where_a_gpu_does_not_tell(root: Path) -> None:
    result = clocked(
        root, facts(0), GpuFacts(1, busid="0002:00:00.0", problem="GPU is lost", problem_kind="gpu_is_lost")
    )
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 1 (0002:00:00.0) does not tell its clocks: GPU is lost",
    )
    result = clocked(root, facts(0, current=Clocks(None, None)))
    assert (result.verdict, result.answer.findings[0].device) == ("unknown", "0001:00:00.0")


@pytest.mark.parametrize("current", [Clocks(None, 1410), Clocks(1215, None)])
def test_passes_where_a_gpu_tells_one_of_its_clocks(root: Path, current: Clocks) -> None:
    result = clocked(root, facts(0, current=current))
    assert (result.verdict, len(result.answer.readings)) == ("pass", 1)


def test_cannot_measure_without_a_driver_or_the_gpus_that_are_meant(root: Path) -> None:
    with pytest.raises(CannotTell, match="the GPUs' driver cannot be asked: not loaded"):
        look(CHECK, played=PlayedGpus([], clocks=GpuError("driver_not_loaded", "not loaded")), root=root)
    with pytest.raises(GpuError):
        look(CHECK, played=PlayedGpus([], clocks=GpuError("no_answer", "silence")), root=root)
    with pytest.raises(CannotTell, match="the driver knows no GPU"):
        clocked(root)
    want(root, gpus=["7"])
    with pytest.raises(CannotTell, match="7 is no GPU of this machine"):
        clocked(root, facts(0))
