# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_state: Ansible's side of it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_state

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def options(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options for a host that has only slurmctld's state."""
    monkeypatch.setattr(slurm_state, "Root", lambda _path: Root(str(tmp_path)))
    monkeypatch.setattr(slurm_state, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(slurm_state, "run", lambda words: Result(tuple(words), 0, "slurm-wlm 22.05.8\n", ""))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/job_state").write_bytes(b"j" * 43)
    return {"cluster": "hpcai", "state_save_location": str(tmp_path / "state"), "path": str(tmp_path / "dumps")}


def test_saves_the_settings_once_and_check_mode_predicts_it(
    options: dict[str, Any], run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "etc/hpcai/slurm_state.json"
    foreseen = run_module(slurm_state.main, check_mode=True, state="configured", **options)
    assert (foreseen["changed"], file.exists()) == (True, False)
    done = run_module(slurm_state.main, state="configured", **options)
    assert done["diff"]["after"] == foreseen["diff"]["after"] == file.read_text("utf-8")
    assert json.loads(file.read_text("utf-8"))["cluster"] == "hpcai"
    assert not run_module(slurm_state.main, state="configured", **options)["changed"]


def test_creates_a_dump_in_each_run_but_not_in_check_mode(options: dict[str, Any], run_module: RunModule) -> None:
    foreseen = run_module(slurm_state.main, check_mode=True, state="dumped", **options)
    assert (foreseen["changed"], foreseen["dump"]) == (True, "")
    done = run_module(slurm_state.main, state="dumped", **options)
    assert pathlib.Path(done["dump"], "manifest.json").is_file()


def test_a_restored_machine_is_not_restored_again(
    options: dict[str, Any], run_module: RunModule, tmp_path: pathlib.Path
) -> None:
    dumped = run_module(slurm_state.main, state="dumped", **options)["dump"]
    (tmp_path / "var/lib/hpcai").mkdir(parents=True)
    (tmp_path / "var/lib/hpcai/slurm_restored.json").write_text(json.dumps({"dump": dumped}), encoding="utf-8")
    again = run_module(slurm_state.main, state="restored", **options)
    assert (again["changed"], again["dump"]) == (False, "")


def test_refuses_a_folder_without_dumps(options: dict[str, Any], run_module: RunModule) -> None:
    failed = run_module(slurm_state.main, state="restored", **options)
    assert "is not a dump, and contains none of the cluster hpcai" in failed["msg"]


def test_refuses_a_path_that_is_not_absolute(options: dict[str, Any], run_module: RunModule) -> None:
    failed = run_module(slurm_state.main, state="dumped", **{**options, "path": "dumps"})
    assert failed["msg"] == "path must be the absolute path of a folder of dumps, not 'dumps'."
