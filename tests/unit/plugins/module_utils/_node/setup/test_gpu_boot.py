# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the GPU check at boot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError, as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.gpu_boot import (
    GpuSettings,
    read_settings,
    settings_of,
    version_of,
)


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    assert read_settings(Root(str(tmp_path))) == GpuSettings(None, None, 30)


def test_written_settings_are_read_back_unchanged(tmp_path: Path) -> None:
    settings = settings_of({"min_driver": "535.1", "gpu_count": 0, "timeout": 5})
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/gpu.json").write_text(as_config(settings.as_options()), encoding="ascii")
    assert read_settings(Root(str(tmp_path))) == settings == GpuSettings("535.1", 0, 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_driver": "new"}, "min_driver must be a version such as '535' or '550.54.15', not 'new'"),
        ({"min_driver": 535}, "min_driver must be .*, not 535"),
        ({"gpu_count": -1}, "gpu_count must be a whole number of 0 or more, not -1"),
        ({"gpu_count": True}, "gpu_count must be .*, not True"),
        ({"timeout": float("inf")}, "timeout must be seconds above 0, at most 86400, not inf"),
        ({"timeout": float("nan")}, "timeout must be seconds above 0, at most 86400, not nan"),
        ({"timeout": 0}, "timeout must be seconds above 0"),
        ({"gpus": 8}, "has unknown keys gpus; known are min_driver, gpu_count, timeout"),
    ],
)
def test_invalid_settings_are_refused_and_named(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings_of(options)
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/gpu.json").write_text(json.dumps({"schema": 1, **options}), encoding="ascii")
    with pytest.raises(ConfigError, match=f"etc/hpcai/gpu.json: {words}"):
        read_settings(Root(str(tmp_path)))


def test_versions_compare_by_number() -> None:
    assert version_of("550.90.12") < version_of("550.127.05") < version_of("1000")
    assert version_of("") == version_of("550-open") == ()
