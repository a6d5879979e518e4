# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_installed: Ansible's side of it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.installed import RECORD
from ansible_collections.hpcai.azure.plugins.modules import slurm_installed

RunModule = Callable[..., dict[str, Any]]
ASKED: dict[str, Any] = {
    "functions": ["compute"],
    "source": "distribution",
    "packages": ["slurmd"],
    "client": "slurm-client",
}


class Machine:
    """A machine with Debian's packages.

    :ivar version: the version of slurm-client, or None if it is not installed.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.record = folder / RECORD.lstrip("/")
        self.record.parent.mkdir(parents=True)
        self.version: str | None = "22.05.8-4+deb12u3"

    def run(self, command: Sequence[str]) -> Result:
        if command[0] == "dpkg-query" and self.version:
            return Result(tuple(command), 0, f"installed {self.version}\n", "")
        return Result(tuple(command), 127, "", "command not found")


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine on which the module runs."""
    played = Machine(tmp_path)
    monkeypatch.setattr(slurm_installed, "Root", lambda: Root(str(tmp_path)))
    monkeypatch.setattr(slurm_installed, "run", played.run)
    return played


def test_records_the_version_once_and_check_mode_predicts_it(machine: Machine, run_module: RunModule) -> None:
    foreseen = run_module(slurm_installed.main, check_mode=True, **ASKED)
    assert not machine.record.exists()
    done = run_module(slurm_installed.main, **ASKED)
    assert (done["changed"], done["version"]) == (True, "22.05.8")
    assert json.loads(machine.record.read_text()) == {
        "functions": ["compute"],
        "packages": ["slurmd"],
        "source": "distribution",
        "version": "22.05.8",
    }
    assert foreseen["diff"]["after"] == done["diff"]["after"] == machine.record.read_text()
    assert run_module(slurm_installed.main, **ASKED)["changed"] is False


def test_check_mode_passes_if_slurm_is_not_installed_yet(machine: Machine, run_module: RunModule) -> None:
    machine.version = None
    foreseen = run_module(slurm_installed.main, check_mode=True, **ASKED)
    assert (foreseen["changed"], foreseen["version"]) == (True, None)
    failed = run_module(slurm_installed.main, **ASKED)
    assert failed["failed"] is True
    assert "Slurm's version is unknown" in failed["msg"]
    assert not machine.record.exists()


def test_refuses_an_upgrade_without_the_option_in_check_mode_too(machine: Machine, run_module: RunModule) -> None:
    for check in (True, False):
        failed = run_module(slurm_installed.main, check_mode=check, **ASKED, state="allowed", version="24.11")
        assert failed["failed"] is True
        assert "Slurm 22.05.8 is installed, but slurm_version is '24.11'" in failed["msg"]
    allowed = run_module(slurm_installed.main, **ASKED, state="allowed", version="24.11", upgrade=True)
    assert (allowed["changed"], allowed["version"]) == (False, "22.05.8")


def test_an_upgrade_is_recorded(machine: Machine, run_module: RunModule) -> None:
    run_module(slurm_installed.main, **ASKED)
    machine.version = "23.11.4-1.2ubuntu5"
    done = run_module(slurm_installed.main, **ASKED, version="23.11", upgrade=True)
    assert (done["changed"], done["version"]) == (True, "23.11.4")
    assert json.loads(machine.record.read_text())["version"] == "23.11.4"


def test_a_missing_preinstalled_slurm_is_refused(machine: Machine, run_module: RunModule) -> None:
    asked = {**ASKED, "source": "preinstalled", "packages": [], "client": ""}
    failed = run_module(slurm_installed.main, **asked, state="allowed", prefix="/opt/slurm/")
    assert failed["failed"] is True
    assert "lacks /opt/slurm/bin/scontrol" in failed["msg"]
    assert not machine.record.exists()
