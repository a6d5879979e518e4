# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module job_hooks: Ansible's side of it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import job_hooks

RunModule = Callable[..., dict[str, Any]]
GPU = {"50-gpu": {"content": "#!/bin/sh\necho gpu\n", "limit": 9}}


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The machine."""
    monkeypatch.setattr(job_hooks, "Root", lambda _path: Root(str(tmp_path)))
    return tmp_path


def test_installs_once_and_check_mode_predicts_it(root: pathlib.Path, run_module: RunModule) -> None:
    foreseen = run_module(job_hooks.main, check_mode=True, name="site", prolog=GPU)
    assert not (root / "etc").exists()
    done = run_module(job_hooks.main, name="site", prolog=GPU)
    assert (done["changed"], done["actions"], done["diff"]) == (True, foreseen["actions"], foreseen["diff"])
    assert any("echo gpu" in change["after"] for change in done["diff"])
    again = run_module(job_hooks.main, name="site", prolog=GPU)
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])


def test_removes_scripts_that_the_set_no_longer_contains(root: pathlib.Path, run_module: RunModule) -> None:
    run_module(job_hooks.main, name="site", prolog=GPU)
    done = run_module(job_hooks.main, name="site")
    assert done["actions"][0] == f"remove {root}/etc/hpcai/prolog.d/50-gpu"
    assert not list((root / "etc/hpcai/prolog.d").iterdir())


def test_refuses_an_invalid_name_before_writing(root: pathlib.Path, run_module: RunModule) -> None:
    failed = run_module(job_hooks.main, name="site", prolog={**GPU, "gpu": GPU["50-gpu"]})
    assert failed["failed"] is True
    assert "a key of prolog must be two digits" in failed["msg"]
    assert not (root / "etc").exists()
