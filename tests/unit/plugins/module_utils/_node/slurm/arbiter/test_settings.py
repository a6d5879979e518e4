# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arbiter's settings."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings, read_settings

ROLE = pathlib.Path(__file__).resolve().parents[7] / "roles/health_checks"


def written(tmp_path: pathlib.Path, **settings: Any) -> Root:
    """A controller with settings."""
    (tmp_path / "etc/hpcai").mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": 1, **settings})
    (tmp_path / "etc/hpcai/health_arbiter.json").write_text(text, encoding="utf-8")
    return Root(str(tmp_path))


def test_without_the_file_there_is_no_arbiter(tmp_path: pathlib.Path) -> None:
    assert read_settings(Root(str(tmp_path))) is None


def test_missing_settings_have_their_defaults(tmp_path: pathlib.Path) -> None:
    assert read_settings(written(tmp_path)) == Settings()
    assert read_settings(written(tmp_path, max_out=4, escalate=True)) == Settings(max_out="4", escalate=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_out", "a tenth"),
        ("max_out", "101%"),
        ("max_out", -1),
        ("interval_s", 0),
        ("stale_s", True),
        ("confirm", {"free_space": 6}),
        ("confirm", {"free_space": 0}),
        ("confirm", 2),
        ("escalate", "yes"),
        ("records", "here"),
        ("metrics", 3),
        ("max_in", 3),
    ],
)
def test_invalid_settings_are_refused_and_named(tmp_path: pathlib.Path, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"health_arbiter.json: .*{key}.*Correct the inventory"):
        read_settings(written(tmp_path, **{key: value}))


def test_the_role_has_the_same_defaults() -> None:
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    stated = variables["__health_checks_arbiter"].partition("dict((")[2].partition(" | combine")[0]
    defaults = yaml.safe_load(stated)
    assert Settings(**defaults) == Settings()
    # Those of the other two depend on the machine and on another variable.
    assert set(defaults) == set(vars(Settings())) - {"metrics", "capture_s"}
