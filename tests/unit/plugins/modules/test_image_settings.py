# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module image_settings, in this process."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image import services
from ansible_collections.hpcai.azure.plugins.modules import image_settings

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """An offline image of Debian that already has a sysctl setting."""
    (tmp_path / "root/etc/apt").mkdir(parents=True)
    (tmp_path / "root/etc/sysctl.conf").write_text("vm.zone_reclaim_mode = 1\n")
    return tmp_path / "root"


OPTIONS: dict[str, Any] = {
    "limits": {"memlock": "unlimited", "stack": None},
    "sysctl": {"vm.zone_reclaim_mode": 1, "net.ipv4.neigh.default.gc_thresh1": 4096},
    "updates": "off",
    "time": "azure",
    "network_rules": True,
}


def files(root: pathlib.Path) -> set[str]:
    """All files below the root."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_check_mode_returns_the_same_result_and_writes_nothing(root: pathlib.Path, run_module: RunModule) -> None:
    before = files(root)
    would = run_module(image_settings.main, check_mode=True, root=str(root), **OPTIONS)
    assert files(root) == before
    did = run_module(image_settings.main, root=str(root), **OPTIONS)
    for key in ("changed", "written", "left_alone", "remarks", "diff"):
        assert would[key] == did[key], key
    assert did["changed"]
    assert files(root) - before == {
        "etc/security/limits.d/90-hpcai-image.conf",
        "etc/systemd/system.conf.d/90-hpcai-image.conf",
        "etc/sysctl.d/99-zz-hpcai-image.conf",
        "etc/apt/apt.conf.d/99hpcai-updates",
        "etc/chrony/conf.d/hpcai-azure.conf",
    }
    assert did["left_alone"] == ["vm.zone_reclaim_mode is 1 (sysctl)"]
    again = run_module(image_settings.main, root=str(root), **OPTIONS)
    assert (again["changed"], again["written"], again["diff"]) == (False, [], [])


def test_without_options_all_settings_are_removed(root: pathlib.Path, run_module: RunModule) -> None:
    before = files(root)
    run_module(image_settings.main, root=str(root), **OPTIONS)
    assert run_module(image_settings.main, root=str(root))["changed"]
    assert files(root) == before


def test_an_unreadable_file_fails_in_one_line(root: pathlib.Path, run_module: RunModule) -> None:
    (root / "etc/waagent.conf").mkdir()
    answer = run_module(image_settings.main, root=str(root), agent={"OS.EnableRDMA": "y"})
    assert answer["_exit"] == 1
    assert "waagent.conf" in answer["msg"]
    assert "\n" not in answer["msg"]


def test_the_documented_choices_are_those_in_the_code() -> None:
    options = yaml.safe_load(image_settings.DOCUMENTATION)["options"]
    assert options["updates"]["choices"] == list(services.UPDATE_MODES)
    assert set(options["time"]["choices"]) == set(services.TIME_MODES)


def test_a_missing_root_is_refused(run_module: RunModule) -> None:
    answer = run_module(image_settings.main, root="/there/is/none")
    assert answer["msg"] == "root /there/is/none: there is no such folder"
