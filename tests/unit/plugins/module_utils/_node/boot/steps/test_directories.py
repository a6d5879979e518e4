# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step directories: its verdicts. The module node_directories creates the same directories."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.directories import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

from ...setup.directories.machine import ME, Machine


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of a size without local disks, with settings for one directory."""
    monkeypatch.setattr(os, "geteuid", os.getuid)
    played = Machine(tmp_path)
    settings(played, "scratch", **ME)
    settings(played, "node", vm_size="Mine", vm_sizes={"Mine": {"vcpus": 4, "memory_mib": 16384, "nvme_count": 0}})
    settings(played, "directories", folders={"site": [{"path": "jobs", **ME}]})
    return played


def settings(machine: Machine, name: str, **options: Any) -> None:
    """Write a settings file."""
    machine.file(f"etc/hpcai/{name}.json", json.dumps({"schema": 1, **options}))


def boot(machine: Machine, check: bool = False) -> Outcome:
    """Do the step."""
    return STEP.perform(Context(machine.root, machine.run, check, 0.01))


def test_passes_on_a_mounted_scratch(machine: Machine) -> None:
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    foreseen = boot(machine, check=True)
    done = boot(machine)
    assert (done.verdict, done.changes) == (PASS, foreseen.changes)
    assert len(done.changes) == 1
    assert (done.details["kind"], done.summary) == ("mount", "/scratch: 1 directories are set up")
    assert boot(machine).changes == ()
    json.dumps(done.details)


def test_warns_at_each_boot_if_scratch_is_not_on_disks(machine: Machine) -> None:
    for changes in (2, 0):
        done = boot(machine)
        assert (done.verdict, len(done.changes), done.details["kind"]) == (WARN, changes, "directory")
        assert (
            "/scratch is not on NVMe disks: there are no local NVMe disks here (VM size Standard_Mine: 0)"
            in done.summary
        )
        assert done.action


def test_fails_and_names_all_directories_that_cannot_be_made(machine: Machine) -> None:
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    folders = [{"path": path, "owner": "nobody-here"} for path in ("a", "b")]
    settings(machine, "directories", folders={"site": [*folders, {"path": "c", **ME}]})
    done = boot(machine)
    assert done.verdict == FAIL
    assert "/scratch/a: owner: there is no user 'nobody-here'" in done.summary
    assert "/scratch/b: owner: " in done.summary
    assert machine.path("/scratch/c").is_dir()


def test_missing_disks_are_not_replaced_by_a_directory(machine: Machine) -> None:
    settings(machine, "scratch", expected_count=8, **ME)
    with pytest.raises(Refused, match="/scratch is not mounted, although 8 local NVMe disks are expected"):
        boot(machine)
    assert not machine.path("/scratch").exists()


def test_an_unknown_size_is_an_error_on_compute_nodes_only(machine: Machine) -> None:
    settings(machine, "node", vm_size="Standard_Q1")
    with pytest.raises(UnknownVmSize, match="Standard_Q1"):
        boot(machine)
    settings(machine, "cluster", functions=["controller"], cluster="c", controllers=[], key={"source": "push"})
    assert boot(machine).verdict == SKIP
    assert not machine.path("/scratch").exists()


def test_is_skipped_without_settings(machine: Machine) -> None:
    machine.path("etc/hpcai/directories.json").unlink()
    assert boot(machine).verdict == SKIP
    assert not machine.path("/scratch").exists()


@pytest.mark.parametrize("text", ["{", '{"schema": 9}', '{"schema": 1, "fallback": "no"}'])
def test_a_broken_settings_file_is_named(machine: Machine, text: str) -> None:
    machine.file("etc/hpcai/directories.json", text)
    with pytest.raises(ConfigError, match=r"etc/hpcai/directories\.json"):
        boot(machine)


def test_the_step_is_blocking() -> None:
    assert STEP.blocking
