# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module beeond_node: settings, units, and the clean-up at each boot."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.layout import run_folder
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import beeond_node

RunModule = Callable[..., dict[str, Any]]
UNITS = "etc/systemd/system"


class Machine:
    """The machine, and the commands that were run."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.commands: list[tuple[str, ...]] = []

    def run(self, command: Sequence[str]) -> Result:
        """Record a command and return success."""
        self.commands.append(tuple(command))
        return Result(tuple(command), 0, "", "")


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with systemd."""
    made = Machine(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(beeond_node, "Root", lambda _path: Root(str(tmp_path)))
    monkeypatch.setattr(beeond_node, "run", made.run)
    return made


def test_installs_everything_once_and_check_mode_predicts_it(machine: Machine, run_module: RunModule) -> None:
    foreseen = run_module(beeond_node.main, check_mode=True, settings={"metadata_nodes": 2})
    assert not (machine.folder / "etc").exists()
    done = run_module(beeond_node.main, settings={"metadata_nodes": 2})
    assert (done["changed"], done["actions"], done["diff"]) == (True, foreseen["actions"], foreseen["diff"])
    assert machine.commands == [("systemctl", "daemon-reload")]
    again = run_module(beeond_node.main, settings={"metadata_nodes": 2})
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
    assert len(machine.commands) == 1
    stated = json.loads((machine.folder / "etc/hpcai/beeond.json").read_text(encoding="utf-8"))
    assert (stated["schema"], stated["metadata_nodes"]) == (1, 2)


def test_removes_all_once_as_check_mode_foresaw(machine: Machine, run_module: RunModule) -> None:
    run_module(beeond_node.main)
    machine.commands.clear()
    foreseen = run_module(beeond_node.main, check_mode=True, state="absent")
    assert (machine.folder / "etc/hpcai/beeond.json").exists()
    done = run_module(beeond_node.main, state="absent")
    assert (done["changed"], done["actions"], done["diff"]) == (True, foreseen["actions"], foreseen["diff"])
    assert done["actions"][0] == "disable hpcai-beeond-sweep.service"
    assert not [path for path in (machine.folder / "etc").rglob("*") if not path.is_dir() or path.is_symlink()]
    assert machine.commands == [("systemctl", "daemon-reload")]
    again = run_module(beeond_node.main, state="absent")
    assert (again["changed"], again["actions"]) == (False, [])


def test_each_daemon_has_a_unit_that_uses_the_jobs_configuration(machine: Machine, run_module: RunModule) -> None:
    run_module(beeond_node.main, settings={"daemons": "/opt/other/sbin"})
    folder = machine.folder / UNITS
    assert sorted(path.name for path in folder.glob("*.service")) == [
        "hpcai-beeond-helperd@.service",
        "hpcai-beeond-meta@.service",
        "hpcai-beeond-mgmtd@.service",
        "hpcai-beeond-storage@.service",
        "hpcai-beeond-sweep.service",
    ]
    text = (folder / "hpcai-beeond-meta@.service").read_text(encoding="utf-8")
    assert f"ExecStart=/opt/other/sbin/beegfs-meta cfgFile={run_folder('%i')}/meta.conf\n" in text
    assert os.readlink(folder / "slurmd.service.wants/hpcai-beeond-sweep.service").endswith(
        "/hpcai-beeond-sweep.service"
    )


def test_a_change_of_settings_does_not_call_systemd(machine: Machine, run_module: RunModule) -> None:
    run_module(beeond_node.main)
    machine.commands.clear()
    assert run_module(beeond_node.main, settings={"port_shift": 2000})["actions"] == [
        f"write {machine.folder}/etc/hpcai/beeond.json"
    ]
    assert machine.commands == []


def test_systemd_is_not_called_in_an_offline_image(machine: Machine, run_module: RunModule) -> None:
    (machine.folder / "run/systemd/system").rmdir()
    assert run_module(beeond_node.main)["changed"]
    assert machine.commands == []


def test_invalid_settings_change_nothing(machine: Machine, run_module: RunModule) -> None:
    failed = run_module(beeond_node.main, settings={"rdma": "maybe"})
    assert failed["failed"]
    assert "settings.rdma must be auto, required, allowed or off, not 'maybe'" in failed["msg"]
    assert not (machine.folder / "etc").exists()
