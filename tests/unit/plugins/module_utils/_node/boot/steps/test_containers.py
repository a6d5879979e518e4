# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step containers: removes leftovers, and checks the plugin and the kernel; it builds nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.containers import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PASS, SKIP, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import pyxis


class Node:
    """A node whose image contains pyxis for Slurm 22.05.8."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, "22.05.8"
        plugin = folder / "usr/lib/hpcai/pyxis/22.05.8-0.24.0/spank_pyxis.so"
        plugin.parent.mkdir(parents=True)
        plugin.write_bytes(b"\x7fELF")
        (plugin.parent.parent / "spank_pyxis.so").symlink_to("22.05.8-0.24.0/spank_pyxis.so")
        made = pyxis.BuildRecord("22.05.8", "", "0.24.0", "abc", "/usr", pyxis.file_digest(str(plugin)) or "")
        self.write("var/lib/hpcai/pyxis.json", {"schema": 1, **vars(made)})
        data = "/scratch/enroot/data/user-$(id -u)"
        self.write("etc/hpcai/containers.json", {"schema": 1, "settings": {"ENROOT_DATA_PATH": data}})
        self.leftover = folder / f"scratch/enroot/data/user-{os.getuid()}/pyxis_7_7.0"
        self.leftover.mkdir(parents=True)

    def write(self, path: str, value: object) -> None:
        """Write a file."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(json.dumps(value))

    def run(self, command: Sequence[str]) -> Result:
        """Answer a command."""
        if command[0].endswith("scontrol"):
            return Result(tuple(command), 0, f"slurm-wlm {self.version}", "")
        if "rm" in command and "-rf" in command:
            Path(command[-1]).rmdir()
            return Result(tuple(command), 0, "", "")
        return Result(tuple(command), 1, "", "")

    def perform(self, check: bool = False) -> Outcome:
        """Run the step."""
        return STEP.perform(Context(Root(str(self.folder)), self.run, check, 60))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with a leftover of job 7."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    return Node(tmp_path)


def test_leftovers_are_removed_once_per_boot(node: Node) -> None:
    outcome = node.perform()
    assert (outcome.verdict, outcome.changes) == (PASS, (f"remove {node.leftover}",))
    assert "1 leftovers" in outcome.summary
    assert not node.leftover.exists()
    # A job that starts later has a container before its first step runs.
    node.leftover.mkdir()
    assert node.perform().changes == ()
    assert node.leftover.exists()


def test_check_mode_removes_nothing(node: Node) -> None:
    assert node.perform(check=True).changes == (f"remove {node.leftover}",)
    assert node.leftover.exists()
    assert node.perform().changes == (f"remove {node.leftover}",)


def test_warns_of_a_plugin_built_for_another_slurm(node: Node) -> None:
    node.version = "23.11.4"
    outcome = node.perform()
    assert outcome.verdict == WARN
    assert "pyxis was built for Slurm 22.05.8" in outcome.summary
    assert "run site.yml" in outcome.summary


def test_reports_a_kernel_without_user_namespaces(node: Node) -> None:
    node.write("proc/sys/user/max_user_namespaces", 0)
    assert "max_user_namespaces is 0" in node.perform().summary


def test_is_skipped_without_settings(node: Node) -> None:
    (node.folder / "etc/hpcai/containers.json").unlink()
    assert node.perform().verdict == SKIP
    assert node.leftover.exists()


def test_the_step_is_not_blocking() -> None:
    assert (STEP.name, STEP.blocking) == ("containers", False)
