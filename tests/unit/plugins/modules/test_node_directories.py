# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_directories: Ansible's side of it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.modules import node_directories

from ..module_utils._node.setup.directories.machine import ME, Machine

RunModule = Callable[..., dict[str, Any]]
SETTINGS = "etc/hpcai/directories.json"
JOBS = {"path": "jobs", "mode": "1777", **ME}


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a mounted scratch."""
    monkeypatch.setattr(os, "geteuid", os.getuid)
    played = Machine(tmp_path)
    played.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    played.file("etc/hpcai/scratch.json", json.dumps({"schema": 1, **ME}))
    monkeypatch.setattr(node_directories, "Root", lambda _path: played.root)
    monkeypatch.setattr(node_directories, "run", played.run)
    return played


def test_saves_and_creates_once_and_check_mode_predicts_it(
    machine: Machine, run_module: RunModule, warned: list[str]
) -> None:
    foreseen = run_module(node_directories.main, check_mode=True, name="site", folders=[JOBS])
    assert not machine.path(SETTINGS).exists()
    assert not machine.path("/scratch/jobs").exists()
    done = run_module(node_directories.main, name="site", folders=[JOBS])
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert done["actions"][0] == "write /etc/hpcai/directories.json"
    assert len(done["actions"]) == 2
    assert done["diff"]["after"] == machine.path(SETTINGS).read_text() == foreseen["diff"]["after"]
    assert (done["kind"], done["mountpoint"]) == ("mount", "/scratch")
    assert done["size_bytes"] > 0
    again = run_module(node_directories.main, name="site", folders=[JOBS])
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], {})
    assert warned == []


def test_an_image_saves_the_settings_and_needs_no_scratch(machine: Machine, run_module: RunModule) -> None:
    machine.run(["umount", "/scratch"])
    machine.path("/scratch").rmdir()
    kept = run_module(node_directories.main, name="site", state="configured", folders=[JOBS], fallback=[])
    assert (kept["changed"], kept["actions"], kept["kind"]) == (True, ["write /etc/hpcai/directories.json"], None)
    assert not machine.path("/scratch").exists()
    before = machine.path(SETTINGS).read_bytes()
    # A later run on the node with the same options does not change the settings.
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    done = run_module(node_directories.main, name="site", folders=[JOBS], fallback=[])
    assert len(done["actions"]) == 1
    assert machine.path(SETTINGS).read_bytes() == before


def test_warns_of_a_slow_scratch_in_each_run(machine: Machine, run_module: RunModule, warned: list[str]) -> None:
    machine.run(["umount", "/scratch"])
    for _time in range(2):
        warned.clear()
        done = run_module(node_directories.main, name="site", nvme_count=0)
        assert done["kind"] == "directory"
        assert "/scratch is not on NVMe disks" in warned[0]
    assert done["changed"] is False


def test_fails_if_a_directory_cannot_be_created_but_saves_the_settings(machine: Machine, run_module: RunModule) -> None:
    failed = run_module(node_directories.main, name="site", folders=[{"path": "a", "owner": "nobody-here"}, JOBS])
    assert failed["failed"] is True
    assert "/scratch/a: owner: there is no user 'nobody-here'" in failed["msg"]
    assert machine.path("/scratch/jobs").is_dir()
    assert "nobody-here" in machine.path(SETTINGS).read_text()


def test_fails_in_one_line_if_the_scratch_is_not_mounted(machine: Machine, run_module: RunModule) -> None:
    machine.run(["umount", "/scratch"])
    failed = run_module(node_directories.main, name="site", nvme_count=8)
    assert failed["failed"] is True
    assert "/scratch is not mounted, although 8 local NVMe disks are expected here (the VM size)" in failed["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "site", "folders": [{"path": "../etc"}]}, "without '.' and '..'"),
        ({"name": "site", "folders": [{"path": "a", "mode": "0777"}]}, "Use 1777"),
        ({"folders": [{"path": "a"}]}, "name"),
        ({"name": "a b"}, "must be a name of letters"),
    ],
)
def test_refuses_invalid_options_and_saves_nothing(
    machine: Machine, run_module: RunModule, options: dict[str, Any], words: str
) -> None:
    failed = run_module(node_directories.main, **options)
    assert failed["failed"] is True
    assert words in failed["msg"]
    assert not machine.path(SETTINGS).exists()


def test_absent_with_a_name_removes_the_set_and_keeps_its_directories(machine: Machine, run_module: RunModule) -> None:
    run_module(node_directories.main, name="site", folders=[JOBS])
    run_module(node_directories.main, name="other", folders=[])
    gone = run_module(node_directories.main, name="site", state="absent")
    assert gone["actions"] == ["write /etc/hpcai/directories.json"]
    assert list(json.loads(machine.path(SETTINGS).read_text())["folders"]) == ["other"]
    assert machine.path("/scratch/jobs").is_dir()
    assert run_module(node_directories.main, name="site", state="absent")["changed"] is False


def test_absent_without_a_name_unmounts_the_fallback(machine: Machine, run_module: RunModule) -> None:
    machine.run(["umount", "/scratch"])
    machine.temporary_disk()
    run_module(node_directories.main, name="site", folders=[JOBS], nvme_count=0)
    machine.commands.clear()
    foreseen = run_module(node_directories.main, check_mode=True, state="absent")
    assert machine.commands == []
    gone = run_module(node_directories.main, state="absent")
    assert gone["actions"] == ["unmount /scratch", "remove /etc/hpcai/directories.json"] == foreseen["actions"]
    assert machine.commands == ["umount /scratch"]
    assert not machine.path(SETTINGS).exists()
    assert gone["mountpoint"] is None
    assert run_module(node_directories.main, state="absent")["changed"] is False


def test_absent_never_unmounts_the_nvme_scratch(machine: Machine, run_module: RunModule) -> None:
    run_module(node_directories.main, name="site", folders=[JOBS])
    gone = run_module(node_directories.main, state="absent")
    assert gone["actions"] == ["remove /etc/hpcai/directories.json"]
