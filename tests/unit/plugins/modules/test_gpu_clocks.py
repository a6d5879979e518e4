# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module gpu_clocks with a fake driver."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Collection
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import Clocks, GpuError, GpuFacts
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import gpu_clocks

RunModule = Callable[..., dict[str, Any]]


def gpu(index: int) -> GpuFacts:
    """An A100 at its default clocks."""
    return GpuFacts(
        index=index,
        uuid=f"GPU-{index}",
        busid=f"000{index + 1}:00:00.0",
        name="NVIDIA A100-SXM4-40GB",
        mig=False,
        persistence=True,
        supported={1215: (1410, 1395, 1095)},
        highest=Clocks(1215, 1410),
        application=Clocks(1215, 1095),
        default=Clocks(1215, 1095),
        current=Clocks(1215, 1095),
        slowed=False,
    )


class Driver:
    """Two GPUs. Records all changes, and fails for the calls in ``refuses``."""

    via = "nvml"

    def __init__(self) -> None:
        self.gpus = [gpu(0), gpu(1)]
        self.changes: list[tuple[str, int, tuple[int, ...]]] = []
        self.refuses: dict[str, GpuError] = {}
        self.limit_s = 0.0
        self.closed = 0

    def connect(self, root: Root, limit_s: float) -> Driver:
        """Replace connect()."""
        self.limit_s = limit_s
        if "connect" in self.refuses:
            raise self.refuses["connect"]
        return self

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """All GPUs, or only these."""
        return tuple(one for one in self.gpus if not only or one.index in only)

    def change(self, what: str, index: int, *values: int) -> None:
        """Record a change, and apply those of application clocks."""
        if what in self.refuses:
            raise self.refuses[what]
        self.changes.append((what, index, values))
        if what == "set_application":
            self.gpus[index] = dataclasses.replace(self.gpus[index], application=Clocks(*values))
        if what == "reset_application":
            self.gpus[index] = dataclasses.replace(self.gpus[index], application=self.gpus[index].default)

    def processes(self) -> None:
        """The processes on the GPUs are unknown."""

    def close(self) -> None:
        """Count the calls."""
        self.closed += 1


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Driver:
    """The fake driver, and a folder with the machine's files."""
    played = Driver()
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("a-boot\n", encoding="ascii")
    monkeypatch.setattr(gpu_clocks, "connect", played.connect)
    monkeypatch.setattr(gpu_clocks, "Root", lambda: Root(str(tmp_path)))
    return played


def test_sets_the_clocks_once_and_closes_the_driver(driver: Driver, run_module: RunModule) -> None:
    first = run_module(gpu_clocks.main, timeout=7)
    assert (first["_exit"], first["changed"], first["via"], driver.limit_s) == (0, True, "nvml", 7.0)
    assert first["gpus"][1]["actions"] == ["set_application 1215 1410", "unlock_graphics", "unlock_memory"]
    assert first["diff"][0]["before"].startswith(
        "GPU 0 (0001:00:00.0):\n  persistence mode: on\n  application clocks: memory"
    )
    assert run_module(gpu_clocks.main)["changed"] is False
    assert driver.closed == 2


def test_returns_the_keys_of_the_documented_sample(driver: Driver, run_module: RunModule) -> None:

    documented = yaml.safe_load(gpu_clocks.RETURN)["gpus"]
    returned = run_module(gpu_clocks.main)["gpus"][0]
    assert set(documented["contains"]) == set(documented["sample"][0]) == set(returned)
    assert set(documented["sample"][0]["clocks"]) == set(returned["clocks"])


def test_check_mode_returns_the_same_diff_and_changes_nothing(
    driver: Driver, run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    foreseen = run_module(gpu_clocks.main, check_mode=True, persistent=True)
    assert (foreseen["changed"], driver.changes) == (True, [])
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "etc").exists()
    assert run_module(gpu_clocks.main, persistent=True)["diff"] == foreseen["diff"]


def test_fails_if_one_gpu_fails_and_returns_all_results(driver: Driver, run_module: RunModule) -> None:
    driver.gpus[0] = GpuFacts(index=0, busid="0001:00:00.0", problem="GPU is lost")
    answer = run_module(gpu_clocks.main)
    assert (answer["failed"], answer["changed"], answer["_exit"]) == (True, True, 1)
    assert answer["msg"] == "GPU 0 (0001:00:00.0): GPU is lost"
    assert [one["failed"] for one in answer["gpus"]] == [True, False]
    assert [index for what, index, _values in driver.changes if what == "set_application"] == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"state": "highest"}, "value of state must be one of: max, explicit, default"),
        ({"state": "explicit"}, "state=explicit needs graphics_mhz or memory_mhz"),
        ({"graphics_mhz": 1410}, "graphics_mhz needs state=explicit"),
        ({"timeout": 0}, "must be seconds above 0"),
        ({"gpus": ["7"]}, "7 is not a GPU of this machine"),
    ],
)
def test_refuses_invalid_arguments(
    driver: Driver, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(gpu_clocks.main, **arguments)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert driver.changes == []


def test_fails_without_a_driver_and_saves_no_settings(
    driver: Driver, run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    driver.refuses["connect"] = GpuError("no_answer", "the driver did not answer within 30 s")
    answer = run_module(gpu_clocks.main, persistent=True)
    assert (answer["failed"], answer["msg"]) == (True, "the driver did not answer within 30 s")
    assert not (tmp_path / "etc").exists()


def test_saves_the_settings_of_some_gpus_unchanged(
    driver: Driver, run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    run_module(gpu_clocks.main, state="explicit", graphics_mhz=1395, gpus=[1], persistent=True)
    saved = json.loads((tmp_path / "etc/hpcai/clocks.json").read_text(encoding="utf-8"))
    assert (saved["state"], saved["graphics_mhz"], saved["gpus"]) == ("explicit", 1395, ["1"])


def test_on_unsupported_warn_turns_the_failure_into_a_warning(
    driver: Driver, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(gpu_clocks.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    refused = GpuError("not_supported", "Not Supported")
    driver.refuses = dict.fromkeys(("set_application", "lock_graphics", "lock_memory"), refused)
    assert run_module(gpu_clocks.main)["failed"] is True
    assert warnings == []
    answer = run_module(gpu_clocks.main, on_unsupported="warn")
    assert ("failed" in answer, answer["changed"]) == (False, False)
    assert [one["supported"] for one in answer["gpus"]] == [False, False]
    words = "not supported: application clocks: Not Supported; lock_graphics: Not Supported"
    assert warnings == [f"GPU {index} (000{index + 1}:00:00.0): {words}" for index in (0, 1)]
