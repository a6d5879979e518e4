# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of scripts, and their time limits."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.options import (
    DEFAULT_LIMITS,
    KINDS,
    HookSettings,
    Limits,
    as_text,
    read_settings,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import services

from .conftest import Node

REPOSITORY = pathlib.Path(__file__).resolve().parents[7]


def test_without_a_file_the_defaults_apply(node: Node) -> None:
    settings = read_settings(node.root)
    assert settings == HookSettings()
    assert settings.limit_of("prolog", "50-any") == DEFAULT_LIMITS["prolog"].script


def test_written_settings_are_read_back_unchanged(node: Node) -> None:
    limits = {**DEFAULT_LIMITS, "prolog": Limits(12, 34.5)}
    settings = HookSettings(limits, {"site": {"prolog": {"50-gpu": 7, "60-x": None}}})
    node.file("/etc/hpcai/job_hooks.json", as_text(settings))
    assert read_settings(node.root) == settings
    assert (settings.limit_of("prolog", "50-gpu"), settings.limit_of("prolog", "60-x")) == (7, 12)
    assert (settings.owner_of("prolog", "60-x"), settings.owner_of("epilog", "60-x")) == ("site", None)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"limit": {}}, "has unknown keys limit;"),
        ({"limits": []}, "limits must be a mapping"),
        ({"limits": {"proolog": {}}}, "limits has unknown keys proolog; known are prolog, "),
        ({"limits": {"prolog": {"each": 3}}}, "limits.prolog has unknown keys each; known are script, total"),
        (
            {"limits": {"prolog": {"script": "3"}}},
            "limits.prolog.script must be a number above 0, at most 3600, not '3'",
        ),
        ({"limits": {"prolog": {"total": 0}}}, "limits.prolog.total must be"),
        ({"limits": {"prolog": {"total": True}}}, "limits.prolog.total must be"),
        ({"sets": {"site": {"proolog": {}}}}, "sets.site has unknown keys proolog"),
        ({"sets": {"site": {"prolog": {"50-a": "x"}}}}, "sets.site.prolog.50-a must be"),
    ],
)
def test_invalid_settings_are_refused_and_named(node: Node, stated: dict[str, Any], words: str) -> None:
    node.settings(**stated)
    with pytest.raises(ConfigError, match=words) as error:
        read_settings(node.root)
    assert "job_hooks.json" in str(error.value)


def test_the_role_has_the_same_limits_and_the_tools_the_same_kinds() -> None:
    layer = yaml.safe_load((REPOSITORY / "roles/slurm/vars/main/jobs.yml").read_text(encoding="utf-8"))
    written = layer["__slurm_job_hook_limits_stated"].split("| combine")[0].replace("{{", "").strip()
    assert yaml.safe_load(written) == {
        kind: {"script": given.script, "total": given.total} for kind, given in DEFAULT_LIMITS.items()
    }
    assert services.HOOK_KINDS == KINDS
